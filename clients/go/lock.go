// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// LockOptions of a lock. The zero value is an exclusive lock.
type LockOptions struct {
	Shared bool          // Held together with other shared holders.
	Slots  int           // Number of concurrent holders; the same for all users.
	Value  string        // Shown to people; an Elector announces it.
	Trace  string        // A W3C traceparent, shown with the hold or the wait.
	Delay  time.Duration // The lock stays closed after its holder died.
	Hold   time.Duration // Maximum duration of a hold.
	Barge  bool          // Skips the queue; holders are not affected.
	// Owner makes the lock reentrant: its holder under this name can lock it
	// again, and must unlock it as often. An owner represents one thread of
	// control: do not use it in two at the same time.
	Owner string
	// OnGrant, if not nil, is called with each name and its token before Lock or
	// TryLock reports the grant, by the same goroutine, to close the resource to
	// earlier holders. If it fails, or takes longer than SealTime, the lock is
	// given back and the error is ErrSeal. Its context ends then, and when the
	// hold is lost. It is not called when the Owner locks again, nor by Upgrade.
	OnGrant func(ctx context.Context, name string, token int64) error
	// SealTime is the limit of OnGrant; 0: as long as the lease can be trusted.
	SealTime time.Duration
}

// A Lock is one lock, or several that are acquired together. It excludes the other
// goroutines that use it as well as all other locks of that name, in this program
// or on another machine. It is not reentrant unless it has an Owner.
type Lock struct {
	session *Session
	names   []string
	options LockOptions
	owner   string
	turn    chan struct{} // Has a token while nobody here holds the lock.

	mu     sync.Mutex // Guards the following fields.
	grants []*grant   // Not released; the newest one is trusted.
	held   context.Context
	drop   context.CancelFunc
	over   *time.Timer // Ends a limited hold; nil: none.
}

// NewLock returns a lock of the session. It sends no request.
func (s *Session) NewLock(name string, options LockOptions) *Lock {
	return s.NewLocks([]string{name}, options)
}

// NewLocks returns a Lock for up to 64 names that are acquired together, all or
// none. Such locks cannot deadlock with each other.
func (s *Session) NewLocks(names []string, options LockOptions) *Lock {
	s.mu.Lock()
	s.owners++
	owner := options.Owner
	if owner == "" {
		owner = fmt.Sprintf("%d-%d", os.Getpid(), s.owners)
	}
	s.mu.Unlock()
	l := &Lock{session: s, names: append([]string(nil), names...),
		options: options, owner: owner, turn: make(chan struct{}, 1)}
	l.held, l.drop = context.WithCancel(context.Background())
	l.drop()
	l.turn <- struct{}{}
	return l
}

// Lock waits in line until the lock is held. If ctx is done first, the error wraps
// that of ctx, and a grant that arrives meanwhile is released.
func (l *Lock) Lock(ctx context.Context) error {
	err := l.lock(ctx)
	if err == nil {
		err = l.seal(ctx)
	}
	return err
}

func (l *Lock) lock(ctx context.Context) error {
	reported := l.session.reports.begin(l.names[0], l.options.Trace)
	err := l.lockAs(ctx, reported)
	reported.failed(err) // Unless it was granted.
	return err
}

func (l *Lock) lockAs(ctx context.Context, reported *acquisition) error {
	if l.isAgain() {
		_, err := l.acquire(ctx, reported, true, false)
		return err
	}
	select {
	case <-l.turn:
	case <-ctx.Done():
		return l.late(ctx.Err())
	case <-l.session.over.Done():
		return l.session.whyLost()
	}
	_, err := l.acquire(ctx, reported, true, true)
	return err
}

// isAgain reports whether the owner already holds the lock.
func (l *Lock) isAgain() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.options.Owner != "" && len(l.grants) > 0
}

// TryLock takes the lock if it is free: false if it is not. A grant to an earlier
// call that was given up is released first.
func (l *Lock) TryLock(ctx context.Context) (bool, error) {
	has, err := l.tryLock(ctx)
	if has {
		err = l.seal(ctx)
	}
	return has && err == nil, err
}

