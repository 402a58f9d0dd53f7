// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	connectTimeout = time.Second
	answerTimeout  = 4 * time.Second // Then the node is left.
	// A link has at most as many sessions as a connection may have requests in
	// flight, so that each has room for a heartbeat.
	linkSessions = 1024
	// A node handles no later request of a connection until SESSION.OPEN,
	// ATTACH and CLOSE are answered. The number in flight is limited, so that
	// heartbeats need not wait for those of a thousand sessions.
	blockingMax = 8
	// Pause between attempts after a refusal.
	deniedMin = 100 * time.Millisecond
	deniedMax = time.Second
)

var (
	errNoAnswer = errors.New("no answer in time")
	errStranger = fmt.Errorf("%w: an answer without a request", errProtocol)
	errBroken   = errors.New("the connection was lost")
	errOver     = errors.New("the session has ended")
	errTooLate  = errors.New("too little time is left for an answer")
)

// An ask is one request on a link, and its answer.
type ask struct {
	session *Session // Attached beforehand; nil: none.
	words   []string
	// Limit for the answer; 0: answerTimeout, < 0: none.
	patience time.Duration
	isUrgent bool // Sent before all requests that are not yet sent.
	isApart  bool // Names session and secret: none need be attached.
	blocks   bool // Opens, attaches or closes a session.
	// A refusal can concern another session than the asking one.
	isOfOther bool
	isLast    bool           // Sent although its session has ended here.
	latest    time.Time      // Not sent after this time; zero: no limit.
	fits      func(any) bool // Checks the form of the reply; nil: any form.
	attaches  *Session       // The session that this ATTACH attaches.

	line  *line         // The connection it was sent on; nil: not sent.
	sent  reading       // When it was sent.
	done  chan struct{} // Closed when reply or err is set.
	reply any           // A refusal, a *replyError, is a reply, too.
	err   error         // Why there is no reply.
	timer *time.Timer
}

// A link is one connection to one node at a time, which sessions share.
// Requests are sent in order, heartbeats first, and answered in that order. A
// session is attached before its first request on a connection.
//
// The link leaves the node for the next one when the node is silent for longer
// than the patience of an ask, even if nothing waits for the answer, or when it
// reports that it has no leader. Requests that were sent there fail, and their
// callers ask again. Unsent requests go to the next node.
type link struct {
	where  address
	known  *knownCluster
	onPush func(push) // Must not send requests and wait.
	over   context.Context
	end    context.CancelFunc
	users  int // Guarded by links.mu.

	mu     sync.Mutex // Guards the following fields, and the lines and asks.
	toSend *sync.Cond // There is an unsent request, or the line was left.
	queue  []*ask     // Not sent yet.
	line   *line      // nil: none is open.
	failed int        // Failed lines in a row.
	// The newest error of each endpoint since the last success.
	whys     []error
	refused  *replyError // The credentials are unknown, and always were.
	sessions map[int64]*Session
}

// An address is where a link connects to, and with which credentials.
type address struct {
	endpoints []string
	shows     *credentials
	timeout   time.Duration // Limit for connecting.
	key       string        // Equal for sessions that can share a link.
}

// A line is one connection of a link.
type line struct {
	endpoint string
	cluster  string   // The node's cluster, by the answer to HELLO.
	raw      net.Conn // Below TLS: closing it never blocks.
	net      net.Conn
	in       *reader
	flight   []*ask // Sent, in the order of their answers.
	attached map[*Session]bool
	// Sessions to attach when there is nothing else to do.
	quiet    []*Session
	blocking int           // Blocking asks in flight.
	gone     chan struct{} // Closed when it is lost.
	why      error         // Why it was left.
}

// --- who shares one ----------------------------------------------------------

// links are those that more sessions can join.
var links = struct {
	mu sync.Mutex
	of map[string]*link
}{of: map[string]*link{}}

// joinLink returns a link to that address; the caller must quit it.
func joinLink(where address, isOwn bool) *link {
	links.mu.Lock()
	defer links.mu.Unlock()
	l := links.of[where.key]
	if isOwn || l == nil || l.users >= linkSessions {
		l = newLink(where, nil)
		if !isOwn {
			links.of[where.key] = l
		}
	}
	l.users++
	return l
}

// filled: the node accepts no more sessions. It reports whether there were
// others.
func (l *link) filled() bool {
	links.mu.Lock()
	defer links.mu.Unlock()
	l.shut()
	return l.users > 1
}

// shut prevents other sessions from joining.
func (l *link) shut() {
	if links.of[l.where.key] == l {
		delete(links.of, l.where.key)
	}
}

