// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A wait is asked again after so long: the push that ends it may have been lost.
const waitSilence = 15 * time.Second

// LockOptions say how a lock is taken. The zero value: exclusively.
type LockOptions struct {
	Shared bool          // Held together with other shared holders.
	Slots  int           // Held by so many at once; all must say the same number.
	Value  string        // Shown to people; what an Elector announces.
	Delay  time.Duration // It stays closed for so long after its holder died.
	Hold   time.Duration // A hold ends after so long, whatever happens.
	Barge  bool          // Passes those who wait, never those who hold.
	// Owner makes it reentrant: whoever has it under this name locks it again,
	// and must unlock it as often. It stands for one thread of control: do not
	// use it in two at the same time.
	Owner string
}

// A Lock is one lock, or several that are taken together. It excludes the other
// goroutines that use it as well as everybody else who takes a lock of that
// name, in this program or on another machine. It is not reentrant, unless it has
// an Owner.
type Lock struct {
	session *Session
	names   []string
	options LockOptions
	owner   string
	turn    chan struct{} // Has a token while nobody here holds the lock.

	mu     sync.Mutex // Of what follows.
	count  int        // Of grants that are not given back.
	tokens []int64    // Not nil: held.
	shared bool
	since  reading // A limited hold counts from here.
	limit  int64   // Milliseconds; 0: no limit.
	ended  bool    // The cluster has ended the hold.
	held   context.Context
	drop   context.CancelFunc
	over   *time.Timer // Ends a limited hold; nil: none.
}

// NewLock gives a lock of the session. It asks nothing.
func (s *Session) NewLock(name string, options LockOptions) *Lock {
	return s.NewLocks([]string{name}, options)
}

// NewLocks gives up to 64 locks that are taken together, all or none, without
// deadlocks among those who do so.
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

// Lock waits in line until the lock is held. When ctx is done first, its error
// is found in Lock's, and what may have been granted is given back.
func (l *Lock) Lock(ctx context.Context) error {
	if l.isAgain() {
		_, err := l.acquire(ctx, true, false)
		return err
	}
	select {
	case <-l.turn:
	case <-ctx.Done():
		return l.late(ctx.Err())
	case <-l.session.over.Done():
		return l.session.whyLost()
	}
	_, err := l.acquire(ctx, true, true)
	return err
}

// isAgain: its owner has it already.
func (l *Lock) isAgain() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.options.Owner != "" && l.count > 0
}

// TryLock takes the lock if it is free: false if it is not.
func (l *Lock) TryLock(ctx context.Context) (bool, error) {
	isAgain := l.isAgain()
	if !isAgain {
		select {
		case <-l.turn:
		default:
			return false, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.session.options.Timeout)
	defer cancel()
	return l.acquire(ctx, false, !isAgain)
}

// acquire is called by who has the turn, which, if it was taken for this, goes
// back unless the lock is held in the end, or must be settled first.
func (l *Lock) acquire(ctx context.Context, wait, isFirst bool) (bool, error) {
	c, err := l.claim(ctx, wait, "ACQUIRE", l.words()...)
	if c == nil {
		l.giveTurn(isFirst)
		return false, err
	}
	first := clockNow()
	reply, err := c.ask(ctx, wait)
	if err != nil && !c.isOutcome(err) {
		go c.settle(isFirst)
		return false, err
	}
	c.end()
	c.endClaim()
	if err == nil && reply != nil {
		limit := inMilliseconds(l.options.Hold)
		if wait && limit != 0 {
			first, limit = l.limitLeft(ctx, first, limit)
		}
		l.granted(tokensOf(reply), first, limit)
		if l.session.State() != Lost {
			return true, nil
		}
		l.forget()
		err = &outcome{ErrLost, ErrLost, errors.New("the lease ended while it was granted")}
	}
	l.giveTurn(isFirst)
	return false, err
}

// limitLeft asks how much is left of a limited hold: the wait for it may have
// taken longer. If nobody says, it counts from before the wait.
func (l *Lock) limitLeft(ctx context.Context, first reading, limit int64) (reading, int64) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var a *ask
	reply, err := l.session.request(ctx, func() *ask {
		a = &ask{words: []string{"LOCK.SHOW", l.names[0]}}
		return a
	})
	for _, one := range asList(asMap(reply)["holders"]) {
		left := asInt(asMap(one)["hold_left_ms"])
		if err == nil && l.isMine(asMap(one)) && left > 0 && left <= limit {
			return a.sent, left
		}
	}
	return first, limit
}

