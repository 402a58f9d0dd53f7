// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// HASP_INTERRUPTS is how many calls of each kind are interrupted: 300 unless it
// says more.
func interrupts() int {
	if count, err := strconv.Atoi(os.Getenv("HASP_INTERRUPTS")); err == nil {
		return count
	}
	return 300
}

// A stepContext ends at one of the times that it is checked, counted from the
// last: so each select of a call is hit in turn, before it waits or, with a
// delay, while it waits.
type stepContext struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64
	delay  time.Duration
}

func newStepContext(steps int64, delay time.Duration) *stepContext {
	c := &stepContext{delay: delay}
	c.Context, c.cancel = context.WithCancel(context.Background())
	c.left.Store(steps)
	return c
}

func (c *stepContext) step() {
	if c.left.Add(-1) != 0 {
		return
	}
	if c.delay == 0 {
		c.cancel()
		return
	}
	time.AfterFunc(c.delay, c.cancel)
}

func (c *stepContext) Done() <-chan struct{} {
	c.step()
	return c.Context.Done()
}

func (c *stepContext) Err() error {
	c.step()
	return c.Context.Err()
}

// drawn ends after up to 12 looks, or a little later.
func drawn(draw *rand.Rand) *stepContext {
	delay := time.Duration(0)
	if draw.Intn(2) == 0 {
		delay = time.Duration(draw.Intn(3000)+1) * time.Microsecond
	}
	return newStepContext(int64(draw.Intn(12)), delay)
}

// A wire carries bytes to a node, and breaks now and then.
type wire struct {
	net.Listener
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newWire(t *testing.T, to string) *wire {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{Listener: listener, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { listener.Close(); w.cut() })
	go func() {
		for {
			one, err := listener.Accept()
			if err != nil {
				return
			}
			other, err := net.Dial("tcp", to)
			if err != nil {
				one.Close()
				continue
			}
			w.mu.Lock()
			w.conns[one], w.conns[other] = true, true
			w.mu.Unlock()
			go w.carry(one, other)
			go w.carry(other, one)
		}
	}()
	return w
}

func (w *wire) carry(from, to net.Conn) {
	io.Copy(to, from)
	from.Close()
	to.Close()
	w.mu.Lock()
	delete(w.conns, from)
	w.mu.Unlock()
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.conns {
		conn.Close()
	}
}

// An interrupted is a run of interrupted calls, and the clients that must not
// notice.
type interrupted struct {
	t       *testing.T
	c       *cluster
	nodes   []string
	wires   []*wire
	watcher *Session // By no wire.
	bad     atomic.Int32
}

func newInterrupted(t *testing.T, c *cluster, breaks time.Duration) *interrupted {
	r := &interrupted{t: t, c: c, nodes: c.endpoints}
	r.watcher = c.open(t, Options{TTL: time.Minute})
	if breaks != 0 {
		r.nodes = nil
		for _, endpoint := range c.endpoints {
			w := newWire(t, endpoint)
			r.wires = append(r.wires, w)
			r.nodes = append(r.nodes, w.Addr().String())
		}
		stop := make(chan struct{})
		t.Cleanup(func() { close(stop) })
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rand.Int63n(int64(2 * breaks)))):
					r.wires[rand.Intn(len(r.wires))].cut()
				}
			}
		}()
	}
	return r
}

func (r *interrupted) open(options Options) *Session {
	options.Endpoints = r.nodes
	options.TTL = time.Minute
	s, err := Open(soon(r.t), options)
	must(r.t, err)
	r.t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func (r *interrupted) wrong(format string, words ...any) {
	r.bad.Add(1)
	r.t.Errorf(format, words...)
}

// isOwn: errors that a program can distinguish, with a text that names the
// client.
func isOwn(err error) bool {
	for _, kind := range []error{context.Canceled, context.DeadlineExceeded, ErrUnknown,
		ErrUnreachable, ErrNotHeld, ErrRefused, ErrLost} {
		if errors.Is(err, kind) {
			return len(err.Error()) > 6 && err.Error()[:5] == "hasp:"
		}
	}
	return false
}

// within: a call that does not come back when its context is done hangs.
func (r *interrupted) within(what string, ctx *stepContext, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Context.Done():
	case <-time.After(20 * time.Second):
		r.wrong("%s waits although nobody holds the lock", what)
	}
	select {
	case err := <-done:
		return err
	case <-time.After(5 * time.Second):
		r.wrong("%s continues after its context", what)
		return <-done
	}
}

// cycle takes and gives back a lock, each call interrupted somewhere.
func (r *interrupted) cycle(draw *rand.Rand, lock *Lock, mayUpgrade bool) {
	ctx := drawn(draw)
	err := r.within("Lock", ctx, func() error { return lock.Lock(ctx) })
	ctx.cancel()
	if err != nil {
		if !isOwn(err) {
			r.wrong("Lock: %v", err)
		}
		if lock.Token() != 0 {
			r.wrong("Lock failed (%v), and it is held", err)
		}
		return
	}
	if err := lock.Guard(0); err != nil {
		r.wrong("Lock gave it, and %v", err)
	}
	if mayUpgrade {
		ctx := drawn(draw)
		err := r.within("Upgrade", ctx, func() error { return lock.Upgrade(ctx) })
		ctx.cancel()
		if err != nil && !isOwn(err) {
			r.wrong("Upgrade: %v", err)
		}
		if (err == nil) == lock.IsShared() {
			r.wrong("Upgrade: %v, and shared: %v", err, lock.IsShared())
		}
	}
	ctx = drawn(draw)
	err = r.within("Unlock", ctx, func() error { return lock.Unlock(ctx) })
	ctx.cancel()
	if err != nil && !isOwn(err) {
		r.wrong("Unlock: %v", err)
	}
}

