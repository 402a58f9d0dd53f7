// SPDX-License-Identifier: MIT

// Package hasp is a client of hasp, a replicated lock service: locks that are
// right when machines fail, each grant with a fencing token.
//
//	session, err := hasp.Open(ctx, hasp.Options{Name: "billing"})
//	if err != nil { ... }
//	defer session.Close(ctx)
//	lock := session.NewLock("orders", hasp.LockOptions{})
//	if err := lock.Lock(ctx); err != nil { ... }  // waits in line
//	defer lock.Unlock(ctx)
//	if err := lock.Guard(2 * time.Second); err != nil { ... }
//	store.Write(row, lock.Token()) // the store refuses a smaller token
//
// A session lives by heartbeats, which a goroutine sends. Its lease ends here
// before it ends at the servers, so two holders never believe in one lock; ask
// Guard, or take the context of Lock.Context, before each step that must not
// outlive the lock. A process that is paused between its last look and its
// write can still write late: that is what the token is for.
//
// Durations are time.Duration, sent as milliseconds. Linux only: the clocks are
// CLOCK_MONOTONIC and CLOCK_BOOTTIME, so that a suspended machine knows that
// its lease has run out.
package hasp
