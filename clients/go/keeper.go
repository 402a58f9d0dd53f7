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
	patienceMin = 50 * time.Millisecond // For an answer, however short the lease.
	lookMin     = 20 * time.Millisecond // Between two looks at a lease.
)

// patienceOf is how long a heartbeat of that lease may go without its answer.
func patienceOf(l *lease) time.Duration {
	if period := l.period(); period > patienceMin {
		return period
	}
	return patienceMin
}

// look tells what the clock, or an answer, has changed, whatever the heartbeats
// wait for meanwhile.
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

// keep sends heartbeats, and one as soon as a connection is lost: the first that
// the next node hears of the session.
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

// wake makes look look.
func (s *Session) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// beat sends a heartbeat and takes its answer. It gives what tells of the end of
// that connection; nil: it failed.
func (s *Session) beat() chan struct{} {
	patience := patienceOf(&s.lease)
	ctx, cancel := context.WithTimeout(s.over, 2*patience)
	defer cancel()
	// By its secret: it waits for no attachment.
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

// lose: the cluster says that the session has ended.
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

// tellNews tells what the clock, or an answer, has changed, and gives it.
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
	}
	return state
}

// finish: whoever waits learns that the session is over.
func (s *Session) finish() {
	s.end()
	s.mu.Lock()
	isClosing := s.closing
	s.mu.Unlock()
	if !isClosing {
		s.quit()
	}
}

// pushed is told what a node says unasked.
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
				c.tell(asInt(told["wait"]), asList(told["grants"]))
			}
		}
	}
}

// --- events ------------------------------------------------------------------

// emit never blocks and drops nothing: a handler that is slow has its events
// later.
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

// tellEvent calls OnEvent. One that calls Goexit, as a test does that fails, ends
// no other event.
func (s *Session) tellEvent(event Event) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.options.OnEvent(event)
	}()
	<-done
}

// startEvents starts the goroutine that calls OnEvent; closing what it gives
// ends it when all has been told.
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
