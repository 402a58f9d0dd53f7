// SPDX-License-Identifier: MIT

// At most five at a time, on all machines together.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"hasp"
)

func main() {
	ctx := context.Background()
	session, err := hasp.Open(ctx, hasp.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer session.Close(ctx)
	var workers sync.WaitGroup
	for i := 1; i <= 10; i++ {
		workers.Add(1)
		go func(i int) {
			defer workers.Done()
			slot := session.NewLock("render", hasp.LockOptions{Slots: 5})
			if err := slot.Lock(ctx); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			defer slot.Unlock(ctx)
			time.Sleep(50 * time.Millisecond) // The work.
			fmt.Println("worker", i, "is done")
		}(i)
	}
	workers.Wait()
}
