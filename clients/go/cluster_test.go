// SPDX-License-Identifier: MIT

package hasp

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A cluster of three real nodes; $HASP names the tool that starts it.
type cluster struct {
	endpoints []string
	pids      []int
}

func startCluster(t *testing.T) *cluster {
	tool := os.Getenv("HASP")
	if tool == "" {
		t.Skip("HASP does not name the tool that starts a cluster")
	}
	arguments := []string{"dev", "--dir", t.TempDir() + "/nodes"}
	if port := os.Getenv("HASP_TEST_PORT"); port != "" {
		arguments = append(arguments, "--port", port)
	}
	dev := exec.Command(tool, arguments...)
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	t.Cleanup(func() {
		for _, pid := range c.pids { // One may be stopped.
			syscall.Kill(pid, syscall.SIGCONT)
		}
		dev.Process.Signal(syscall.SIGTERM)
		dev.Wait()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	for _, word := range strings.Fields(line) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "endpoints":
			c.endpoints = strings.Split(value, ",")
		case "pids":
			for _, text := range strings.Split(value, ",") {
				pid, _ := strconv.Atoi(text)
				c.pids = append(c.pids, pid)
			}
		}
	}
	if len(c.endpoints) != 3 || len(c.pids) != 3 {
		t.Fatalf("hasp dev said %q", line)
	}
	return c
}

