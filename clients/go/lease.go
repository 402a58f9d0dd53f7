// SPDX-License-Identifier: MIT

package hasp

import (
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Until when may a lease be trusted? The clock rules, without I/O.
//
// A lease of T is valid until S0 + 0.8 T, where S0 is the clock when the newest
// heartbeat that was answered OK was *sent*. The leader counts T from its
// receipt, so with clocks up to 10 % off on either side the client ends first.
// The smaller remainder of CLOCK_MONOTONIC and CLOCK_BOOTTIME counts: on a
// suspended machine the monotonic clock stops, while the lease runs out. With a
// linger the lease is in jeopardy (not held, although an answer restores it)
// from S0 + 0.8 min(T, linger) on. From S0 + 0.8 T on it is lost, and a lost
// lease stays lost.
//
// All times are whole nanoseconds. tests/vectors/lease.json checks that this
// file does the same as the C library.

const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// reading is one reading of both clocks, in nanoseconds.
type reading struct{ mono, boot int64 }

func clockNow() reading {
	return reading{readClock(clockMonotonic), readClock(clockBoottime)}
}

func readClock(id uintptr) int64 {
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id,
		uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic("hasp: clock_gettime: " + errno.Error())
	}
	return ts.Nano()
}

// age is how long ago r was, on whichever clock more time has passed.
func (r reading) age(now reading) int64 {
	age := now.mono - r.mono
	if slept := now.boot - r.boot; slept > age {
		age = slept
	}
	if age < 0 {
		return 0
	}
	return age
}

func (r reading) before(other reading) bool {
	return r.mono < other.mono || (r.mono == other.mono && r.boot < other.boot)
}

// State is the state of a session's lease.
type State int

const (
	// Held: the session's holds can be trusted.
	Held State = iota
	// Jeopardy: no contact with the cluster. Stop what the locks protect; after
	// an answer the lease is held again.
	Jeopardy
	// Lost: for good. Open a new session.
	Lost
)

func (s State) String() string {
	return [...]string{"held", "jeopardy", "lost"}[s]
}

const (
	// endless is the remaining time of a durable session.
	endless = int64(1<<63 - 1)
	// How often a durable session checks its holds.
	endlessLook = 5 * time.Second
)

// trusted is the part of a promised time that can be trusted: 0.8.
func trusted(promised int64) int64 { return promised * 4 / 5 }

// holdRemaining is how long a limited hold can be trusted. The answer to the
// request sent then said that leftMS of it were left.
func holdRemaining(sent reading, leftMS int64, now reading) int64 {
	left := trusted(leftMS*int64(time.Millisecond)) - sent.age(now)
	if left < 0 {
		return 0
	}
	return left
}

// lease is the client's belief in its session. Any goroutine may use it.
type lease struct {
	mu          sync.Mutex
	sent        reading // When the newest answered heartbeat was sent.
	ttl, linger int64   // Nanoseconds; linger 0: none.
	granted     bool
	lost        bool
	isEndless   bool // Only the cluster ends it, no time does.
}

// answeredEndless is answered for a durable session.
func (l *lease) answeredEndless(sent reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.granted, l.isEndless = sent, true, true
}

func (l *lease) hasNoEnd() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isEndless
}

// answered records that a heartbeat sent at sent was answered OK. A lease that
// was lost by then stays lost, even if no check has noticed the loss. An older
// heartbeat than the newest changes nothing.
func (l *lease) answered(sent reading, ttlMS, lingerMS int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stateLocked(sent) == Lost || (l.granted && sent.before(l.sent)) {
		return
	}
	l.ttl = ttlMS * int64(time.Millisecond)
	l.linger = lingerMS * int64(time.Millisecond)
	l.sent, l.granted = sent, true
}

// refused records that the server said that the session has ended.
func (l *lease) refused() {
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
}

func (l *lease) state(now reading) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stateLocked(now)
}

func (l *lease) stateLocked(now reading) State {
	if l.lost {
		return Lost
	}
	if !l.granted {
		return Jeopardy
	}
	if l.isEndless {
		return Held
	}
	age := l.sent.age(now)
	switch {
	case age >= trusted(l.ttl):
		l.lost = true
		return Lost
	case age < trusted(l.promisedLocked()):
		return Held
	}
	return Jeopardy
}

// remaining is for how many nanoseconds the lease can be trusted; 0 unless it
// is held.
func (l *lease) remaining(now reading) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.granted || l.stateLocked(now) != Held {
		return 0
	}
	if l.isEndless {
		return endless
	}
	return trusted(l.promisedLocked()) - l.sent.age(now)
}

// promised is the time that each answer promises until the next one, in
// nanoseconds.
func (l *lease) promised() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.promisedLocked()
}

func (l *lease) promisedLocked() int64 {
	if l.isEndless {
		return endless
	}
	if l.linger != 0 && l.linger < l.ttl {
		return l.linger
	}
	return l.ttl
}

// period is the time between heartbeats: a fifth of the promised time, so that
// a session is never silent for a quarter of its lease.
func (l *lease) period() time.Duration {
	if l.hasNoEnd() {
		return endlessLook
	}
	return time.Duration(l.promised() / 5)
}
