// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"time"
)

// Callbacks of an Elector, named as those of client-go's leaderelection.
type Callbacks struct {
	// OnStartedLeading is called when this process leads. Its context ends when
	// it does no longer; token is the fence of what it writes meanwhile. When
	// it returns, panics or calls runtime.Goexit, the leadership is given up.
	OnStartedLeading func(ctx context.Context, token int64)
	// OnStoppedLeading is called after OnStartedLeading has ended, however that
	// was. The lock is released after it.
	OnStoppedLeading func()
	// OnNewLeader, if not nil, is told who leads, also of this process itself.
	OnNewLeader func(identity string)
}

// An Elector campaigns for a lock, and leads while it holds it.
type Elector struct {
	Name      string // Of the lock.
	Identity  string // What OnNewLeader is told; "": the session's name.
	Options   Options
	Callbacks Callbacks
}

// Run campaigns, leads, and campaigns again, until ctx is done; it gives the
// reason. Whatever is lost in between is opened anew. What no further attempt
// mends is given at once: the cluster refuses (ErrRefused), or the options are
// none.
func (e *Elector) Run(ctx context.Context) error {
	if e.Callbacks.OnStartedLeading == nil {
		return errors.New("hasp: an Elector needs OnStartedLeading")
	}
	for ctx.Err() == nil {
		if err := e.campaign(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// campaign opens a session and serves with it; an error is that of what may not
// pass.
func (e *Elector) campaign(ctx context.Context) error {
	session, err := Open(ctx, e.Options)
	if err != nil {
		if !mayPass(err) {
			return err
		}
		pause(ctx, 5)
		return nil
	}
	// However the callbacks end, by a panic or Goexit too: nobody else would end
	// the session. ctx may be done: what is held is given back all the same.
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		session.Close(closing)
	}()
	return e.serve(ctx, session)
}

// mayPass: another attempt may go better.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnknown) ||
		errors.Is(err, ErrLost) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// serve campaigns with one session, until that has ended; an error is that of
// what may not pass.
func (e *Elector) serve(ctx context.Context, session *Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if e.Callbacks.OnNewLeader != nil {
		go e.observe(ctx, session)
	}
	identity := e.Identity
	if identity == "" {
		identity = session.options.Name
	}
	lock := session.NewLock(e.Name, LockOptions{Value: identity})
	for ctx.Err() == nil && session.State() != Lost {
		if err := lock.Lock(ctx); err != nil {
			if !mayPass(err) {
				return err
			}
			pause(ctx, 1)
			continue
		}
		e.lead(ctx, lock)
	}
	return nil
}

// lead leads until OnStartedLeading ends, whether it returns, panics or calls
// Goexit.
func (e *Elector) lead(ctx context.Context, lock *Lock) {
	leading, stop := lock.Context(ctx)
	defer lock.Unlock(context.Background())
	defer func() {
		if e.Callbacks.OnStoppedLeading != nil {
			e.Callbacks.OnStoppedLeading()
		}
	}()
	defer stop()
	e.Callbacks.OnStartedLeading(leading, lock.Token())
}

// observe looks who leads whenever something has happened to the lock.
func (e *Elector) observe(ctx context.Context, session *Session) {
	last := ""
	session.Watch(ctx, e.Name, func(change Change) {
		if change.Kind != "" && (change.Kind != "granted" || change.Lock != e.Name) {
			return
		}
		// Not here: the connection goes on reading meanwhile.
		holders, _, err := session.Show(ctx, e.Name)
		for round := 1; err != nil && mayPass(err) && ctx.Err() == nil &&
			session.State() != Lost; round++ {
			pause(ctx, round) // Nobody else says who leads until it changes.
			holders, _, err = session.Show(ctx, e.Name)
		}
		if err == nil && len(holders) > 0 && holders[0].Value != last {
			last = holders[0].Value
			e.Callbacks.OnNewLeader(last)
		}
	})
}
