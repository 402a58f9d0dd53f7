// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// How often a wait is requested again: the push that ends it might be lost.
const waitSilence = 15 * time.Second

// A change has a number: however often it is sent, it takes effect once.
type change struct {
	lock   *Lock
	verb   string
	how    string   // Of CONVERT: "SHARED" or "EXCLUSIVE".
	token  int64    // Token of the hold; only of CONVERT.
	words  []string // The request, up to WAIT.
	parts  []part   // The parts to release; nil: all holds of the owner.
	number int64
	tail   []string
	sent   reading // When the answered request was sent.
	asked  bool    // It might have been done.
	isLate bool    // The newest attempt was given up while in the queue.
	told   chan ending
	// The acquisition that this is the request of, for hooks; nil: none.
	reported *acquisition
	// It was abandoned with the turn of its lock. The session's mu guards it.
	hasTurn bool
}

// An ending is a push that reports the end of a wait.
type ending struct {
	place int64
	all   []any // The holds that were granted; nil: none.
}

func (l *Lock) newChange(verb string, more ...string) *change {
	c := &change{lock: l, verb: verb, told: make(chan ending, 16)}
	c.number, c.tail = l.session.numbers.begin()
	if verb == "CONVERT" {
		c.how = more[0]
		c.token, _ = strconv.ParseInt(more[2], 10, 64)
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

// newRelease releases these parts of a grant, and nothing else.
func (l *Lock) newRelease(parts []part) *change {
	c := l.newChange("RELEASE")
	c.parts = parts
	if len(parts) == 1 {
		c.words = []string{"LOCK.RELEASE", parts[0].name, "TOKEN",
			strconv.FormatInt(parts[0].token, 10)}
		return c
	}
	tokens := []string{"TOKENS"}
	c.words = []string{"LOCK.MRELEASE", strconv.Itoa(len(parts))}
	for _, one := range parts {
		c.words = append(c.words, one.name)
		tokens = append(tokens, strconv.FormatInt(one.token, 10))
	}
	c.words = append(c.words, tokens...)
	return c
}

// notHeld ends the trust in a hold that the cluster does not have (NOTHELD).
func (c *change) notHeld(err error) {
	if !errors.Is(err, ErrNotHeld) || len(c.parts) > 1 {
		return
	}
	name, token := c.lock.names[0], c.token
	if len(c.parts) > 0 {
		name, token = c.parts[0].name, c.parts[0].token
	}
	c.lock.session.eachHold(func(l *Lock) {
		l.endWhere(c.lock.owner, func(p *part) bool {
			return p.name == name && p.token == token
		}, "ended")
	})
}

// claim is newChange for a request for more. The cluster merges two waits of
// one owner into one wait with one grant. So an owner sends one request for a
// lock at a time, and only when abandoned ones are settled: their grants are
// released. nil without an error: the lock was only tried, and the owner has a
// waiting request.
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
		return nil, l.notKnownYet(ctx)
	}
}

func (l *Lock) notKnownYet(ctx context.Context) error {
	return &outcome{ErrUnreachable, ctx.Err(), fmt.Errorf(
		"the outcome of an earlier request of %q is not known yet", l.owner)}
}

// hasRival reports whether the same owner is requesting any of these locks with
// another Lock, or has an unfinished conversion of this Lock, and whether one
// of these requests is in the queue. The caller has the session's mu.
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

// setClaim makes other requests of the owner wait until endClaim.
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

// tellClaims wakes the waiters for a claim. The caller has mu.
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
	if o.Trace != "" {
		words = append(words, "TRACE", o.Trace)
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
	return append(words, "FULL")
}

// grant repeats the request until take accepts or rejects the answer: an answer
// that is older than the known state is requested again, under its number.
func (c *change) grant(ctx context.Context, wait bool,
	take func([]told, reading, bool) verdict) (verdict, error) {
	for round := 0; ; round++ {
		reply, err := c.ask(ctx, wait)
		if err != nil || reply == nil {
			return isNothing, err
		}
		all := toldAll(reply)
		what := take(all, c.sent, round > 0)
		if what != isStale {
			return what, nil
		}
		if round > 0 {
			pause(ctx, round)
		}
	}
}

// ask repeats the request until it is answered; a wait until ctx is done.
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
		if a != nil {
			c.sent = a.sent
		}
		place, isQueued := placeOf(reply)
		if !isQueued {
			return reply, err
		}
		c.reported.waits()
		if all := c.park(ctx, a.line.gone, place); all != nil {
			return all, nil
		}
		if err := ctx.Err(); err != nil && s.State() != Lost {
			c.isLate = true
			return nil, c.lock.late(err)
		}
	}
}

// waiting returns the words of a wait that ends with ctx; a push reports its
// end.
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

// fits reports whether the reply has the form that such a change is answered
// with. Any other reply, from a peer that is not a node, must not count as a
// grant.
func (c *change) fits(reply any) bool {
	if _, isQueued := placeOf(reply); isQueued || reply == nil {
		return c.verb != "RELEASE"
	}
	if c.verb == "RELEASE" {
		_, isNumber := reply.(int64)
		return isNumber
	}
	return len(toldAll(reply)) == len(c.lock.names)
}

// placeOf reads "QUEUED place".
func placeOf(reply any) (int64, bool) {
	word, text, _ := strings.Cut(asText(reply), " ")
	place, err := strconv.ParseInt(text, 10, 64)
	return place, word == "QUEUED" && err == nil
}

