// SPDX-License-Identifier: MIT

package hasp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The subset of RESP3 that hasp uses: nil, bool, int64, string, []any,
// map[string]any, push and *replyError.

const (
	lineMax   = 64 << 10
	depthMax  = 8
	replyMax  = 64 << 20 // Bytes of a whole reply, counting for each value ...
	valueSize = 32       // ... its size in memory.
)

var (
	errProtocol = errors.New("the peer is not a hasp node: it does not answer in RESP")
	errTooLarge = errors.New("the answer is larger than 64 MiB: ask for less " +
		"at a time, as with COUNT")
)

// push is an event; it can arrive between two replies.
type push []any

// replyError is "-WORD text".
type replyError struct{ word, text string }

func (e *replyError) Error() string { return strings.TrimSpace(e.word + " " + e.text) }

func appendRequest(out []byte, words []string) []byte {
	out = append(out, '*')
	out = strconv.AppendInt(out, int64(len(words)), 10)
	out = append(out, '\r', '\n')
	for _, word := range words {
		out = append(out, '$')
		out = strconv.AppendInt(out, int64(len(word)), 10)
		out = append(out, '\r', '\n')
		out = append(out, word...)
		out = append(out, '\r', '\n')
	}
	return out
}

// A reader reads replies. It stops reading a reply that is too large.
type reader struct {
	from *bufio.Reader
	left int64 // The rest of replyMax.
}

func newReader(from io.Reader) *reader {
	return &reader{from: bufio.NewReader(from)}
}

// reply returns the next reply or event.
func (r *reader) reply() (any, error) {
	r.left = replyMax
	return r.value(0)
}

func (r *reader) spend(size int64) error {
	if size > r.left {
		return errTooLarge
	}
	r.left -= size
	return nil
}

func (r *reader) line() (string, error) {
	var line []byte
	for {
		part, err := r.from.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if err != bufio.ErrBufferFull {
			return "", err
		}
		if len(line) > lineMax {
			return "", errProtocol
		}
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return "", errProtocol
	}
	return string(line[:len(line)-2]), r.spend(int64(len(line)) + valueSize)
}

func (r *reader) value(depth int) (any, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		word, text, _ := strings.Cut(rest, " ")
		return &replyError{word, text}, nil
	}
	switch line {
	case "_", "$-1", "*-1":
		return nil, nil
	case "#t", "#f":
		return rest == "t", nil
	}
	number, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errProtocol, line)
	}
	switch {
	case kind == ':':
		return number, nil
	case number < 0 || depth == depthMax:
		return nil, errProtocol
	case kind == '$':
		return r.text(number)
	case number > r.left/valueSize:
		return nil, errTooLarge
	case kind == '*' || kind == '>':
		return r.list(kind, number, depth)
	case kind == '%':
		return r.pairs(number, depth)
	}
	return nil, fmt.Errorf("%w: %q", errProtocol, line)
}

func (r *reader) text(size int64) (any, error) {
	if err := r.spend(size); err != nil {
		return nil, err
	}
	text := make([]byte, size+2)
	if _, err := io.ReadFull(r.from, text); err != nil {
		return nil, err
	}
	if text[size] != '\r' || text[size+1] != '\n' {
		return nil, errProtocol
	}
	return string(text[:size]), nil
}

func (r *reader) list(kind byte, count int64, depth int) (any, error) {
	var list []any
	for i := int64(0); i < count; i++ {
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	if kind == '>' {
		return push(list), nil
	}
	return list, nil
}

func (r *reader) pairs(count int64, depth int) (any, error) {
	found := map[string]any{}
	for i := int64(0); i < count; i++ {
		key, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, errProtocol
		}
		found[name] = value
	}
	return found, nil
}

// These return the value in a reply, or the zero value if it has another type.

func asMap(value any) map[string]any { m, _ := value.(map[string]any); return m }
func asList(value any) []any         { l, _ := value.([]any); return l }
func asInt(value any) int64          { n, _ := value.(int64); return n }
func asText(value any) string        { s, _ := value.(string); return s }