// quit leaves the link; the last session closes it. Otherwise the node is
// notified that this session has left, as if its connection had ended.
func (l *link) quit(s *Session) {
	l.known.remove(s)
	links.mu.Lock()
	l.users--
	isLast := l.users == 0
	if isLast {
		l.shut()
	}
	links.mu.Unlock()
	if isLast {
		l.close()
	} else if l.forget(s) {
		l.begin(&ask{words: s.acting("SESSION.DETACH")})
	}
}

// forget removes the session, and reports whether it was attached.
func (l *link) forget(s *Session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s.id)
	isAttached := l.line != nil && l.line.attached[s]
	if isAttached {
		delete(l.line.attached, s)
	}
	return isAttached
}

// hear delivers pushes to the session from now on.
func (l *link) hear(s *Session) {
	l.mu.Lock()
	l.sessions[s.id] = s
	l.mu.Unlock()
}

func (l *link) route(event push) {
	if len(event) < 3 {
		return
	}
	told := asMap(event[2])
	l.mu.Lock()
	s := l.sessions[asInt(told["session"])]
	l.mu.Unlock()
	if s != nil {
		s.pushed(asText(event[1]), told)
	}
}

// --- asking ------------------------------------------------------------------

// do sends a request, and waits for the answer until ctx or the session is
// done.
func (l *link) do(ctx context.Context, a *ask) (any, error) {
	var over <-chan struct{}
	if a.session != nil && !a.isLast {
		over = a.session.over.Done()
	}
	l.begin(a)
	err := errOver
	select {
	case <-a.done:
		return a.reply, a.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-over:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.queue {
		if l.queue[i] == a {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			break
		}
	}
	return nil, err // The answer to a sent request is dropped.
}

// mayOpen reports whether it was sent and not refused.
func (l *link) mayOpen(a *ask) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.line == nil {
		return false
	}
	select {
	case <-a.done:
		return isOpened(a.reply)
	default:
		return true
	}
}

func (l *link) begin(a *ask) {
	a.done = make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		a.answered(l.refused, nil)
		return
	}
	l.queue = append(l.queue, a)
	if a.isUrgent {
		copy(l.queue[1:], l.queue)
		l.queue[0] = a
	}
	l.toSend.Signal()
}

