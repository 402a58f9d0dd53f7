// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// However its callbacks end, an Elector that leads no more holds nothing, and
// its session ends.
func TestAnElectorWhoseCallbackDoesNotReturnLeadsNoMore(t *testing.T) {
	for what, end := range map[string]func(){
		"panics":  func() { panic("planned") },
		"Goexit":  runtime.Goexit,
		"returns": func() {},
	} {
		f := newFakeNode(t, usually)
		ctx, cancel := context.WithCancel(soon(t))
		var stopped atomic.Int32
		var leading context.Context
		e := &Elector{Name: "leader", Options: Options{
			Endpoints: []string{f.Addr().String()}, TTL: 2 * time.Second},
			Callbacks: Callbacks{
				OnStartedLeading: func(ctx context.Context, _ *Lock) {
					leading = ctx
					cancel()
					end()
				},
				OnStoppedLeading: func() {
					if f.times("1 LOCK.RELEASE") != 0 {
						t.Error(what, "is notified after another may lead")
					}
					stopped.Add(1)
				},
			}}
		done := make(chan any)
		go func() {
			defer close(done)
			defer func() { recover() }()
			e.Run(ctx)
		}()
		<-done
		if leading.Err() == nil || stopped.Load() != 1 {
			t.Error(what, "leads still; stopped:", stopped.Load())
		}
		if f.times("1 LOCK.RELEASE leader") != 1 || f.times("1 SESSION.CLOSE") != 1 {
			t.Error(what, "holds still")
		}
		beats := f.times("1 SESSION.KEEP")
		time.Sleep(900 * time.Millisecond)
		if f.times("1 SESSION.KEEP") != beats {
			t.Error(what, "continues with heartbeats")
		}
	}
}

// An Elector whose callback returns at once waits longer each time before it
// campaigns again, and no longer after a good term.
func TestAnElectorWhoseCallbackFailsBacksOff(t *testing.T) {
	f := newFakeNode(t, usually)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var terms atomic.Int32
	e := &Elector{Name: "leader", Options: Options{
		Endpoints: []string{f.Addr().String()}, TTL: 2 * time.Second},
		Callbacks: Callbacks{OnStartedLeading: func(_ context.Context, lock *Lock) {
			if err := lock.Guard(10 * time.Millisecond); err != nil {
				t.Error(err)
			}
			terms.Add(1)
		}}}
	e.Run(ctx)
	// 0.05 to 0.1 s, 0.1 to 0.2 s, ...: six or seven terms by 3 s.
	if n := terms.Load(); n < 4 || n > 8 {
		t.Error("terms in three seconds:", n)
	}

	var back backOff
	for i := 0; i < 20; i++ {
		back.after(time.Second)
	}
	if back != backOff(backOffMax) {
		t.Error("the longest wait:", time.Duration(back))
	}
	back.after(termGood)
	if back != 0 {
		t.Error("after a good term:", time.Duration(back))
	}
}

// An Elector whose resource cannot be sealed does not lead, reports why, and
// campaigns again later each time.
func TestAnElectorSealsBeforeItLeads(t *testing.T) {
	f := newFakeNode(t, usually)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var tries, failures, terms atomic.Int32
	e := &Elector{Name: "leader", Options: Options{
		Endpoints: []string{f.Addr().String()}, TTL: 2 * time.Second}}
	e.Callbacks = Callbacks{
		OnGrant: func(_ context.Context, name string, token int64) error {
			if name != "leader" || token == 0 {
				t.Error(name, token)
			}
			if tries.Add(1) < 3 {
				return errors.New("no storage")
			}
			return nil
		},
		OnStartedLeading: func(context.Context, *Lock) {
			if tries.Load() != 3 {
				t.Error("it leads after attempt", tries.Load())
			}
			terms.Add(1)
			cancel()
		},
		OnError: func(err error) {
			failures.Add(1)
			is(t, err, ErrSeal)
			if !strings.Contains(err.Error(), "no storage") {
				t.Error(err)
			}
		}}
	e.Run(ctx)
	if terms.Load() != 1 || failures.Load() != 2 || f.times("1 LOCK.RELEASE") < 2 {
		t.Error(terms.Load(), failures.Load(), f.times("1 LOCK.RELEASE"))
	}
}

