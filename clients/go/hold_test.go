// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAHoldIsItsToken(t *testing.T) {
	c := startCluster(t)
	c.leader(t)
	t.Run("a thousand are taken", func(t *testing.T) { manyTaken(t, c) })
	t.Run("taken, and taken again", func(t *testing.T) { takenAgain(t, c) })
	t.Run("the limit of another object", func(t *testing.T) { limitOfAnother(t, c) })
	t.Run("the smallest limit", func(t *testing.T) { smallestLimit(t, c) })
}

// take takes a lock away, as Redis' DEL does.
func take(t *testing.T, s *Session, name, owner string) {
	t.Helper()
	_, err := s.Ask(soon(t), "LOCK.RELEASEIF", name, "OWNER", owner)
	must(t, err)
}

// manyTaken: of more holds than the cluster keeps notices of none is believed in
// for longer, whether the session ends by time or not.
func manyTaken(t *testing.T, c *cluster) {
	other := c.open(t, Options{})
	for _, durable := range []bool{false, true} {
		var lost atomic.Int32
		s := c.open(t, Options{Durable: durable, TTL: 4 * time.Second, OnEvent: func(e Event) {
			if e.Kind == EventLost {
				lost.Add(1)
			}
		}})
		var taken, kept []*Lock
		for i := 0; i < 300; i++ {
			lock := s.NewLock(fmt.Sprint("many", durable, i), LockOptions{Owner: "me"})
			must(t, lock.Lock(soon(t)))
			if i%10 == 0 {
				kept = append(kept, lock)
			} else {
				taken = append(taken, lock)
			}
		}
		for _, lock := range taken {
			take(t, other, lock.names[0], "me")
		}
		eventually(t, "some are still believed in", func() bool {
			return int(lost.Load()) >= len(taken)
		})
		for _, lock := range taken {
			if lock.Remaining() != 0 {
				t.Error(lock.names, "is believed in")
			}
			is(t, lock.Unlock(soon(t)), ErrNotHeld)
		}
		for _, lock := range kept {
			must(t, lock.Guard(0))
			must(t, lock.Unlock(soon(t)))
		}
		if int(lost.Load()) != len(taken) {
			t.Error(lost.Load(), "of", len(taken), "were told")
		}
		must(t, s.Close(soon(t)))
	}
}

// takenAgain: releasing a hold that is over releases nothing else, and belief
// in it ends whatever its owner does next.
func takenAgain(t *testing.T, c *cluster) {
	s, other := c.open(t, Options{TTL: 20 * time.Second}), c.open(t, Options{})
	for _, names := range [][]string{{"again"}, {"again one", "again two"}} {
		one := s.NewLocks(names, LockOptions{Owner: "me"})
		two := s.NewLocks(names, LockOptions{Owner: "me"})
		must(t, one.Lock(soon(t)))
		for _, name := range names {
			take(t, other, name, "me")
		}
		must(t, two.Lock(soon(t))) // Under other tokens.
		if one.Remaining() != 0 {
			t.Error("two hold by one owner")
		}
		is(t, one.Unlock(soon(t)), ErrNotHeld)
		must(t, two.Guard(0))
		if ok, err := other.NewLocks(names, LockOptions{}).TryLock(soon(t)); ok || err != nil {
			t.Error("the new hold was given back", err)
		}
		for _, name := range names[:1] {
			take(t, other, name, "me")
		}
		must(t, two.Lock(soon(t))) // The same object, which had lost it.
		must(t, two.Unlock(soon(t)))
		is(t, two.Unlock(soon(t)), ErrNotHeld)
		next := other.NewLocks(names, LockOptions{})
		must(t, next.Lock(soon(t)))
		must(t, next.Unlock(soon(t)))
	}
}

