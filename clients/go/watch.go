// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"time"
)

// A Change of a lock: docs/protocol.md, section 9. Kind "" comes first and after
// each gap: read the locks again (Show), since changes might have been missed.
type Change struct {
	Kind           string
	Lock           string
	Session, Token int64
	Index          int64 // In the cluster's log; it grows.
	Message        string
}

// Watch reports each change of the locks whose names begin with prefix, until ctx
// is done, the session has ended, or the cluster refuses (ErrRefused); it returns
// the reason. If a node fails it continues at another one.
func (s *Session) Watch(ctx context.Context, prefix string, tell func(Change)) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan push, 64)
	// A slow listener gets no further pushes.
	own := newLink(s.link.where, func(event push) {
		select {
		case events <- event:
		case <-asking.Done():
		}
	})
	defer own.close()
	go func() {
		select {
		case <-s.over.Done():
			cancel()
		case <-asking.Done():
		}
	}()
	for {
		if s.State() == Lost {
			return s.whyLost()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		a := &ask{words: []string{"LOCK.WATCH", prefix}}
		reply, err := own.do(asking, a)
		refusal, isRefusal := reply.(*replyError)
		if isRefusal && !isToBeRepeated(refusal, false) {
			return s.judge(refusal)
		}
		if err == nil && !isRefusal {
			s.hear(asking, own, a.line.gone, events, tell)
		}
		pause(asking, 1)
	}
}

// hear reports the pushes of a connection that watches, until it is lost.
func (s *Session) hear(ctx context.Context, own *link, gone chan struct{},
	events chan push, tell func(Change)) {
	for len(events) > 0 { // They are older than the state that is read now.
		<-events
	}
	tell(Change{})
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			return
		case event := <-events:
			tell(changeOf(event))
		case <-time.After(watchSilence):
			// This detects a dead node.
			own.begin(&ask{words: []string{"PING"}})
		}
	}
}

// changeOf parses an event; a gap is Kind "": the node itself has missed some.
func changeOf(event push) Change {
	if len(event) < 3 || asText(event[1]) == "gap" {
		return Change{}
	}
	told := asMap(event[2])
	return Change{asText(event[1]), asText(told["lock"]), asInt(told["session"]),
		asInt(told["token"]), asInt(told["index"]), asText(told["message"])}
}

const watchSilence = 2 * time.Second
