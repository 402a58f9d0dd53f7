// SPDX-License-Identifier: MIT

package hasp

import (
	"errors"
	"fmt"
	"strings"
)

// What errors.Is() finds in the errors of this package.
var (
	// ErrLost: the session has ended, or its lease has run out. Stop what the
	// locks protect, and open a new session.
	ErrLost = errors.New("the lease is lost")
	// ErrShort: the lease does not last for what is to be done.
	ErrShort = errors.New("the lease is too short")
	// ErrNotHeld: the lock is not held.
	ErrNotHeld = errors.New("the lock is not held")
	// ErrUnknown: no answer came in time; it may or may not have been done. The
	// session finds out by itself and gives back what nobody waits for.
	ErrUnknown = errors.New("it may or may not have been done")
	// ErrUnreachable: no node could do it; nothing was done.
	ErrUnreachable = errors.New("no node could do it")
	// ErrRefused: the cluster refuses; the text says why. Nothing was done.
	ErrRefused = errors.New("refused")
	// ErrClosed: the session was closed by this program.
	ErrClosed = errors.New("the session is closed")
)

// Error is a refusal of the cluster. Word is the first word of the answer
// (docs/protocol.md has them all), for programs; Text is for people.
type Error struct {
	Word, Text string
	kind       error
}

func (e *Error) Error() string { return fmt.Sprintf("hasp: %s %s", e.Word, e.Text) }

// Unwrap gives one of the errors above.
func (e *Error) Unwrap() error { return e.kind }

func judge(reply *replyError) error {
	kind := ErrRefused
	switch reply.word {
	case "EXPIRED", "NOSESSION":
		kind = ErrLost
	case "NOTHELD":
		kind = ErrNotHeld
	case "UNKNOWN", "FORGOTTEN":
		kind = ErrUnknown
	case "NOLEADER", "BUSY", "MOVED":
		kind = ErrUnreachable
	}
	return &Error{reply.word, reply.text, kind}
}

// judge: of a session without end, which has no lease to wait for, the blacklist
// is the end.
func (s *Session) judge(reply *replyError) error {
	if reply.word == "BLACKLISTED" && s.lease.hasNoEnd() {
		return &Error{reply.word, reply.text, ErrLost}
	}
	return judge(reply)
}

// isEndOfSession: what a node says to ATTACH.
func isEndOfSession(reply *replyError) bool {
	return reply.word == "BLACKLISTED" || errors.Is(judge(reply), ErrLost)
}

// isFullConnection: a node takes no more sessions on that connection.
func isFullConnection(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Word == "LIMIT" &&
		strings.HasPrefix(e.Text, "sessions of a connection")
}

// isNoLeader: that node can do nothing.
func isNoLeader(reply *replyError) bool {
	return reply.word == "NOLEADER" || reply.word == "MOVED"
}

// isToBeRepeated: nothing was done by this sending, or nobody knows.
func isToBeRepeated(reply *replyError, doubtful bool) bool {
	return errors.Is(judge(reply), ErrUnreachable) || reply.word == "UNKNOWN" ||
		doubtful && isOpenStill(reply)
}

// isOpenStill: what is told of who asks, or that the leader has no room on its
// disk, is no result. It says nothing of an earlier sending, which may be on its
// way still.
func isOpenStill(reply *replyError) bool {
	return isOfAsker(reply) ||
		reply.word == "LIMIT" && strings.HasPrefix(reply.text, "disk")
}

// isForgotten: the cluster knows nothing of that number any more.
func isForgotten(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Word == "FORGOTTEN"
}

// isOfAsker: it is told of who asks.
func isOfAsker(reply *replyError) bool {
	switch reply.word {
	case "NOAUTH", "WRONGPASS", "NOTLS":
		return true
	}
	return false
}
