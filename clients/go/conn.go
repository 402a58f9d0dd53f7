// SPDX-License-Identifier: MIT

package hasp

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"
)

// conn is a connection to one node. One goroutine uses it at a time; any may
// interrupt it.
type conn struct {
	endpoint string
	net      net.Conn
	in       *bufio.Reader
	onPush   func(push)
}

// dial connects and greets; secure is nil for plain. Nothing leaves the machine
// by a socket of its own, so nothing is encrypted there.
func dial(endpoint string, secure *tls.Config, greeting []string,
	until time.Time) (*conn, error) {
	dialer := net.Dialer{Deadline: until}
	network, address := "tcp", endpoint
	isSocket := strings.HasPrefix(endpoint, socketWord)
	if isSocket {
		network, address = "unix", strings.TrimPrefix(endpoint, socketWord)
	}
	line, err := dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	if secure != nil && !isSocket {
		line = tls.Client(line, named(secure, endpoint))
	}
	c := &conn{endpoint: endpoint, net: line, in: bufio.NewReader(line)}
	reply, err := c.ask(until, greeting...)
	if refusal, ok := reply.(*replyError); ok {
		err = judge(refusal)
	} else if secure != nil {
		err = explained(err)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
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

// ask sends a request and waits for its answer. A refusal is an answer, a
// *replyError; an error is the connection's end.
func (c *conn) ask(until time.Time, words ...string) (any, error) {
	if err := c.send(until, words...); err != nil {
		return nil, err
	}
	return c.receive()
}

func (c *conn) send(until time.Time, words ...string) error {
	if err := c.net.SetDeadline(until); err != nil {
		return err
	}
	_, err := c.net.Write(appendRequest(nil, words))
	return err
}

// askWhile is ask until ctx is done.
func (c *conn) askWhile(ctx context.Context, until time.Time,
	words []string) (any, error) {
	if err := c.send(until, words...); err != nil {
		return nil, err
	}
	answered, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
			c.net.SetDeadline(time.Unix(1, 0))
		case <-answered:
		}
	}()
	reply, err := c.receive()
	close(answered)
	<-watched
	return reply, err
}

// receive gives the next reply; events before it go to onPush.
func (c *conn) receive() (any, error) {
	for {
		value, err := readValue(c.in, 0)
		if err != nil {
			return nil, err
		}
		event, ok := value.(push)
		if !ok {
			return value, nil
		}
		if c.onPush != nil {
			c.onPush(event)
		}
	}
}

func (c *conn) close() { c.net.Close() }