func (l *Lock) isMine(told map[string]any) bool {
	return asInt(told["session"]) == l.session.id && asText(told["owner"]) == l.owner
}

// Unlock gives the lock back. Belief in it ends before anything is sent. With
// ErrUnknown no node could be reached: the session goes on trying.
func (l *Lock) Unlock(ctx context.Context) error {
	was, isLast := l.forget()
	if !was {
		return fmt.Errorf("hasp: %w: %q", ErrNotHeld, l.names)
	}
	ctx, cancel := context.WithTimeout(ctx, l.session.options.Timeout)
	defer cancel()
	return l.release(ctx, isLast)
}

func (l *Lock) giveTurn(is bool) {
	if is {
		l.turn <- struct{}{}
	}
}

func (l *Lock) release(ctx context.Context, isLast bool) error {
	c := l.newChange("RELEASE")
	reply, err := c.ask(ctx, false)
	if err != nil && !c.isOutcome(err) {
		c.setClaim(false)
		go c.settle(isLast)
		return &outcome{ErrUnknown, err, err}
	}
	c.end()
	l.giveTurn(isLast)
	if released := asInt(reply); err == nil && len(l.names) > 1 &&
		released < int64(len(l.names)) {
		return fmt.Errorf("hasp: %w: only %d of %q were", ErrNotHeld, released, l.names)
	}
	return err
}

// Upgrade makes a shared hold exclusive, when the other readers have gone;
// until then, and if it fails, the shared one stays. When ctx is done first, what
// may have become of it is taken back in the background. Of two that do so the
// second is refused (Word "DEADLOCK").
func (l *Lock) Upgrade(ctx context.Context) error {
	_, err := l.upgrade(ctx, true)
	return err
}

// TryUpgrade is Upgrade if there are no other readers; else it is false.
func (l *Lock) TryUpgrade(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.session.options.Timeout)
	defer cancel()
	return l.upgrade(ctx, false)
}

func (l *Lock) upgrade(ctx context.Context, wait bool) (bool, error) {
	if err := l.mayConvert(); err != nil {
		return false, err
	}
	c, err := l.claim(ctx, wait, "CONVERT", "EXCLUSIVE")
	if c == nil {
		return false, err
	}
	reply, err := c.ask(ctx, wait)
	if err != nil && !c.isOutcome(err) {
		go c.settle(false)
		return false, err
	}
	c.end()
	c.endClaim()
	if err != nil || reply == nil {
		return false, err
	}
	c.converted(reply, false)
	return true, nil
}

// converted: its owner has one hold, however many locks of his tell of it.
func (c *change) converted(reply any, shared bool) {
	token := tokensOf(reply)[0]
	c.lock.session.eachHold(func(l *Lock) { l.convertedBy(c.lock, token, shared) })
}

func (l *Lock) convertedBy(by *Lock, token int64, shared bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.tokens {
		if l.owner == by.owner && l.names[i] == by.names[0] {
			l.tokens = append([]int64(nil), l.tokens...)
			l.tokens[i], l.shared = token, shared
		}
	}
}

// mayConvert: what is to be converted is one lock that is held.
func (l *Lock) mayConvert() error {
	if len(l.names) > 1 {
		return fmt.Errorf("hasp: several locks are not converted: %q", l.names)
	}
	l.mu.Lock()
	isHeld := l.tokens != nil
	l.mu.Unlock()
	if !isHeld {
		return fmt.Errorf("hasp: %w: %q", ErrNotHeld, l.names)
	}
	return l.Guard(0)
}

// Downgrade makes an exclusive hold shared, at once; the token stays. With
// ErrUnknown no node could be reached: the session goes on trying.
func (l *Lock) Downgrade(ctx context.Context) error {
	if err := l.mayConvert(); err != nil {
		return err
	}
	l.mu.Lock()
	l.shared = true
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.session.options.Timeout)
	defer cancel()
	c := l.newChange("CONVERT", "SHARED")
	_, err := c.ask(ctx, false)
	if err != nil && !c.isOutcome(err) {
		c.setClaim(false)
		go c.settle(false)
		return &outcome{ErrUnknown, err, err}
	}
	c.end()
	return err
}