// park waits for the push that reports what was granted at that place. nil: ask
// the cluster, for example because the push might be lost.
func (c *change) park(ctx context.Context, gone chan struct{}, place int64) any {
	c.setClaim(true)
	defer c.setClaim(false)
	silence := time.NewTimer(waitSilence)
	defer silence.Stop()
	for {
		select {
		case told := <-c.told:
			if told.place != place {
				continue // It is from an earlier wait, or a duplicate.
			}
			if told.all != nil && c.isComplete(told.all) {
				return told.all
			}
		case <-gone:
		case <-silence.C:
		case <-ctx.Done():
		case <-c.lock.session.over.Done():
		}
		return nil
	}
}

// isComplete is false for a hold with a limit: a push has no start of the
// limit.
func (c *change) isComplete(all []any) bool {
	for _, one := range toldAll(all) {
		if one.left >= 0 {
			return false
		}
	}
	return c.fits(all)
}

// notify never blocks: if there is no room, the outcome is requested at the
// end.
func (c *change) notify(place int64, all []any) {
	select {
	case c.told <- ending{place, all}:
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

// forever is a wait without limit. A durable session must not use it, since the
// wait of a dead client would never end; each of its requests waits for a
// minute.
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

// errLate means that ctx was done while others held the lock.
var errLate = errors.New("not granted in time")

func (l *Lock) late(why error) error {
	return &outcome{errLate, why, fmt.Errorf("others hold %q", l.names)}
}

func (c *change) end() { c.lock.session.numbers.end(c.number) }

// abandon settles the change in the background. Other requests of the owner wait
// for that.
func (c *change) abandon(hasTurn bool) {
	s := c.lock.session
	s.mu.Lock()
	c.hasTurn = hasTurn
	s.mu.Unlock()
	c.setClaim(false)
	go c.settle(hasTurn)
}

// settle settles a change with an unknown outcome, as long as the session
// lives: sent again under its number, and without a wait, it returns the
// outcome. A grant is released, since no caller waits for it. Then other users
// of the lock can proceed, if this change had the turn.
func (c *change) settle(hasTurn bool) {
	l := c.lock
	defer c.endClaim() // The claim of this change, whatever c is by then.
	for round := 1; ; round++ {
		ctx, cancel := context.WithTimeout(l.session.over, l.session.options.Timeout)
		reply, err := c.ask(ctx, false)
		cancel()
		if l.session.over.Err() != nil {
			return // The session has ended, and so have all its holds.
		}
		if err != nil && !isForgotten(err) && !c.isOutcome(err) {
			pause(l.session.over, round)
			continue
		}
		if isForgotten(err) && round > 1 {
			pause(l.session.over, round-1)
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

// undo returns the request that undoes the outcome of a change; nil: none is
// needed.
func (c *change) undo(reply any, err error) *change {
	l := c.lock
	all := toldAll(reply)
	switch {
	case isForgotten(err):
		return c.afterForgotten()
	case c.verb == "RELEASE":
		c.notHeld(err)
	case c.verb == "ACQUIRE" && err == nil && reply != nil:
		var held []part
		for i, one := range all {
			if one.count > 0 {
				held = append(held, part{name: l.names[i], token: one.token})
			}
		}
		if len(held) > 0 {
			return l.newRelease(held)
		}
	case c.how == "SHARED":
		for i := range all { // After an upgrade it has a new token.
			l.session.eachHold(func(other *Lock) { other.convertedBy(&all[i]) })
		}
	case c.how == "EXCLUSIVE" && err == nil && reply != nil && all[0].count > 0:
		all[0].mode = "shared" // It will be, with a new token.
		l.session.eachHold(func(other *Lock) { other.convertedBy(&all[0]) })
		return l.newChange("CONVERT", "SHARED", "TOKEN",
			strconv.FormatInt(all[0].token, 10), "FULL")
	}
	return nil
}

// afterForgotten returns the request that makes sure that nothing is left of a
// forgotten one; nil: none is needed, or none is safe. The cluster may have
// executed the forgotten one or not: its number is spent unused if too many
// others overtake it.
func (c *change) afterForgotten() *change {
	l := c.lock
	switch {
	case c.verb == "CONVERT":
		if c.how == "EXCLUSIVE" && !l.isShared() {
			return nil // It was exclusive before.
		}
		return l.newChange("CONVERT", "SHARED", "TOKEN",
			strconv.FormatInt(c.token, 10), "FULL")
	case c.parts == nil && l.options.Owner == "":
		return l.newChange("RELEASE") // The owner has nothing else.
	case c.parts != nil && !l.hasOthers(c.parts):
		return l.newRelease(c.parts)
	}
	// A named owner can have other holds of the lock, and a release that was
	// executed must not end another acquisition of the same hold.
	return nil
}

// isShared reports whether the newest hold is shared; true if there is none.
func (l *Lock) isShared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.top()
	return g == nil || g.shared
}

// hasOthers reports whether the owner holds one of these locks by another
// acquisition, or is requesting it.
func (l *Lock) hasOthers(parts []part) bool {
	var names []string
	for _, one := range parts {
		names = append(names, one.name)
	}
	s := l.session
	s.mu.Lock()
	has, _ := l.hasRival()
	s.mu.Unlock()
	s.eachHold(func(other *Lock) {
		if other.owner == l.owner && other.hasAnyOf(names) {
			has = true
		}
	})
	return has
}

// isOutcome reports whether the error determines the outcome of the change. A
// release that no node could do must still be done.
func (c *change) isOutcome(err error) bool {
	return !c.isLate && !errors.Is(err, ErrUnknown) &&
		(c.verb != "RELEASE" && c.how != "SHARED" || !errors.Is(err, ErrUnreachable))
}
