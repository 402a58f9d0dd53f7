// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"time"
)

// Callbacks of an Elector, named as those of client-go's leaderelection.
type Callbacks struct {
	// OnStartedLeading is called when this process leads. Its context ends with
	// the leadership. lock is the hold: call lock.Guard before each step, since
	// ctx.Err() does not check the clock, and is nil in a process that was
	// paused. lock.Token() fences the writes. When the callback returns, panics
	// or calls runtime.Goexit, the leadership is given up. If it repeatedly
	// returns soon, the next campaign begins later each time.
	OnStartedLeading func(ctx context.Context, lock *Lock)
	// OnGrant, if not nil, seals the resource before OnStartedLeading is called:
	// see LockOptions. If it fails, OnError gets the error, and the next campaign
	// begins later each time.
	OnGrant func(ctx context.Context, name string, token int64) error
	// OnStoppedLeading is called after OnStartedLeading has ended in any way.
	// The lock is released afterwards.
	OnStoppedLeading func()
	// OnNewLeader, if not nil, gets each new leader, which can be this process.
	OnNewLeader func(identity string)
	// OnError, if not nil, gets each failed attempt to campaign, with the error
	// of each endpoint. The next attempt follows automatically.
	OnError func(err error)
}

// An Elector campaigns for a lock, and leads while it holds it.
type Elector struct {
	Name      string // The name of the lock.
	Identity  string // The value for OnNewLeader; "": the session's name.
	Options   Options
	SealTime  time.Duration // The limit of OnGrant; 0: as in LockOptions.
	Callbacks Callbacks
}

// If a callback ends a term sooner than termGood, the next campaign begins later
// each time.
const (
	termGood   = 10 * time.Second
	backOffMin = 100 * time.Millisecond
	backOffMax = 5 * time.Second
)

// A backOff is the delay before the next campaign; 0: none.
type backOff time.Duration

// after sets the delay; lasted is the length of a term that the callback ended.
func (b *backOff) after(term time.Duration) {
	switch next := 2 * time.Duration(*b); {
	case term >= termGood:
		*b = 0
	case next < backOffMin:
		*b = backOff(backOffMin)
	case next > backOffMax:
		*b = backOff(backOffMax)
	default:
		*b = backOff(next)
	}
}

// wait waits for a random time, so that candidates whose callbacks fail in the
// same way do not campaign at the same moment.
func (b backOff) wait(ctx context.Context) {
	if b == 0 {
		return
	}
	half := time.Duration(b) / 2
	timer := time.NewTimer(half + time.Duration(rand.Int63n(int64(half))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Run campaigns, leads, and campaigns again, until ctx is done. Its error is
// that of ctx, with the reason why the last campaign failed, if it did. Lost
// sessions are replaced. Run returns at once if no further attempt can succeed:
// the cluster refuses (ErrRefused), or the options are invalid.
func (e *Elector) Run(ctx context.Context) error {
	if e.Callbacks.OnStartedLeading == nil {
		return errors.New("hasp: an Elector needs OnStartedLeading")
	}
	run := &electing{Elector: e}
	for ctx.Err() == nil {
		if err := run.campaign(ctx); err != nil {
			return err
		}
	}
	if run.failure != nil {
		return fmt.Errorf("%w; not leading: %v", ctx.Err(), run.failure)
	}
	return ctx.Err()
}

// electing is one Run of an Elector.
type electing struct {
	*Elector
	back    backOff
	failure error // The error of the last attempt to campaign.
}

// failed records an attempt that can succeed the next time.
func (e *electing) failed(ctx context.Context, err error) {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && e.failure != nil {
		return // ctx ended it: keep the error from before.
	}
	e.failure = err
	if e.Callbacks.OnError != nil && ctx.Err() == nil {
		e.Callbacks.OnError(err)
	}
}

// campaign opens a session and serves with it. It returns an error only if no
// further attempt can succeed.
func (e *electing) campaign(ctx context.Context) error {
	session, err := Open(ctx, e.Options)
	if err != nil {
		if !mayPass(err) {
			return err
		}
		e.failed(ctx, err)
		pause(ctx, 5)
		return nil
	}
	// Runs however the callbacks end, also by a panic or Goexit, since nothing
	// otherwise it ends the session. The holds are released even if ctx is done.
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		session.Close(closing)
	}()
	return e.serve(ctx, session)
}

// mayPass reports whether another attempt can succeed.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnknown) ||
		errors.Is(err, ErrLost) || errors.Is(err, ErrSeal) ||
		errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// serve campaigns with one session, until it has ended. It returns an error
// only if no further attempt can succeed.
func (e *electing) serve(ctx context.Context, session *Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if e.Callbacks.OnNewLeader != nil {
		go e.observe(ctx, session)
	}
	identity := e.Identity
	if identity == "" {
		identity = session.options.Name
	}
	lock := session.NewLock(e.Name, LockOptions{Value: identity,
		OnGrant: e.Callbacks.OnGrant, SealTime: e.SealTime})
	for ctx.Err() == nil && session.State() != Lost {
		if err := lock.Lock(ctx); err != nil {
			if !mayPass(err) {
				return err
			}
			if ctx.Err() == nil {
				e.failed(ctx, err)
			}
			if errors.Is(err, ErrSeal) {
				e.back.after(0)
				e.back.wait(ctx)
			} else {
				pause(ctx, 1)
			}
			continue
		}
		e.failure = nil
		began := time.Now()
		if e.lead(ctx, lock) {
			e.back.after(time.Since(began))
			e.back.wait(ctx)
		}
	}
	return nil
}

// lead leads until OnStartedLeading ends, whether it returns, panics or calls
// Goexit. It reports whether it returned although the lock was held.
func (e *Elector) lead(ctx context.Context, lock *Lock) (ended bool) {
	leading, stop := lock.Context(ctx)
	defer lock.Unlock(context.Background())
	defer func() {
		if e.Callbacks.OnStoppedLeading != nil {
			e.Callbacks.OnStoppedLeading()
		}
	}()
	defer stop()
	e.Callbacks.OnStartedLeading(leading, lock)
	return leading.Err() == nil
}

// observe reads the current leader after each change of the lock.
func (e *Elector) observe(ctx context.Context, session *Session) {
	last := ""
	session.Watch(ctx, e.Name, func(change Change) {
		if change.Kind != "" && (change.Kind != "granted" || change.Lock != e.Name) {
			return
		}
		// Not here, since the connection must continue to read.
		holders, _, err := session.Show(ctx, e.Name)
		for round := 1; err != nil && mayPass(err) && ctx.Err() == nil &&
			session.State() != Lost; round++ {
			// No other message reports the leader until it changes.
			pause(ctx, round)
			holders, _, err = session.Show(ctx, e.Name)
		}
		if err == nil && len(holders) > 0 && holders[0].Value != last {
			last = holders[0].Value
			e.Callbacks.OnNewLeader(last)
		}
	})
}
