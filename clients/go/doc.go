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
// A goroutine keeps the session alive with heartbeats. The client considers its
// lease over before the servers do, so two clients never believe that they hold
// the same lock. Call Guard, or use the context of Lock.Context, before each
// step that must not outlive the lock. A process that is paused between Guard
// and its write can still write late: the token protects against that.
//
// Durations are time.Duration, sent as milliseconds. Linux only: the clocks are
// CLOCK_MONOTONIC and CLOCK_BOOTTIME, so that time in which the machine is
// suspended counts against the lease.
package hasp
