// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"fmt"
	"time"
)

// A hold is identified by its token, since the same session and owner can acquire
// and lose a lock repeatedly. It begins with one token, and each upgrade gives it
// a newer one; all tokens in between belong to this hold only.

// A part is what was granted of one lock.
type part struct {
	name         string
	token, first int64
	asOf         int64 // The newest state known to contain it.
	isOver       bool  // The cluster has ended it.
	isFirst      bool  // Its owner did not hold it before.
}

// A grant is the result of one acquisition. The client believes in it because of
// the answer that granted it and the notices since then.
type grant struct {
	parts  []part
	shared bool
	since  reading // A limited hold counts from here.
	limit  int64   // Milliseconds; 0: no limit.
	isOver bool    // A part is over, or the limit is over by the clock.

	reported *acquisition // To hooks.
}

// left returns the parts that the cluster might still hold.
func (g *grant) left() []part {
	var left []part
	for _, one := range g.parts {
		if !one.isOver {
			left = append(left, one)
		}
	}
	return left
}

// told is what the cluster reports of one hold.
type told struct {
	lock, owner, mode   string
	token, first, count int64
	left                int64 // Milliseconds; -1: it has no limit.
	asOf                int64 // The state that the report is about.
}

func toldOf(value any) (told, bool) {
	from := asMap(value)
	t := told{lock: asText(from["lock"]), owner: asText(from["owner"]),
		mode: asText(from["mode"]), token: asInt(from["token"]),
		first: asInt(from["first"]), left: -1}
	var isCounted, isDated bool
	t.count, isCounted = from["count"].(int64)
	t.asOf, isDated = from["as_of"].(int64)
	if limit, isLimited := from["hold_left_ms"].(int64); isLimited {
		t.left = limit
	} else if from["hold_left_ms"] != nil {
		return t, false
	}
	return t, isCounted && isDated && t.first > 0 && t.first <= t.token && t.count >= 0
}

// toldAll parses the answer to a request for locks; nil: it is malformed.
func toldAll(reply any) []told {
	list, isList := reply.([]any)
	if !isList {
		list = []any{reply}
	}
	var all []told
	for _, one := range list {
		t, ok := toldOf(one)
		if !ok {
			return nil
		}
		all = append(all, t)
	}
	return all
}

// is reports whether the part is the hold described by the message.
func (t *told) is(p *part) bool {
	return p.name == t.lock && t.first <= p.token && p.token <= t.token
}

// A verdict is the result of a request for a lock.
type verdict int

const (
	isNothing verdict = iota // Nothing was granted.
	isGranted
	isOver  // It was granted, and is over by now.
	isStale // The request must be sent again, under its number.
)

// limitOf returns the smallest limit of several holds, 0: none has one.
// isStale: by that answer, the limit of a hold is over.
func limitOf(all []told, sent reading) (limit int64, what verdict) {
	what = isGranted
	for _, one := range all {
		switch {
		case one.left < 0:
			continue
		case one.count > 0 && holdRemaining(sent, one.left, clockNow()) == 0:
			what = isStale
		case limit == 0 || one.left < limit:
			limit = one.left
		}
	}
	return limit, what
}

// granted begins the trust in a grant, by the answer to the request sent then.
// A hold that is over by that answer was held, and is lost. isAgain: another
// answer also had a limit that was over, so the hold is over.
func (l *Lock) granted(reported *acquisition, all []told, sent reading,
	isAgain bool) verdict {
	limit, what := limitOf(all, sent)
	if what == isStale && !isAgain {
		return what
	}
	g := &grant{since: sent, limit: limit, isOver: what == isStale,
		reported: reported}
	for i, one := range all {
		g.parts = append(g.parts, part{name: l.names[i], token: one.token,
			first: one.first, asOf: one.asOf, isOver: one.count == 0,
			isFirst: one.count == 1})
		g.shared = g.shared || one.mode == "shared"
		g.isOver = g.isOver || one.count == 0
	}
	s := l.session
	l.mu.Lock()
	l.grants = append(l.grants, g)
	l.mu.Unlock()
	// The order matters: first the grant becomes visible to notices of ends,
	// then it is checked against notices that are newer than the answer.
	s.mu.Lock()
	s.holds[l] = true
	isOld := false
	for _, one := range all {
		isOld = isOld || one.asOf < s.newest
	}
	s.mu.Unlock()
	if isOld {
		l.forgetGrant(g)
		return isStale
	}
	reported.granted(all[0].token)
	l.mu.Lock()
	if !l.hasGrant(g) { // It was released meanwhile, before it was reported.
		reported.released()
	}
	l.mu.Unlock()
	if !l.supersedes(g) || g.isOver {
		l.lostAtOnce(g)
	}
	l.believe()
	if l.Remaining() == 0 {
		l.doubt()
	}
	return isGranted
}