// free: nobody has the locks when all is settled.
func (r *interrupted) free(names ...string) {
	for _, name := range names {
		var holders []Holder
		waits := -1
		for began := time.Now(); time.Since(began) < 8*time.Second; {
			var err error
			holders, waits, err = r.watcher.Show(soon(r.t), name)
			if err == nil && len(holders) == 0 && waits == 0 {
				waits = -1
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if len(holders) != 0 || waits > 0 {
			r.wrong("nobody owns %s: held by %v, %d wait", name, holders, waits)
		}
	}
}

func TestACallThatIsInterruptedAnywhereLeavesNothingBehind(t *testing.T) {
	c := startCluster(t)
	c.leader(t)
	for _, breaks := range []time.Duration{0, 40 * time.Millisecond} {
		t.Run(fmt.Sprint("breaks ", breaks), func(t *testing.T) { interruptLocks(t, c, breaks) })
		t.Run(fmt.Sprint("closed, breaks ", breaks), func(t *testing.T) { interruptClose(t, c, breaks) })
	}
}

func interruptLocks(t *testing.T, c *cluster, breaks time.Duration) {
	r := newInterrupted(t, c, breaks)
	stands := r.open(Options{OnEvent: func(e Event) {
		if e.Kind == EventLost {
			r.wrong("a bystander: %v", e)
		}
	}})
	held := stands.NewLock("stands", LockOptions{})
	must(t, held.Lock(soon(t)))
	sessions := []*Session{r.open(Options{}), r.open(Options{}),
		r.open(Options{Durable: true})}
	kinds := []LockOptions{{}, {Owner: "me"}, {Hold: time.Minute}, {Shared: true},
		{Shared: true, Owner: "me"}, {Slots: 2}}
	var names []string
	var all sync.WaitGroup
	for worker := 0; worker < 12; worker++ {
		kind := kinds[worker%len(kinds)]
		name := fmt.Sprint("step", worker%len(kinds))
		names = append(names, name)
		mine := []string{name}
		if !kind.Shared && worker%4 == 1 {
			mine = append(mine, "other"+name)
			names = append(names, mine[1])
		}
		if kind.Owner != "" {
			kind.Owner += fmt.Sprint(worker)
		}
		all.Add(1)
		go func(worker int) {
			defer all.Done()
			draw := rand.New(rand.NewSource(int64(worker) + time.Now().UnixNano()))
			lock := sessions[worker%len(sessions)].NewLocks(mine, kind)
			for i := 0; i < interrupts() && r.bad.Load() < 20; i++ {
				r.cycle(draw, lock, kind.Shared)
			}
			// The object itself must serve again.
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := lock.Lock(ctx); err != nil {
				r.wrong("it never serves again: %v", err)
			} else if err := lock.Unlock(ctx); err != nil && !errors.Is(err, ErrUnknown) {
				r.wrong("it is not given back: %v", err)
			}
		}(worker)
	}
	all.Wait()
	r.free(names...)
	if held.Guard(0) != nil || stands.State() != Held {
		r.wrong("a bystander is %v", stands.State())
	}
}

// interruptClose: what a session held is free when it was closed, not when its
// lease is over, whichever context was done.
func interruptClose(t *testing.T, c *cluster, breaks time.Duration) {
	r := newInterrupted(t, c, breaks)
	stands := r.open(Options{})
	var names []string
	var all sync.WaitGroup
	for worker := 0; worker < 10; worker++ {
		name := fmt.Sprint("close", worker)
		names = append(names, name)
		all.Add(1)
		go func(worker int) {
			defer all.Done()
			draw := rand.New(rand.NewSource(int64(worker) + time.Now().UnixNano()))
			for i := 0; i < (interrupts()+9)/10 && r.bad.Load() < 20; i++ {
				s := r.open(Options{Durable: worker%3 == 0, OwnConnection: worker%2 == 0})
				if err := s.NewLock(name, LockOptions{}).Lock(soon(t)); err != nil {
					r.wrong("before Close: %v", err)
				}
				ctx := drawn(draw)
				err := r.within("Close", ctx, func() error { return s.Close(ctx) })
				ctx.cancel()
				if err != nil && (!isOwn(err) || errors.Is(err, ErrLost)) {
					r.wrong("Close: %v", err)
				}
				if s.State() != Lost {
					r.wrong("closed, and %v", s.State())
				}
				r.free(name)
			}
		}(worker)
	}
	all.Wait()
	if stands.State() != Held {
		r.wrong("a bystander is %v", stands.State())
	}
}
