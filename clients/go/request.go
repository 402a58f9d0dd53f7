// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	defaultEndpoints = "127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440"
	connectTimeout   = time.Second
	answerTimeout    = 4 * time.Second // After it another node is asked.
	waitGrace        = 2 * time.Second // For the answer to a wait, beyond it.
	// A wait is asked again after so long: its node may be frozen.
	waitSilence = 15 * time.Second
	idleMax     = 8       // Connections kept for later requests.
	socketWord  = "unix:" // Before the path of a node's socket here.
)

// nodes are the addresses of the cluster and the connections to them.
type nodes struct {
	endpoints []string
	secure    *tls.Config // nil: plain.
	greeting  []string
	// greet makes a new connection act for the session.
	greet func(c *conn, until time.Time) error

	mu   sync.Mutex
	turn int // The endpoint that answered last.
	idle []*conn
	busy map[*conn]bool
}

func parseEndpoints(given []string) ([]string, error) {
	if len(given) == 0 {
		text := os.Getenv("HASP_ENDPOINTS")
		if text == "" {
			text = defaultEndpoints
		}
		given = strings.Split(text, ",")
	}
	var found []string
	for _, endpoint := range given {
		endpoint = strings.TrimSpace(endpoint)
		if strings.HasPrefix(endpoint, socketWord+"/") {
			found = append(found, endpoint)
			continue
		}
		host, port, err := net.SplitHostPort(endpoint)
		if err != nil {
			host, port, err = net.SplitHostPort(endpoint + ":7420")
		}
		number, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || bad != nil || host == "" || number == 0 {
			return nil, fmt.Errorf("hasp: %q is no address of a node; write "+
				"host:port, as in 127.0.0.1:7420", endpoint)
		}
		found = append(found, net.JoinHostPort(host, port))
	}
	return found, nil
}

func (n *nodes) endpoint(turn int) string {
	return n.endpoints[turn%len(n.endpoints)]
}

// take gives a connection: an idle one, or a new one to the endpoint of turn.
func (n *nodes) take(turn int, until time.Time) (*conn, error) {
	endpoint := n.endpoint(turn)
	n.mu.Lock()
	for i := len(n.idle) - 1; i >= 0; i-- {
		if c := n.idle[i]; c.endpoint == endpoint {
			n.idle = append(n.idle[:i], n.idle[i+1:]...)
			n.busy[c] = true
			n.mu.Unlock()
			return c, nil
		}
	}
	n.mu.Unlock()
	if limit := time.Now().Add(connectTimeout); limit.Before(until) {
		until = limit
	}
	c, err := dial(endpoint, n.secure, n.greeting, until)
	if err != nil {
		return nil, err
	}
	if err := n.greet(c, until); err != nil {
		c.close()
		return nil, err
	}
	n.mu.Lock()
	n.busy[c] = true
	n.mu.Unlock()
	return c, nil
}

// put takes a connection back; one that failed, or is one too many, is closed.
func (n *nodes) put(c *conn, turn int, failed bool) {
	n.mu.Lock()
	delete(n.busy, c)
	keep := !failed && len(n.idle) < idleMax
	if keep {
		n.idle = append(n.idle, c)
		n.turn = turn
	}
	n.mu.Unlock()
	if !keep {
		c.close()
	}
}

func (n *nodes) firstTurn() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.turn
}

// suspect: a node that does not answer a heartbeat leaves those who wait for a
// lock in the dark, too. They go on at another one.
func (n *nodes) suspect(endpoint string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.busy {
		if c.endpoint == endpoint {
			c.net.SetDeadline(time.Unix(1, 0))
		}
	}
}

func (n *nodes) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.idle {
		c.close()
	}
	for c := range n.busy {
		c.close()
	}
	n.idle = nil
}

// An attempt is what is sent, and for how long its answer is waited for.
type attempt func() (words []string, patience time.Duration)

// once is the attempt of a request that does not wait for a lock.
func once(words ...string) attempt {
	return func() ([]string, time.Duration) { return words, answerTimeout }
}

// request asks one node after the other until one answers, or ctx is done, or
// the session has ended. Its error tells the truth about what was done:
// ErrUnreachable means nothing, ErrUnknown that nobody knows.
func (s *Session) request(ctx context.Context, next attempt) (any, error) {
	return s.requestAgain(ctx, next, false)
}

// requestAgain is request of what may have been done, if doubtful: it was sent
// before, under this number.
func (s *Session) requestAgain(ctx context.Context, next attempt, doubtful bool) (any, error) {
	last := errors.New("no node was asked")
	turn := s.nodes.firstTurn()
	for i := 0; ; i++ {
		if i > 0 && i%len(s.nodes.endpoints) == 0 {
			pause(ctx, i/len(s.nodes.endpoints))
		}
		if err := s.mayAsk(ctx); err != nil {
			return nil, &outcome{failure(err, doubtful), err, last}
		}
		words, patience := next()
		until := time.Now().Add(patience)
		c, err := s.nodes.take(turn+i, until)
		if err != nil {
			last = err
			if errors.Is(err, ErrLost) {
				s.end()
			}
			continue
		}
		reply, err := c.askWhile(ctx, until, words)
		s.nodes.put(c, turn+i, err != nil)
		if err != nil {
			doubtful, last = true, err
			continue
		}
		refusal, ok := reply.(*replyError)
		if !ok {
			return reply, nil
		}
		last = s.judge(refusal)
		switch {
		case errors.Is(last, ErrUnreachable):
		case doubtful && isOpenStill(refusal):
		case refusal.word == "UNKNOWN":
			doubtful = true
		default:
			if errors.Is(last, ErrLost) {
				s.end()
			}
			return nil, last
		}
	}
}

// mayAsk says why no further attempt is made.
func (s *Session) mayAsk(ctx context.Context) error {
	if s.lease.state(clockNow()) == Lost {
		return ErrLost
	}
	return ctx.Err()
}

func failure(err error, doubtful bool) error {
	switch {
	case err == ErrLost:
		return ErrLost
	case doubtful:
		return ErrUnknown
	}
	return ErrUnreachable
}

// outcome is what a request came to without an answer: what is known of it, why
// it was given up, and what the last attempt met.
type outcome struct{ kind, reason, last error }

func (o *outcome) Error() string {
	return fmt.Sprintf("hasp: %v (%v; last: %v)", o.kind, o.reason, o.last)
}

func (o *outcome) Is(target error) bool { return target == o.kind }
func (o *outcome) Unwrap() error        { return o.reason }

// pause waits before the nodes are asked once more: longer each time, and by
// chance, so that many clients do not come at once.
func pause(ctx context.Context, round int) {
	if round > 5 {
		round = 5
	}
	length := time.Duration(20+rand.Intn(80)) * time.Millisecond
	select {
	case <-ctx.Done():
	case <-time.After(length * time.Duration(round)):
	}
}
