// SPDX-License-Identifier: MIT

package hasp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a session. The zero value is fine.
type Options struct {
	// Endpoints are "host:port" of any nodes, or "unix:/path": a node's
	// listen.local on this machine, which is never encrypted. Default:
	// $HASP_ENDPOINTS, or the nodes of "hasp dev".
	Endpoints []string
	// Name is shown to people, and what the blacklist's patterns match.
	// Default: program:pid.
	Name string
	// TTL is how long a dead session blocks others: 100 ms to the cluster's
	// limit; 0: 10 s, or 60 s with a Tie.
	TTL time.Duration
	// Linger, if not 0, is the time from the loss of the last connection, as
	// when the process dies, to the end of the session.
	Linger time.Duration
	// Timeout bounds a request that waits for no lock; 0: 10 s.
	Timeout time.Duration
	// Alive, if not 0, is the interval in which the program must call
	// Session.Alive; otherwise heartbeats stop, and the session ends.
	Alive time.Duration
	// Durable opens a session that never expires, so TTL and Linger mean
	// nothing. Its holds outlive the program until somebody releases or breaks
	// them (docs/durable.md). Session.Close ends it.
	Durable bool
	// Reason of a durable session, shown to people who wait for its locks; at
	// most 128 bytes.
	Reason string
	// Labels are shown to people.
	Labels map[string]string
	// TLS is a folder with ca.crt and, if the program is to show who it is,
	// client.crt and client.key ("hasp cert user" creates it); "": $HASP_TLS,
	// or plain. The files are read again before each connection, so renewed
	// certificates come into use. TLSConfig, if not nil, is used instead; its
	// GetClientCertificate can return renewed certificates.
	TLS       string
	TLSConfig *tls.Config
	// SecretFile has the secret of a user ("hasp secret add" writes it, 0600);
	// "": $HASP_SECRET_FILE, or the user of the certificate, or anyone. It is
	// also read again before each connection.
	SecretFile string
	// OwnConnection: the session does not share its connection. By default
	// sessions with the same endpoints, TLS, secret, TTL and linger share one.
	OwnConnection bool
	// Tie: the agent of this host ("hasp agent", docs/agent.md) ends the session
	// as soon as this process is dead, however long TTL is. Dead is not silent:
	// what the process has sent can still arrive, so check the token where you
	// write, or use LockOptions.Delay. A tie is a promise: whatever this process
	// has started stops with it. Not with Linger or Durable.
	Tie TieKind
	// Agent is the agent's socket; "": $HASP_AGENT, or
	// /run/hasp-agent/agent.sock.
	Agent string
	// OnEvent is called with one event after the other, on a goroutine of its
	// own. It must not call Close.
	OnEvent func(Event)
	// Hooks, if not nil, are called for each acquisition: for traces and metrics.
	Hooks *Hooks
}

// EventKind says what happened.
type EventKind string

const (
	// EventJeopardy: no contact with the cluster. Stop what is protected.
	EventJeopardy EventKind = "jeopardy"
	// EventSafe: contact again; nothing was lost.
	EventSafe EventKind = "safe"
	// EventLost: the session, or the hold of Lock, is lost for good.
	EventLost EventKind = "lost"
	// EventPlease: somebody asks for Lock.
	EventPlease EventKind = "please"
	// EventNotice: nothing is lost, but people should know Text.
	EventNotice EventKind = "notice"
)

// Event is an event of a session, or of one of its holds.
type Event struct {
	Kind  EventKind
	Lock  string // "": the session and all its holds.
	Token int64
	Text  string // A reason, or a message.
}

