// SPDX-License-Identifier: MIT

package hasp

import (
	"fmt"
	"strings"
	"sync"
)

// knownCluster is the cluster that the process works with. It prevents the
// process from locking in another cluster that happens to answer at one of its
// endpoints. In its answer to HELLO each node names the life of its cluster,
// and the lives from which that one was restored. The first life in which a
// request was done becomes the known one. A node of another life is rejected,
// unless that life was restored from the known one, or every endpoint showed
// that same life when it was last reached and the process has no trusted
// session left. Nothing is stored.
type knownCluster struct {
	endpoints []string

	mu       sync.Mutex
	id       string
	shown    map[string]string // Other lives, by endpoint.
	sessions map[*Session]bool // Sessions that might be trusted.
}

// A wrongCluster is the error for a node of another cluster, or of none.
type wrongCluster struct{ text string }

func (s *wrongCluster) Error() string { return s.text }

var knownClusters = struct {
	mu sync.Mutex
	of map[string]*knownCluster
}{of: map[string]*knownCluster{}}

// knownAt returns the same object for all connections of the process to these
// endpoints.
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

// judge reads the answer to HELLO. It returns the node's cluster, and why the
// node must be left. A notice is for people, once for each node.
func (k *knownCluster) judge(endpoint string, greeting any) (id, notice string, err error) {
	told := asMap(greeting)
	id, isTold := told["cluster"].(string)
	if !isTold {
		return "", "", nil
	}
	if id == "" {
		return "", "", &wrongCluster{"belongs to no cluster yet"}
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
	return "", notice, &wrongCluster{why}
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

// missed records that the endpoint could not be reached.
func (k *knownCluster) missed(endpoint string) {
	k.mu.Lock()
	delete(k.shown, endpoint)
	k.mu.Unlock()
}

// learn records that a node of that life has done a request.
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
