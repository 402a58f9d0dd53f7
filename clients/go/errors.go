// SPDX-License-Identifier: MIT

package hasp

import (
	"errors"
	"fmt"
	"strings"
)

// The errors of this package match one of these with errors.Is().
var (
	// ErrLost: the session has ended, or its lease has run out. Stop what the
	// locks protect, and open a new session.
	ErrLost = errors.New("the lease is lost")
	// ErrShort: the lease ends before the step would.
	ErrShort = errors.New("the lease is too short")
	// ErrSeal: OnGrant failed or took too long, so the lock was given back. The
	// error wraps that of OnGrant.
	ErrSeal = errors.New("the lock was not sealed")
	// ErrNotHeld: the lock is not held.
	ErrNotHeld = errors.New("the lock is not held")
	// ErrUnknown: no answer came in time, so the request might have been done.
	// The session finds out in the background and releases unwanted grants.
	ErrUnknown = errors.New("no answer in time, it may have been done")
	// ErrUnreachable: no node could do it; nothing was done.
	ErrUnreachable = errors.New("no node could do it")
	// ErrRefused: the cluster refused the request; the text has the reason.
	// Nothing was done.
	ErrRefused = errors.New("refused")
	// ErrClosed: this program closed the session.
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

// judge is like the function of this name. For a durable session BLACKLISTED is
// the end, since it has no lease that could expire first.
func (s *Session) judge(reply *replyError) error {
	if reply.word == "BLACKLISTED" && s.lease.hasNoEnd() {
		return &Error{reply.word, reply.text, ErrLost}
	}
	return judge(reply)
}

// isEndOfSession is true if this answer to ATTACH ends the session.
func isEndOfSession(reply *replyError) bool {
	return reply.word == "BLACKLISTED" || errors.Is(judge(reply), ErrLost)
}

// isFullConnection is true if the connection has no room for another session.
func isFullConnection(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Word == "LIMIT" &&
		strings.HasPrefix(e.Text, "sessions of a connection")
}

// isNoLeader is true if this node knows no leader.
func isNoLeader(reply *replyError) bool {
	return reply.word == "NOLEADER" || reply.word == "MOVED"
}

// isToBeRepeated is true if this attempt did nothing, or its outcome is unknown.
func isToBeRepeated(reply *replyError, doubtful bool) bool {
	return errors.Is(judge(reply), ErrUnreachable) || reply.word == "UNKNOWN" ||
		doubtful && isOpenStill(reply)
}

// isOpenStill is true if the refusal concerns only this attempt: the client's
// credentials, or a full disk of the leader. An earlier attempt might still be in
// flight.
func isOpenStill(reply *replyError) bool {
	return isOfAsker(reply) ||
		reply.word == "LIMIT" && strings.HasPrefix(reply.text, "disk")
}

// isForgotten is true if the cluster no longer has the result of that request.
func isForgotten(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Word == "FORGOTTEN"
}

// isOfAsker is true if the refusal concerns the client's credentials.
func isOfAsker(reply *replyError) bool {
	switch reply.word {
	case "NOAUTH", "WRONGPASS", "NOTLS":
		return true
	}
	return false
}