// Note leaves up to 4096 bytes at the lock for whoever comes next: they outlive
// the hold (Session.Note). ErrNotHeld: only a holder may.
func (l *Lock) Note(ctx context.Context, text string) error {
	_, err := l.session.question(ctx, l.session.acting("LOCK.NOTE", l.names[0],
		strconv.FormatInt(l.Token(), 10), text, "OWNER", l.owner)...)
	return err
}

// Place is that in the queue while Lock waits elsewhere: 1 is the next one to
// have it, 0 stands in no queue.
func (l *Lock) Place(ctx context.Context) (int, error) {
	reply, err := l.session.question(ctx, "LOCK.SHOW", l.names[0])
	for i, one := range asList(asMap(reply)["queue"]) {
		if l.isMine(asMap(one)) {
			return i + 1, err
		}
	}
	return 0, err
}

// --- belief ------------------------------------------------------------------

// Token is the fencing token of the hold, 0 if nothing is held. It grows with
// each grant of the lock: let what you write to refuse a smaller one.
func (l *Lock) Token() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil {
		return 0
	}
	return l.tokens[0]
}

// Tokens are those of several locks, in the order of their names.
func (l *Lock) Tokens() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int64(nil), l.tokens...)
}

// Names are those of the lock, or locks.
func (l *Lock) Names() []string { return append([]string(nil), l.names...) }

// IsShared says how the lock is held, after Upgrade and Downgrade too.
func (l *Lock) IsShared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tokens != nil && l.shared
}