// leader is the place of the node that leads.
func (c *cluster) leader(t *testing.T) int {
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		for i, endpoint := range c.endpoints {
			one := newLink(address{endpoints: []string{endpoint},
				shows: &credentials{}, timeout: time.Second}, nil)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			reply, _ := one.do(ctx, &ask{words: []string{"RAFT.STATUS"}})
			cancel()
			one.close()
			if asText(asMap(reply)["role"]) == "leader" {
				return i
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("no leader")
	return 0
}

func (c *cluster) open(t *testing.T, options Options) *Session {
	options.Endpoints = c.endpoints
	s, err := Open(soon(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v is not %v", err, kind)
	}
}

func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		if fact() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(what)
}

func TestLocks(t *testing.T) {
	c := startCluster(t)
	t.Run("one holder", func(t *testing.T) { oneHolder(t, c) })
	t.Run("a cancelled wait is given back", func(t *testing.T) { cancelled(t, c) })
	t.Run("an owner that waits twice holds twice", func(t *testing.T) { ownerTwice(t, c) })
	t.Run("a cancelled wait takes nothing from its owner", func(t *testing.T) { ownerKeeps(t, c) })
	t.Run("several", func(t *testing.T) { several(t, c) })
	t.Run("convert", func(t *testing.T) { convert(t, c) })
	t.Run("a limited hold", func(t *testing.T) { limited(t, c) })
	t.Run("a limited hold that nobody hears of", func(t *testing.T) { limitedUnheard(t, c) })
	t.Run("events", func(t *testing.T) { events(t, c) })
	t.Run("alive", func(t *testing.T) { alive(t, c) })
	t.Run("fences", func(t *testing.T) { fences(t, c) })
	t.Run("watch", func(t *testing.T) { watch(t, c) })
	t.Run("refusals", func(t *testing.T) { refusals(t, c) })
	t.Run("an elector that cannot be", func(t *testing.T) { noElector(t, c) })
	t.Run("what the end of a wait is called", func(t *testing.T) { late(t, c) })
	t.Run("an elected leader", func(t *testing.T) { elected(t, c) })
	t.Run("the leader is killed", func(t *testing.T) { killed(t, c) })
}

func oneHolder(t *testing.T, c *cluster) {
	ctx := soon(t)
	one, two := c.open(t, Options{Name: "one"}), c.open(t, Options{Name: "two"})
	a, b := one.NewLock("orders", LockOptions{}), two.NewLock("orders", LockOptions{})
	must(t, a.Lock(ctx))
	first := a.Token()
	must(t, a.Guard(time.Second))
	is(t, a.Guard(time.Minute), ErrShort)
	if ok, err := b.TryLock(ctx); ok || err != nil {
		t.Fatal("two holders", err)
	}
	is(t, b.Guard(0), ErrLost)
	late, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	is(t, b.Lock(late), context.DeadlineExceeded)
	working, stop := a.Context(ctx)
	defer stop()
	must(t, a.Unlock(ctx))
	<-working.Done()
	is(t, a.Unlock(ctx), ErrNotHeld)
	must(t, b.Lock(ctx))
	if b.Token() <= first {
		t.Fatal("the token has not grown")
	}
	if held, err := two.Check(ctx, "orders", b.Token()); !held || err != nil {
		t.Fatal(held, err)
	}
	holders, _, err := one.Show(ctx, "orders")
	if err != nil || len(holders) != 1 || holders[0].Client != "two" {
		t.Fatal(holders, err)
	}
	must(t, two.Close(ctx))
	is(t, b.Guard(0), ErrLost)
	must(t, a.Lock(ctx)) // At once: the session gave it back.
}

func cancelled(t *testing.T, c *cluster) {
	ctx := soon(t)
	s, other := c.open(t, Options{}), c.open(t, Options{})
	a, b := s.NewLock("short", LockOptions{}), other.NewLock("short", LockOptions{})
	for i := 0; i < 20; i++ {
		must(t, a.Lock(ctx))
		brief, cancel := context.WithCancel(ctx)
		done := make(chan error)
		go func() { done <- b.Lock(brief) }()
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		cancel()
		must(t, a.Unlock(ctx))
		if err := <-done; err == nil {
			must(t, b.Unlock(ctx))
		} else {
			is(t, err, context.Canceled)
		}
	}
	must(t, b.Lock(ctx)) // Settled by itself.
	must(t, b.Unlock(ctx))
	must(t, a.Lock(ctx))
}

func ownerTwice(t *testing.T, c *cluster) {
	ctx := soon(t)
	s, other := c.open(t, Options{}), c.open(t, Options{})
	mine := func() *Lock { return s.NewLock("twice", LockOptions{Owner: "me"}) }
	one, two, held := mine(), mine(), other.NewLock("twice", LockOptions{})
	must(t, held.Lock(ctx))
	got := make(chan error)
	for _, l := range []*Lock{one, two} {
		l := l
		go func() { got <- l.Lock(ctx) }()
	}
	eventually(t, "nobody waits", func() bool {
		place, err := one.Place(ctx)
		return place == 1 && err == nil
	})
	time.Sleep(100 * time.Millisecond)
	must(t, held.Unlock(ctx))
	must(t, <-got)
	must(t, <-got)
	must(t, one.Unlock(ctx))
	holds(t, two)
	for i := 0; i < 4; i++ {
		go func() {
			l := mine()
			ok, err := l.TryLock(ctx) // Each is of its own.
			if !ok && err == nil {
				err = errors.New("not acquired")
			} else if ok {
				err = l.Unlock(ctx)
			}
			got <- err
		}()
	}
	for i := 0; i < 4; i++ {
		must(t, <-got)
	}
	holds(t, two)
	must(t, two.Unlock(ctx))
	if ok, err := held.TryLock(ctx); !ok || err != nil {
		t.Fatal("it was not given back", err)
	}
	go func() { got <- one.Lock(ctx) }()
	eventually(t, "it does not wait", func() bool {
		place, err := one.Place(ctx)
		return place == 1 && err == nil
	})
	if ok, err := two.TryLock(ctx); ok || err != nil {
		t.Fatal(ok, err)
	}
	brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	is(t, two.Lock(brief), context.DeadlineExceeded)
	must(t, held.Unlock(ctx))
	must(t, <-got)
	must(t, one.Unlock(ctx))
}

// holds: the cluster says so, too.
func holds(t *testing.T, l *Lock) {
	t.Helper()
	if is, err := l.session.Check(soon(t), l.names[0], l.Token()); !is || err != nil {
		t.Fatal("it believes in what is not held", err)
	}
}

func ownerKeeps(t *testing.T, c *cluster) {
	ctx := soon(t)
	s, other := c.open(t, Options{}), c.open(t, Options{})
	for i := 0; i < 40; i++ {
		one := s.NewLock("taken back", LockOptions{Owner: "me"})
		two := s.NewLock("taken back", LockOptions{Owner: "me"})
		held := other.NewLock("taken back", LockOptions{})
		must(t, held.Lock(ctx))
		brief, cancel := context.WithCancel(ctx)
		done, released := make(chan error), make(chan error)
		go func() { done <- one.Lock(brief) }()
		eventually(t, "nobody waits", func() bool {
			place, err := one.Place(ctx)
			return place == 1 && err == nil
		})
		go func() { released <- held.Unlock(ctx) }()
		time.Sleep(time.Duration(i%20) * 50 * time.Microsecond)
		cancel()
		err := <-done
		late, stop := context.WithTimeout(ctx, 5*time.Second)
		must(t, two.Lock(late))
		stop()
		must(t, <-released)
		if err != nil {
			must(t, one.Lock(ctx)) // After all is cleared up.
		}
		must(t, one.Unlock(ctx))
		holds(t, two)
		must(t, two.Unlock(ctx))
	}
}

func several(t *testing.T, c *cluster) {
	ctx := soon(t)
	s, other := c.open(t, Options{}), c.open(t, Options{})
	both := s.NewLocks([]string{"from", "to"}, LockOptions{})
	must(t, both.Lock(ctx))
	if len(both.Tokens()) != 2 {
		t.Fatal(both.Tokens())
	}
	to := other.NewLock("to", LockOptions{})
	if ok, err := to.TryLock(ctx); ok || err != nil {
		t.Fatal(ok, err)
	}
	must(t, both.Unlock(ctx))
	must(t, to.Lock(ctx))
	if ok, err := both.TryLock(ctx); ok || err != nil { // All or none.
		t.Fatal(ok, err)
	}
}

func convert(t *testing.T, c *cluster) {
	ctx := soon(t)
	s, other := c.open(t, Options{}), c.open(t, Options{})
	a := s.NewLock("page", LockOptions{Shared: true})
	b := other.NewLock("page", LockOptions{Shared: true})
	must(t, a.Lock(ctx))
	must(t, b.Lock(ctx))
	brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := a.Upgrade(brief); err == nil {
		t.Fatal("upgraded beside a reader")
	}
	must(t, a.Guard(0)) // The shared hold stays.
	must(t, b.Unlock(ctx))
	must(t, a.Upgrade(ctx))
	if ok, _ := b.TryLock(ctx); ok || a.IsShared() {
		t.Fatal("shared beside a writer")
	}
	must(t, a.Downgrade(ctx))
	must(t, b.Lock(ctx))
	must(t, a.Unlock(ctx))
	must(t, b.Unlock(ctx))
}

func limited(t *testing.T, c *cluster) {
	ctx := soon(t)
	var told atomic.Value
	s := c.open(t, Options{TTL: 2 * time.Second,
		OnEvent: func(e Event) { told.Store(e) }})
	a := s.NewLock("limited", LockOptions{Hold: 500 * time.Millisecond})
	must(t, a.Lock(ctx))
	working, stop := a.Context(ctx)
	defer stop()
	if a.Remaining() > 400*time.Millisecond {
		t.Fatal("trusts all of it", a.Remaining())
	}
	<-working.Done()
	if a.Remaining() != 0 {
		t.Fatal("ended, and believed in")
	}
	eventually(t, "the end was not reported", func() bool {
		e, _ := told.Load().(Event)
		return e.Kind == EventLost && e.Lock == "limited" && e.Token == a.Token()
	})
	eventually(t, "the cluster never ended it", func() bool {
		holders, _, err := s.Show(ctx, "limited")
		return err == nil && len(holders) == 0
	})
	is(t, a.Unlock(ctx), ErrNotHeld)
	must(t, a.Lock(ctx))
	// No limit is too short to be one.
	b := s.NewLock("limited to nothing", LockOptions{Hold: time.Nanosecond})
	must(t, b.Lock(ctx))
	time.Sleep(2 * time.Millisecond)
	if b.Remaining() != 0 {
		t.Fatal("the cluster ends it after 1 ms, trusted for", b.Remaining())
	}
}

// The same where the program wants no events.
func limitedUnheard(t *testing.T, c *cluster) {
	ctx := soon(t)
	s := c.open(t, Options{TTL: time.Second})
	a := s.NewLock("unheard", LockOptions{Hold: 200 * time.Millisecond})
	must(t, a.Lock(ctx))
	long := s.NewLock("long limit", LockOptions{Hold: time.Minute})
	must(t, long.Lock(ctx))
	working, stop := long.Context(ctx)
	defer stop()
	eventually(t, "it was never ended", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.top().isOver
	})
	must(t, s.NewLock("other", LockOptions{}).Lock(ctx))
	time.Sleep(time.Second) // Longer than one lease, which was renewed.
	if working.Err() != nil && s.State() == Held {
		t.Fatal("ended with the lease of its beginning")
	}
}

func events(t *testing.T, c *cluster) {
	ctx := soon(t)
	asked := make(chan Event, 1)
	s := c.open(t, Options{OnEvent: func(e Event) { asked <- e }})
	other := c.open(t, Options{})
	a := s.NewLock("wanted", LockOptions{})
	must(t, a.Lock(ctx))
	eventually(t, "no event came", func() bool {
		told, err := other.Please(ctx, "wanted", "maintenance")
		if err != nil || told != 1 {
			t.Fatal(told, err)
		}
		select {
		case e := <-asked:
			return e == Event{EventPlease, "wanted", a.Token(), "maintenance"}
		case <-time.After(200 * time.Millisecond):
			return false
		}
	})
}

func alive(t *testing.T, c *cluster) {
	s := c.open(t, Options{TTL: time.Second, Alive: 400 * time.Millisecond})
	for i := 0; i < 10; i++ {
		time.Sleep(200 * time.Millisecond)
		s.Alive()
		if s.State() != Held {
			t.Fatal("lost although it makes progress")
		}
	}
	<-s.Done()
	if s.State() != Lost {
		t.Fatal(s.State())
	}
}

func fences(t *testing.T, c *cluster) {
	ctx := soon(t)
	s := c.open(t, Options{})
	for _, one := range []struct {
		token int64
		want  bool
	}{{41, true}, {42, true}, {41, false}} {
		if ok, err := s.Admit(ctx, "array", one.token); ok != one.want || err != nil {
			t.Fatal(one, ok, err)
		}
	}
}

func watch(t *testing.T, c *cluster) {
	ctx, cancel := context.WithCancel(soon(t))
	s := c.open(t, Options{})
	seen := make(chan Change, 16)
	ended := make(chan error)
	go func() { ended <- s.Watch(ctx, "jobs/", func(e Change) { seen <- e }) }()
	if first := <-seen; first.Kind != "" {
		t.Fatal(first)
	}
	a := s.NewLock("jobs/1", LockOptions{})
	must(t, a.Lock(ctx))
	if e := <-seen; e.Kind != "granted" || e.Lock != "jobs/1" || e.Token != a.Token() {
		t.Fatal(e)
	}
	must(t, a.Unlock(ctx))
	if e := <-seen; e.Kind != "released" {
		t.Fatal(e)
	}
	cancel()
	is(t, <-ended, context.Canceled)
	is(t, s.Watch(soon(t), strings.Repeat("x", 600), func(Change) {}), ErrRefused)
}

func refusals(t *testing.T, c *cluster) {
	ctx := soon(t)
	s := c.open(t, Options{})
	_, err := s.NewLock(strings.Repeat("x", 600), LockOptions{}).TryLock(ctx)
	is(t, err, ErrRefused)
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Word != "BADARG" {
		t.Fatal(err)
	}
	_, err = Open(ctx, Options{Endpoints: c.endpoints, TTL: 100 * time.Hour})
	is(t, err, ErrRefused)
	nobody, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = Open(nobody, Options{Endpoints: []string{"127.0.0.1:1"}})
	is(t, err, ErrUnreachable)
	lost := c.open(t, Options{})
	a := lost.NewLock("lost", LockOptions{})
	must(t, a.Lock(ctx))
	must(t, lost.Close(ctx))
	is(t, a.Lock(ctx), ErrLost)
	is(t, a.Lock(ctx), ErrClosed)
	is(t, a.Guard(0), ErrClosed)
	is(t, lost.Alive(), ErrClosed)
	is(t, lost.NewLock("b", LockOptions{}).Downgrade(ctx), ErrNotHeld)
	for _, wrong := range []Options{{TTL: -1}, {Linger: -1}, {Timeout: -1}, {Alive: -1},
		{Endpoints: []string{"127.0.0.1:1,127.0.0.1:2"}}} {
		if _, err := Open(ctx, wrong); err == nil || errors.Is(err, ErrUnreachable) {
			t.Fatal(wrong, err)
		}
	}
	_, err = s.Ask(ctx, "session.close")
	if err == nil || !strings.Contains(err.Error(), "use Close") {
		t.Error("it closed itself: ", err)
	}
	if _, err := s.Ask(ctx); err == nil || errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
}

// noElector: an error that no further attempt mends is reported, and the
// attempts end.
func noElector(t *testing.T, c *cluster) {
	lead := Callbacks{OnStartedLeading: func(context.Context, *Lock) {}}
	at := func(options Options) Options { options.Endpoints = c.endpoints; return options }
	for _, e := range []*Elector{
		{Name: "x", Options: at(Options{TLS: t.TempDir()}), Callbacks: lead},
		{Name: "x", Options: at(Options{SecretFile: "/nowhere"}), Callbacks: lead},
		{Name: "x", Options: at(Options{TTL: 100 * time.Hour}), Callbacks: lead},
		{Name: "x", Options: Options{Endpoints: []string{"a:b"}}, Callbacks: lead},
		{Name: "", Options: at(Options{}), Callbacks: lead},
		{Name: "x", Options: at(Options{})},
	} {
		ctx := soon(t)
		if err := e.Run(ctx); err == nil || ctx.Err() != nil {
			t.Fatal(e, err)
		}
	}
}

// late: a wait that ctx ends is not reported as a request with an unknown
// outcome.
func late(t *testing.T, c *cluster) {
	s, other := c.open(t, Options{}), c.open(t, Options{})
	a, b := s.NewLock("late", LockOptions{}), other.NewLock("late", LockOptions{})
	must(t, a.Lock(soon(t)))
	brief, cancel := context.WithCancel(soon(t))
	done := make(chan error)
	go func() { done <- b.Lock(brief) }()
	eventually(t, "it is in no queue", func() bool {
		other.mu.Lock()
		defer other.mu.Unlock()
		for _, isQueued := range other.claims {
			return isQueued
		}
		return false
	})
	cancel()
	err := <-done
	is(t, err, context.Canceled)
	if errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), `others hold ["late"]`) {
		t.Fatal(err)
	}
	must(t, a.Unlock(soon(t)))
	must(t, b.Lock(soon(t))) // It was cleared up.
	if err := b.Guard(time.Hour); err == nil ||
		!strings.Contains(err.Error(), "never more than 8s") {
		t.Fatal(err)
	}
}

