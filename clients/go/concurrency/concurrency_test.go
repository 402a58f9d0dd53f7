// SPDX-License-Identifier: MIT

package concurrency

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hasp"
)

var cluster struct {
	endpoints []string
	pids      []int
}

// TestMain starts three nodes; $HASP names the tool. With CANDIDATE it is a
// candidate that leads until it is killed.
func TestMain(m *testing.M) {
	if name := os.Getenv("CANDIDATE"); name != "" {
		lead(name)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	tool := os.Getenv("HASP")
	if tool == "" {
		fmt.Println("HASP does not name the tool that starts a cluster")
		return 0
	}
	folder, err := os.MkdirTemp("", "hasp-go-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	arguments := []string{"dev", "--dir", folder + "/nodes"}
	if port := os.Getenv("HASP_TEST_PORT"); port != "" {
		arguments = append(arguments, "--port", port)
	}
	dev := exec.Command(tool, arguments...)
	out, _ := dev.StdoutPipe()
	if err := dev.Start(); err != nil {
		panic(err)
	}
	defer func() {
		for _, pid := range cluster.pids {
			syscall.Kill(pid, syscall.SIGCONT)
		}
		dev.Process.Signal(syscall.SIGTERM)
		dev.Wait()
	}()
	line, _ := bufio.NewReader(out).ReadString('\n')
	for _, word := range strings.Fields(line) {
		key, value, _ := strings.Cut(word, "=")
		for _, one := range strings.Split(value, ",") {
			if key == "endpoints" {
				cluster.endpoints = append(cluster.endpoints, one)
			} else if key == "pids" {
				pid, _ := strconv.Atoi(one)
				cluster.pids = append(cluster.pids, pid)
			}
		}
	}
	if len(cluster.pids) != 3 {
		panic("hasp dev printed " + line)
	}
	os.Setenv("HASP_ENDPOINTS", strings.Join(cluster.endpoints, ","))
	return m.Run()
}

func lead(name string) {
	s, err := NewSession(hasp.Options{TTL: time.Second})
	if err == nil {
		err = NewElection(s, name).Campaign(context.Background(), "victim")
	}
	fmt.Println("leads", err)
	select {}
}

// leader returns the pid of the node that leads.
func leader(t *testing.T) int {
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		for i, endpoint := range cluster.endpoints {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			one, err := hasp.Open(ctx, hasp.Options{Endpoints: []string{endpoint},
				Timeout: time.Second})
			if err == nil {
				reply, _ := one.Ask(ctx, "RAFT.STATUS")
				status, _ := reply.(map[string]any)
				one.Close(ctx)
				if status["role"] == "leader" {
					cancel()
					return cluster.pids[i]
				}
			}
			cancel()
		}
	}
	t.Fatal("no leader")
	return 0
}

func open(t *testing.T, more ...SessionOption) *Session {
	t.Helper()
	s, err := NewSession(hasp.Options{}, more...)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v is not %v", err, kind)
	}
}

// takeAway ends the hold of a lock, as an operator does.
func takeAway(t *testing.T, s *Session, name string) {
	t.Helper()
	holders, _, err := s.Show(soon(t), name)
	must(t, err)
	_, err = s.Ask(soon(t), "LOCK.RELEASEIF", name, "OWNER", holders[0].Owner)
	must(t, err)
}

func TestMutex(t *testing.T) {
	ctx, one, two := soon(t), open(t, WithTTL(5)), open(t)
	a, b := NewMutex(one, "mutex"), NewMutex(two, "mutex")
	must(t, a.Lock(ctx))
	is(t, b.TryLock(ctx), ErrLocked)
	is(t, NewMutex(one, "mutex").TryLock(ctx), ErrLocked) // Unlike etcd's.
	if mine, err := a.IsOwner(ctx); !mine || err != nil || a.Token() == 0 || a.Key() != "mutex" {
		t.Fatal("it holds the lock", err)
	}
	if mine, _ := b.IsOwner(ctx); mine {
		t.Fatal("it does not hold the lock")
	}
	is(t, a.Guard(time.Minute), hasp.ErrShort)
	late, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	is(t, b.Lock(late), context.DeadlineExceeded)
	must(t, a.Unlock(ctx))
	is(t, a.Unlock(ctx), ErrLockReleased)
	must(t, b.TryLock(ctx))
	takeAway(t, one, "mutex")
	is(t, b.Unlock(ctx), ErrLockReleased)
	must(t, a.Lock(ctx))
	must(t, one.Close())
	<-one.Ctx().Done()
	<-one.Done()
	is(t, a.Unlock(ctx), ErrSessionExpired)
	is(t, a.Lock(ctx), ErrSessionExpired)
}

func panics(t *testing.T, what func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Fatal("it did not panic")
		}
	}()
	what()
}

