// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// seal runs OnGrant for the newest grant. It returns nil if the lock is sealed and
// held; otherwise the lock was given back.
func (l *Lock) seal(ctx context.Context) error {
	if l.options.OnGrant == nil {
		return nil
	}
	l.mu.Lock()
	g := l.top()
	var parts []part
	if g != nil {
		parts = append(parts, g.parts...)
	}
	l.mu.Unlock()
	began, limit := clockNow(), l.Remaining()
	// Renewals of the lease while the hook runs do not prolong it.
	if own := l.options.SealTime; own > 0 && own < limit {
		limit = own
	}
	var once sync.Once
	giveBack := func() { once.Do(func() { l.giveBack(g) }) }
	timer := time.AfterFunc(limit, giveBack)
	err := errors.New("it did not return") // It panicked, or called Goexit.
	defer func() {
		timer.Stop()
		if err != nil {
			giveBack()
		}
	}()
	failure := l.runHook(ctx, parts, limit)
	isLate := began.age(clockNow()) >= int64(limit)
	if err = l.whyUnsealed(g, isLate, limit, failure); err == nil {
		return nil
	}
	giveBack()
	return err
}

// runHook calls OnGrant for each lock that the owner did not hold before.
func (l *Lock) runHook(ctx context.Context, parts []part, limit time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	ctx, cancel := l.Context(ctx)
	defer cancel()
	for _, one := range parts {
		if !one.isFirst {
			continue
		}
		if err := l.options.OnGrant(ctx, one.name, one.token); err != nil {
			return err
		}
	}
	return nil
}

// whyUnsealed returns nil if the hold is sealed and trusted.
func (l *Lock) whyUnsealed(g *grant, isLate bool, limit time.Duration, failure error) error {
	if l.session.State() == Lost {
		return l.session.whyLost()
	}
	l.mu.Lock()
	isOver := g == nil || g.isOver || !isLate && !l.hasGrant(g)
	l.mu.Unlock()
	switch {
	case isOver:
		return fmt.Errorf("hasp: %w: %q was taken away while OnGrant ran", ErrLost,
			l.names)
	case isLate:
		return &outcome{ErrSeal, failure, fmt.Errorf("OnGrant of %q took longer than "+
			"%v; the lock was given back", l.names, limit)}
	case failure != nil:
		return &outcome{ErrSeal, failure, fmt.Errorf("OnGrant of %q failed, and the "+
			"lock was given back: %w", l.names, failure)}
	}
	return nil
}

// hasGrant reports whether the grant was not released. The caller has mu.
func (l *Lock) hasGrant(g *grant) bool {
	for _, one := range l.grants {
		if one == g {
			return true
		}
	}
	return false
}

// giveBack releases a grant that no caller received. If that gets no answer, it
// continues in the background.
func (l *Lock) giveBack(g *grant) {
	l.mu.Lock()
	isThere := l.hasGrant(g)
	l.mu.Unlock()
	if !isThere {
		return
	}
	isLast := l.forgetGrant(g)
	left := g.left()
	if len(left) == 0 || l.session.State() == Lost {
		l.giveTurn(isLast)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.session.options.Timeout)
	defer cancel()
	l.release(ctx, left, isLast)
}