func (l *Lock) tryLock(ctx context.Context) (bool, error) {
	reported := l.session.reports.begin(l.names[0], l.options.Trace)
	has, err := l.tryLockAs(ctx, reported)
	reported.failed(err) // Unless it was granted.
	return has, err
}

func (l *Lock) tryLockAs(ctx context.Context, reported *acquisition) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.session.options.Timeout)
	defer cancel()
	isAgain := l.isAgain()
	if !isAgain {
		if has, err := l.tryTurn(ctx); !has {
			return false, err
		}
	}
	return l.acquire(ctx, reported, false, !isAgain)
}

// tryTurn takes the turn unless another caller has it. An abandoned change that
// has it is no caller: tryTurn waits until it is settled.
func (l *Lock) tryTurn(ctx context.Context) (bool, error) {
	s := l.session
	for {
		// Asked before the turn is tried: settle gives the turn first.
		s.mu.Lock()
		isSettling, news := l.isSettling(), s.claimNews
		s.mu.Unlock()
		select {
		case <-l.turn:
			return true, nil
		default:
		}
		if s.over.Err() != nil {
			return false, s.whyLost()
		}
		if !isSettling {
			return false, nil
		}
		select {
		case <-news:
		case <-s.over.Done():
			return false, s.whyLost()
		case <-ctx.Done():
			return false, l.notKnownYet(ctx)
		}
	}
}

// isSettling reports whether an abandoned change has the turn. The caller has the
// session's mu.
func (l *Lock) isSettling() bool {
	for c := range l.session.claims {
		if c.lock == l && c.hasTurn {
			return true
		}
	}
	return false
}

// acquire is called with the turn. If isFirst, it returns the turn unless the lock
// is granted; if the outcome is unknown, the turn is returned when it is settled.
func (l *Lock) acquire(ctx context.Context, reported *acquisition,
	wait, isFirst bool) (bool, error) {
	c, err := l.claim(ctx, wait, "ACQUIRE", l.words()...)
	if c == nil {
		l.giveTurn(isFirst)
		return false, err
	}
	c.reported = reported
	what, err := c.grant(ctx, wait, func(told []told, sent reading, isAgain bool) verdict {
		return l.granted(reported, told, sent, isAgain)
	})
	if err != nil && !c.isOutcome(err) {
		c.abandon(isFirst)
		return false, err
	}
	if what == isGranted && l.session.State() == Lost {
		l.forget()
		what, err = isNothing, &outcome{ErrLost, ErrLost,
			errors.New("the lease ended while it was granted")}
	}
	c.end()
	c.endClaim()
	l.giveTurn(isFirst && what != isGranted)
	return what == isGranted, err
}

func (l *Lock) isMine(told map[string]any) bool {
	return asInt(told["session"]) == l.session.id && asText(told["owner"]) == l.owner
}

// Unlock releases the newest hold. Trust in it ends before the request is sent.
// ErrNotHeld: the cluster had already ended it; holds of the owner with other
// tokens stay. ErrUnknown: no node could be reached; the session keeps trying in
// the background.
func (l *Lock) Unlock(ctx context.Context) error {
	g, isLast := l.forget()
	if g == nil {
		return fmt.Errorf("hasp: %w: %q", ErrNotHeld, l.names)
	}
	if l.session.State() == Lost {
		l.giveTurn(isLast)
		return l.session.whyLost()
	}
	left := g.left()
	if len(left) == 0 {
		l.giveTurn(isLast)
		return fmt.Errorf("hasp: %w: %q was taken away earlier", ErrNotHeld, l.names)
	}
	ctx, cancel := context.WithTimeout(ctx, l.session.options.Timeout)
	defer cancel()
	return l.release(ctx, left, isLast)
}

func (l *Lock) giveTurn(is bool) {
	if is {
		l.turn <- struct{}{}
	}
}