// lostAtOnce reports a hold that ended before its grant was received.
func (l *Lock) lostAtOnce(g *grant) {
	l.mu.Lock()
	g.isOver = true
	event := Event{EventLost, g.parts[0].name, g.parts[0].token, "ended"}
	for _, p := range g.parts {
		if p.isOver {
			event.Lock, event.Token = p.name, p.token
		}
	}
	g.reported.lost(event.Text)
	l.mu.Unlock()
	l.session.emit(event)
}

// supersedes ends holds of the same owner whose tokens this grant replaces.
// False: a newer grant that is known has replaced this one.
func (l *Lock) supersedes(g *grant) bool {
	isNewest := true
	for i, own := range append([]part(nil), g.parts...) {
		isOver := false
		now := told{lock: own.name, owner: l.owner, token: own.token, first: own.first}
		l.session.eachHold(func(other *Lock) {
			for token := range other.endsBefore(&now) {
				l.session.emit(Event{EventLost, own.name, token, "ended"})
			}
			isOver = isOver || other.hasNewer(&now)
		})
		if isOver {
			l.mu.Lock()
			g.parts[i].isOver = true
			l.mu.Unlock()
			isNewest = false
		}
	}
	return isNewest
}

// endsBefore ends the parts of that lock and owner that have older tokens.
func (l *Lock) endsBefore(t *told) map[int64]bool {
	return l.endWhere(t.owner, func(p *part) bool {
		return p.name == t.lock && p.token < t.first
	}, "ended")
}

func (l *Lock) hasNewer(t *told) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.grants {
		for _, p := range g.parts {
			if l.owner == t.owner && p.name == t.lock && p.first > t.token {
				return true
			}
		}
	}
	return false
}

// endWhere ends the parts of that owner for which is returns true. It returns
// the tokens that were trusted.
func (l *Lock) endWhere(owner string, is func(*part) bool,
	why string) map[int64]bool {
	if l.owner != owner {
		return nil
	}
	tokens := map[int64]bool{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.grants {
		for i := range g.parts {
			if p := &g.parts[i]; !p.isOver && is(p) {
				if !g.isOver {
					tokens[p.token] = true
				}
				p.isOver, g.isOver = true, true
				g.reported.lost(why)
			}
		}
	}
	if g := l.top(); g != nil && g.isOver {
		l.drop()
	}
	return tokens
}

// converted is like granted, for a conversion: an owner has one hold, shared by
// all its grants and Lock objects.
func (l *Lock) converted(now told, sent reading, isAgain bool) verdict {
	limit, what := limitOf([]told{now}, sent)
	if what == isStale && isAgain {
		what = isOver
	}
	if now.count == 0 {
		what = isOver
	}
	s := l.session
	s.mu.Lock()
	if now.asOf < s.newest && what == isGranted {
		what = isStale
	}
	s.mu.Unlock()
	if what == isGranted {
		s.eachHold(func(other *Lock) { other.convertedBy(&now) })
		l.prolong(&now, limit, sent)
	} else if what == isOver {
		s.eachHold(func(other *Lock) {
			other.endWhere(l.owner, func(p *part) bool { return now.is(p) }, "ended")
		})
	}
	return what
}

func (l *Lock) convertedBy(now *told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.grants {
		for i := range g.parts {
			if p := &g.parts[i]; l.owner == now.owner && now.is(p) && !p.isOver {
				p.token, p.asOf = now.token, maxOf(p.asOf, now.asOf)
				g.shared = now.mode == "shared"
			}
		}
	}
}

// prolong restarts the limit: an upgrade begins it again.
func (l *Lock) prolong(now *told, limit int64, sent reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.top(); g != nil && now.is(&g.parts[0]) {
		g.limit, g.since = limit, sent
		l.armLimit()
	}
}

// top returns the grant that is trusted. The caller has mu.
func (l *Lock) top() *grant {
	if len(l.grants) == 0 {
		return nil
	}
	return l.grants[len(l.grants)-1]
}

// forget ends the trust in the newest grant, and returns it; nil: there was
// none. It also reports whether it was the last one.
func (l *Lock) forget() (was *grant, isLast bool) {
	l.mu.Lock()
	was = l.top()
	if was != nil {
		l.grants = l.grants[:len(l.grants)-1]
	}
	l.mu.Unlock()
	if was == nil {
		return nil, false
	}
	return was, l.forgetGrant(was)
}

// forgetGrant reports whether it was the last grant.
func (l *Lock) forgetGrant(g *grant) bool {
	g.reported.released() // Unless it was lost, or not reported as granted.
	l.mu.Lock()
	for i := range l.grants {
		if l.grants[i] == g {
			l.grants = append(l.grants[:i:i], l.grants[i+1:]...)
			break
		}
	}
	top := l.top()
	if top == nil {
		l.session.mu.Lock()
		delete(l.session.holds, l)
		l.session.mu.Unlock()
	}
	if l.over != nil {
		l.over.Stop()
	}
	if top == nil || top.isOver {
		l.drop()
	}
	l.mu.Unlock()
	l.believe() // Trust continues with the grant from before.
	return top == nil
}

// --- belief ------------------------------------------------------------------

// Token returns the fencing token of the hold, 0 if nothing is held. It grows with
// each grant of the lock: the store you write to must refuse a smaller one.
func (l *Lock) Token() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.top(); g != nil {
		return g.parts[0].token
	}
	return 0
}