// Two candidates; the first is frozen past its lease by having its heartbeats
// withheld, and must know before the second leads.
func elected(t *testing.T, c *cluster) {
	ctx, cancel := context.WithCancel(soon(t))
	var leading, terms atomic.Int32
	var news sync.Map
	var running sync.WaitGroup
	for _, name := range []string{"ann", "bob"} {
		e := &Elector{Name: "leader", Identity: name,
			Options: Options{Endpoints: c.endpoints, TTL: time.Second}}
		e.Callbacks = Callbacks{
			OnStartedLeading: func(ctx context.Context, lock *Lock) {
				must(t, lock.Guard(time.Millisecond))
				if leading.Add(1) > 1 {
					t.Error("two leaders")
				}
				if terms.Add(1) > 3 {
					<-ctx.Done()
				}
				time.Sleep(50 * time.Millisecond)
				leading.Add(-1)
			},
			OnNewLeader: func(identity string) { news.Store(identity, true) },
		}
		running.Add(1)
		go func() { defer running.Done(); e.Run(ctx) }()
	}
	eventually(t, "nobody leads for long", func() bool { return terms.Load() > 3 })
	eventually(t, "nobody heard of both", func() bool {
		_, ann := news.Load("ann")
		_, bob := news.Load("bob")
		return ann && bob
	})
	cancel()
	running.Wait()
}

