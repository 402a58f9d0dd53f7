// SPDX-License-Identifier: MIT

package hasp

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// TieKind says whether the agent of this host ends the session when the process
// dies: Options.Tie.
type TieKind string

const (
	// TieNone: by its TTL only.
	TieNone TieKind = ""
	// TieTry: if there is an agent; EventNotice if not.
	TieTry TieKind = "try"
	// TieMust: Open fails if the session cannot be tied.
	TieMust TieKind = "must"
)

const (
	agentSocket = "/run/hasp-agent/agent.sock"
	tiedTTL     = 60 * time.Second
	tieAnswer   = time.Second // For an answer of the agent.
	// Pause after a failure, and after the agent's end, which many programs
	// notice at once: a random part of tieJitter is added.
	tieRetry    = 100 * time.Millisecond
	tieRetryMax = 5 * time.Second
	tieJitter   = 900 * time.Millisecond
	tieAskedMax = 64 // Lines that are sent and not answered.
	tieLineMax  = 1024
)

// An untied is the error of what the agent has not done: an ErrUnreachable.
type untied struct {
	what string
	why  error
}

func (u *untied) Error() string        { return "hasp: " + u.what + ": " + u.why.Error() }
func (u *untied) Is(target error) bool { return target == ErrUnreachable }
func (u *untied) Unwrap() error        { return u.why }

var errAgentSilent = errors.New("the agent does not answer")

// A tie is that of one session to this process. When the process dies, the agent
// of this host ends the session in the cluster.
type tie struct {
	agent   *tieAgent
	session int64
	word    string // The death word.
	ttl     time.Duration

	// Guarded by the agent's mutex.
	changed    func(why string) // It is not tied; once until it is again.
	isTied     bool
	isUnwanted bool // To be untied, or untied.
	isRefused  bool // Not asked again on this connection.
	isAsked    bool // A line is sent and not answered.
	isQueued   bool
	isOver     bool // The session is gone.
	// TIE was sent since the last UNTIE was answered. The agent keeps a tie when
	// a connection ends.
	mayBeTied bool
	why       string
	isTold    bool
	news      chan struct{} // Closed at the next change.
}

// A tieAgent is the process's connection to the agent at one path, and the
// goroutine that keeps it while there are ties.
type tieAgent struct {
	path  string
	start string        // When this process was started.
	wake  chan struct{} // There is something to send.

	mu    sync.Mutex
	ties  map[*tie]bool
	queue []*tie // To be asked for.
	asked []tieLine
	hurry bool // The next attempt is to be made now.
	retry time.Duration
}

// A tieLine is a line that is not answered.
type tieLine struct {
	tie   *tie
	isTie bool
}

var tieAgents = struct {
	mu sync.Mutex
	of map[string]*tieAgent
}{of: map[string]*tieAgent{}}

// newTie returns nil if the session is not to be tied.
func newTie(options Options) (*tie, error) {
	switch options.Tie {
	case TieNone, "none":
		return nil, nil
	case TieTry, TieMust:
	default:
		return nil, fmt.Errorf("hasp: Tie %q: expected TieNone, TieTry or TieMust",
			options.Tie)
	}
	if options.Durable || options.Linger != 0 {
		return nil, errors.New("hasp: a session that is tied needs a TTL, and " +
			"neither Linger nor Durable")
	}
	word := make([]byte, 16)
	if _, err := rand.Read(word); err != nil {
		return nil, err
	}
	return &tie{word: hex.EncodeToString(word), ttl: options.TTL,
		news: make(chan struct{})}, nil
}

// will is what the cluster knows of the death word.
func (t *tie) will() string {
	hash := sha256.Sum256([]byte(t.word))
	return hex.EncodeToString(hash[:])
}

// begin starts to tie the session.
func (t *tie) begin(path string, session int64, changed func(why string)) {
	for _, other := range []string{os.Getenv("HASP_AGENT"), agentSocket} {
		if path == "" {
			path = other
		}
	}
	t.session, t.changed = session, changed
	tieAgents.mu.Lock()
	defer tieAgents.mu.Unlock()
	a := tieAgents.of[path]
	if a == nil {
		a = &tieAgent{path: path, start: startOfProcess(), ties: map[*tie]bool{},
			wake: make(chan struct{}, 1)}
		tieAgents.of[path] = a
		go a.run()
	}
	t.agent = a
	a.mu.Lock()
	a.ties[t] = true
	a.enqueue(t)
	a.mu.Unlock()
}

// startOfProcess is field 22 of /proc/self/stat; "0" if it cannot be read. The
// name, in parentheses, can contain any characters.
func startOfProcess() string {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return "0"
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "0"
	}
	return fields[19]
}