func (l *Lock) release(ctx context.Context, left []part, isLast bool) error {
	c := l.newRelease(left)
	reply, err := c.ask(ctx, false)
	if err != nil && !c.isOutcome(err) {
		c.abandon(isLast)
		return &outcome{ErrUnknown, err, err}
	}
	c.end()
	c.notHeld(err)
	l.giveTurn(isLast)
	released := int64(1)
	if len(left) > 1 {
		released = asInt(reply)
	}
	if err == nil && (released < int64(len(left)) || len(left) < len(l.names)) {
		return fmt.Errorf("hasp: %w: only %d of the locks %q were still held",
			ErrNotHeld, released, l.names)
	}
	return err
}

// Upgrade makes a shared hold exclusive when the other readers have released
// theirs; until then, and if it fails, the hold stays shared. If ctx is done
// first, an upgrade that succeeds later is undone in the background. If two
// holders wait for an upgrade the second is refused (Word "DEADLOCK").
func (l *Lock) Upgrade(ctx context.Context) error {
	_, err := l.upgrade(ctx, true)
	return err
}

// TryUpgrade is Upgrade without waiting: false if there are other readers.
func (l *Lock) TryUpgrade(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.session.options.Timeout)
	defer cancel()
	return l.upgrade(ctx, false)
}

func (l *Lock) upgrade(ctx context.Context, wait bool) (bool, error) {
	if err := l.mayConvert(); err != nil {
		return false, err
	}
	c, err := l.claim(ctx, wait, "CONVERT", l.converting("EXCLUSIVE")...)
	if c == nil {
		return false, err
	}
	what, err := c.grant(ctx, wait, func(told []told, sent reading, isAgain bool) verdict {
		return l.converted(told[0], sent, isAgain)
	})
	if err != nil && !c.isOutcome(err) {
		c.abandon(false)
		return false, err
	}
	c.end()
	c.endClaim()
	c.notHeld(err)
	if what == isOver {
		err = fmt.Errorf("hasp: %w: %q was taken away", ErrLost, l.names)
	}
	return what == isGranted, err
}

// converting returns the words that name the trusted hold.
func (l *Lock) converting(how string) []string {
	return []string{how, "TOKEN", strconv.FormatInt(l.Token(), 10), "FULL"}
}

// mayConvert checks that the lock is a single one, and held.
func (l *Lock) mayConvert() error {
	if len(l.names) > 1 {
		return fmt.Errorf("hasp: cannot convert several locks at once: %q", l.names)
	}
	if l.Token() == 0 {
		return fmt.Errorf("hasp: %w: %q", ErrNotHeld, l.names)
	}
	return l.Guard(0)
}

// Downgrade makes an exclusive hold shared, at once; the token stays. ErrUnknown:
// no node could be reached; the session keeps trying in the background.
func (l *Lock) Downgrade(ctx context.Context) error {
	if err := l.mayConvert(); err != nil {
		return err
	}
	words := l.converting("SHARED")
	l.mu.Lock()
	if g := l.top(); g != nil {
		g.shared = true
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.session.options.Timeout)
	defer cancel()
	c := l.newChange("CONVERT", words...)
	reply, err := c.ask(ctx, false)
	if err != nil && !c.isOutcome(err) {
		c.abandon(false)
		return &outcome{ErrUnknown, err, err}
	}
	c.end()
	c.notHeld(err)
	for _, now := range toldAll(reply) {
		l.session.eachHold(func(other *Lock) { other.convertedBy(&now) })
	}
	return err
}

// Note stores up to 4096 bytes with the lock for later holders: they outlive the
// hold (Session.Note). ErrNotHeld: the lock is not held.
func (l *Lock) Note(ctx context.Context, text string) error {
	_, err := l.session.question(ctx, l.session.acting("LOCK.NOTE", l.names[0],
		strconv.FormatInt(l.Token(), 10), text, "OWNER", l.owner)...)
	return err
}

// Place returns the place in the queue while Lock waits in another goroutine: 1 is
// the next; 0: not in the queue.
func (l *Lock) Place(ctx context.Context) (int, error) {
	reply, err := l.session.question(ctx, "LOCK.SHOW", l.names[0])
	for i, one := range asList(asMap(reply)["queue"]) {
		if l.isMine(asMap(one)) {
			return i + 1, err
		}
	}
	return 0, err
}
