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
	// A link has no more sessions than there may be requests under way on a
	// connection, so that each has room for a heartbeat.
	linkSessions = 1024
	// Behind SESSION.OPEN, ATTACH and CLOSE a node does nothing until they are
	// answered. No more of them are under way at a time, so that heartbeats need
	// not wait for those of a thousand sessions.
	blockingMax = 8
	// Between two attempts of who is not let in.
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
	session  *Session // It is attached beforehand; nil: none need be.
	words    []string
	patience time.Duration  // For the answer; 0: answerTimeout, < 0: no end.
	isUrgent bool           // It goes before what has not been sent.
	isApart  bool           // It names session and secret: none is attached.
	blocks   bool           // It opens, attaches or closes a session.
	isLast   bool           // It is asked although its session has ended here.
	latest   time.Time      // It is not sent after that; zero: it is.
	fits     func(any) bool // Is that what was asked for? nil: whatever it is.
	attaches *Session       // It is the ATTACH of this one.

	line  *line         // Where it was sent; nil: it was not.
	sent  reading       // When.
	done  chan struct{} // Closed when there are:
	reply any           // a refusal, a *replyError, is one as well,
	err   error         // or why there is none.
	timer *time.Timer
}

// A link is one connection to one node at a time, which sessions share. Requests
// are sent in their order, heartbeats first, and answered in that order; before
// its first one on a connection a session is attached.
//
// The node is left for the next one when it is silent for longer than an ask has
// patience, whether or not somebody still waits for that, or when it says that it
// has no leader. What was sent there has no answer then: who asked asks again.
// What was not sent goes to the next node.
type link struct {
	where  address
	known  *knownCluster
	onPush func(push) // Must not ask.
	over   context.Context
	end    context.CancelFunc
	users  int // Of links.mu.

	mu       sync.Mutex  // Of what follows, and of its lines and asks.
	toSend   *sync.Cond  // Something is in queue, or the line was left.
	queue    []*ask      // Not sent.
	line     *line       // nil: none is open.
	failed   int         // Lines in a row.
	whys     []error     // Since all was well: the newest one of each endpoint.
	refused  *replyError // Who greets is not known, and never was.
	sessions map[int64]*Session
}

// An address is where a link goes, and as whom.
type address struct {
	endpoints []string
	shows     *credentials
	timeout   time.Duration // To connect.
	key       string        // Equal for those who may share.
}

// A line is one connection of a link.
type line struct {
	endpoint string
	cluster  string   // Its node's, by the answer to HELLO.
	raw      net.Conn // Below TLS: to close it waits for nobody.
	net      net.Conn
	in       *reader
	flight   []*ask // Sent, in the order of their answers.
	attached map[*Session]bool
	quiet    []*Session    // To be attached when there is nothing else to do.
	blocking int           // In flight: asks that block.
	gone     chan struct{} // Closed when it is lost.
	why      error         // It was left.
}

// --- who shares one ----------------------------------------------------------

// links are those that sessions may still join.
var links = struct {
	mu sync.Mutex
	of map[string]*link
}{of: map[string]*link{}}

// joinLink gives a link that goes there; the caller quits it.
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

// filled: a node takes no more sessions on it. Were there others?
func (l *link) filled() bool {
	links.mu.Lock()
	defer links.mu.Unlock()
	l.shut()
	return l.users > 1
}

// shut: nobody joins it any more.
func (l *link) shut() {
	if links.of[l.where.key] == l {
		delete(links.of, l.where.key)
	}
}

// quit: the last session closes the link. Where others stay the node is told that
// this one is not there any more, as by the end of a connection.
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

// forget: the session is not there any more. Was it attached?
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

// hear: what is pushed to the session reaches it from now on.
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

// do asks, and waits for the answer until ctx is done or the session has ended.
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
	return nil, err // Of what was sent the answer is dropped.
}

// mayOpen: it was sent, and not refused.
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

// failure is why there is no connection, of each endpoint that was tried; nil:
// there is one.
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

// send writes what is asked, until the line is left. First it lets others run: of
// those that the same answers have woken each asks something, too, and all that
// goes out in one piece.
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
			continue // Who asked has given up.
		}
		if _, err := c.net.Write(out); err != nil {
			l.leave(c, err)
		}
	}
}

// hasWork: something can be sent now.
func (l *link) hasWork(c *line) bool {
	for _, a := range l.queue {
		if c.mayTake(a) {
			return true
		}
	}
	return len(c.quiet) > 0 && c.blocking < blockingMax
}

// mayTake: it does not block, and attaches nothing, or there is room for that.
func (c *line) mayTake(a *ask) bool {
	return !a.blocks && !c.needsAttach(a) || c.blocking < blockingMax
}

func (c *line) needsAttach(a *ask) bool {
	return a.session != nil && a.session.id != 0 && !a.isApart && !c.attached[a.session]
}

// collect gives what can be sent now. Sessions that ask nothing are attached, too,
// to hear what is pushed to them.
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

// put appends the bytes of a request, and those that attach its session before.
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

// newLink: without onPush the link's sessions hear what is pushed.
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

// run goes from node to node. After each round of them it waits for longer, and
// after each that does not let it in.
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

// A denial is why a node does not let this one in: it does not know who greets, or
// wants TLS, or one of the two does not take the other's certificate.
type denial struct {
	error
	refusal *replyError // nil: certificates.
}

func (d *denial) Unwrap() error { return d.error }

// mayCome: who was let in before is when the files are right again; nothing is lost
// until the lease has run out. Who never was has one more attempt if the files are
// others by now; then all is refused that is asked.
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

// restDenied is for no longer than a heartbeat may wait for a connection.
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

// renew reads what the connection shows and believes again: is it something else?
func (l *link) renew() bool {
	hasChanged, notice := l.where.shows.renew()
	if notice != "" {
		l.notice(notice)
	}
	return hasChanged
}

// notice tells all sessions what people should know of the connection.
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

// dial connects and greets. Nothing leaves the machine by a socket of its own, so
// nothing is encrypted there.
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

// greet: only a node of the known cluster is shown a secret.
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

// named has the endpoint's host as the name of the server, for a configuration
// that compares them.
func named(secure *tls.Config, endpoint string) *tls.Config {
	if secure.ServerName != "" {
		return secure
	}
	host, _, _ := net.SplitHostPort(endpoint)
	secure = secure.Clone()
	secure.ServerName = host
	return secure
}

// serve is the connection's time as that of the link; it gives why it ended.
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

// leave ends a line, whoever reads or writes there.
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

// receive gives why the line is to be left, once what has come by then is read.
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

// received gives an answer, or that it cannot be read, to who asked first. An
// error: the node is to be left.
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
		// It is no answer: the files may be right by the next connection.
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
			c.attached[s] = true // It has just been opened.
		}
	} else if why != nil && l.line == c {
		l.line = nil // What is asked because of this answer goes elsewhere.
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