// A Session is the identity of a client. It holds its locks while its lease is
// valid; a goroutine renews the lease with heartbeats. Any goroutine may use it.
type Session struct {
	options Options
	id      int64
	secret  string
	lease   lease
	link    *link
	tie     *tie // nil: it is not to be tied.
	numbers numbers
	reports *reporter

	over      context.Context // Done when the session has ended, or is closed.
	end       context.CancelFunc
	news      chan struct{} // Wakes look() after a change.
	eventWake chan struct{}
	waitGroup sync.WaitGroup
	quitting  sync.Once
	hasQuit   atomic.Bool // The link was left.

	mu        sync.Mutex
	holds     map[*Lock]bool
	waits     map[*change]bool
	claims    map[*change]bool // See Lock.claim; true: it is in the queue.
	owners    int
	newest    int64 // The newest notice of an end that was sent or dropped.
	seen      int64 // The newest notice of an end that was handled.
	aliveAt   reading
	pending   []Event // Not yet taken by the events' goroutine.
	reason    string  // Why the lease is not held; "": the link's reason.
	closed    bool
	isListing bool // The holds are being listed: notices were missed.
	closing   bool // CLOSE is being sent, which leaves the link at the end.

	claimNews chan struct{} // Closed when claims has changed.
}

// Open opens a session. ctx limits only this call: a session that a node opens
// after ctx is done is closed in the background.
func Open(ctx context.Context, options Options) (*Session, error) {
	if options.TTL == 0 {
		options.TTL = 10 * time.Second
		if options.Tie == TieTry || options.Tie == TieMust {
			options.TTL = tiedTTL
		}
	}
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second
	}
	if options.Name == "" {
		options.Name = fmt.Sprintf("%s:%d", filepath.Base(os.Args[0]), os.Getpid())
	}
	where, err := addressOf(options)
	if err != nil {
		return nil, fmt.Errorf("hasp: %w", err)
	}
	tie, err := newTie(options)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	s := &Session{options: options, secret: hex.EncodeToString(secret), tie: tie,
		news:      make(chan struct{}, 1),
		eventWake: make(chan struct{}, 1),
		holds:     map[*Lock]bool{},
		waits:     map[*change]bool{},
		claims:    map[*change]bool{},
		claimNews: make(chan struct{}),
		aliveAt:   clockNow()}
	s.reports = newReporter(options.Hooks, func(text string) {
		s.emit(Event{Kind: EventNotice, Text: text})
	})
	s.over, s.end = context.WithCancel(context.Background())
	for isFull := true; isFull; {
		s.link = joinLink(where, options.OwnConnection)
		var asked []*ask
		if asked, err = s.open(ctx); err != nil {
			isFull = isFullConnection(err) && s.link.filled()
			s.unwanted(asked)
		}
		isFull = isFull && err != nil
	}
	if err != nil {
		s.end()
		return nil, err
	}
	s.link.hear(s)
	s.link.known.add(s)
	if tie != nil {
		tie.begin(options.Agent, s.id, func(why string) {
			s.emit(Event{Kind: EventNotice, Text: why})
		})
	}
	s.waitGroup.Add(2)
	go s.look()
	go s.keep()
	if options.Tie == TieMust {
		if err := tie.wait(ctx); err != nil {
			s.Close(ctx)
			return nil, err
		}
	}
	return s, nil
}

// addressOf is the address of the session's connection. Sessions that share a
// connection wait equally long for its node.
func addressOf(options Options) (address, error) {
	for name, length := range map[string]time.Duration{"TTL": options.TTL,
		"Linger": options.Linger, "Timeout": options.Timeout, "Alive": options.Alive} {
		if length < 0 {
			return address{}, fmt.Errorf("%s %v: expected 0 or more", name, length)
		}
	}
	endpoints, err := parseEndpoints(options.Endpoints)
	if err != nil {
		return address{}, err
	}
	shows, identity, err := credentialsOf(options)
	if err != nil {
		return address{}, err
	}
	where := address{endpoints: endpoints, shows: shows, timeout: connectTimeout,
		key: fmt.Sprintf("%q %s %v %v %v", endpoints, identity, options.TTL,
			options.Linger, options.Durable)}
	asked := lease{ttl: int64(options.TTL), linger: int64(options.Linger)}
	if patience := patienceOf(&asked); patience < where.timeout && !options.Durable {
		where.timeout = patience
	}
	return where, nil
}

