// SPDX-License-Identifier: MIT

package concurrency

import (
	"context"
	"sync"
	"time"

	"hasp"
)

// A Mutex is an exclusive lock. Goroutines that share it exclude each other.
type Mutex struct {
	s    *Session
	name string
	lock *hasp.Lock
}

// NewMutex returns a lock of this name. It sends no request.
func NewMutex(s *Session, name string) *Mutex {
	return &Mutex{s, name, s.NewLock(name, hasp.LockOptions{})}
}

// Lock waits in line until the lock is held. If ctx is done first, the error wraps
// that of ctx, and nothing is held. ErrSessionExpired: the session is over.
func (m *Mutex) Lock(ctx context.Context) error {
	return expired(m.lock.Lock(ctx))
}

// TryLock takes the lock if it is free, and returns ErrLocked if it is not.
func (m *Mutex) TryLock(ctx context.Context) error {
	is, err := m.lock.TryLock(ctx)
	if err == nil && !is {
		return ErrLocked
	}
	return expired(err)
}

// Unlock releases the lock. ErrLockReleased, ErrSessionExpired: it was lost before,
// so others might have held it during the last steps. hasp.ErrUnknown: no node
// could be reached; the session continues to try.
func (m *Mutex) Unlock(ctx context.Context) error {
	return expired(m.lock.Unlock(ctx))
}

// Key is the name of the lock.
func (m *Mutex) Key() string { return m.name }

// Token is the fencing token, larger at each grant; 0: the lock is not held. It
// takes the place of the revision in etcd's Header.
func (m *Mutex) Token() int64 { return m.lock.Token() }

// Guard returns an error unless a step of this length ends within the lease. It
// sends no request.
func (m *Mutex) Guard(need time.Duration) error { return expired(m.lock.Guard(need)) }

// IsOwner asks the cluster whether this Mutex holds the lock. etcd's returns a
// condition for a transaction; here the store compares the Token.
func (m *Mutex) IsOwner(ctx context.Context) (bool, error) {
	token := m.lock.Token()
	if token == 0 || m.lock.Guard(0) != nil {
		return false, nil
	}
	is, err := m.s.Check(ctx, m.name, token)
	return is && err == nil, expired(err)
}

type locker struct{ *Mutex }

// NewLocker returns a sync.Locker. Like etcd's, its methods panic if they fail,
// since a sync.Locker cannot return an error: Lock if the session is over or the
// cluster refuses, and Unlock also if the lock was lost meanwhile. Lock waits
// while no node can be reached.
func NewLocker(s *Session, name string) sync.Locker {
	return &locker{NewMutex(s, name)}
}

func (l *locker) Lock() {
	for {
		err := l.Mutex.Lock(l.s.Ctx())
		if err == nil {
			return
		}
		if !isPassing(err) {
			panic(err)
		}
		select {
		case <-time.After(retryAfter):
		case <-l.s.Ctx().Done():
		}
	}
}

func (l *locker) Unlock() {
	if err := l.Mutex.Unlock(context.Background()); err != nil && !isPassing(err) {
		panic(err)
	}
}