// A hook that panics, or calls Goexit, leaves no lock.
func TestAHookThatDoesNotReturnKeepsNoLock(t *testing.T) {
	f := newFakeNode(t, usually)
	s := f.open(t, Options{})
	for i, end := range []func(){func() { panic("for the test") }, runtime.Goexit} {
		lock := s.NewLock("a", LockOptions{
			OnGrant: func(context.Context, string, int64) error { end(); return nil }})
		done := make(chan bool)
		go func() {
			defer close(done)
			defer func() { recover() }()
			lock.Lock(soon(t))
			t.Error("it was sealed")
		}()
		<-done
		if lock.Token() != 0 || f.times("1 LOCK.RELEASE") != i+1 {
			t.Error(lock.Token(), f.times("1 LOCK.RELEASE"))
		}
	}
}

// The failing endpoints are reported each time, and at the end.
func TestAnElectorWithoutNodesSaysWhichFail(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var told atomic.Int32
	both := func(err error) bool {
		return strings.Contains(err.Error(), "127.0.0.1:1: dial") &&
			strings.Contains(err.Error(), "127.0.0.1:2: dial")
	}
	e := &Elector{Name: "leader", Options: Options{
		Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2"},
		Timeout:   200 * time.Millisecond},
		Callbacks: Callbacks{
			OnStartedLeading: func(context.Context, *Lock) {},
			OnError: func(err error) {
				if told.Add(1); !errors.Is(err, ErrUnreachable) || !both(err) {
					t.Error(err)
				}
			}}}
	err := e.Run(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !both(err) {
		t.Error(err)
	}
	if told.Load() == 0 {
		t.Error("nothing was said meanwhile")
	}
}

// A callback that ended because the lock was lost has not failed.
func TestAnElectorThatLostItsLockCampaignsAtOnce(t *testing.T) {
	f := newFakeNode(t, usually)
	s := f.open(t, Options{TTL: 2 * time.Second})
	e := &Elector{Name: "leader", Callbacks: Callbacks{
		OnStartedLeading: func(ctx context.Context, _ *Lock) {
			s.Close(soon(t))
			<-ctx.Done()
		}}}
	lock := s.NewLock("leader", LockOptions{})
	must(t, lock.Lock(soon(t)))
	if e.lead(soon(t), lock) {
		t.Error("the callback is said to have ended the term")
	}
}

func TestTheLockIsReleasedWhicheverCallbackPanics(t *testing.T) {
	f := newFakeNode(t, usually)
	e := &Elector{Name: "leader", Options: Options{Endpoints: []string{f.Addr().String()}},
		Callbacks: Callbacks{
			OnStartedLeading: func(context.Context, *Lock) { panic("one") },
			OnStoppedLeading: func() { panic("two") },
		}}
	func() {
		defer func() { recover() }()
		e.Run(soon(t))
	}()
	if f.times("1 LOCK.RELEASE leader") != 1 || f.times("1 SESSION.CLOSE") != 1 {
		t.Error("it holds still")
	}
}

func TestAnEventWhoseHandlerEndsItsGoroutineIsNotTheLast(t *testing.T) {
	f := newFakeNode(t, func(_ int32, words []string) string {
		if words[0] == "LOCK.SHOW" {
			please := ">3\r\n+lock\r\n+please\r\n%2\r\n+session\r\n:1\r\n+lock\r\n+a\r\n"
			return please + please + ":7\r\n"
		}
		return "usual"
	})
	var told atomic.Int32
	s := f.open(t, Options{OnEvent: func(Event) {
		told.Add(1)
		runtime.Goexit()
	}})
	s.Show(soon(t), "a")
	eventually(t, "the second one is not notified", func() bool { return told.Load() == 2 })
}

// silenceOf is a node that says nothing more of a verb, but in the end.
func silenceOf(t *testing.T, verb string) (*fakeNode, *atomic.Bool) {
	speaks := new(atomic.Bool)
	f := newFakeNode(t, func(_ int32, words []string) string {
		if words[0] == verb && !speaks.Load() {
			return "-BUSY later\r\n"
		} else if words[0] == "SESSION.OPEN" && words[2] == "NONE" {
			return "%2\r\n+id\r\n:1\r\n+ttl_ms\r\n_\r\n"
		}
		return "usual"
	})
	return f, speaks
}

// An upgrade that no caller waits for is taken back once a node reports its
// outcome; the caller that asked for it continues at once.
func TestAnUpgradeEndsWithItsContextAlthoughNoNodeAnswers(t *testing.T) {
	for _, durable := range []bool{true, false} {
		asked := make(chan struct{}, 1)
		speaks := new(atomic.Bool)
		f := newFakeNode(t, func(_ int32, words []string) string {
			switch {
			case words[0] == "SESSION.OPEN" && words[2] == "NONE":
				return "%2\r\n+id\r\n:1\r\n+ttl_ms\r\n_\r\n"
			case words[0] == "LOCK.CONVERT" && !speaks.Load():
				select {
				case asked <- struct{}{}:
				default:
				}
				return "-UNKNOWN it may have been done\r\n"
			case words[0] == "LOCK.CONVERT" && words[2] == "EXCLUSIVE":
				return holdOf(words, "a", 7, 9, "exclusive", 1, -1)
			}
			return "usual"
		})
		s := f.open(t, Options{Durable: durable, TTL: time.Minute,
			Timeout: 300 * time.Millisecond})
		lock := s.NewLock("a", LockOptions{Shared: true})
		must(t, lock.Lock(soon(t)))
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-asked
			cancel()
		}()
		began := time.Now()
		is(t, lock.Upgrade(ctx), context.Canceled)
		if took := time.Since(began); took > time.Second {
			t.Error("it took", took)
		}
		if !lock.IsShared() || lock.Guard(0) != nil {
			t.Error("the shared hold does not stay")
		}
		speaks.Store(true)
		eventually(t, "it stays exclusive", func() bool {
			return f.times("1 LOCK.CONVERT a SHARED") == 1
		})
		eventually(t, "its token is not known", func() bool { return lock.Token() != 7 })
		must(t, lock.Unlock(soon(t)))
	}
}

