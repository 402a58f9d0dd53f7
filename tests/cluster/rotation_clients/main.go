// SPDX-License-Identifier: MIT

// As worker.py.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"hasp"
)

func check(err error) {
	if err != nil {
		fmt.Println("ERROR", err)
		os.Exit(1)
	}
}

func work(ctx context.Context, number int) {
	bg := context.Background()
	session, err := hasp.Open(bg, hasp.Options{TTL: 10 * time.Second,
		OnEvent: func(event hasp.Event) {
			fmt.Println("EVENT", event.Kind, event.Text)
		}})
	check(err)
	lock := session.NewLock(fmt.Sprintf("app/go-%d", number), hasp.LockOptions{})
	kept := session.NewLock(fmt.Sprintf("app/go-kept-%d", number), hasp.LockOptions{})
	check(kept.Lock(bg))
	for cycle := 0; ctx.Err() == nil; cycle++ {
		check(lock.Lock(bg))
		time.Sleep(5 * time.Millisecond)
		check(lock.Unlock(bg))
		if cycle%20 == 0 {
			fmt.Println("CYCLE", number, session.ID())
		}
	}
	check(kept.Unlock(bg))
	check(session.Close(bg))
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := 0; i < 2; i++ {
		all.Add(1)
		go func(number int) {
			work(ctx, number)
			all.Done()
		}(i)
	}
	io.Copy(io.Discard, os.Stdin)
	stop()
	all.Wait()
	fmt.Println("END")
}
