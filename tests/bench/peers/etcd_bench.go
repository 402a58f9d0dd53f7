// SPDX-License-Identifier: MIT

// Locks of etcd by its own client: a session for each client, and the mutex of
// the package "concurrency" (a transaction, and a delete). 64 clients share a
// connection to each server, as the client does by itself within a process.
//
//	etcd_bench cycle|handover CLIENTS SECONDS HOST:PORT...
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const sharing = 64
const warmUp = 500 * time.Millisecond

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd_bench:", err)
		os.Exit(1)
	}
}

func connect(servers []string, count int) []*clientv3.Client {
	clients := make([]*clientv3.Client, count)
	for i := range clients {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: servers, DialTimeout: 10 * time.Second})
		check(err)
		clients[i] = client
	}
	return clients
}

func run(mutex *concurrency.Mutex, begin, end time.Time) (took []int64) {
	for {
		asked := time.Now()
		if asked.After(end) {
			return took
		}
		ctx, cancel := context.WithDeadline(context.Background(),
			end.Add(30*time.Second))
		check(mutex.Lock(ctx))
		now := time.Now()
		if now.After(begin) && now.Before(end) {
			took = append(took, now.Sub(asked).Microseconds())
		}
		check(mutex.Unlock(ctx))
		cancel()
	}
}

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr,
			"usage: etcd_bench cycle|handover CLIENTS SECONDS SERVER...")
		os.Exit(64)
	}
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)
	clients := connect(os.Args[4:], (count+sharing-1)/sharing)
	mutexes := make([]*concurrency.Mutex, count)
	var ready, done sync.WaitGroup
	for i := range mutexes {
		ready.Add(1)
		go func(i int) {
			session, err := concurrency.NewSession(clients[i/sharing])
			check(err)
			name := fmt.Sprintf("bench/%d/%d", os.Getpid(), i)
			if os.Args[1] == "handover" {
				name = fmt.Sprintf("bench/%d", os.Getpid())
			}
			mutexes[i] = concurrency.NewMutex(session, name)
			ready.Done()
		}(i)
	}
	ready.Wait()
	begin := time.Now().Add(warmUp)
	end := begin.Add(time.Duration(seconds * float64(time.Second)))
	took := make([][]int64, count)
	for i := range mutexes {
		done.Add(1)
		go func(i int) {
			took[i] = run(mutexes[i], begin, end)
			done.Done()
		}(i)
	}
	done.Wait()
	var all []int64
	for _, one := range took {
		all = append(all, one...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	var p50, p99 int64
	if len(all) > 0 {
		p50, p99 = all[len(all)/2], all[len(all)-1-len(all)/100]
	}
	fmt.Printf("%.0f cycles/s p50 %d us p99 %d us\n",
		float64(len(all))/seconds, p50, p99)
}
