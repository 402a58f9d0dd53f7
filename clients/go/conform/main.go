// SPDX-License-Identifier: MIT

// Carries out the commands on stdin: tests/conformance/README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"hasp"
)

type command struct {
	ID                          int
	Do, As, Endpoints, Name     string
	Names, Words                []string
	Ttl, Linger, Timeout, Alive int64
	Wait                        *int64
	Slots                       int
	Shared, Barge               bool
	Value, Text, Prefix, Owner  string
	Trace                       string
	Hold, Delay, Need           int64
	Durable, Beside             bool
	Reason, Tie, Agent          string
	Tied                        bool
	Seal                        string
	SealTime                    int64 `json:"seal_time"`
	Hooks                       any
}

type object map[string]any

var (
	output  sync.Mutex
	mu      sync.Mutex // Guards the following fields.
	session *hasp.Session
	beside  *hasp.Session // Shares its connection; or nil.
	locks   = map[string]*hasp.Lock{}
	waits   = map[string]context.CancelFunc{}
	// Ends the hooks that hang.
	unsealed = make(chan struct{})
)

func say(told object) {
	line, _ := json.Marshal(told)
	output.Lock()
	os.Stdout.Write(append(line, '\n'))
	output.Unlock()
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// monotonicNS is CLOCK_MONOTONIC, as the suite reads it.
func monotonicNS() int64 {
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// hook returns a hook for OnGrant.
func hook(kind string) func(context.Context, string, int64) error {
	if kind == "" {
		return nil
	}
	return func(ctx context.Context, name string, token int64) error {
		if kind == "hang" {
			say(object{"event": "seal", "name": name, "token": token, "text": ""})
			<-unsealed
			return nil
		}
		reply, err := session.Ask(ctx, "FENCE.ADMIT", name, fmt.Sprint(token))
		if err == nil && reply != int64(1) {
			err = errors.New("stale")
		}
		return err
	}
}

// hooks returns hooks that say each event, and then fail if they are to.
func hooks(how any) *hasp.Hooks {
	hook := func(e hasp.HookEvent) {
		say(object{"event": "hook", "kind": e.Kind, "id": e.ID, "name": e.Lock,
			"token": e.Token, "trace": e.Trace, "text": e.Text,
			"elapsed_ns": e.Elapsed, "skipped": e.Skipped})
		if how == "fail" {
			panic("a hook that fails")
		}
	}
	if how == nil {
		return nil
	}
	return &hasp.Hooks{Acquire: hook, Wait: hook, Granted: hook, Failed: hook,
		Released: hook, Lost: hook}
}

func lockOf(c *command) *hasp.Lock {
	mu.Lock()
	defer mu.Unlock()
	if locks[c.As] == nil {
		locks[c.As] = session.NewLocks(c.Names, hasp.LockOptions{
			Shared: c.Shared, Slots: c.Slots, Value: c.Value, Trace: c.Trace, Barge: c.Barge,
			Hold: ms(c.Hold), Delay: ms(c.Delay), Owner: c.Owner,
			OnGrant: hook(c.Seal), SealTime: ms(c.SealTime)})
	}
	return locks[c.As]
}

// take tries or waits, as long as is said, or until "cancel".
func take(c *command, lock *hasp.Lock, wait func(context.Context) error,
	try func(context.Context) (bool, error)) (object, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var held bool
	var err error
	if c.Wait != nil && *c.Wait == 0 {
		held, err = try(ctx)
	} else {
		if c.Wait != nil {
			ctx, cancel = context.WithTimeout(ctx, ms(*c.Wait))
			defer cancel()
		}
		mu.Lock()
		waits[c.As] = cancel
		mu.Unlock()
		err = wait(ctx)
		held = err == nil
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	tokens := object{}
	for i, token := range lock.Tokens() {
		tokens[lock.Names()[i]] = token
	}
	return object{"held": held, "tokens": tokens}, err
}

func run(c *command) (object, error) {
	ctx, now := context.Background(), monotonicNS()
	switch c.Do {
	case "can":
		return object{"features": strings.Fields("several convert alive place cancel owner linger hold note please watch durable late tie seal hooks throw")}, nil
	case "open":
		options := hasp.Options{
			Endpoints: strings.Split(c.Endpoints, ","), Name: c.Name, TTL: ms(c.Ttl),
			Linger: ms(c.Linger), Timeout: ms(c.Timeout), Alive: ms(c.Alive),
			Durable: c.Durable, Reason: c.Reason, Tie: hasp.TieKind(c.Tie), Agent: c.Agent}
		if c.Beside {
			var err error
			if beside, err = hasp.Open(ctx, options); err != nil {
				return nil, err
			}
		}
		options.OnEvent = func(e hasp.Event) {
			say(object{"event": e.Kind, "name": e.Lock, "token": e.Token, "text": e.Text})
		}
		options.Hooks = hooks(c.Hooks)
		opened, err := hasp.Open(ctx, options)
		session, locks = opened, map[string]*hasp.Lock{}
		return object{}, err
	case "close":
		if beside != nil {
			defer beside.Close(ctx)
			defer func() { beside = nil }()
		}
		return object{}, session.Close(ctx)
	case "beside":
		return object{"state": beside.State().String()}, nil
	case "state":
		left := session.Remaining()
		return object{"state": session.State().String(), "left_ns": left, "at_ns": now}, nil
	case "tied":
		return object{"tied": session.IsTied()}, nil
	case "credentials":
		if !c.Tied {
			if err := session.Untie(ctx); err != nil {
				return nil, err
			}
		}
		if session.Secret() == "" {
			return nil, errors.New("it is tied: untie it")
		}
		return object{"session": session.ID(), "secret": session.Secret()}, nil
	case "unseal":
		close(unsealed)
		return object{}, nil
	case "alive":
		return object{}, session.Alive()
	case "ask":
		reply, err := session.Ask(ctx, c.Words...)
		return object{"reply": reply}, err
	case "watch":
		go session.Watch(ctx, c.Prefix, func(e hasp.Change) {
			say(object{"event": e.Kind, "name": e.Lock, "token": e.Token, "text": e.Message})
		})
		return object{}, nil
	case "cancel":
		mu.Lock()
		waits[c.As]()
		mu.Unlock()
		return object{}, nil
	}
	lock := lockOf(c)
	switch c.Do {
	case "lock":
		return take(c, lock, lock.Lock, lock.TryLock)
	case "convert":
		if !c.Shared {
			return take(c, lock, lock.Upgrade, lock.TryUpgrade)
		}
		return take(c, lock, lock.Downgrade, nil)
	case "release":
		return object{}, lock.Unlock(ctx)
	case "note":
		return object{}, lock.Note(ctx, c.Text)
	case "place":
		place, err := lock.Place(ctx)
		if place == 0 {
			return object{"place": nil}, err
		}
		return object{"place": place}, err
	case "guard":
		return object{"at_ns": now}, lock.Guard(ms(c.Need))
	case "remaining":
		return object{"left_ns": lock.Remaining(), "at_ns": now}, nil
	}
	return nil, fmt.Errorf("no command %q", c.Do)
}

func wordOf(err error) string {
	if errors.Is(err, hasp.ErrSeal) { // It wraps an error of the hook.
		return "SEAL"
	}
	for kind, word := range map[error]string{hasp.ErrLost: "LOST", hasp.ErrShort: "SHORT",
		hasp.ErrNotHeld: "NOTHELD", hasp.ErrUnknown: "UNKNOWN",
		hasp.ErrUnreachable: "UNREACHABLE"} {
		if errors.Is(err, kind) {
			return word
		}
	}
	var refusal *hasp.Error
	if errors.As(err, &refusal) {
		return refusal.Word
	}
	return "MISUSE"
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var c command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err)
		}
		go func() {
			done, err := run(&c)
			if err != nil {
				say(object{"id": c.ID, "error": wordOf(err), "text": err.Error()})
			} else {
				say(object{"id": c.ID, "ok": done})
			}
		}()
	}
}