// Remaining is for how long the hold may still be trusted; 0 if it may not.
func (l *Lock) Remaining() time.Duration {
	now := clockNow()
	left := l.session.lease.remaining(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil || l.ended {
		return 0
	}
	if l.limit != 0 {
		if limited := holdRemaining(l.since, l.limit, now); limited < left {
			left = limited
		}
	}
	return time.Duration(left)
}

// Guard is an error unless a step of length need ends inside the lease: ErrShort
// if it does not, or the session is in jeopardy; ErrLost if the lock is not
// held, or not any more. Call it before each step that must not outlive it.
func (l *Lock) Guard(need time.Duration) error {
	left := l.Remaining()
	switch {
	case left > 0 && left >= need:
		return nil
	case left > 0 || l.mayRecover():
		return fmt.Errorf("hasp: %w: %v left, %v needed%s", ErrShort, left, need,
			l.never(need))
	case l.session.State() == Lost:
		return l.session.whyLost()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens != nil {
		return fmt.Errorf("hasp: %w: %q has been taken away, or its Hold is over",
			ErrLost, l.names)
	}
	return fmt.Errorf("hasp: %w: %q is not held", ErrLost, l.names)
}

// never says it if no guard of that need can pass.
func (l *Lock) never(need time.Duration) string {
	most := time.Duration(trusted(l.session.lease.promised()))
	if hold := l.options.Hold * 4 / 5; hold > 0 && hold < most {
		most = hold
	}
	if need <= most {
		return ""
	}
	return fmt.Sprintf("; it is never more than %v, 0.8 of the smallest of TTL, "+
		"Linger and Hold", most)
}

// mayRecover: what is not believed in now may be held again.
func (l *Lock) mayRecover() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tokens != nil && !l.ended && l.limit == 0 &&
		l.session.State() == Jeopardy
}

// Context ends when the hold does: by Unlock, by the end of the lease or of a
// limited hold, or because it was taken away; also when the session is in
// jeopardy, since others may hold the lock soon. Work that cannot be stopped
// calls Guard as well: a paused process learns too late.
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	go func() {
		select {
		case <-held.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (l *Lock) granted(tokens []int64, since reading, limit int64) {
	s := l.session
	l.mu.Lock()
	l.count++
	l.tokens = tokens
	if l.count == 1 {
		l.ended, l.shared = false, l.options.Shared
		l.since, l.limit = since, limit
	}
	l.mu.Unlock()
	l.believe()
	s.mu.Lock()
	s.holds[l] = true
	s.mu.Unlock()
	if l.Remaining() == 0 {
		l.doubt()
	}
}

// believe begins what Context gives: at the grant, and after each jeopardy.
func (l *Lock) believe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil || l.ended || l.held.Err() == nil {
		return
	}
	l.held, l.drop = context.WithCancel(context.Background())
	l.armLimit()
}

// armLimit has the end of a limited hold told in time. The caller has mu.
func (l *Lock) armLimit() {
	if l.over != nil {
		l.over.Stop()
	}
	if l.limit != 0 {
		left := holdRemaining(l.since, l.limit, clockNow())
		l.over = time.AfterFunc(time.Duration(left), l.limitOver)
	}
}

// limitOver tells that the limit is over by the clock: nobody else says so in
// time.
func (l *Lock) limitOver() {
	l.mu.Lock()
	if l.tokens == nil || l.ended || l.limit == 0 {
		l.mu.Unlock()
		return
	}
	if holdRemaining(l.since, l.limit, clockNow()) > 0 { // Of another grant.
		l.armLimit()
		l.mu.Unlock()
		return
	}
	l.ended = true
	l.drop()
	event := Event{EventLost, l.names[0], l.tokens[0], "max hold"}
	l.mu.Unlock()
	if l.session.State() != Lost && !l.session.isClosed() {
		l.session.emit(event)
	}
}

// doubt ends what Context gave.
func (l *Lock) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// forget ends the belief in one grant: was there one, and was it the last?
func (l *Lock) forget() (was, isLast bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return false, false
	}
	l.count--
	if l.count > 0 {
		return true, false
	}
	l.session.mu.Lock()
	delete(l.session.holds, l)
	l.session.mu.Unlock()
	l.tokens = nil
	l.drop()
	if l.over != nil {
		l.over.Stop()
	}
	return true, true
}

// eachHold calls do for each hold.
func (s *Session) eachHold(do func(*Lock)) {
	s.mu.Lock()
	var holds []*Lock
	for l := range s.holds {
		holds = append(holds, l)
	}
	s.mu.Unlock()
	for _, l := range holds {
		do(l)
	}
}

// holdEnded: the cluster has ended a hold, by its limit or by an operator.
func (s *Session) holdEnded(told map[string]any) {
	name, token := asText(told["lock"]), asInt(told["token"])
	isOver := false
	s.eachHold(func(l *Lock) {
		isOver = (l.owner == asText(told["owner"]) && l.endsWith(name, token)) || isOver
	})
	if isOver {
		s.emit(Event{EventLost, name, token, asText(told["reason"])})
	}
}

func (l *Lock) endsWith(name string, token int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, own := range l.names {
		if own == name && !l.ended && i < len(l.tokens) && l.tokens[i] == token {
			l.ended = true
			l.drop()
			return true
		}
	}
	return false
}

// --- changes -----------------------------------------------------------------

// A change is numbered: however often it is asked, it is done once.
type change struct {
	lock   *Lock
	verb   string
	how    string   // Of CONVERT: "SHARED" or "EXCLUSIVE".
	words  []string // What stands before WAIT.
	number int64
	tail   []string
	asked  bool // It may have been done by now.
	isLate bool // The newest asking was given up in the queue.
	told   chan grant
}

// A grant is what a push tells of the end of a wait.
type grant struct {
	place  int64
	tokens []any // nil: it was not granted.
}

func (l *Lock) newChange(verb string, more ...string) *change {
	c := &change{lock: l, verb: verb, told: make(chan grant, 16)}
	c.number, c.tail = l.session.numbers.begin()
	if verb == "CONVERT" {
		c.how = more[0]
	}
	if len(l.names) == 1 {
		c.words = append([]string{"LOCK." + verb, l.names[0]}, more...)
	} else {
		c.words = append([]string{"LOCK.M" + verb, strconv.Itoa(len(l.names))},
			append(append([]string(nil), l.names...), more...)...)
	}
	c.tail = append(l.session.acting("OWNER", l.owner), c.tail...)
	return c
}

// claim is newChange of what asks for more. The cluster takes two waits of one
// owner for one, with one grant. So an owner asks once at a time for a lock, and
// not before it is known what came of what nobody waits for any more: that will
// be given back. nil without an error: it only tries, and he waits for it.
func (l *Lock) claim(ctx context.Context, wait bool, verb string,
	more ...string) (*change, error) {
	s := l.session
	for {
		s.mu.Lock()
		isRivalled, isQueued := l.hasRival()
		if !isRivalled {
			c := l.newChange(verb, more...)
			s.claims[c] = false
			s.mu.Unlock()
			return c, nil
		}
		news := s.claimNews
		s.mu.Unlock()
		if isQueued && !wait {
			return nil, nil
		}
		select {
		case <-news:
			continue
		case <-s.over.Done():
			return nil, s.whyLost()
		case <-ctx.Done():
		}
		if isQueued {
			return nil, l.late(ctx.Err())
		}
		return nil, &outcome{ErrUnreachable, ctx.Err(), fmt.Errorf(
			"it is not known what came of an earlier request of %q", l.owner)}
	}
}

// hasRival: does the same owner ask for any of it by another Lock, or is one of
// this Lock's conversions not over, and does he stand in the queue? The caller has
// the session's mu.
func (l *Lock) hasRival() (has, queues bool) {
	for c, isQueued := range l.session.claims {
		isOther := c.lock != l || c.verb == "CONVERT"
		if isOther && c.lock.owner == l.owner && l.hasAnyOf(c.lock.names) {
			has, queues = true, queues || isQueued
		}
	}
	return has, queues
}

func (l *Lock) hasAnyOf(names []string) bool {
	for _, name := range names {
		for _, own := range l.names {
			if name == own {
				return true
			}
		}
	}
	return false
}

// setClaim: others of the same owner wait for it until endClaim.
func (c *change) setClaim(queues bool) {
	s := c.lock.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[c] = queues
	s.tellClaims()
}

func (c *change) endClaim() {
	s := c.lock.session
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claims, c)
	s.tellClaims()
}

