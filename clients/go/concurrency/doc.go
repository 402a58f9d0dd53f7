// SPDX-License-Identifier: MIT

// Package concurrency has sessions, mutexes and elections of hasp with the method
// names of etcd's package clientv3/concurrency, so that a program that uses that
// package changes its imports and the line that opens the session.
//
//	session, err := concurrency.NewSession(hasp.Options{}, concurrency.WithTTL(10))
//	defer session.Close()
//	mutex := concurrency.NewMutex(session, "orders")
//	if err := mutex.Lock(ctx); err != nil { ... }
//	defer mutex.Unlock(ctx)
//
// What differs from etcd's:
//
//   - Two Mutexes exclude each other, also within one session. With etcd the
//     second one of a session has the lock at once.
//   - Unlock of a lock that was lost is an error (ErrLockReleased), and so is
//     Resign. The steps before it might have run beside another holder.
//   - A Mutex has a Token, for the store that it protects, and Guard, which says
//     whether a step ends within the lease. IsOwner asks the cluster; there are no
//     transactions to compare in.
//   - Key is the name of the lock. Nothing is created below it, and one name is
//     used for either a Mutex or an Election.
//   - The TTL is 10 s by default, and a session is over 0.8 of it after the last
//     heartbeat that was answered.
package concurrency
