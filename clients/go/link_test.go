// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A fake node answers what 'answer' says, as raw RESP; "" closes the connection.
type fakeNode struct {
	net.Listener
	lines    atomic.Int32 // That were ever opened.
	sessions atomic.Int64
	mu       sync.Mutex
	asked    []string
	answer   func(line int32, words []string) string
}

func newFakeNode(t *testing.T, answer func(line int32, words []string) string) *fakeNode {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	f := &fakeNode{Listener: listener, answer: answer}
	go func() {
		for {
			one, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(f.lines.Add(1), one)
		}
	}()
	return f
}

func (f *fakeNode) serve(line int32, one net.Conn) {
	defer one.Close()
	in := newReader(one)
	for {
		request, err := in.reply()
		if err != nil {
			return
		}
		var words []string
		for _, word := range asList(request) {
			words = append(words, asText(word))
		}
		f.mu.Lock()
		f.asked = append(f.asked, fmt.Sprintf("%d %s", line, strings.Join(words, " ")))
		f.mu.Unlock()
		text := f.answer(line, words)
		if text == "usual" {
			text = f.usual(words)
		}
		if text == "" {
			return
		}
		one.Write([]byte(text))
	}
}

func (f *fakeNode) usual(words []string) string {
	switch words[0] {
	case "SESSION.OPEN":
		return fmt.Sprintf("%%2\r\n+id\r\n:%d\r\n+ttl_ms\r\n:%s\r\n", f.sessions.Add(1), words[2])
	case "SESSION.KEEP":
		return "%1\r\n+ttl_ms\r\n:2000\r\n"
	case "LOCK.ACQUIRE", "LOCK.CONVERT":
		return grantOf(words, 7)
	case "LOCK.MACQUIRE":
		return "*2\r\n" + holdOf(words, words[2], 7, 7, "exclusive", 1, -1) +
			holdOf(words, words[3], 8, 8, "exclusive", 1, -1)
	}
	return ":7\r\n"
}

// grantOf is what a request for one lock is answered that is granted, with what
// it asks for.
func grantOf(words []string, token int64) string {
	mode, left := "exclusive", int64(-1)
	for i, word := range words {
		switch word {
		case "SHARED":
			mode = "shared"
		case "HOLD":
			left, _ = strconv.ParseInt(words[i+1], 10, 64)
		}
	}
	return holdOf(words, words[1], token, token, mode, 1, left)
}

// holdOf is a node's report of a hold of the owner that asks; left < 0: no
// limit.
func holdOf(words []string, name string, first, token int64, mode string, count int,
	left int64) string {
	owner := ""
	for i, word := range words {
		if word == "OWNER" {
			owner = words[i+1]
		}
	}
	limit := "_"
	if left >= 0 {
		limit = fmt.Sprint(":", left)
	}
	return fmt.Sprintf("%%9\r\n+lock\r\n+%s\r\n+owner\r\n+%s\r\n+token\r\n:%d\r\n+first\r\n:%d\r\n"+
		"+mode\r\n+%s\r\n+count\r\n:%d\r\n+hold_left_ms\r\n%s\r\n+delay_ms\r\n:0\r\n+as_of\r\n:%d\r\n",
		name, owner, token, first, mode, count, limit, token+100)
}