// Tokens returns the tokens of several locks, in the order of their names.
func (l *Lock) Tokens() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tokens []int64
	if g := l.top(); g != nil {
		for _, p := range g.parts {
			tokens = append(tokens, p.token)
		}
	}
	return tokens
}

// Names returns the names of the lock, or locks.
func (l *Lock) Names() []string { return append([]string(nil), l.names...) }

// IsShared reports whether the hold is shared; Upgrade and Downgrade change it.
func (l *Lock) IsShared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.top()
	return g != nil && g.shared
}

// Remaining returns for how long the hold can be trusted; 0 if it cannot.
func (l *Lock) Remaining() time.Duration {
	now := clockNow()
	left := l.session.lease.remaining(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.top()
	if g == nil || g.isOver {
		return 0
	}
	if g.limit != 0 {
		if limited := holdRemaining(g.since, g.limit, now); limited < left {
			left = limited
		}
	}
	return time.Duration(left)
}

// Guard returns nil if a step of length need ends within the lease. Otherwise it
// returns ErrShort, also while the session is in jeopardy, or ErrLost if the lock
// is not held or no longer held. Call it before each step that must not outlive
// the lock. It sends no request.
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
	if len(l.grants) > 0 {
		return fmt.Errorf("hasp: %w: %q was taken away, or its hold time is over",
			ErrLost, l.names)
	}
	return fmt.Errorf("hasp: %w: %q is not held", ErrLost, l.names)
}

// never returns an addition to the error if no Guard of that length can pass.
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

// mayRecover reports whether a hold that is not trusted now can be held again.
func (l *Lock) mayRecover() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.top()
	return g != nil && !g.isOver && l.session.State() == Jeopardy &&
		(g.limit == 0 || holdRemaining(g.since, g.limit, clockNow()) > 0)
}

// Context returns a context that is done when the hold ends: by Unlock, at the end
// of the lease or of the hold time, or because the lock was taken away. It is also
// done when the session is in jeopardy, since others might hold the lock soon. Work
// that cannot be stopped must also call Guard: a paused process learns too late.
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

// believe starts the context of Context: at the grant, and after each jeopardy.
func (l *Lock) believe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.top()
	if g == nil || g.isOver {
		return
	}
	if l.held.Err() != nil && l.session.State() == Held {
		l.held, l.drop = context.WithCancel(context.Background())
	}
	l.armLimit()
}

// armLimit makes a timer report the end of a limited hold. The caller has mu.
func (l *Lock) armLimit() {
	if l.over != nil {
		l.over.Stop()
	}
	if g := l.top(); g != nil && g.limit != 0 && !g.isOver {
		left := holdRemaining(g.since, g.limit, clockNow())
		l.over = time.AfterFunc(time.Duration(left), l.limitOver)
	}
}

// limitOver ends a hold whose time limit has passed by the local clock: the
// cluster reports that too late.
func (l *Lock) limitOver() {
	l.mu.Lock()
	g := l.top()
	if g == nil || g.isOver || g.limit == 0 {
		l.mu.Unlock()
		return
	}
	// The timer was for another grant.
	if holdRemaining(g.since, g.limit, clockNow()) > 0 {
		l.armLimit()
		l.mu.Unlock()
		return
	}
	g.isOver = true // The cluster might still hold it: it will be released.
	g.reported.lost("max hold")
	l.drop()
	event := Event{EventLost, l.names[0], g.parts[0].token, "max hold"}
	l.mu.Unlock()
	if l.session.State() != Lost && !l.session.isClosed() {
		l.session.emit(event)
	}
}