// failure is the reason why there is no connection, with the error of each
// endpoint that was tried; nil: there is one.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, why := range l.whys {
		if why != nil {
			all = append(all, why.Error())
		}
	}
	if all == nil {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// send writes requests until the line is left. It first lets other goroutines
// run: those that the same answers have woken each send a request, too, and all
// of these go out in one write.
func (l *link) send(c *line) {
	for {
		var out []byte
		l.mu.Lock()
		for l.line == c && !l.hasWork(c) {
			l.toSend.Wait()
		}
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
		if l.line == c {
			out = l.collect(c)
		}
		isLeft := l.line != c
		l.mu.Unlock()
		if isLeft {
			return
		}
		if len(out) == 0 {
			continue // Its caller has given up.
		}
		if _, err := c.net.Write(out); err != nil {
			l.leave(c, err)
		}
	}
}

// hasWork reports whether a request can be sent now.
func (l *link) hasWork(c *line) bool {
	for _, a := range l.queue {
		if c.mayTake(a) {
			return true
		}
	}
	return len(c.quiet) > 0 && c.blocking < blockingMax
}

// mayTake is true if the ask does not block and attaches nothing, or there is
// room.
func (c *line) mayTake(a *ask) bool {
	return !a.blocks && !c.needsAttach(a) || c.blocking < blockingMax
}

func (c *line) needsAttach(a *ask) bool {
	return a.session != nil && a.session.id != 0 && !a.isApart && !c.attached[a.session]
}

// collect returns the bytes that can be sent now. Sessions without requests are
// attached, too, so that they get pushes.
func (l *link) collect(c *line) []byte {
	var out []byte
	var rest []*ask
	for _, a := range l.queue {
		if c.mayTake(a) {
			out = l.put(c, out, a)
		} else {
			rest = append(rest, a)
		}
	}
	l.queue = rest
	for len(c.quiet) > 0 && c.blocking < blockingMax {
		s := c.quiet[0]
		c.quiet = c.quiet[1:]
		if l.sessions[s.id] == s && !c.attached[s] {
			out = l.attach(c, out, s)
		}
	}
	return out
}

func (l *link) attach(c *line, out []byte, s *Session) []byte {
	c.attached[s] = true
	return l.put(c, out, &ask{attaches: s, blocks: true, done: make(chan struct{}),
		words: []string{"SESSION.ATTACH", s.idText(), s.secret}})
}

// put appends the bytes of a request, after those that attach its session.
func (l *link) put(c *line, out []byte, a *ask) []byte {
	if !a.latest.IsZero() && time.Now().After(a.latest) {
		a.answered(nil, errTooLate)
		return out
	}
	if c.needsAttach(a) {
		out = l.attach(c, out, a.session)
	}
	if a.blocks {
		c.blocking++
	}
	patience := a.patience
	if patience == 0 {
		patience = answerTimeout
	}
	if patience > 0 {
		a.timer = time.AfterFunc(patience, func() { l.leave(c, errNoAnswer) })
	}
	a.line, a.sent = c, clockNow()
	c.flight = append(c.flight, a)
	return appendRequest(out, a.words)
}

// --- the connection ----------------------------------------------------------

// newLink creates a link; without onPush its sessions get the pushes.
func newLink(where address, onPush func(push)) *link {
	l := &link{where: where, known: knownAt(where.endpoints), sessions: map[int64]*Session{}, onPush: onPush}
	if onPush == nil {
		l.onPush = l.route
	}
	l.toSend = sync.NewCond(&l.mu)
	l.over, l.end = context.WithCancel(context.Background())
	go l.run()
	return l
}

func (l *link) close() {
	l.end()
	l.mu.Lock()
	c := l.line
	l.mu.Unlock()
	if c != nil {
		l.leave(c, errOver)
	}
}

// run connects to one node after another. It pauses longer after each round of
// all nodes, and after each refusal.
func (l *link) run() {
	nodes := l.where.endpoints
	for turn := 0; l.over.Err() == nil; turn++ {
		endpoint := nodes[turn%len(nodes)]
		c, err := l.dial(endpoint)
		if err == nil {
			err = l.serve(c)
		}
		l.mu.Lock()
		l.failed++
		failed := l.failed
		if l.whys == nil {
			l.whys = make([]error, len(nodes))
		}
		l.whys[turn%len(nodes)] = fmt.Errorf("%s: %w", endpoint, err)
		l.mu.Unlock()
		var denied *denial
		if errors.As(err, &denied) && l.mayCome(denied) {
			l.restDenied()
		} else if failed%len(nodes) == 0 {
			pause(l.over, failed/len(nodes))
		}
	}
}

// A denial is the error of a node that refuses this client: unknown
// credentials, TLS is required, or one end rejected the other's certificate.
type denial struct {
	error
	refusal *replyError // nil: certificates.
}

func (d *denial) Unwrap() error { return d.error }

// mayCome reports whether to try again. A client that was accepted before
// retries until the files are right; nothing is lost until the lease runs out.
// A client that never was gets one more attempt if the files have changed; then
// all requests are refused.
func (l *link) mayCome(d *denial) bool {
	if l.where.shows.mayAskAgain() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = d.refusal
	for _, a := range l.queue {
		if d.refusal != nil {
			a.answered(d.refusal, nil)
		}
	}
	if d.refusal != nil {
		l.queue = nil
	}
	return false
}

// restDenied pauses, at most as long as a heartbeat may wait for a connection.
func (l *link) restDenied() {
	length := deniedMin + time.Duration(rand.Int63n(int64(deniedMax-deniedMin)))
	if length > l.where.timeout {
		length = l.where.timeout
	}
	select {
	case <-l.over.Done():
	case <-time.After(length):
	}
}

// renew reads the credentials again, and reports whether they changed.
func (l *link) renew() bool {
	hasChanged, notice := l.where.shows.renew()
	if notice != "" {
		l.notice(notice)
	}
	return hasChanged
}

// notice reports to all sessions what people should know about the connection.
func (l *link) notice(text string) {
	l.mu.Lock()
	var told []*Session
	for _, s := range l.sessions {
		told = append(told, s)
	}
	l.mu.Unlock()
	for _, s := range told {
		s.emit(Event{Kind: EventNotice, Text: text})
	}
}

// dial connects and sends HELLO. A socket of this machine is not encrypted,
// since its data never leaves the machine.
func (l *link) dial(endpoint string) (*line, error) {
	until := time.Now().Add(l.where.timeout)
	ctx, cancel := context.WithDeadline(l.over, until)
	defer cancel()
	network, at := "tcp", endpoint
	isSocket := strings.HasPrefix(endpoint, socketWord)
	if isSocket {
		network, at = "unix", strings.TrimPrefix(endpoint, socketWord)
	}
	l.renew()
	shows := l.where.shows.now()
	raw, err := (&net.Dialer{}).DialContext(ctx, network, at)
	if err != nil {
		l.known.missed(endpoint)
		return nil, err
	}
	c := &line{endpoint: endpoint, raw: raw, net: raw, attached: map[*Session]bool{},
		gone: make(chan struct{})}
	if shows.secure != nil && !isSocket {
		c.net = tls.Client(raw, named(shows.secure, endpoint))
	}
	c.in = newReader(c.net)
	raw.SetDeadline(until)
	if err := l.greet(c, shows.auth); err != nil {
		raw.Close()
		return nil, err
	}
	raw.SetDeadline(time.Time{})
	l.mu.Lock()
	l.refused = nil
	l.mu.Unlock()
	return c, nil
}

// greet sends HELLO; only a node of the known cluster gets the secret.
func (l *link) greet(c *line, auth []string) error {
	hello, err := c.say([]string{"HELLO", "3"})
	if err != nil {
		l.known.missed(c.endpoint)
		return err
	}
	var notice string
	c.cluster, notice, err = l.known.judge(c.endpoint, hello)
	if notice != "" {
		l.notice(notice)
	}
	if err == nil && auth != nil {
		_, err = c.say(auth)
	}
	return err
}

func (c *line) say(words []string) (any, error) {
	_, err := c.net.Write(appendRequest(nil, words))
	var reply any
	if err == nil {
		reply, err = c.in.reply()
	}
	if refusal, ok := reply.(*replyError); ok {
		if isOfAsker(refusal) {
			return nil, &denial{judge(refusal), refusal}
		}
		return nil, judge(refusal)
	}
	if err != nil && isTrust(err) {
		return nil, &denial{explained(err), nil}
	}
	return reply, explained(err)
}

// named sets the endpoint's host as the server name, for a configuration that
// compares host names.
func named(secure *tls.Config, endpoint string) *tls.Config {
	if secure.ServerName != "" {
		return secure
	}
	host, _, _ := net.SplitHostPort(endpoint)
	secure = secure.Clone()
	secure.ServerName = host
	return secure
}

// serve runs an open connection; it returns why it ended.
func (l *link) serve(c *line) error {
	l.mu.Lock()
	l.line = c
	for _, s := range l.sessions {
		c.quiet = append(c.quiet, s)
	}
	l.mu.Unlock()
	go l.send(c)
	if l.over.Err() != nil {
		l.leave(c, errOver)
	}
	err := l.receive(c)
	l.leave(c, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range c.flight {
		a.answered(nil, errBroken)
	}
	close(c.gone)
	return c.why
}

// leave ends a line, even while it is read or written.
func (l *link) leave(c *line, why error) {
	l.mu.Lock()
	if c.why == nil {
		c.why = why
	}
	if l.line == c {
		l.line = nil
	}
	l.toSend.Signal()
	l.mu.Unlock()
	c.raw.Close()
}

// receive returns why the line must be left, after all received data was
// handled.
func (l *link) receive(c *line) error {
	var leaves error
	for leaves == nil || c.in.from.Buffered() > 0 {
		value, err := c.in.reply()
		if event, ok := value.(push); ok {
			l.onPush(event)
		} else if err != nil {
			if errors.Is(err, errTooLarge) {
				l.received(c, nil, err)
			}
			return err
		} else if err = l.received(c, value, nil); err != nil {
			leaves = err
		}
	}
	return leaves
}

// received delivers an answer, or that it cannot be read, to the oldest
// request. An error: the node must be left.
func (l *link) received(c *line, reply any, err error) error {
	l.mu.Lock()
	if len(c.flight) == 0 {
		l.mu.Unlock()
		return errStranger
	}
	a := c.flight[0]
	c.flight = c.flight[1:]
	if a.blocks {
		c.blocking--
		l.toSend.Signal()
	}
	refusal, isRefusal := reply.(*replyError)
	if err == nil && !isRefusal && a.fits != nil && !a.fits(reply) {
		reply, err = nil, errProtocol
	}
	why := err
	isEnd := a.attaches != nil && isRefusal && isEndOfSession(refusal)
	if isRefusal && isOfAsker(refusal) && l.where.shows.mayAskAgain() {
		// Not a final answer: the files might be right at the next connection.
		why = &denial{judge(refusal), refusal}
		reply, err, a.line = nil, why, nil
	} else if isRefusal && !isEnd && (a.attaches != nil || isNoLeader(refusal)) {
		why = judge(refusal)
	}
	if why == nil && a.attaches == nil {
		if !isRefusal {
			l.where.shows.letIn()
			l.known.learn(c.cluster)
		}
		l.failed, l.whys = 0, nil
		if s := a.session; s != nil && s.id == 0 && !isRefusal && s.over.Err() == nil {
			c.attached[s] = true // It was just opened.
		}
	} else if why != nil && l.line == c {
		l.line = nil // The requests that follow this answer go elsewhere.
	}
	a.answered(reply, err)
	l.mu.Unlock()
	if isEnd {
		a.attaches.lose(&Error{refusal.word, refusal.text, ErrLost})
	}
	return why
}

func (a *ask) answered(reply any, err error) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.reply, a.err = reply, err
	close(a.done)
}
