// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"math/rand"
	"strconv"
	"time"
)

const (
	patienceMin = 50 * time.Millisecond // Limit for an answer, for any lease.
	// Minimum interval between checks of a lease.
	lookMin = 20 * time.Millisecond
)

// patienceOf returns how long a heartbeat of that lease may remain unanswered.
func patienceOf(l *lease) time.Duration {
	if period := l.period(); period > patienceMin {
		return period
	}
	return patienceMin
}

// look reports changes of the lease by the clock or by an answer, even while a
// heartbeat waits.
func (s *Session) look() {
	defer s.waitGroup.Done()
	defer s.finish()
	events := s.startEvents()
	defer close(events)
	for told := Held; ; {
		if told = s.tellNews(told); told == Lost {
			return
		}
		wait := s.Remaining()
		if wait < lookMin {
			wait = lookMin
		}
		select {
		case <-s.over.Done():
			s.lease.refused()
			s.tellNews(told)
			return
		case <-s.news:
		case <-time.After(wait):
		}
	}
}

// keep sends heartbeats, one of them as soon as a connection is lost: it is the
// first request of the session to the next node.
func (s *Session) keep() {
	defer s.waitGroup.Done()
	var gone chan struct{}
	for wait := s.lease.period() / 5; ; {
		select {
		case <-s.over.Done():
			return
		case <-gone:
		case <-time.After(wait):
		}
		gone, wait = nil, s.lease.period()
		switch {
		case s.isClosed():
			return
		case !s.isEarned():
			s.note("the program has not called Alive in time")
		default:
			if gone = s.beat(); gone == nil {
				wait = time.Duration(20+rand.Intn(180)) * time.Millisecond
			}
		}
		s.wake()
	}
}

// wake triggers a check in look.
func (s *Session) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// beat sends a heartbeat and handles its answer. It returns the channel that
// closes when that connection ends; nil: the heartbeat failed.
func (s *Session) beat() chan struct{} {
	patience := patienceOf(&s.lease)
	ctx, cancel := context.WithTimeout(s.over, 2*patience)
	defer cancel()
	// It carries the secret, so it need not wait for ATTACH.
	a := &ask{session: s, patience: patience, isUrgent: true, isApart: true,
		words: []string{"SESSION.KEEP", s.idText(), s.secret, "FULL",
			"AFTER", strconv.FormatInt(s.seenNow(), 10)}, fits: isLease}
	reply, err := s.link.do(ctx, a)
	if refusal, ok := reply.(*replyError); ok {
		err = s.judge(refusal)
		s.note(err.Error())
	} else if err != nil {
		s.note("")
	}
	if errors.Is(err, ErrLost) {
		s.lose(err)
	}
	if err != nil {
		return nil
	}
	s.answered(reply, a.sent)
	s.heard(asMap(reply))
	return a.line.gone
}

func (s *Session) seenNow() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// lose handles the answer that the session has ended.
func (s *Session) lose(why error) {
	s.note(why.Error())
	s.lease.refused()
	s.end()
}

func (s *Session) note(reason string) {
	s.mu.Lock()
	s.reason = reason
	s.mu.Unlock()
}

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Session) isEarned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Alive == 0 ||
		time.Duration(s.aliveAt.age(clockNow())) <= s.options.Alive
}

// tellNews reports a change of the state by the clock or an answer, and returns
// it.
func (s *Session) tellNews(told State) State {
	state := s.State()
	if state == told {
		return state
	}
	if state == Held {
		s.eachHold((*Lock).believe)
	} else {
		s.eachHold((*Lock).doubt)
	}
	s.mu.Lock()
	reason, closed := s.reason, s.closed
	s.mu.Unlock()
	if why := s.link.failure(); reason == "" && why != nil {
		reason = why.Error()
	}
	switch {
	case closed:
	case state == Held:
		s.emit(Event{Kind: EventSafe})
	case state == Jeopardy:
		s.emit(Event{Kind: EventJeopardy, Text: reason})
	default:
		s.emit(Event{Kind: EventLost, Text: orRunOut(reason)})
		s.endHolds(func(a *acquisition) { a.lost(orRunOut(reason)) })
	}
	return state
}

// finish notifies all waiters that the session is over.
func (s *Session) finish() {
	s.end()
	s.mu.Lock()
	isClosing := s.closing
	s.mu.Unlock()
	if !isClosing {
		s.quit()
	}
}

// pushed handles a push from a node.
func (s *Session) pushed(kind string, told map[string]any) {
	switch kind {
	case "please", "breaking":
		s.emit(Event{EventPlease, asText(told["lock"]), asInt(told["token"]),
			asText(told["message"])})
	case "answer":
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.waits {
			if c.lock.owner == asText(told["owner"]) {
				c.notify(asInt(told["wait"]), asList(told["grants"]))
			}
		}
	}
}

// --- events ------------------------------------------------------------------

// emit never blocks and drops nothing: a slow handler gets its events later.
func (s *Session) emit(event Event) {
	if s.options.OnEvent == nil {
		return
	}
	s.mu.Lock()
	s.pending = append(s.pending, event)
	s.mu.Unlock()
	select {
	case s.eventWake <- struct{}{}:
	default:
	}
}

// tellEvent calls OnEvent. A handler that calls Goexit, like a failing test,
// does not prevent later events.
func (s *Session) tellEvent(event Event) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.options.OnEvent(event)
	}()
	<-done
}

// startEvents starts the goroutine that calls OnEvent. Closing the returned
// channel ends it after all events are delivered.
func (s *Session) startEvents() chan struct{} {
	end := make(chan struct{})
	s.waitGroup.Add(1)
	go func() {
		defer s.waitGroup.Done()
		for isOver := false; !isOver; {
			select {
			case <-s.eventWake:
			case <-end:
				isOver = true
			}
			s.mu.Lock()
			pending := s.pending
			s.pending = nil
			s.mu.Unlock()
			for _, event := range pending {
				s.tellEvent(event)
			}
		}
	}()
	return end
}