// open repeats OPEN until it is answered, and returns its asks. If an answer
// was lost with its connection, that session ends by its TTL.
func (s *Session) open(ctx context.Context) ([]*ask, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	proof := sha256.Sum256([]byte(s.secret))
	ttl := milliseconds(s.options.TTL)
	if s.options.Durable {
		ttl = "NONE"
	}
	words := []string{"SESSION.OPEN", "TTL", ttl,
		"NAME", s.options.Name, "PROOF", hex.EncodeToString(proof[:])}
	if s.options.Reason != "" {
		words = append(words, "LABEL", "reason", s.options.Reason)
	}
	if s.options.Linger > 0 && !s.options.Durable {
		words = append(words, "LINGER", milliseconds(s.options.Linger))
	}
	if s.tie != nil {
		words = append(words, "WILL", s.tie.will())
	}
	for key, value := range s.options.Labels {
		words = append(words, "LABEL", key, value)
	}
	var asked []*ask
	reply, err := s.request(ctx, func() *ask {
		asked = append(asked, &ask{words: words, blocks: true, fits: isOpened})
		return asked[len(asked)-1]
	})
	if err != nil {
		return asked, err
	}
	s.id = asInt(asMap(reply)["id"])
	s.answered(reply, asked[len(asked)-1].sent)
	return asked, nil
}

// unwanted leaves the link of a session that could not be opened. If a node
// might still answer that it has opened the session, it waits for that, and
// closes it.
func (s *Session) unwanted(asked []*ask) {
	for _, one := range asked {
		if s.link.mayOpen(one) {
			go s.closeOpened(one)
			return // The connections of the others are lost.
		}
	}
	s.link.quit(s)
}

func (s *Session) closeOpened(last *ask) {
	<-last.done // Without an answer the link leaves the node (answerTimeout).
	if !isOpened(last.reply) {
		s.link.quit(s)
		return
	}
	s.id = asInt(asMap(last.reply)["id"])
	s.sayClosed()
}

// isLease reports whether the reply has the form of an answer to KEEP.
func isLease(reply any) bool {
	ttl, ok := asMap(reply)["ttl_ms"]
	return ok && (ttl == nil || asInt(ttl) > 0)
}

func isOpened(reply any) bool { return isLease(reply) && asInt(asMap(reply)["id"]) > 0 }

func (s *Session) answered(reply any, sent reading) {
	told := asMap(reply)
	if ttl, ok := told["ttl_ms"]; ok && ttl == nil {
		s.lease.answeredEndless(sent)
		return
	}
	s.lease.answered(sent, asInt(told["ttl_ms"]), asInt(told["linger_ms"]))
}

// ID is the session's id, as "hasp session list" shows it.
func (s *Session) ID() int64 { return s.id }

func (s *Session) idText() string { return strconv.FormatInt(s.id, 10) }

// Secret is needed for SESSION.ATTACH, with the ID. A process that has both can act
// for the session, which is intended for durable sessions. It is "" while the
// session is, or can be, tied to this process: call Untie before you hand it over.
func (s *Session) Secret() string {
	if !s.tie.mayBeHandedOver() {
		return ""
	}
	return s.secret
}

// IsTied is true while the session is tied to this process: Options.Tie.
func (s *Session) IsTied() bool { return s.tie.tied() }

// Untie ends the tie to this process, for good, so that another process can take
// over the session. ErrUnreachable: the agent has not confirmed it.
func (s *Session) Untie(ctx context.Context) error {
	if s.tie == nil {
		return nil
	}
	return s.tie.undo(ctx)
}

// State returns the state of the lease. It sends no request.
func (s *Session) State() State { return s.lease.state(clockNow()) }

// Remaining returns for how long the lease can be trusted: 0 unless it is held, the
// longest time.Duration for a durable session.
func (s *Session) Remaining() time.Duration {
	return time.Duration(s.lease.remaining(clockNow()))
}