func (f *fakeNode) open(t *testing.T, options Options) *Session {
	options.Endpoints = []string{f.Addr().String()}
	if options.TTL == 0 {
		options.TTL = 2 * time.Second
	}
	s, err := Open(soon(t), options)
	must(t, err)
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// times is how often a request was asked that begins so.
func (f *fakeNode) times(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := 0
	for _, one := range f.asked {
		if strings.HasPrefix(one, prefix) {
			count++
		}
	}
	return count
}

func usually(int32, []string) string { return "usual" }

func TestSessionsShareAConnectionUnlessTheyAskForTheirOwn(t *testing.T) {
	f := newFakeNode(t, usually)
	var all []*Session
	for i := 0; i < 50; i++ {
		all = append(all, f.open(t, Options{}))
	}
	for _, s := range all {
		must(t, s.NewLock("a", LockOptions{}).Lock(soon(t)))
	}
	if f.lines.Load() != 1 || f.times("1 SESSION.ATTACH") != 0 {
		t.Fatal(f.lines.Load(), "connections")
	}
	for i, other := range []Options{{OwnConnection: true}, {TTL: 3 * time.Second},
		{Linger: time.Second}} {
		f.open(t, other)
		if int(f.lines.Load()) != i+2 {
			t.Fatal(other, f.lines.Load(), "connections")
		}
	}
	must(t, all[0].Close(soon(t)))
	f.open(t, Options{Alive: time.Millisecond}) // It ends, and is not closed.
	eventually(t, "its linger does not begin", func() bool {
		return f.times("1 SESSION.DETACH SESSION 54") == 1
	})
	_, err := all[1].Ask(soon(t), "LOCK.LIST")
	must(t, err)
	if f.lines.Load() != 4 || f.times("1 SESSION.DETACH") != 1 {
		t.Fatal("closed for all by one")
	}
}

func TestANewConnectionHearsOfEachSession(t *testing.T) {
	f := newFakeNode(t, func(line int32, words []string) string {
		if line == 1 && words[0] == "LOCK.LIST" {
			return ""
		}
		return "usual"
	})
	var all []*Session
	for i := 0; i < 10; i++ {
		all = append(all, f.open(t, Options{}))
	}
	_, err := all[3].Ask(soon(t), "LOCK.LIST")
	must(t, err)
	for i, s := range all {
		must(t, s.NewLock("a", LockOptions{}).Lock(soon(t)))
		if f.times(fmt.Sprintf("2 SESSION.ATTACH %d ", i+1)) < 1 {
			t.Error("not attached", i)
		}
	}
	if f.lines.Load() != 2 {
		t.Error(f.lines.Load(), "connections")
	}
}

// The wait is cancelled, and no node says for a while whether it was granted.
func TestAnOwnerWaitsForWhatIsNotKnown(t *testing.T) {
	var isKnown atomic.Bool
	f := newFakeNode(t, func(_ int32, words []string) string {
		text := strings.Join(words, " ")
		switch {
		case !strings.Contains(text, " REQ 1 "):
			return "usual"
		case strings.Contains(text, " WAIT "):
			return "+QUEUED 8\r\n"
		case isKnown.Load():
			return grantOf(words, 99)
		}
		return "-UNKNOWN it may have been done\r\n"
	})
	s := f.open(t, Options{})
	one := s.NewLock("a", LockOptions{Owner: "me"})
	two := s.NewLocks([]string{"b", "a"}, LockOptions{Owner: "me"})
	ctx, cancel := context.WithCancel(soon(t))
	got := make(chan error)
	go func() { got <- one.Lock(ctx) }()
	eventually(t, "it does not wait", func() bool { return f.times("1 LOCK.ACQ") == 1 })
	cancel()
	is(t, <-got, context.Canceled)
	brief, stop := context.WithTimeout(soon(t), 100*time.Millisecond)
	defer stop()
	_, err := two.TryLock(brief)
	is(t, err, ErrUnreachable)
	is(t, err, context.DeadlineExceeded)
	must(t, s.NewLock("b", LockOptions{Owner: "me"}).Lock(soon(t))) // REQ 2.
	must(t, s.NewLock("a", LockOptions{Owner: "you"}).Lock(soon(t)))
	go func() { got <- two.Lock(soon(t)) }()
	time.Sleep(50 * time.Millisecond)
	if f.times("1 LOCK.MACQUIRE") != 0 {
		t.Fatal("it has asked")
	}
	isKnown.Store(true)
	must(t, <-got)
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := f.asked[len(f.asked)-1]
	for i, asked := range f.asked {
		if strings.Contains(asked, " LOCK.RELEASE a TOKEN 99 ") {
			newest = strings.Join(f.asked[i:], "; ")
		}
	}
	if !strings.Contains(newest, " REQ 4 ") || !strings.Contains(newest, " REQ 5 ") {
		t.Fatal("not given back first: ", newest)
	}
}

func TestASessionThatHasEndedEndsAlone(t *testing.T) {
	f := newFakeNode(t, func(line int32, words []string) string {
		switch {
		case line == 1 && words[0] == "LOCK.LIST":
			return ""
		case words[0] == "SESSION.ATTACH" && words[1] == "2":
			return "-NOSESSION no such session\r\n"
		case words[0] != "SESSION.CLOSE" && words[len(words)-1] == "2":
			return "-NOSESSION not attached\r\n"
		}
		return "usual"
	})
	var events atomic.Int32
	heard := Options{OnEvent: func(Event) { events.Add(1) }}
	one, two, three := f.open(t, heard), f.open(t, Options{}), f.open(t, heard)
	_, err := one.Ask(soon(t), "LOCK.LIST")
	must(t, err)
	<-two.Done()
	time.Sleep(500 * time.Millisecond) // A heartbeat.
	if one.State() != Held || three.State() != Held || events.Load() != 0 {
		t.Error("its neighbours have felt it")
	}
	if f.lines.Load() != 2 {
		t.Error(f.lines.Load(), "connections")
	}
}

func TestWhatIsPushedToNobodyIsNothingAndAnAnswerToNothingTheEnd(t *testing.T) {
	strange := ">0\r\n>1\r\n_\r\n>3\r\n+lock\r\n+answer\r\n_\r\n" +
		">3\r\n:1\r\n:2\r\n*1\r\n:3\r\n" +
		">3\r\n+lock\r\n+please\r\n%1\r\n+session\r\n:99\r\n" +
		">3\r\n+lock\r\n+answer\r\n%3\r\n+session\r\n:1\r\n+wait\r\n+x\r\n+tokens\r\n:1\r\n"
	f := newFakeNode(t, func(line int32, words []string) string {
		switch {
		case words[0] == "LOCK.ACQUIRE" && line == 1:
			return strange + "+QUEUED 8\r\n" + strange + grantOf(words, 7)
		case words[0] == "LOCK.ACQUIRE" && line == 2:
			return "HTTP/1.1 400 Bad Request\r\n"
		}
		return "usual"
	})
	heard := Options{OnEvent: func(e Event) { t.Error(e) }}
	s, neighbour := f.open(t, heard), f.open(t, heard)
	lock := s.NewLock("a", LockOptions{})
	must(t, lock.Lock(soon(t)))
	if lock.Token() != 7 || f.lines.Load() != 3 || neighbour.State() != Held {
		t.Error(lock.Token(), f.lines.Load(), neighbour.State())
	}
}

func TestAPushEndsAWaitWhicheverComesFirst(t *testing.T) {
	grant := func(token int64) string {
		return fmt.Sprintf(">3\r\n+lock\r\n+answer\r\n%%4\r\n+session\r\n:1\r\n+owner\r\n+me\r\n"+
			"+wait\r\n:8\r\n+grants\r\n*1\r\n%s",
			holdOf([]string{"OWNER", "me"}, "a", token, token, "exclusive", 1, -1))
	}
	queued := "+QUEUED 8\r\n"
	for _, text := range []string{queued + grant(5), grant(5) + queued,
		grant(5) + grant(5) + queued + grant(5)} {
		f := newFakeNode(t, func(_ int32, words []string) string {
			if words[0] == "LOCK.ACQUIRE" {
				return text
			}
			return "usual"
		})
		lock := f.open(t, Options{}).NewLock("a", LockOptions{Owner: "me"})
		must(t, lock.Lock(soon(t)))
		if lock.Token() != 5 || f.times("1 LOCK.ACQUIRE") != 1 {
			t.Errorf("%q: %d", text, lock.Token())
		}
	}
}

func TestWhoGivesUpDisturbsNobodyAndALateAnswerIsNotTakenForAnother(t *testing.T) {
	f := newFakeNode(t, func(_ int32, words []string) string {
		if words[0] == "LOCK.CHECK" {
			time.Sleep(200 * time.Millisecond)
			return "#t\r\n"
		}
		return "usual"
	})
	calm := Options{TTL: 30 * time.Second} // No heartbeat is late meanwhile.
	hasty, patient := f.open(t, calm), f.open(t, calm)
	brief, cancel := context.WithTimeout(soon(t), 20*time.Millisecond)
	defer cancel()
	_, err := hasty.Check(brief, "a", 1)
	is(t, err, ErrUnknown)
	if found, err := patient.Admit(soon(t), "a", 1); found || err != nil {
		t.Error("took the answer of another", err)
	}
	if f.lines.Load() != 1 {
		t.Error(f.lines.Load(), "connections")
	}
}

func TestWhatWasRefusedEachTimeWasNotDone(t *testing.T) {
	f := newFakeNode(t, func(_ int32, words []string) string {
		if words[0] == "LOCK.ACQUIRE" {
			time.Sleep(20 * time.Millisecond)
			return "-NOLEADER no leader was found\r\n"
		}
		return "usual"
	})
	var all sync.WaitGroup
	for i := 0; i < 20; i++ {
		all.Add(1)
		lock := f.open(t, Options{TTL: 30 * time.Second, OwnConnection: true,
			Timeout: 500 * time.Millisecond}).NewLock("a", LockOptions{})
		go func() {
			defer all.Done()
			if _, err := lock.TryLock(context.Background()); !errors.Is(err, ErrUnreachable) {
				t.Error(err)
			}
		}()
		time.Sleep(3 * time.Millisecond)
	}
	all.Wait()
}

func TestAnAnswerThatIsTooLargeIsToldOnce(t *testing.T) {
	f := newFakeNode(t, func(_ int32, words []string) string {
		if words[0] == "LOCK.LIST" {
			return "*1000000000\r\n"
		}
		return "usual"
	})
	s, neighbour := f.open(t, Options{}), f.open(t, Options{})
	_, err := s.Ask(soon(t), "LOCK.LIST")
	is(t, err, ErrUnknown)
	if !strings.Contains(err.Error(), "64 MiB") || f.lines.Load() > 2 {
		t.Error(err, f.lines.Load())
	}
	must(t, neighbour.NewLock("a", LockOptions{}).Lock(soon(t)))
}

func TestAConnectionThatTakesNoMoreSessionsIsLeftToThoseItHas(t *testing.T) {
	var opened [9]atomic.Int32
	f := newFakeNode(t, func(line int32, words []string) string {
		if words[0] == "SESSION.OPEN" && opened[line].Add(1) > 2 {
			return "-LIMIT sessions of a connection\r\n"
		}
		return "usual"
	})
	for i := 0; i < 5; i++ {
		must(t, f.open(t, Options{}).NewLock("a", LockOptions{}).Lock(soon(t)))
	}
	if f.lines.Load() != 3 {
		t.Error(f.lines.Load(), "connections")
	}
}

func TestWhatMayHoldUpOthersHasAConnectionOfItsOwn(t *testing.T) {
	f := newFakeNode(t, usually)
	s := f.open(t, Options{})
	lines := f.lines.Load()
	for _, words := range []string{"LOCK.LIST", "lock.acquire a REQ 7", "FENCE.SHOW a",
		"LOCK.SHOW session"} {
		_, err := s.Ask(soon(t), strings.Fields(words)...)
		must(t, err)
		if f.lines.Load() != lines {
			t.Error(words, "has a connection of its own")
		}
	}
	for _, words := range []string{"LOCK.ACQUIRE a WAIT 100", "lock.acquire a forever",
		"LOCK.WATCH a", "MULTI", "RAFT.STATUS", "SESSION.OPEN TTL 1000",
		"session.attach 1 x", "SESSION.DETACH", "LOCK.ACQUIRE a SESSION 7"} {
		_, err := s.Ask(soon(t), strings.Fields(words)...)
		must(t, err)
		if lines++; f.lines.Load() != lines {
			t.Error(words, "has none")
		}
	}
	if f.times("1 lock.acquire a REQ 7 SESSION 1") != 1 {
		t.Error("for whom?")
	}
}

func TestAProgramsCommandMakesTheConnectionActForNobodyElse(t *testing.T) {
	c := startCluster(t)
	c.leader(t)
	one, two := c.open(t, Options{}), c.open(t, Options{})
	for i, words := range []string{"SESSION.OPEN TTL 5000", "SESSION.SHOW " + one.idText(),
		"SESSION.ATTACH " + two.idText() + " " + two.Secret()} {
		_, err := one.Ask(soon(t), strings.Fields(words)...)
		must(t, err)
		name := fmt.Sprint("whose", i)
		_, err = one.Ask(soon(t), "LOCK.ACQUIRE", name)
		must(t, err)
		holders, _, err := two.Show(soon(t), name)
		must(t, err)
		if len(holders) != 1 || holders[0].Session != one.ID() {
			t.Error(words, holders, one.ID())
		}
	}
}

// A node answers an ATTACH before it does anything else on that connection:
// with many sessions on a new connection the heartbeats must not wait for all
// of them.
func TestHeartbeatsGoOnWhileManySessionsAreAttachedAnew(t *testing.T) {
	const count = 150
	f := newFakeNode(t, func(line int32, words []string) string {
		if line == 1 && words[0] == "LOCK.LIST" {
			return ""
		}
		if words[0] == "SESSION.ATTACH" {
			time.Sleep(20 * time.Millisecond)
		} else if words[0] == "SESSION.KEEP" {
			return "%1\r\n+ttl_ms\r\n:4000\r\n"
		}
		return "usual"
	})
	var lost atomic.Int32
	var all []*Session
	for i := 0; i < count; i++ {
		all = append(all, f.open(t, Options{Timeout: 20 * time.Second, TTL: 4 * time.Second,
			OnEvent: func(Event) { lost.Add(1) }}))
	}
	go all[0].Ask(soon(t), "LOCK.LIST")
	eventually(t, "it is not lost", func() bool { return f.lines.Load() > 1 })
	var asking sync.WaitGroup
	for _, s := range all {
		asking.Add(1)
		go func(s *Session) {
			defer asking.Done()
			if err := s.NewLock("a", LockOptions{}).Lock(soon(t)); err != nil {
				t.Error(err)
			}
		}(s)
	}
	asking.Wait()
	if lost.Load() != 0 {
		t.Error(lost.Load(), "events")
	}
}

// The answers can be broken; the client must not grant, open or keep anything
// then.
func TestAnAnswerToSomethingElseIsNone(t *testing.T) {
	for _, odd := range []string{"+OK\r\n", ":0\r\n", "*1\r\n:0\r\n", "*0\r\n", "#t\r\n",
		"%1\r\n+ttl_ms\r\n:0\r\n", "*2\r\n+ttl_ms\r\n:2000\r\n", "*2\r\n:5\r\n:6\r\n"} {
		f := newFakeNode(t, func(line int32, words []string) string {
			isOdd := words[0] == "SESSION.OPEN" && line == 1 || line == 2 &&
				words[0] == "LOCK.ACQUIRE" || line == 3 && words[0] == "SESSION.KEEP"
			if isOdd {
				return odd
			}
			return "usual"
		})
		s := f.open(t, Options{TTL: time.Second})
		lock := s.NewLock("a", LockOptions{})
		must(t, lock.Lock(soon(t)))
		if lock.Token() != 7 {
			t.Errorf("%q: %d", odd, lock.Token())
		}
		eventually(t, "it is not left", func() bool { return f.lines.Load() > 3 })
		must(t, lock.Guard(0))
	}
}

// --- with a cluster ----------------------------------------------------------

// sockets are those of this process.
func sockets(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	count := 0
	for _, entry := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + entry.Name())
		if strings.HasPrefix(to, "socket:") {
			count++
		}
	}
	return count
}

