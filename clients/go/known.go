// SPDX-License-Identifier: MIT

package hasp

import (
	"fmt"
	"strings"
	"sync"
)

// knownCluster is which cluster the process works with, so that it does not lock at
// another one which happens to answer at one of its endpoints. Each node says in its
// answer to HELLO to which life of a cluster it belongs, and from which lives that
// was restored. The first life at which something was done becomes the known one. A
// node of another life is a stranger, unless its life was restored from the known
// one, or every endpoint showed that same life when it was reached last, and no
// session of the process is believed any longer. It is never stored.
type knownCluster struct {
	endpoints []string

	mu       sync.Mutex
	id       string
	shown    map[string]string // Other lives, by endpoint.
	sessions map[*Session]bool // Those that may be believed.
}

// A stranger is why a node is left: it is of another cluster, or of none.
type stranger struct{ text string }

func (s *stranger) Error() string { return s.text }

var knownClusters = struct {
	mu sync.Mutex
	of map[string]*knownCluster
}{of: map[string]*knownCluster{}}

// knownAt gives the same for all connections of the process to these endpoints.
func knownAt(endpoints []string) *knownCluster {
	key := strings.Join(endpoints, ",")
	knownClusters.mu.Lock()
	defer knownClusters.mu.Unlock()
	k := knownClusters.of[key]
	if k == nil {
		k = &knownCluster{endpoints: endpoints, shown: map[string]string{},
			sessions: map[*Session]bool{}}
		knownClusters.of[key] = k
	}
	return k
}

// judge reads the answer to HELLO: its cluster, and why the node is to be left. A
// notice is for people, once for each node.
func (k *knownCluster) judge(endpoint string, greeting any) (id, notice string, err error) {
	told := asMap(greeting)
	id, isTold := told["cluster"].(string)
	if !isTold {
		return "", "", nil
	}
	if id == "" {
		return "", "", &stranger{"belongs to no cluster yet"}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.id == "" || k.id == id {
		delete(k.shown, endpoint)
		return id, "", nil
	}
	wasShown := k.shown[endpoint] == id
	k.shown[endpoint] = id
	for _, former := range asList(told["former"]) {
		if asText(former) == k.id {
			k.take(id)
			return id, "", nil
		}
	}
	if k.isAllThereIs(id) {
		k.take(id)
		return id, "", nil
	}
	why := fmt.Sprintf("is a node of another cluster (%s, not %s)", id, k.id)
	if !wasShown {
		notice = endpoint + " " + why + "; it is asked nothing"
	}
	return "", notice, &stranger{why}
}

func (k *knownCluster) take(id string) {
	k.id, k.shown = id, map[string]string{}
}

func (k *knownCluster) isAllThereIs(id string) bool {
	for _, endpoint := range k.endpoints {
		if k.shown[endpoint] != id {
			return false
		}
	}
	for s := range k.sessions {
		if s.State() != Lost {
			return false
		}
	}
	return true
}

// missed: the endpoint was not reached.
func (k *knownCluster) missed(endpoint string) {
	k.mu.Lock()
	delete(k.shown, endpoint)
	k.mu.Unlock()
}

// learn: a node of that life has done something.
func (k *knownCluster) learn(id string) {
	k.mu.Lock()
	if k.id == "" {
		k.id = id
	}
	k.mu.Unlock()
}

func (k *knownCluster) add(s *Session) {
	k.mu.Lock()
	k.sessions[s] = true
	k.mu.Unlock()
}

func (k *knownCluster) remove(s *Session) {
	k.mu.Lock()
	delete(k.sessions, s)
	k.mu.Unlock()
}