// doubt ends the context of Context.
func (l *Lock) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
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

// holdEnded handles the report that the cluster has ended a hold.
func (s *Session) holdEnded(notice map[string]any) {
	now := told{lock: asText(notice["lock"]), owner: asText(notice["owner"]),
		token: asInt(notice["token"]), first: asInt(notice["first"])}
	ended := map[int64]bool{} // By their original tokens.
	s.eachHold(func(l *Lock) {
		for token := range l.endWhere(now.owner,
			func(p *part) bool { return now.is(p) }, asText(notice["reason"])) {
			ended[token] = true
		}
	})
	for token := range ended {
		s.emit(Event{EventLost, now.lock, token, asText(notice["reason"])})
	}
}

// --- notices -----------------------------------------------------------------

// heard handles the notices in a heartbeat's answer. If the cluster dropped notices
// before they were read, all holds are listed, and those missing in the list have
// ended. Until that is done the next heartbeats ask for the same notices.
func (s *Session) heard(answer map[string]any) {
	dropped := asInt(answer["dropped"])
	newest := int64(0)
	notices := asList(answer["ended"])
	for _, one := range notices {
		if number := asInt(asMap(one)["number"]); number > newest {
			newest = number
		}
	}
	s.mu.Lock()
	// Before the holds are read: see granted.
	s.newest = maxOf(s.newest, newest, dropped)
	isIncomplete := dropped > s.seen && len(s.holds) > 0
	if !isIncomplete {
		s.seen = s.newest
	}
	mayList := isIncomplete && !s.isListing
	s.isListing = s.isListing || mayList
	s.mu.Unlock()
	for _, one := range notices {
		s.holdEnded(asMap(one))
	}
	if mayList {
		go s.confirm(dropped, maxOf(newest, dropped))
	}
}

func maxOf(first int64, others ...int64) int64 {
	for _, one := range others {
		if one > first {
			first = one
		}
	}
	return first
}

// confirm ends the holds that are missing in the list of the session's holds,
// except those granted after the last dropped notice. 'seen' is the newest notice
// before the list was read.
func (s *Session) confirm(dropped, seen int64) {
	all, err := s.listHolds()
	s.mu.Lock()
	s.isListing = false
	if err == nil {
		s.seen = maxOf(s.seen, seen)
	}
	s.mu.Unlock()
	if err != nil {
		return // The next heartbeat starts it again.
	}
	ended := map[part]bool{}
	s.eachHold(func(l *Lock) {
		for name, tokens := range l.endUnlisted(all, dropped) {
			for token := range tokens {
				ended[part{name: name, token: token}] = true
			}
		}
	})
	for one := range ended {
		s.emit(Event{EventLost, one.name, one.token, "ended"})
	}
}

// listHolds returns the session's holds by lock.
func (s *Session) listHolds() (map[string][]told, error) {
	all := map[string][]told{}
	words := []string{"SESSION.HOLDS", "COUNT", "1000"}
	for cursor := "0"; ; {
		page := append([]string(nil), words...)
		if cursor != "0" {
			page = append(page, "CURSOR", cursor)
		}
		reply, err := s.question(s.over, s.acting(page...)...)
		if err != nil {
			return nil, err
		}
		from := asMap(reply)
		for _, one := range asList(from["holds"]) {
			if t, ok := toldOf(one); ok {
				all[t.lock] = append(all[t.lock], t)
			}
		}
		if cursor = asText(from["cursor"]); cursor == "0" {
			return all, nil
		} else if cursor == "" {
			return nil, errProtocol
		}
	}
}

// endUnlisted returns the tokens of the holds that ended, by lock name.
func (l *Lock) endUnlisted(all map[string][]told, dropped int64) map[string]map[int64]bool {
	ended := map[string]map[int64]bool{}
	for _, name := range l.names {
		tokens := l.endWhere(l.owner, func(p *part) bool {
			if p.name != name || p.asOf >= dropped {
				return false
			}
			for i := range all[name] {
				if t := &all[name][i]; t.owner == l.owner && t.is(p) {
					p.asOf = maxOf(p.asOf, t.asOf)
					return false
				}
			}
			return true
		}, "ended")
		ended[name] = tokens
	}
	return ended
}