func lineOf(s *Session) *line {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	return s.link.line
}

func TestFiftySessionsOnOneConnection(t *testing.T) {
	c := startCluster(t)
	c.leader(t)
	before := sockets(t)
	var events atomic.Int32
	var all []*Session
	for i := 0; i < 50; i++ {
		all = append(all, c.open(t, Options{TTL: 4 * time.Second,
			OnEvent: func(e Event) { events.Add(1) }}))
	}
	if got := sockets(t) - before; got != 1 {
		t.Fatal(got, "connections")
	}
	t.Run("a neighbour that ends", func(t *testing.T) { neighbourEnds(t, c, all, &events) })
	t.Run("opened and closed at once", func(t *testing.T) { storm(t, c, all[0]) })
	t.Run("nodes are lost", func(t *testing.T) { nodesAreLost(t, c, all) })
}

// neighbourEnds in each way there is, and nobody else hears of it.
func neighbourEnds(t *testing.T, c *cluster, all []*Session, events *atomic.Int32) {
	ctx := soon(t)
	same := Options{TTL: 4 * time.Second}
	line := lineOf(all[0])
	barred, closed := c.open(t, same), c.open(t, same)
	same.Alive = 100 * time.Millisecond
	idle := c.open(t, same)
	held := all[0].NewLock("neighbour", LockOptions{})
	must(t, held.Lock(ctx))
	waits := make(chan error)
	for _, s := range []*Session{all[1], closed} {
		lock := s.NewLock("neighbour", LockOptions{})
		go func() { waits <- lock.Lock(ctx) }()
	}
	eventually(t, "nobody waits", func() bool {
		_, queue, _ := all[2].Show(ctx, "neighbour")
		return queue == 2
	})
	must(t, closed.Close(ctx))
	is(t, <-waits, ErrLost)
	brief, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	is(t, all[3].NewLock("neighbour", LockOptions{}).Lock(brief), context.DeadlineExceeded)
	_, err := all[4].Ask(ctx, "BLACKLIST.ADD", "SESSION", strconv.FormatInt(barred.ID(), 10))
	must(t, err)
	<-barred.Done()
	<-idle.Done()
	must(t, held.Unlock(ctx))
	must(t, <-waits)
	if line != lineOf(all[0]) || events.Load() != 0 {
		t.Error("the neighbours have felt it: ", events.Load())
	}
}

