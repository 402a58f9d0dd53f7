// SPDX-License-Identifier: MIT

package concurrency

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"hasp"
)

const (
	retryAfter = 200 * time.Millisecond
	// Proclaim has no event that observers could wait for.
	lookEvery = time.Second
)

// isPassing reports whether a later attempt with this session can succeed.
func isPassing(err error) bool {
	return (errors.Is(err, hasp.ErrUnreachable) || errors.Is(err, hasp.ErrUnknown)) &&
		!errors.Is(err, hasp.ErrLost)
}

// A Leader is the winner of an election.
type Leader struct {
	Value string // What it has given to Campaign or Proclaim.
	Rev   int64  // Its fencing token, larger for each leader.
}

// An Election is won by one candidate at a time.
type Election struct {
	s    *Session
	name string

	mu       sync.Mutex
	lock     *hasp.Lock // nil: it does not lead, as far as it knows.
	proclaim bool       // The lock has a note of this leadership.
}

// NewElection returns an election of this name. It sends no request.
func NewElection(s *Session, name string) *Election {
	return &Election{s: s, name: name}
}

// Campaign waits in line until it leads, with this value of at most 4,096 bytes.
// If it leads already, it proclaims the value. If ctx is done first, the error
// wraps that of ctx, and it leaves the queue.
func (e *Election) Campaign(ctx context.Context, value string) error {
	if lock := e.leading(); lock != nil {
		if lock.Guard(0) == nil {
			return e.Proclaim(ctx, value)
		}
		e.forget(lock)
		lock.Unlock(ctx) // It was lost: this makes sure.
	}
	lock := e.s.NewLock(e.name, hasp.LockOptions{Value: value})
	if err := lock.Lock(ctx); err != nil {
		return expired(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lock, e.proclaim = lock, false
	return nil
}

func (e *Election) leading() *hasp.Lock {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lock
}

func (e *Election) forget(lock *hasp.Lock) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lock == lock {
		e.lock = nil
	}
}

// Proclaim gives the leader another value, of at most 4,076 bytes. The cluster
// refuses it if the leadership was lost (ErrElectionNotLeader). Observers get it
// within about a second.
func (e *Election) Proclaim(ctx context.Context, value string) error {
	lock := e.leading()
	if lock == nil {
		return ErrElectionNotLeader
	}
	// It is the lock's note, which outlives this leader; the token says whose
	// it is.
	err := lock.Note(ctx, fmt.Sprintf("%d %s", lock.Token(), value))
	if err == nil {
		e.mu.Lock()
		e.proclaim = true
		e.mu.Unlock()
		return nil
	}
	if errors.Is(err, hasp.ErrNotHeld) || errors.Is(err, hasp.ErrLost) {
		e.forget(lock)
		return &both{ErrElectionNotLeader, err}
	}
	return err
}

// Resign lets another candidate lead. nil if this Election does not lead.
// ErrLockReleased, ErrSessionExpired: the leadership was lost before, so another
// one might have led at the same time.
func (e *Election) Resign(ctx context.Context) error {
	e.mu.Lock()
	lock, isProclaimed := e.lock, e.proclaim
	e.lock = nil
	e.mu.Unlock()
	if lock == nil {
		return nil
	}
	if isProclaimed {
		lock.Note(ctx, "") // If it stays, its token is an old one.
	}
	return expired(lock.Unlock(ctx))
}

// Leader returns the current leader; ErrElectionNoLeader: there is none. It can be
// out of date as soon as it arrives.
func (e *Election) Leader(ctx context.Context) (*Leader, error) {
	reply, err := e.s.Ask(ctx, "LOCK.SHOW", e.name)
	if err != nil {
		return nil, expired(err)
	}
	shown, _ := reply.(map[string]any)
	holders, _ := shown["holders"].([]any)
	if len(holders) == 0 {
		return nil, ErrElectionNoLeader
	}
	holder, _ := holders[0].(map[string]any)
	leader := &Leader{}
	leader.Value, _ = holder["value"].(string)
	leader.Rev, _ = holder["token"].(int64)
	note, _ := shown["note"].(string)
	if of, value, has := strings.Cut(note, " "); has &&
		of == strconv.FormatInt(leader.Rev, 10) {
		leader.Value = value
	}
	return leader, nil
}

// Observe returns a channel with the current leader, if there is one, and then
// each new leader and each new value. A slow reader misses those in between, never
// the last. It is closed when ctx is done or the session is over.
func (e *Election) Observe(ctx context.Context) <-chan Leader {
	leaders := make(chan Leader)
	news := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		e.s.Watch(ctx, e.name, func(change hasp.Change) {
			if change.Lock == "" || change.Lock == e.name {
				select {
				case news <- struct{}{}:
				default:
				}
			}
		})
	}()
	go func() {
		defer cancel()
		defer close(leaders)
		e.observe(ctx, leaders, news)
	}()
	return leaders
}

func (e *Election) observe(ctx context.Context, leaders chan<- Leader, news <-chan struct{}) {
	var next chan<- Leader // nil: the reader has the newest leader.
	var newest Leader
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		leader, err := e.Leader(ctx)
		if err == nil && *leader != newest && leader.Rev >= newest.Rev {
			newest, next = *leader, leaders
		}
		for isQuiet := true; isQuiet; {
			select {
			case <-ctx.Done():
				return
			case next <- newest:
				next = nil
			case <-news:
				isQuiet = false
			case <-tick.C:
				isQuiet = false
			}
		}
	}
}

// Key is the name of the election's lock.
func (e *Election) Key() string { return e.name }

// Rev is the fencing token of this leader; 0: it does not lead.
func (e *Election) Rev() int64 {
	if lock := e.leading(); lock != nil {
		return lock.Token()
	}
	return 0
}

// Guard returns an error unless this Election leads, and a step of this length
// ends within the lease. It sends no request.
func (e *Election) Guard(need time.Duration) error {
	if lock := e.leading(); lock != nil {
		return expired(lock.Guard(need))
	}
	return ErrElectionNotLeader
}