func TestLockersExcludeEachOtherThroughFailovers(t *testing.T) {
	const each = 40
	var inside, worst, count atomic.Int64
	var all sync.WaitGroup
	total := 0
	for i := 0; i < 3; i++ {
		locker := NewLocker(open(t), "locker")
		for j := 0; j < 2; j++ { // Two goroutines share each.
			all.Add(1)
			go func() {
				defer all.Done()
				for k := 0; k < each; k++ {
					locker.Lock()
					if inside.Add(1) > 1 {
						worst.Add(1)
					}
					total++ // The race detector and the sum see an overlap.
					count.Add(1)
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					locker.Unlock()
				}
			}()
		}
	}
	for count.Load() < each {
		time.Sleep(time.Millisecond)
	}
	frozen := leader(t)
	syscall.Kill(frozen, syscall.SIGSTOP)
	before := count.Load()
	for count.Load() == before {
		time.Sleep(time.Millisecond)
	}
	syscall.Kill(frozen, syscall.SIGCONT)
	all.Wait()
	if worst.Load() != 0 || total != 6*each {
		t.Fatalf("%d overlaps, %d of %d", worst.Load(), total, 6*each)
	}
}

func TestALockerPanicsIfItsLockIsLost(t *testing.T) {
	s := open(t)
	locker := NewLocker(s, "panics")
	locker.Lock()
	takeAway(t, open(t), "panics")
	panics(t, locker.Unlock)
	must(t, s.Close())
	panics(t, locker.Lock)
}

func next(t *testing.T, leaders <-chan Leader, value string) Leader {
	t.Helper()
	select {
	case leader, isOpen := <-leaders:
		if !isOpen || leader.Value != value {
			t.Fatalf("%+v, not %q", leader, value)
		}
		return leader
	case <-time.After(30 * time.Second):
		t.Fatalf("no leader %q", value)
	}
	return Leader{}
}

func TestElection(t *testing.T) {
	ctx, watching := soon(t), open(t)
	follower := NewElection(watching, "elect")
	if _, err := follower.Leader(ctx); !errors.Is(err, ErrElectionNoLeader) {
		t.Fatal(err)
	}
	is(t, follower.Proclaim(ctx, "x"), ErrElectionNotLeader)
	must(t, follower.Resign(ctx))
	observing, stop := context.WithCancel(ctx)
	leaders := follower.Observe(observing)
	one, two := NewElection(open(t), "elect"), NewElection(open(t), "elect")
	must(t, one.Campaign(ctx, "one"))
	first := next(t, leaders, "one")
	if first.Rev != one.Rev() || one.Key() != "elect" {
		t.Fatal("another leader", first)
	}
	must(t, one.Guard(time.Second))
	is(t, two.Guard(0), ErrElectionNotLeader)
	must(t, one.Proclaim(ctx, "10.0.0.1:80, version 2"))
	next(t, leaders, "10.0.0.1:80, version 2")
	must(t, one.Campaign(ctx, "again"))
	next(t, leaders, "again")
	second := make(chan error, 1)
	go func() { second <- two.Campaign(ctx, "two") }()
	must(t, one.Resign(ctx))
	must(t, <-second)
	if next(t, leaders, "two").Rev <= first.Rev || one.Rev() != 0 {
		t.Fatal("tokens grow")
	}
	must(t, two.Proclaim(ctx, "two, too"))
	next(t, leaders, "two, too")
	// A value that a former leader has proclaimed is not that of this one.
	takeAway(t, watching, "elect")
	must(t, one.Campaign(ctx, "three"))
	next(t, leaders, "three")
	is(t, two.Proclaim(ctx, "late"), ErrElectionNotLeader)
	stop()
	for range leaders { // It ends.
	}
	again := follower.Observe(ctx)
	next(t, again, "three")
	must(t, watching.Close())
	for range again {
	}
}

func TestAnElectionOutlivesItsLeaderAndTheNodes(t *testing.T) {
	ctx := soon(t)
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), "CANDIDATE=outlives")
	out, _ := victim.StdoutPipe()
	must(t, victim.Start())
	defer victim.Wait()
	defer victim.Process.Kill()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "leads <nil>\n" {
		t.Fatal(line)
	}
	mine := NewElection(open(t), "outlives")
	leaders := mine.Observe(ctx)
	first := next(t, leaders, "victim")
	led := make(chan error, 1)
	go func() { led <- mine.Campaign(ctx, "mine") }()
	victim.Process.Kill()
	must(t, <-led)
	if second := next(t, leaders, "mine"); second.Rev <= first.Rev {
		t.Fatal("tokens grow")
	}
	syscall.Kill(leader(t), syscall.SIGKILL) // The last test: two nodes are left.
	must(t, mine.Proclaim(ctx, "still"))
	next(t, leaders, "still")
	must(t, mine.Guard(time.Second))
	must(t, mine.Resign(ctx))
}
