// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"time"
)

// A Change is what a node tells of a lock: docs/protocol.md, section 9. Kind ""
// comes first, and after each gap: what the locks are now must be looked up
// (Show), since events may have been missed.
type Change struct {
	Kind           string
	Lock           string
	Session, Token int64
	Index          int64 // In the cluster's log; it grows.
	Message        string
}

// Watch tells each change of the locks whose names begin with prefix, until ctx
// is done or the session has ended; it gives the reason. When a node is lost it
// goes on at another one.
func (s *Session) Watch(ctx context.Context, prefix string, tell func(Change)) error {
	for turn := s.nodes.firstTurn(); ; turn++ {
		if err := s.mayAsk(ctx); err != nil {
			return err
		}
		s.watchAt(ctx, turn, prefix, tell)
		pause(ctx, 1)
	}
}

func (s *Session) watchAt(ctx context.Context, turn int, prefix string, tell func(Change)) {
	until := time.Now().Add(connectTimeout)
	c, err := dial(s.nodes.endpoint(turn), s.nodes.secure,
		s.nodes.greeting, until)
	if err != nil {
		return
	}
	reply, err := c.ask(until, "LOCK.WATCH", prefix)
	if _, refused := reply.(*replyError); err != nil || refused {
		c.close()
		return
	}
	tell(Change{})
	c.onPush = func(event push) {
		if len(event) < 3 {
			return
		}
		if asText(event[1]) == "gap" { // The node itself has missed some.
			tell(Change{})
			return
		}
		told := asMap(event[2])
		tell(Change{asText(event[1]), asText(told["lock"]), asInt(told["session"]),
			asInt(told["token"]), asInt(told["index"]), asText(told["message"])})
	}
	l := listen(c)
	defer l.hangUp()
	for ctx.Err() == nil && s.over.Err() == nil {
		// A question now and then tells a silent node from a dead one.
		select {
		case <-ctx.Done():
			return
		case <-s.over.Done():
			return
		case <-l.replies:
			return
		case <-time.After(watchSilence):
		}
		if _, err := l.ask(time.Now().Add(answerTimeout), "PING"); err != nil {
			return
		}
	}
}

const watchSilence = 2 * time.Second