// killed: what is held stays held, waits keep their place, nothing counts twice.
func killed(t *testing.T, c *cluster) {
	ctx := soon(t)
	s, other := c.open(t, Options{}), c.open(t, Options{})
	a, b := s.NewLock("kept", LockOptions{}), other.NewLock("kept", LockOptions{})
	must(t, a.Lock(ctx))
	got := make(chan error)
	go func() { got <- b.Lock(ctx) }()
	var stop atomic.Bool
	var inside, rounds atomic.Int32
	var workers sync.WaitGroup
	for i := 0; i < 8; i++ {
		workers.Add(1)
		lock := []*Session{s, other}[i%2].NewLock("busy", LockOptions{})
		go func() {
			defer workers.Done()
			for !stop.Load() {
				if err := lock.Lock(ctx); err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) > 1 {
					t.Error("two inside")
				}
				rounds.Add(1)
				inside.Add(-1)
				if err := lock.Unlock(ctx); err != nil && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			}
		}()
	}
	eventually(t, "nobody works", func() bool { return rounds.Load() > 50 })
	must(t, syscall.Kill(c.pids[c.leader(t)], syscall.SIGKILL))
	before := rounds.Load()
	eventually(t, "no worker continues", func() bool { return rounds.Load() > before+200 })
	must(t, a.Guard(time.Second))
	stop.Store(true)
	workers.Wait()
	must(t, a.Unlock(ctx))
	must(t, <-got)
}

