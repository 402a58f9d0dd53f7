// SPDX-License-Identifier: MIT

package concurrency

import (
	"context"
	"errors"
	"time"

	"hasp"
)

// Errors, with the names of etcd's. The errors of package hasp, which they can
// wrap, say more.
var (
	// ErrLocked: TryLock found the lock held elsewhere.
	ErrLocked = errors.New("mutex: locked by another holder")
	// ErrSessionExpired: the session was lost or closed.
	ErrSessionExpired = errors.New("session is expired")
	// ErrLockReleased: the cluster had ended the hold before Unlock or Resign.
	ErrLockReleased = errors.New("lock has already been released")
	// ErrElectionNotLeader: Proclaim by a session that does not lead.
	ErrElectionNotLeader = errors.New("election: not leader")
	// ErrElectionNoLeader: there is no leader now.
	ErrElectionNoLeader = errors.New("election: no leader")
)

// A Session is a lease that is renewed until Close, or until it is lost.
type Session struct {
	*hasp.Session
	ctx    context.Context
	cancel context.CancelFunc
}

type sessionOptions struct {
	ttl time.Duration
	ctx context.Context
}

// A SessionOption of NewSession.
type SessionOption func(*sessionOptions)

// WithTTL sets the TTL, in seconds; 0 or less: that of the hasp.Options.
func WithTTL(seconds int) SessionOption {
	return func(o *sessionOptions) { o.ttl = time.Duration(seconds) * time.Second }
}

// WithContext bounds NewSession. When ctx is done later, Ctx is done, too; as with
// etcd, the session itself ends by its TTL, or by Close.
func WithContext(ctx context.Context) SessionOption {
	return func(o *sessionOptions) { o.ctx = ctx }
}

// NewSession opens a session. hasp.Options take the place of etcd's client.
func NewSession(options hasp.Options, more ...SessionOption) (*Session, error) {
	of := sessionOptions{ctx: context.Background()}
	for _, set := range more {
		set(&of)
	}
	if of.ttl > 0 {
		options.TTL = of.ttl
	}
	session, err := hasp.Open(of.ctx, options)
	if err != nil {
		return nil, err
	}
	s := &Session{Session: session}
	s.ctx, s.cancel = context.WithCancel(of.ctx)
	go func() {
		select {
		case <-session.Done():
			s.cancel()
		case <-s.ctx.Done():
		}
	}()
	return s, nil
}

// Ctx is done when the session is lost or closed.
func (s *Session) Ctx() context.Context { return s.ctx }

// Close releases what the session holds, and ends it. Unlike etcd's it does so
// whatever the context of WithContext is.
func (s *Session) Close() error {
	s.cancel()
	return s.Session.Close(context.Background())
}

// expired adds ErrSessionExpired or ErrLockReleased to an error that means it.
func expired(err error) error {
	switch {
	case errors.Is(err, hasp.ErrLost):
		return &both{ErrSessionExpired, err}
	case errors.Is(err, hasp.ErrNotHeld):
		return &both{ErrLockReleased, err}
	}
	return err
}

// both is an error of this package with that of package hasp.
type both struct{ kind, why error }

func (b *both) Error() string        { return b.kind.Error() + ": " + b.why.Error() }
func (b *both) Is(target error) bool { return target == b.kind }
func (b *both) Unwrap() error        { return b.why }
