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
			OnStartedLeading: func(ctx context.Context, token int64) {
				fmt.Println("leads with token", token)
				for ctx.Err() == nil { // The work, in short steps.
					time.Sleep(100 * time.Millisecond)
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