func limitOfAnother(t *testing.T, c *cluster) {
	s := c.open(t, Options{TTL: 30 * time.Second})
	first := s.NewLock("limit of another", LockOptions{Owner: "me", Hold: 3 * time.Second})
	must(t, first.Lock(soon(t)))
	again := s.NewLock("limit of another", LockOptions{Owner: "me"})
	must(t, again.Lock(soon(t)))
	if left := again.Remaining(); left > 2400*time.Millisecond || left == 0 {
		t.Error("believed for", left)
	}
	eventually(t, "believed in for longer than the cluster keeps it", func() bool {
		return again.Remaining() == 0 && first.Remaining() == 0
	})
	is(t, again.Guard(time.Millisecond), ErrLost)
}

func smallestLimit(t *testing.T, c *cluster) {
	s := c.open(t, Options{TTL: time.Minute})
	first := s.NewLock("smallest b", LockOptions{Owner: "me", Hold: 5 * time.Second})
	must(t, first.Lock(soon(t)))
	both := s.NewLocks([]string{"smallest a", "smallest b"},
		LockOptions{Owner: "me", Hold: 20 * time.Second})
	must(t, both.Lock(soon(t)))
	if left := both.Remaining(); left > 4*time.Second || left == 0 {
		t.Error("believed for", left)
	}
	must(t, both.Unlock(soon(t)))
	must(t, first.Unlock(soon(t)))
}

// --- what a node says late ---------------------------------------------------

// An answer that is older than a notice is requested again, and an answer that
// says that the hold is over is not a grant.
func TestAnAnswerThatIsOlderThanWhatIsKnownIsAskedForAgain(t *testing.T) {
	for _, count := range []int{1, 0} {
		asked := new(atomic.Int32)
		f := newFakeNode(t, func(_ int32, words []string) string {
			switch words[0] {
			case "SESSION.KEEP":
				return "%3\r\n+ttl_ms\r\n:2000\r\n+ended\r\n*1\r\n%4\r\n+lock\r\n+a\r\n+owner\r\n+me\r\n" +
					"+token\r\n:5\r\n+number\r\n:1000\r\n+dropped\r\n:0\r\n"
			case "LOCK.ACQUIRE":
				if asked.Add(1) == 1 { // Older than that notice.
					return grantOf(words, 7)
				}
				now := holdOf(words, "a", 7, 7, "exclusive", count, -1)
				return strings.Replace(now, ":107\r\n", ":1000\r\n", 1)
			}
			return "usual"
		})
		s := f.open(t, Options{})
		eventually(t, "no notice", func() bool { return s.seenNow() == 1000 })
		lock := s.NewLock("a", LockOptions{Owner: "me"})
		must(t, lock.Lock(soon(t)))
		if asked.Load() != 2 || (lock.Remaining() != 0) != (count > 0) {
			t.Error(count, "asked", asked.Load(), "token", lock.Token())
		}
		if count == 0 {
			is(t, lock.Guard(0), ErrLost)
			is(t, lock.Unlock(soon(t)), ErrNotHeld)
		}
		if f.times("1 LOCK.ACQUIRE a FULL OWNER me SESSION 1 REQ 1 ") != 0 {
			t.Error("it does not wait")
		}
		numbers := map[string]bool{}
		f.mu.Lock()
		for _, one := range f.asked {
			if strings.Contains(one, "LOCK.ACQUIRE") {
				numbers[one[strings.Index(one, " REQ "):]] = true
			}
		}
		f.mu.Unlock()
		if len(numbers) != 1 {
			t.Error("under several numbers", numbers)
		}
	}
}

// One of several holds has ended: the others are released.
func TestWhatIsOverAsItIsGrantedIsGivenBackInPart(t *testing.T) {
	f := newFakeNode(t, func(_ int32, words []string) string {
		if words[0] == "LOCK.MACQUIRE" {
			return "*2\r\n" + holdOf(words, "a", 7, 7, "exclusive", 1, -1) +
				holdOf(words, "b", 8, 8, "free", 0, -1)
		}
		return "usual"
	})
	s := f.open(t, Options{})
	lock := s.NewLocks([]string{"a", "b"}, LockOptions{})
	for i := 1; i < 3; i++ {
		must(t, lock.Lock(soon(t)))
		is(t, lock.Guard(0), ErrLost)
		is(t, lock.Unlock(soon(t)), ErrNotHeld)
		if f.times("1 LOCK.RELEASE a TOKEN 7 ") != i {
			t.Error("what is left is not given back")
		}
	}
}