// until waits until isSo, which is called with the agent's mutex; false: it is
// not so in time.
func (t *tie) until(ctx context.Context, isSo func() bool) bool {
	limit := time.NewTimer(2 * tieAnswer)
	defer limit.Stop()
	for {
		t.agent.mu.Lock()
		done, news := isSo(), t.news
		t.agent.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-news:
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// wait waits until the session is tied.
func (t *tie) wait(ctx context.Context) error {
	t.until(ctx, func() bool { return t.isTied || t.why != "" })
	t.agent.mu.Lock()
	defer t.agent.mu.Unlock()
	if t.isTied {
		return nil
	}
	return &untied{"the session cannot be tied", t.reason(ctx)}
}

// undo unties the session for good, and waits for the answer. If that fails, the
// session may still be tied, and stays so.
func (t *tie) undo(ctx context.Context) error {
	a := t.agent
	// Lines are answered in order: the answer to a TIE comes first.
	isFree := t.until(ctx, func() bool { return !t.isAsked })
	a.mu.Lock()
	isToUndo := isFree && t.mayBeTied
	if isToUndo {
		t.isUnwanted, t.isRefused, t.why = true, false, ""
		a.hurry = true
		a.enqueue(t)
	}
	a.mu.Unlock()
	if isToUndo {
		t.until(ctx, func() bool { return !t.isUnwanted || !t.mayBeTied })
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t.isUnwanted = !t.mayBeTied
	if t.mayBeTied {
		return &untied{"the session is tied to this process, and nothing was " +
			"handed over", t.reason(ctx)}
	}
	a.remove(t)
	return nil
}

func (t *tie) reason(ctx context.Context) error {
	switch {
	case t.why != "":
		return errors.New(t.why)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return errAgentSilent
}

// end is called when the session is gone. UNTIE is sent, and not waited for.
func (t *tie) end() {
	if t == nil || t.agent == nil {
		return
	}
	t.agent.mu.Lock()
	defer t.agent.mu.Unlock()
	if !t.isOver {
		t.changed = nil
		t.isOver, t.isUnwanted = true, true
		t.agent.remove(t)
	}
}

func (t *tie) tied() bool {
	if t == nil || t.agent == nil {
		return false
	}
	t.agent.mu.Lock()
	defer t.agent.mu.Unlock()
	return t.isTied
}

func (t *tie) mayBeHandedOver() bool {
	if t == nil {
		return true
	}
	if t.agent == nil {
		return false
	}
	t.agent.mu.Lock()
	defer t.agent.mu.Unlock()
	return t.isUnwanted && !t.mayBeTied
}

// --- with the agent's mutex --------------------------------------------------

// line is the next line to be sent; "": there is nothing to ask for.
func (t *tie) line() (text string, isTie bool) {
	text = fmt.Sprintf("%d %s START %s", t.session, t.word, t.agent.start)
	switch {
	case t.isAsked && !t.isOver:
		return "", false
	case !t.isUnwanted && !t.isTied && !t.isRefused:
		return "TIE " + text + " TTL " + strconv.FormatInt(inMilliseconds(t.ttl), 10) +
			"\n", true
	case t.isUnwanted && t.mayBeTied:
		return "UNTIE " + text + "\n", false
	}
	return "", false
}

// answered handles an answer; why is "" if it was OK.
func (t *tie) answered(isTie bool, why string) {
	t.isAsked = false
	t.isTied = isTie && why == ""
	t.isRefused = why != ""
	if isTie || why == "" {
		t.mayBeTied = t.isTied
	} else {
		t.isUnwanted = false // undo has failed.
	}
	t.tell(why)
}

// lost: the connection is lost, or cannot be opened.
func (t *tie) lost(why string) {
	t.isAsked, t.isRefused, t.isTied = false, false, false
	if !t.isUnwanted || t.mayBeTied {
		t.isUnwanted = false // undo has failed.
		t.tell(why)
	}
}

func (t *tie) tell(why string) {
	t.why = why
	if t.isTied {
		t.isTold = false
	} else if why != "" && !t.isTold && t.changed != nil {
		t.isTold = true
		t.changed(why)
	}
	close(t.news)
	t.news = make(chan struct{})
}

func (a *tieAgent) enqueue(t *tie) {
	if !t.isQueued {
		t.isQueued = true
		a.queue = append(a.queue, t)
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *tieAgent) remove(t *tie) {
	delete(a.ties, t)
	a.enqueue(t)
}

// --- on the agent's goroutine ------------------------------------------------

// run connects while there are ties.
func (a *tieAgent) run() {
	for !a.isDone() {
		conn, err := net.DialTimeout("unix", a.path, tieAnswer)
		if err != nil {
			a.lose(false, "cannot be reached: "+reasonOf(err))
		} else {
			why := a.serve(conn)
			conn.Close()
			if why == "" {
				continue // It has no tie.
			}
			a.lose(true, why)
		}
		a.pause()
	}
}

func reasonOf(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

// isDone leaves the registry if there is no tie.
func (a *tieAgent) isDone() bool {
	tieAgents.mu.Lock()
	defer tieAgents.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ties) > 0 {
		return false
	}
	delete(tieAgents.of, a.path)
	return true
}

// pause waits before the next attempt, unless it is to be made now.
func (a *tieAgent) pause() {
	a.mu.Lock()
	limit := time.NewTimer(a.retry + time.Duration(mathrand.Int63n(int64(tieJitter))))
	a.mu.Unlock()
	defer limit.Stop()
	for {
		a.mu.Lock()
		isOver := a.hurry || len(a.ties) == 0
		a.hurry = false
		a.mu.Unlock()
		if isOver {
			return
		}
		select {
		case <-limit.C:
			return
		case <-a.wake:
		}
	}
}

// serve asks until the connection is lost, and returns why. "": no tie is left.
func (a *tieAgent) serve(conn net.Conn) string {
	lines := make(chan string)
	over := make(chan struct{})
	defer close(over)
	go readLines(conn, lines, over)
	a.mu.Lock()
	a.hurry = false
	a.mu.Unlock()
	var since time.Time // When the oldest unanswered line was sent.
	for wasWaiting := false; ; {
		text, isWaiting, isOver := a.next()
		if text != "" {
			conn.SetWriteDeadline(time.Now().Add(tieAnswer))
			if _, err := conn.Write([]byte(text)); err != nil {
				return "does not read"
			}
		}
		if isOver {
			return ""
		}
		var late <-chan time.Time
		if isWaiting && !wasWaiting {
			since = time.Now()
		}
		if wasWaiting = isWaiting; isWaiting {
			late = time.After(tieAnswer - time.Since(since))
		}
		select {
		case line, ok := <-lines:
			if !ok {
				return "has ended the connection"
			}
			if !a.answered(line) {
				return "does not speak the protocol"
			}
			since = time.Now()
		case <-late:
			return "does not answer"
		case <-a.wake:
		}
	}
}

func readLines(conn net.Conn, to chan<- string, over <-chan struct{}) {
	defer close(to)
	in := bufio.NewScanner(conn)
	in.Buffer(make([]byte, tieLineMax), tieLineMax)
	for in.Scan() {
		select {
		case to <- in.Text():
		case <-over:
			return
		}
	}
}

// next returns the lines to be sent now, whether an answer is due, and whether
// all ties are gone.
func (a *tieAgent) next() (text string, isWaiting, isOver bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 && len(a.asked) < tieAskedMax {
		t := a.queue[0]
		a.queue = a.queue[1:]
		t.isQueued = false
		if line, isTie := t.line(); line != "" {
			text += line
			t.isAsked = true
			t.mayBeTied = t.mayBeTied || isTie
			a.asked = append(a.asked, tieLine{t, isTie})
		}
	}
	isWaiting = len(a.asked) > 0
	return text, isWaiting, len(a.ties) == 0 && len(a.queue) == 0 && !isWaiting
}

// answered handles the answer to the oldest line. False: nothing was asked.
func (a *tieAgent) answered(line string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) == 0 {
		return false
	}
	one := a.asked[0]
	a.asked = a.asked[1:]
	a.retry = 0
	why := ""
	if !strings.HasPrefix(line, "OK") {
		why = fmt.Sprintf("the agent at %s: %.300s", a.path, line)
	}
	one.tie.answered(one.isTie, why)
	if text, _ := one.tie.line(); text != "" && !one.tie.isOver {
		a.enqueue(one.tie)
	}
	return true
}

// lose: the agent cannot be reached, or is gone.
func (a *tieAgent) lose(wasConnected bool, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = nil
	for _, t := range a.queue {
		t.isQueued = false
	}
	a.queue = nil
	a.retry *= 2
	if a.retry > tieRetryMax {
		a.retry = tieRetryMax
	}
	if wasConnected || a.retry < tieRetry {
		a.retry = tieRetry
	}
	for t := range a.ties {
		t.lost("the agent at " + a.path + " " + why)
		if !t.isUnwanted {
			t.isQueued = true
			a.queue = append(a.queue, t)
		}
	}
}