func storm(t *testing.T, c *cluster, s *Session) {
	var workers sync.WaitGroup
	for i := 0; i < 8; i++ {
		workers.Add(1)
		go func(i int) {
			defer workers.Done()
			for j := 0; j < 10; j++ {
				one, err := Open(soon(t), Options{Endpoints: c.endpoints,
					TTL: 4 * time.Second, OwnConnection: j%5 == i%5})
				if err == nil && j%2 == 0 {
					err = one.NewLock(fmt.Sprint("storm", i), LockOptions{}).Lock(soon(t))
				}
				if err == nil {
					err = one.Close(soon(t))
				}
				if err != nil {
					t.Error(err)
				}
			}
		}(i)
	}
	workers.Wait()
	must(t, s.NewLock("after", LockOptions{}).Lock(soon(t)))
	eventually(t, "not all have quit", func() bool {
		links.mu.Lock()
		defer links.mu.Unlock()
		return s.link.users == 50
	})
}

// nodesAreLost: the node that all are connected to is frozen, and later killed.
// All clients continue, two never hold one lock, and a waiting client keeps its
// place.
func nodesAreLost(t *testing.T, c *cluster, all []*Session) {
	ctx, cancel := context.WithTimeout(context.Background(), 80*time.Second)
	defer cancel()
	first := all[0].NewLock("line", LockOptions{})
	must(t, first.Lock(ctx))
	order := make(chan int, 3)
	var line sync.WaitGroup
	for i := 1; i <= 3; i++ {
		line.Add(1)
		go func(i int) {
			defer line.Done()
			lock := all[i].NewLock("line", LockOptions{})
			if err := lock.Lock(ctx); err != nil {
				t.Error(err)
			}
			order <- i
			if err := lock.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}(i)
		eventually(t, "it does not wait", func() bool {
			_, queue, _ := all[4].Show(ctx, "line")
			return queue == i
		})
	}
	var stop atomic.Bool
	var rounds atomic.Int32
	var inside [5]atomic.Int32
	var workers sync.WaitGroup
	for i, s := range all[5:] {
		workers.Add(1)
		go func(lock *Lock, inside *atomic.Int32) {
			defer workers.Done()
			for !stop.Load() {
				if err := lock.Lock(ctx); err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) > 1 {
					t.Error("two inside")
				}
				rounds.Add(1)
				inside.Add(-1)
				if err := lock.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		}(s.NewLock(fmt.Sprint("busy", i%5), LockOptions{}), &inside[i%5])
	}
	goOn := func() {
		before := rounds.Load()
		eventually(t, "no worker continues", func() bool { return rounds.Load() > before+100 })
	}
	goOn()
	at := strings.Split(lineOf(all[0]).endpoint, ":")[1]
	for i, endpoint := range c.endpoints {
		if strings.HasSuffix(endpoint, ":"+at) {
			must(t, syscall.Kill(c.pids[i], syscall.SIGSTOP))
			goOn()
			must(t, syscall.Kill(c.pids[i], syscall.SIGCONT))
		}
	}
	goOn()
	must(t, syscall.Kill(c.pids[c.leader(t)], syscall.SIGKILL))
	goOn()
	stop.Store(true)
	workers.Wait()
	must(t, first.Unlock(ctx))
	for want := 1; want <= 3; want++ {
		if got := <-order; got != want {
			t.Errorf("%d before %d", got, want)
		}
	}
	line.Wait()
}