// A list that lacks a hold ends it; a hold that was granted while the list was
// read stays. A list that could not be read is requested again.
func TestMissedNoticesAreMadeUpForByTheListOfHolds(t *testing.T) {
	fails := new(atomic.Int32)
	fails.Store(2)
	dropped := new(atomic.Int64)
	f := newFakeNode(t, func(_ int32, words []string) string {
		switch words[0] {
		case "LOCK.ACQUIRE":
			token, _ := strconv.ParseInt(words[1], 10, 64)
			return strings.Replace(grantOf(words, token), fmt.Sprintf(":%d\r\n", token+100),
				map[bool]string{true: ":60\r\n", false: ":54\r\n"}[token == 60], 1)
		case "SESSION.KEEP":
			return fmt.Sprintf("%%3\r\n+ttl_ms\r\n:1000\r\n+ended\r\n*0\r\n+dropped\r\n:%d\r\n",
				dropped.Load())
		case "SESSION.HOLDS":
			if fails.Add(-1) >= 0 {
				return "-BADARG not now\r\n"
			}
			cursor, name := "x", int64(10)
			if strings.Contains(strings.Join(words, " "), "CURSOR x") {
				cursor, name = "0", 30
			}
			return fmt.Sprintf("%%3\r\n+cursor\r\n+%s\r\n+as_of\r\n:%d\r\n+holds\r\n*1\r\n%s", cursor,
				40+name, holdOf([]string{"OWNER", "me"}, fmt.Sprint(name), name, name+5, "shared", 1, -1))
		}
		return "usual"
	})
	var lost atomic.Int32
	s := f.open(t, Options{TTL: time.Second, OnEvent: func(Event) { lost.Add(1) }})
	locks := map[int]*Lock{}
	for _, token := range []int{10, 20, 30, 60} {
		locks[token] = s.NewLock(fmt.Sprint(token), LockOptions{Owner: "me"})
		must(t, locks[token].Lock(soon(t)))
	}
	dropped.Store(55)
	eventually(t, "it is believed in", func() bool { return locks[20].Remaining() == 0 })
	eventually(t, "the newest is not known", func() bool { return s.seenNow() == 55 })
	for _, token := range []int{10, 30, 60} {
		must(t, locks[token].Guard(0))
	}
	is(t, locks[20].Unlock(soon(t)), ErrNotHeld)
	eventually(t, "not reported exactly once", func() bool { return lost.Load() == 1 })
	if f.times("1 LOCK.RELEASE") != 0 || f.times("1 SESSION.HOLDS") != 4 {
		t.Error(f.asked)
	}
}

// The cluster does not have it: nor does anybody here.
func TestWhatIsNotHeldUnderATokenIsBelievedInByNobody(t *testing.T) {
	f := newFakeNode(t, func(_ int32, words []string) string {
		if words[0] == "LOCK.RELEASE" {
			return "-NOTHELD no\r\n"
		}
		return "usual"
	})
	s := f.open(t, Options{})
	one := s.NewLock("a", LockOptions{Owner: "me"})
	two := s.NewLock("a", LockOptions{Owner: "me"})
	must(t, one.Lock(soon(t)))
	must(t, two.Lock(soon(t)))
	is(t, one.Unlock(soon(t)), ErrNotHeld)
	is(t, two.Guard(0), ErrLost)
	is(t, two.Unlock(soon(t)), ErrNotHeld)
	if f.times("1 LOCK.RELEASE a TOKEN 7 ") != 1 {
		t.Error("asked for what it knows")
	}
	ctx, cancel := two.Context(context.Background())
	defer cancel()
	<-ctx.Done()
}