// Done is closed when the session has ended, or was closed.
func (s *Session) Done() <-chan struct{} { return s.over.Done() }

// Alive reports progress of the program: see Options.Alive. Call it where the work
// is done. It returns an error if the session is already lost.
func (s *Session) Alive() error {
	s.mu.Lock()
	s.aliveAt = clockNow()
	s.mu.Unlock()
	if s.State() == Lost {
		return s.whyLost()
	}
	return nil
}

// Close releases all holds and ends the session. Trust in its locks ends before the
// request is sent. The request is sent even if ctx is done: Close then waits for
// 250 ms and continues in the background, for Options.Timeout in total. If no node
// can be reached the session ends by its TTL. In these two cases the error is
// ErrUnknown or ErrUnreachable.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.closing = !was && s.lease.state(clockNow()) != Lost
	isOpen := s.closing
	s.mu.Unlock()
	if was {
		return ErrClosed
	}
	s.eachHold((*Lock).doubt)
	s.endHolds((*acquisition).released)
	var err error
	if isOpen {
		told := make(chan error, 1)
		go func() { told <- s.sayClosed() }()
		select {
		case err = <-told:
		case <-ctx.Done():
			err = awaitClosed(ctx, told)
		}
	}
	s.lease.refused()
	s.endHolds((*acquisition).released)
	s.end()
	s.reports.wait()
	s.waitGroup.Wait()
	return err
}

// closeGrace is the time for the last requests of a session whose Close must
// not wait. If CLOSE is not sent before the program ends, its locks stay held
// until its TTL, and those of a durable session forever.
const closeGrace = 250 * time.Millisecond

func awaitClosed(ctx context.Context, told chan error) error {
	select {
	case err := <-told:
		return err
	case <-time.After(closeGrace):
		return &outcome{ErrUnknown, ctx.Err(),
			errors.New("it is being closed in the background")}
	}
}

// sayClosed sends CLOSE to the cluster, even if the session has ended here, and
// leaves the link.
func (s *Session) sayClosed() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	defer s.quit()
	_, err := s.request(ctx, func() *ask {
		return &ask{words: s.acting("SESSION.CLOSE"), blocks: true, isLast: true}
	})
	if err == nil {
		s.link.forget(s)
	}
	if errors.Is(err, ErrLost) {
		return nil // For example, by an answer that was lost.
	}
	return err
}

// quit leaves the link, once.
func (s *Session) quit() {
	s.quitting.Do(func() {
		s.hasQuit.Store(true)
		s.tie.end()
		s.link.quit(s)
	})
}

// --- questions ---------------------------------------------------------------

// Ask sends any repeatable command of docs/protocol.md, such as "LOCK.LIST". It
// returns nil, bool, int64, string, []any or map[string]any.
func (s *Session) Ask(ctx context.Context, words ...string) (any, error) {
	if len(words) == 0 {
		return nil, errors.New(
			"hasp: Ask needs a command, as in Ask(ctx, \"LOCK.SHOW\", \"a\")")
	}
	verb := strings.ToUpper(words[0])
	if verb == "SESSION.CLOSE" && !namesSession(words) {
		return nil, errors.New("hasp: Ask does not close its own session: use Close")
	}
	if goesAlone(verb, words) {
		own := newLink(s.link.where, nil)
		defer own.close()
		return s.askOn(ctx, own, ask{words: words, patience: -1,
			isOfOther: !actingVerbs[verb] || namesSession(words)})
	}
	if actingVerbs[verb] {
		return s.question(ctx, s.acting(words...)...)
	}
	return s.askOn(ctx, s.link, ask{words: words, isOfOther: true})
}

// namesSession is true if the command names the session for which it acts. Its
// first argument is a name, except that of SESSION.CLOSE.
func namesSession(words []string) bool {
	first := 2
	if strings.EqualFold(words[0], "SESSION.CLOSE") {
		first = 1
	}
	for i, word := range words {
		if i >= first && strings.EqualFold(word, "SESSION") {
			return true
		}
	}
	return false
}

