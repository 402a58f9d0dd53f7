// SPDX-License-Identifier: MIT

package hasp

import (
	"fmt"
	"sync"
	"time"
)

// hooksBehind is the number of events that hooks can be late by.
const hooksBehind = 1000

// A HookEvent is about one acquisition of a session.
type HookEvent struct {
	Kind  string // "acquire", "wait", "granted", "failed", "released" or "lost".
	ID    int64  // Numbers the acquisitions of the session.
	Lock  string // Of several, the first one.
	Token int64  // Of that lock; 0 until it is granted.
	Trace string // LockOptions.Trace.
	At    time.Time
	// Elapsed since "acquire"; for "released" and "lost", since "granted".
	Elapsed time.Duration
	Text    string // The reason of "failed" and "lost".
	Skipped int    // Earlier acquisitions that no hook was called for.
}

// Hooks are functions that learn of each acquisition, for traces and metrics; nil:
// none. Acquire comes first, then Wait if others have the lock, then Granted or
// Failed; a hold ends by Released or Lost. They are called one after
// the other, on a goroutine of their own, and must not call Session.Close. The
// first panic of a session is reported by EventNotice. docs/clients.md has the
// rules that all clients share.
type Hooks struct {
	Acquire  func(HookEvent) // It begins; no request was sent yet.
	Wait     func(HookEvent) // The cluster has put the request into the queue.
	Granted  func(HookEvent) // It is held; OnGrant, if not nil, runs after this.
	Failed   func(HookEvent) // It was not granted.
	Released func(HookEvent) // The request to release it is sent after this.
	Lost     func(HookEvent)
}

func (h *Hooks) of(kind string) func(HookEvent) {
	return map[string]func(HookEvent){"acquire": h.Acquire, "wait": h.Wait,
		"granted": h.Granted, "failed": h.Failed, "released": h.Released,
		"lost": h.Lost}[kind]
}

// A reporter calls the hooks of a session. Its mu is locked last, and never while
// a hook runs.
type reporter struct {
	hooks  *Hooks // nil: there are none.
	notice func(text string)

	mu        sync.Mutex
	idle      sync.Cond // isRunning has become false.
	queue     []HookEvent
	isRunning bool
	hasFailed bool
	count     int64
	skipped   int
}

func newReporter(hooks *Hooks, notice func(string)) *reporter {
	r := &reporter{hooks: hooks, notice: notice}
	r.idle.L = &r.mu
	return r
}

// An acquisition that is reported; nil: one that is not. Its methods may be called
// in any order: those that do not fit the state do nothing, so each has exactly
// one end.
type acquisition struct {
	to          *reporter
	id          int64
	name, trace string
	state       string // The newest event. The reporter's mu guards it.
	token       int64
	since       time.Time
}

func (r *reporter) begin(name, trace string) *acquisition {
	if r.hooks == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= hooksBehind {
		r.skipped++
		return nil
	}
	r.count++
	a := &acquisition{to: r, id: r.count, name: name, trace: trace, since: time.Now()}
	a.report("acquire", "")
	return a
}

// report enqueues an event. The caller has the reporter's mu.
func (a *acquisition) report(kind, text string) {
	r, now := a.to, time.Now()
	r.queue = append(r.queue, HookEvent{Kind: kind, ID: a.id, Lock: a.name,
		Token: a.token, Trace: a.trace, At: now, Elapsed: now.Sub(a.since),
		Text: text, Skipped: r.skipped})
	a.state, r.skipped = kind, 0
	if kind == "granted" {
		a.since = now
	}
	if !r.isRunning {
		r.isRunning = true
		go r.run()
	}
}

// step reports the event if the newest one is any of those.
func (a *acquisition) step(kind, text string, token int64, after ...string) {
	if a == nil {
		return
	}
	a.to.mu.Lock()
	defer a.to.mu.Unlock()
	for _, one := range after {
		if a.state == one {
			if token != 0 {
				a.token = token
			}
			a.report(kind, text)
			return
		}
	}
}

func (a *acquisition) waits() { a.step("wait", "", 0, "acquire") }

func (a *acquisition) granted(token int64) {
	a.step("granted", "", token, "acquire", "wait")
}

// failed is ignored after granted. nil: it was not granted in time.
func (a *acquisition) failed(err error) {
	text := "not granted in time"
	if err != nil {
		text = err.Error()
	}
	a.step("failed", text, 0, "acquire", "wait")
}

func (a *acquisition) released() { a.step("released", "", 0, "granted") }

func (a *acquisition) lost(why string) {
	if why == "" {
		why = "ended"
	}
	a.step("lost", why, 0, "granted")
}

// run calls hooks until no event is left.
func (r *reporter) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		event := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		r.call(event)
		r.mu.Lock()
	}
	r.isRunning = false
	r.idle.Broadcast()
}

// call calls a hook. One that panics, or calls Goexit like a failing test, does
// not prevent later events.
func (r *reporter) call(event HookEvent) {
	hook := r.hooks.of(event.Kind)
	if hook == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if why := recover(); why != nil {
				r.failed(event.Kind, why)
			}
		}()
		hook(event)
	}()
	<-done
}

func (r *reporter) failed(kind string, why any) {
	r.mu.Lock()
	isFirst := !r.hasFailed
	r.hasFailed = true
	r.mu.Unlock()
	if isFirst {
		r.notice(fmt.Sprintf("the hook %q has failed: %v", kind, why))
	}
}

// wait returns when all hooks have been called.
func (r *reporter) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.isRunning {
		r.idle.Wait()
	}
}

// endHolds reports that all holds of the session have ended.
func (s *Session) endHolds(end func(*acquisition)) {
	s.eachHold(func(l *Lock) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, g := range l.grants {
			end(g.reported)
		}
	})
}