// A process that is frozen past its lease believes in nothing afterwards, and
// its program is notified.
func TestFrozenPastTheLease(t *testing.T) {
	if os.Getenv("HASP_TEST_FROZEN") == "" {
		c := startCluster(t)
		ctx := soon(t)
		child := exec.Command(os.Args[0], "-test.run", "TestFrozenPastTheLease", "-test.v")
		child.Env = append(os.Environ(), "HASP_TEST_FROZEN="+strings.Join(c.endpoints, ","))
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		in := bufio.NewScanner(out)
		say := func(word string) {
			for in.Scan() {
				if strings.HasPrefix(in.Text(), word) {
					return
				}
			}
			t.Fatalf("never said %q", word)
		}
		say("holds")
		must(t, child.Process.Signal(syscall.SIGSTOP))
		b := c.open(t, Options{}).NewLock("frozen", LockOptions{})
		must(t, b.Lock(ctx))
		must(t, child.Process.Signal(syscall.SIGCONT))
		say("lost")
		must(t, child.Wait())
		return
	}
	s, err := Open(soon(t), Options{TTL: 500 * time.Millisecond,
		Endpoints: strings.Split(os.Getenv("HASP_TEST_FROZEN"), ",")})
	must(t, err)
	a := s.NewLock("frozen", LockOptions{})
	must(t, a.Lock(soon(t)))
	working, stop := a.Context(context.Background())
	defer stop()
	last := clockNow() // Before the word: it may be frozen at once.
	os.Stdout.WriteString("\nholds\n")
	for last.age(clockNow()) < int64(250*time.Millisecond) {
		last = clockNow() // Until it was frozen.
		time.Sleep(time.Millisecond)
	}
	if a.Guard(0) == nil {
		t.Fatal("it believes in what another one holds")
	}
	<-working.Done()
	<-s.Done()
	is(t, a.Guard(0), ErrLost)
	os.Stdout.WriteString("\nlost\n")
}