// tellClaims wakes who waits for one. The caller has mu.
func (s *Session) tellClaims() {
	close(s.claimNews)
	s.claimNews = make(chan struct{})
}

func (l *Lock) words() []string {
	var words []string
	o := &l.options
	if o.Shared {
		words = append(words, "SHARED")
	}
	if o.Slots != 0 {
		words = append(words, "SLOTS", strconv.Itoa(o.Slots))
	}
	if o.Value != "" {
		words = append(words, "VALUE", o.Value)
	}
	if o.Delay != 0 {
		words = append(words, "DELAY", milliseconds(o.Delay))
	}
	if o.Hold != 0 {
		words = append(words, "HOLD", milliseconds(o.Hold))
	}
	if o.Barge {
		words = append(words, "BARGE")
	}
	return words
}

// ask asks until it is answered. One that waits does so until ctx is done.
func (c *change) ask(ctx context.Context, wait bool) (any, error) {
	s := c.lock.session
	c.isLate = false
	s.setWaits(c, true)
	defer s.setWaits(c, false)
	for {
		var a *ask
		reply, err := s.requestOn(ctx, s.link, func() *ask {
			a = &ask{words: c.with(c.waiting(ctx, wait)...), fits: c.fits}
			return a
		}, c.asked)
		c.asked = true
		if err == nil && reply == nil && wait {
			err = c.lock.late(context.DeadlineExceeded)
		}
		place, isQueued := placeOf(reply)
		if !isQueued {
			return reply, err
		}
		if tokens := c.park(ctx, a.line.gone, place); tokens != nil {
			return tokens, nil
		}
		if err := ctx.Err(); err != nil && s.State() != Lost {
			c.isLate = true
			return nil, c.lock.late(err)
		}
	}
}

// waiting are the words of a wait: until ctx is done, and a push tells its end.
func (c *change) waiting(ctx context.Context, wait bool) []string {
	until, ok := ctx.Deadline()
	if !wait {
		return nil
	} else if !ok {
		return []string{"WAIT", c.lock.session.forever(), "PUSH"}
	}
	left := time.Until(until)
	if left < 0 {
		left = 0
	}
	return []string{"WAIT", milliseconds(left), "PUSH"}
}

// fits: is it what such a change is answered? Whatever else a node that is none
// says is no grant.
func (c *change) fits(reply any) bool {
	if _, isQueued := placeOf(reply); isQueued || reply == nil {
		return c.verb != "RELEASE"
	}
	if c.verb == "RELEASE" {
		_, isNumber := reply.(int64)
		return isNumber
	}
	tokens := tokensOf(reply)
	for _, token := range tokens {
		if token <= 0 {
			return false
		}
	}
	return len(tokens) == len(c.lock.names)
}

