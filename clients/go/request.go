// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	defaultEndpoints = "127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440"
	// Limit for the answer to the last attempt.
	attemptMin = 250 * time.Millisecond
	socketWord = "unix:" // Before the path of a node's socket here.
)

func parseEndpoints(given []string) ([]string, error) {
	if len(given) == 0 {
		text := os.Getenv("HASP_ENDPOINTS")
		if text == "" {
			text = defaultEndpoints
		}
		given = strings.Split(text, ",")
	}
	var found []string
	for _, endpoint := range given {
		one, err := parseEndpoint(strings.TrimSpace(endpoint))
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// parseEndpoint refuses characters that no host name has, since they mean a
// URL, or a list with other commas. Two colons without brackets are an IPv6
// address alone.
func parseEndpoint(text string) (string, error) {
	if strings.HasPrefix(text, socketWord+"/") {
		return text, nil
	}
	whole := text
	if strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[") {
		whole = "[" + text + "]"
	}
	host, port, err := net.SplitHostPort(whole)
	if err != nil {
		host, port, err = net.SplitHostPort(whole + ":7420")
	}
	number, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || host == "" || number == 0 ||
		strings.ContainsAny(host, ",/;@[] \t\r\n") {
		return "", fmt.Errorf("%q is not an address of a node; write host:port, as in "+
			"127.0.0.1:7420", text)
	}
	return net.JoinHostPort(host, port), nil
}

// An attempt creates the request, again for each sending.
type attempt func() *ask

// once is the attempt of a request that does not change.
func once(words ...string) attempt {
	return func() *ask { return &ask{words: words} }
}

// acting returns words that name the session for which they act.
func (s *Session) acting(words ...string) []string {
	return append(words, "SESSION", s.idText())
}

// request repeats the request until it is answered, ctx is done, or the session
// has ended. Its error is exact: ErrUnreachable means that nothing was done,
// ErrUnknown that the outcome is not known.
func (s *Session) request(ctx context.Context, next attempt) (any, error) {
	return s.requestOn(ctx, s.link, next, false)
}

// requestOn is request on a link. doubtful: the request was sent before,
// under this number, so it might have been done.
func (s *Session) requestOn(ctx context.Context, l *link, next attempt,
	doubtful bool) (any, error) {
	last := errors.New("no node was asked")
	latest := latestOf(ctx)
	for round, nodes := 1, len(l.where.endpoints); ; round++ {
		a := next()
		a.session = s
		if s.State() == Lost && (!a.isLast || s.hasQuit.Load()) {
			return nil, s.whyLost()
		}
		if err := ctx.Err(); err != nil {
			return nil, &outcome{failure(doubtful), err, last}
		}
		if !doubtful {
			a.latest = latest
		}
		reply, err := l.do(ctx, a)
		refusal, isRefusal := reply.(*replyError)
		switch {
		case errors.Is(err, errTooLarge):
			return nil, &outcome{ErrUnknown, err, err}
		case err == errTooLate:
			return nil, &outcome{ErrUnreachable, context.DeadlineExceeded, last}
		case err != nil:
			doubtful = doubtful || a.line != nil
			last = err
			if why := l.failure(); why != nil {
				last = why
			}
		case !isRefusal:
			return reply, nil
		default:
			last = s.judge(refusal)
			doubtful = doubtful || refusal.word == "UNKNOWN"
			if !isToBeRepeated(refusal, doubtful) {
				if errors.Is(last, ErrLost) && a.isOfOther {
					return nil, &Error{refusal.word, refusal.text, ErrRefused}
				}
				if errors.Is(last, ErrLost) {
					s.lose(last)
				}
				return nil, last
			}
		}
		if round%nodes == 0 {
			pause(ctx, round/nodes)
		}
	}
}

// latestOf is the last moment to begin an attempt. A later one that gets no
// answer would turn a certain outcome, nothing was done, into an unknown one.
func latestOf(ctx context.Context) time.Time {
	until, ok := ctx.Deadline()
	if !ok {
		return until
	}
	margin := time.Until(until) / 4
	if margin > attemptMin {
		margin = attemptMin
	}
	return until.Add(-margin)
}

// whyLost is an ErrLost, and an ErrClosed if the program has closed the session.
func (s *Session) whyLost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &outcome{ErrLost, ErrClosed, errAnother}
	}
	return &outcome{ErrLost, errors.New(orRunOut(s.reason)), errAnother}
}

var errAnother = errors.New("open another one")

func orRunOut(reason string) string {
	if reason == "" {
		return "it has run out"
	}
	return reason
}

func failure(doubtful bool) error {
	if doubtful {
		return ErrUnknown
	}
	return ErrUnreachable
}

// outcome is the error of a request without an answer: what is known about it,
// why it was given up, and the error of the last attempt.
type outcome struct{ kind, reason, last error }

func (o *outcome) Error() string {
	switch o.kind {
	case ErrLost:
		return fmt.Sprintf("hasp: %v: %v; %v", o.kind, o.reason, o.last)
	case ErrSeal:
		return fmt.Sprintf("hasp: %v: %v", o.kind, o.last)
	case errLate:
		return fmt.Sprintf("hasp: %v: %v", o.reason, o.last)
	}
	return fmt.Sprintf("hasp: %v (%v; last: %v)", o.kind, o.reason, o.last)
}

func (o *outcome) Is(target error) bool { return target == o.kind }
func (o *outcome) Unwrap() error        { return o.reason }

// pause waits before all nodes are asked again: longer each time, and for a
// random time, so that clients do not retry at the same moment.
func pause(ctx context.Context, round int) {
	if round > 5 {
		round = 5
	}
	length := time.Duration(20+rand.Intn(80)) * time.Millisecond
	select {
	case <-ctx.Done():
	case <-time.After(length * time.Duration(round)):
	}
}