// question is Ask for a command that names its session, or acts for none.
func (s *Session) question(ctx context.Context, words ...string) (any, error) {
	return s.askOn(ctx, s.link, ask{words: words})
}

func (s *Session) askOn(ctx context.Context, l *link, what ask) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return s.requestOn(ctx, l, func() *ask { a := what; return &a }, false)
}

// Commands of Ask that a shared connection can carry: those that act for a
// session, and others that neither wait nor change anything.
var (
	actingVerbs = setOf("LOCK.ACQUIRE", "LOCK.MACQUIRE", "LOCK.CONVERT", "LOCK.RELEASE",
		"LOCK.MRELEASE", "LOCK.CANCEL", "LOCK.NOTE", "LOCK.OBJECT", "LOCK.PLEASE",
		"FENCE.ADMIT", "FENCE.REMOVE")
	readingVerbs = setOf("SESSION.SHOW", "SESSION.LIST", "LOCK.SHOW", "LOCK.LIST",
		"LOCK.WHY", "LOCK.TOP", "LOCK.GRAPH", "LOCK.CHECK", "LOCK.HISTORY",
		"FENCE.SHOW", "FENCE.LIST")
)

func setOf(words ...string) map[string]bool {
	set := map[string]bool{}
	for _, word := range words {
		set[word] = true
	}
	return set
}

// goesAlone is true if the command needs a connection of its own, because it
// waits, changes the connection, or names a session itself.
func goesAlone(verb string, words []string) bool {
	for _, word := range words {
		switch strings.ToUpper(word) {
		case "WAIT", "FOREVER":
			return true
		}
	}
	return namesSession(words) || !actingVerbs[verb] && !readingVerbs[verb]
}

// Check reports whether token is that of a current holder of the lock.
func (s *Session) Check(ctx context.Context, name string, token int64) (bool, error) {
	reply, err := s.question(ctx, "LOCK.CHECK", name, strconv.FormatInt(token, 10))
	return isTrue(reply), err
}

// Admit stores the token for a resource that cannot store it itself. It returns
// false if a larger one was admitted before: then the write must not be done.
func (s *Session) Admit(ctx context.Context, resource string, token int64) (bool, error) {
	reply, err := s.question(ctx, s.acting("FENCE.ADMIT", resource,
		strconv.FormatInt(token, 10))...)
	return isTrue(reply), err
}

// Please asks the holders of a lock to release it; it returns how many were
// notified.
func (s *Session) Please(ctx context.Context, name, message string) (int, error) {
	reply, err := s.question(ctx, s.acting("LOCK.PLEASE", name,
		"MESSAGE", message)...)
	return int(asInt(reply)), err
}

// A Holder of a lock, as returned by Show.
type Holder struct {
	Session              int64
	Client, Owner, Value string
	Token                int64
}

// Show returns the holders of a lock and the number of waiting requests.
func (s *Session) Show(ctx context.Context, name string) ([]Holder, int, error) {
	reply, err := s.question(ctx, "LOCK.SHOW", name)
	return holdersOf(reply), len(asList(asMap(reply)["queue"])), err
}

// Note returns the text that a holder stored with the lock (Lock.Note); "": none.
func (s *Session) Note(ctx context.Context, name string) (string, error) {
	reply, err := s.question(ctx, "LOCK.SHOW", name)
	return asText(asMap(reply)["note"]), err
}

func holdersOf(reply any) []Holder {
	var holders []Holder
	for _, one := range asList(asMap(reply)["holders"]) {
		told := asMap(one)
		holders = append(holders, Holder{asInt(told["session"]),
			asText(told["client"]), asText(told["owner"]),
			asText(told["value"]), asInt(told["token"])})
	}
	return holders
}

func isTrue(reply any) bool { return reply == true || asInt(reply) == 1 }

// inMilliseconds rounds up, so that a wait is not cut short and nothing becomes
// 0.
func inMilliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(inMilliseconds(d), 10)
}