// placeOf reads "QUEUED place".
func placeOf(reply any) (int64, bool) {
	word, text, _ := strings.Cut(asText(reply), " ")
	place, err := strconv.ParseInt(text, 10, 64)
	return place, word == "QUEUED" && err == nil
}

// park waits for the push that tells what was granted at that place. nil: the
// cluster is to be asked, as when the push may have been lost.
func (c *change) park(ctx context.Context, gone chan struct{}, place int64) any {
	c.setClaim(true)
	defer c.setClaim(false)
	silence := time.NewTimer(waitSilence)
	defer silence.Stop()
	for {
		select {
		case told := <-c.told:
			if told.place != place {
				continue // Of an earlier wait, or told twice.
			}
			if told.tokens != nil && c.fits(told.tokens) {
				return told.tokens
			}
		case <-gone:
		case <-silence.C:
		case <-ctx.Done():
		case <-c.lock.session.over.Done():
		}
		return nil
	}
}

// tell never blocks: what finds no room is asked for in the end.
func (c *change) tell(place int64, tokens []any) {
	select {
	case c.told <- grant{place, tokens}:
	default:
	}
}

func (s *Session) setWaits(c *change, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is {
		s.waits[c] = true
	} else {
		delete(s.waits, c)
	}
}

// forever is a wait without end. A durable session may have none: nothing would
// end that of a client that has died. A minute counts anew whenever it asks.
func (s *Session) forever() string {
	if s.options.Durable {
		return "60000"
	}
	return "FOREVER"
}

func (c *change) with(more ...string) []string {
	words := append([]string(nil), c.words...)
	return append(append(words, more...), c.tail...)
}

// errLate: ctx was done while the lock was waited for, and others hold it.
var errLate = errors.New("not granted in time")

func (l *Lock) late(why error) error {
	return &outcome{errLate, why, fmt.Errorf("others hold %q", l.names)}
}

func (c *change) end() { c.lock.session.numbers.end(c.number) }

// settle clears up a change whose outcome is not known, for as long as the
// session lives: asked again under its number, and not waiting, it tells what
// became of it. What was granted meanwhile is taken back, since nobody waits for
// it any more. Then others here may use the lock, if it had the turn.
func (c *change) settle(hasTurn bool) {
	l := c.lock
	defer c.endClaim() // Of what is settled, whatever c is then.
	for round := 1; ; round++ {
		ctx, cancel := context.WithTimeout(l.session.over, l.session.options.Timeout)
		reply, err := c.ask(ctx, false)
		cancel()
		if l.session.over.Err() != nil {
			return // Everything has ended with the session.
		}
		if err != nil && !c.isOutcome(err) {
			pause(l.session.over, round)
			continue
		}
		c.end()
		undo := c.undo(reply, err)
		if undo == nil {
			l.giveTurn(hasTurn)
			return
		}
		c = undo
	}
}

// undo is what takes back what came of a change; nil: nothing has to be.
func (c *change) undo(reply any, err error) *change {
	l := c.lock
	switch {
	case c.verb == "ACQUIRE" && (err == nil && reply != nil ||
		// A named owner may have other holds of it.
		isForgotten(err) && l.options.Owner == ""):
		return l.newChange("RELEASE")
	case c.how == "EXCLUSIVE" && err == nil && reply != nil:
		c.converted(reply, true) // It will be, and has a new token.
		return l.newChange("CONVERT", "SHARED")
	}
	return nil
}

// isOutcome: the error tells what became of the change. What gives something back
// and could be done by no node is still to be done.
func (c *change) isOutcome(err error) bool {
	if isForgotten(err) {
		return true
	}
	return !c.isLate && !errors.Is(err, ErrUnknown) &&
		(c.verb != "RELEASE" && c.how != "SHARED" || !errors.Is(err, ErrUnreachable))
}

func tokensOf(reply any) []int64 {
	if list, ok := reply.([]any); ok {
		var tokens []int64
		for _, token := range list {
			tokens = append(tokens, asInt(token))
		}
		return tokens
	}
	return []int64{asInt(reply)}
}
