// SPDX-License-Identifier: MIT

// A job once per period and cluster: run it from cron on every machine.
//
//	cron nightly 2024-05-07
//
// The lock is named after the period and left to its TTL, so that a machine
// with a slow clock does not run the job again.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"hasp"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: cron JOB PERIOD")
		os.Exit(64)
	}
	ctx := context.Background()
	session, err := hasp.Open(ctx, hasp.Options{TTL: time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lock := session.NewLock(os.Args[1]+"/"+os.Args[2], hasp.LockOptions{})
	mine, err := lock.TryLock(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case mine:
		fmt.Println("runs", os.Args[1])
		// The job. Neither Unlock nor Close: the session ends by its TTL.
	default:
		fmt.Println("another machine runs", os.Args[1])
	}
}