func TestADowngradeThatNoNodeCouldDoIsDoneLater(t *testing.T) {
	f, speaks := silenceOf(t, "LOCK.CONVERT")
	s := f.open(t, Options{TTL: time.Minute, Timeout: 300 * time.Millisecond})
	lock := s.NewLock("a", LockOptions{})
	must(t, lock.Lock(soon(t)))
	is(t, lock.Downgrade(soon(t)), ErrUnknown)
	tried := f.times("1 LOCK.CONVERT a SHARED")
	speaks.Store(true)
	eventually(t, "the readers wait for ever", func() bool {
		return f.times("1 LOCK.CONVERT a SHARED") > tried
	})
}

func TestTheClusterIsToldOfACloseWhoseContextIsDone(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	f := newFakeNode(t, usually)
	must(t, f.open(t, Options{}).Close(done))
	if f.times("1 SESSION.CLOSE") != 1 {
		t.Error("it holds its locks until its TTL")
	}
	f, speaks := silenceOf(t, "SESSION.CLOSE")
	s := f.open(t, Options{Durable: true})
	began := time.Now()
	is(t, s.Close(done), ErrUnknown)
	if took := time.Since(began); took > time.Second || s.State() != Lost {
		t.Error("it took", took, "and is", s.State())
	}
	tried := f.times("1 SESSION.CLOSE")
	speaks.Store(true)
	eventually(t, "it is never closed", func() bool { return f.times("1 SESSION.CLOSE") > tried })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, asked := range f.asked {
		if strings.Contains(asked, "SESSION.CLOSE") && !strings.HasSuffix(asked, "SESSION 1") {
			t.Error(asked)
		}
	}
}

// A session that a node opens after Open has given up is closed: no other code
// knows it.
func TestASessionThatNobodyWaitsForAnyMoreIsClosed(t *testing.T) {
	for _, isTimeout := range []bool{false, true} {
		answer, asked := make(chan struct{}), make(chan struct{})
		f := newFakeNode(t, func(_ int32, words []string) string {
			if words[0] == "SESSION.OPEN" && words[2] == "NONE" {
				close(asked)
				<-answer
				return "%2\r\n+id\r\n:77\r\n+ttl_ms\r\n_\r\n"
			}
			return "usual"
		})
		options := Options{Endpoints: []string{f.Addr().String()}, Durable: true}
		ctx, cancel := context.WithCancel(context.Background())
		if isTimeout {
			options.Timeout = 300 * time.Millisecond // It gives up as well.
			time.AfterFunc(time.Second, func() { close(answer) })
		} else {
			go func() {
				<-asked
				cancel()
				time.AfterFunc(50*time.Millisecond, func() { close(answer) })
			}()
		}
		_, err := Open(ctx, options)
		is(t, err, ErrUnknown)
		eventually(t, "it stays", func() bool { return f.times("1 SESSION.CLOSE SESSION 77") == 1 })
		cancel()
	}
}
