// SPDX-License-Identifier: MIT

// One leader among many processes: start it everywhere.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"hasp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, _ := os.Hostname()
	elector := hasp.Elector{
		Name:     "leader",
		Identity: fmt.Sprintf("%s:%d", name, os.Getpid()),
		Options:  hasp.Options{TTL: 5 * time.Second, Linger: 2 * time.Second},
		Callbacks: hasp.Callbacks{
			OnStartedLeading: func(ctx context.Context, lock *hasp.Lock) {
				fmt.Println("leads with token", lock.Token())
				for lock.Guard(500*time.Millisecond) == nil && ctx.Err() == nil {
					time.Sleep(100 * time.Millisecond) // A step of the work.
				}
			},
			OnStoppedLeading: func() { fmt.Println("leads no longer") },
			OnNewLeader:      func(who string) { fmt.Println("leader is", who) },
		},
	}
	if err := elector.Run(ctx); ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
