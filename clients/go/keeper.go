// SPDX-License-Identifier: MIT

package hasp

import (
	"errors"
	"fmt"
	"math/rand"
	"time"
)

const (
	patienceMin = 50 * time.Millisecond // For an answer, however short the lease.
	lookMin     = 20 * time.Millisecond // Between two looks at a lease.
)

// An answer to what was asked on a line, or the line's end.
type answer struct {
	reply any
	err   error
}

// A line is a connection on which events may come at any time: a goroutine reads
// them, and the answers.
type line struct {
	conn    *conn
	replies chan answer
}

func listen(c *conn) *line {
	l := &line{c, make(chan answer, 1)}
	c.net.SetDeadline(time.Time{})
	go func() {
		for {
			reply, err := c.receive()
			l.replies <- answer{reply, err}
			if err != nil {
				return
			}
		}
	}()
	return l
}

var errNoAnswer = errors.New("no answer in time")

// ask is conn.ask. After an error the line is only hung up.
func (l *line) ask(until time.Time, words ...string) (any, error) {
	l.conn.net.SetWriteDeadline(until)
	if _, err := l.conn.net.Write(appendRequest(nil, words)); err != nil {
		return nil, err
	}
	select {
	case a := <-l.replies:
		if a.err != nil {
			l.replies <- a // For hangUp.
		}
		return a.reply, a.err
	case <-time.After(time.Until(until)):
		return nil, errNoAnswer
	}
}

// hangUp closes the connection, and waits for nothing.
func (l *line) hangUp() {
	l.conn.close()
	go func() {
		for a := range l.replies {
			if a.err != nil {
				return
			}
		}
	}()
}

func (s *Session) newLine(turn int, until time.Time) (*line, error) {
	c, err := dial(s.nodes.endpoint(turn), s.nodes.secure,
		s.nodes.greeting, until)
	if err != nil {
		return nil, err
	}
	if err := s.attach(c, until); err != nil {
		c.close()
		return nil, err
	}
	c.onPush = s.pushed
	return listen(c), nil
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

// keep sends heartbeats on a connection of its own. The first one comes early:
// only then the node knows where to send what is for this session.
func (s *Session) keep() {
	defer s.waitGroup.Done()
	var keeper *line
	hangUp := func() {
		if keeper != nil {
			keeper.hangUp()
		}
		keeper = nil
	}
	defer hangUp()
	turn, wait := s.nodes.firstTurn(), s.lease.period()/5
	for {
		var failed <-chan answer
		if keeper != nil {
			failed = keeper.replies
		}
		select {
		case <-s.over.Done():
			return
		case a := <-failed: // Nothing was asked: it is the connection's end.
			keeper.replies <- a
			hangUp()
			turn++
		case <-time.After(wait):
		}
		wait = s.lease.period()
		if !s.isEarned() {
			s.note("the program has not called Alive in time")
		} else if keeper = s.beat(keeper, turn); keeper == nil {
			turn++
			wait = time.Duration(20+rand.Intn(180)) * time.Millisecond
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

// beat sends a heartbeat and takes its answer; nil: it failed, or the
// connection did.
func (s *Session) beat(keeper *line, turn int) *line {
	patience := s.lease.period()
	if patience < patienceMin {
		patience = patienceMin
	}
	endpoint := s.nodes.endpoint(turn)
	until := time.Now().Add(patience)
	if keeper == nil {
		var err error
		if keeper, err = s.newLine(turn, until); err != nil {
			s.failed(endpoint, err)
			return nil
		}
	}
	sent := clockNow()
	reply, err := keeper.ask(until, "SESSION.KEEP", "FULL")
	if refusal, ok := reply.(*replyError); ok {
		err = s.judge(refusal)
	}
	if err != nil {
		s.failed(endpoint, err)
		keeper.hangUp()
		return nil
	}
	s.answered(reply, sent)
	for _, ended := range asList(asMap(reply)["ended"]) {
		s.holdEnded(asMap(ended))
	}
	return keeper
}

func (s *Session) failed(endpoint string, err error) {
	if errors.Is(err, ErrLost) {
		s.lease.refused()
	}
	if err == errNoAnswer {
		s.nodes.suspect(endpoint)
	}
	s.note(fmt.Sprintf("%s: %v", endpoint, err))
}

func (s *Session) note(reason string) {
	s.mu.Lock()
	s.reason = reason
	s.mu.Unlock()
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
	switch {
	case closed:
	case state == Held:
		s.emit(Event{Kind: EventSafe})
	case state == Jeopardy:
		s.emit(Event{Kind: EventJeopardy, Text: reason})
	default:
		s.emit(Event{Kind: EventLost, Text: reason})
	}
	return state
}

// finish: whoever waits learns that the session is over.
func (s *Session) finish() {
	s.end()
	s.nodes.close()
}

func (s *Session) pushed(event push) {
	if len(event) < 3 || (event[1] != "please" && event[1] != "breaking") {
		return
	}
	told := asMap(event[2])
	s.emit(Event{EventPlease, asText(told["lock"]), asInt(told["token"]),
		asText(told["message"])})
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
				s.options.OnEvent(event)
			}
		}
	}()
	return end
}
