// SPDX-License-Identifier: MIT

package hasp

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// To the nanosecond: tests/unit/test_lease_vectors.c makes the vectors from the
// C library, and says what the steps mean.
func TestTheLeaseIsThatOfTheCLibrary(t *testing.T) {
	text, err := os.ReadFile("../../tests/vectors/lease.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Says  string
		Steps [][]any
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&cases); err != nil || len(cases) < 100 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for _, one := range cases {
		t.Run(one.Says, func(t *testing.T) {
			var l lease
			for _, step := range one.Steps {
				runStep(t, &l, step)
			}
		})
	}
}

func runStep(t *testing.T, l *lease, step []any) {
	number := func(i int) int64 {
		n, err := step[i].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch step[0] {
	case "answered":
		l.answered(reading{number(1), number(2)}, number(3), number(4))
	case "refused":
		l.refused()
	case "period":
		if l.period().Nanoseconds() != number(1) {
			t.Errorf("%v: period is %d", step, l.period())
		}
	case "hold":
		left := holdRemaining(reading{number(1), number(2)}, number(3),
			reading{number(4), number(5)})
		if left != number(6) {
			t.Errorf("%v: %d left", step, left)
		}
	case "check":
		now := reading{number(1), number(2)}
		if state := l.state(now).String(); state != step[3] {
			t.Errorf("%v: is %s", step, state)
		}
		if left := l.remaining(now); left != number(4) {
			t.Errorf("%v: %d left", step, left)
		}
	default:
		t.Fatalf("unknown step %v", step)
	}
}

func TestAContextAfterAJeopardyIsThatOfTheHold(t *testing.T) {
	s := &Session{holds: map[*Lock]bool{}, link: &link{}}
	s.over, s.end = context.WithCancel(context.Background())
	now := clockNow()
	s.lease.answered(now, 60000, 1000)
	lock := s.NewLock("a", LockOptions{})
	lock.granted(nil, []told{{token: 7, first: 7, count: 1, left: -1}}, now, false)
	first, stop := lock.Context(context.Background())
	defer stop()
	if s.tellNews(Jeopardy) != Held || first.Err() != nil {
		t.Error("it ends although the hold does not")
	}
	s.lease.linger = 1 // Long over.
	if s.tellNews(Held) != Jeopardy {
		t.Fatal("not in jeopardy")
	}
	<-first.Done()
	s.lease.answered(clockNow(), 60000, 1000)
	if s.tellNews(Jeopardy) != Held {
		t.Fatal("not held again")
	}
	again, stop := lock.Context(context.Background())
	defer stop()
	select {
	case <-again.Done():
		t.Error("it has ended although the hold is safe")
	case <-time.After(50 * time.Millisecond):
	}
	lock.forget()
	<-again.Done()
}

func TestNumbersThatAreOverAreAcknowledged(t *testing.T) {
	var n numbers
	acked := func() string { _, words := n.begin(); return words[3] }
	if got := acked(); got != "0" { // 1 is under way.
		t.Error(got)
	}
	acked() // 2
	n.end(1)
	if got := acked(); got != "1" { // 3; 2 is open.
		t.Error(got)
	}
	n.end(3)
	acked() // 4
	n.end(4)
	if got := acked(); got != "1,3-4" { // 5
		t.Error(got)
	}
}

func TestAnAddressThatIsNoneIsNamed(t *testing.T) {
	for _, bad := range []string{"node:x", ":7420", "a:0", "a:70000", ""} {
		if _, err := parseEndpoints([]string{bad}); err == nil ||
			!strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	found, err := parseEndpoints([]string{"a", "[::1]:9", " b:1 "})
	if err != nil || !reflect.DeepEqual(found, []string{"a:7420", "[::1]:9", "b:1"}) {
		t.Error(found, err)
	}
}
