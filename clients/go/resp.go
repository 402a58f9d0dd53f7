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

// RESP3, as far as hasp speaks it: nil, bool, int64, string, []any,
// map[string]any, push and *replyError.

const (
	lineMax  = 64 << 10
	bulkMax  = 64 << 20
	countMax = 1 << 20
	depthMax = 8
)

var errProtocol = errors.New("what answers is no node of hasp: no RESP")

// push is an event, which may come between two replies.
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

func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
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
	return string(line[:len(line)-2]), nil
}

func readValue(r *bufio.Reader, depth int) (any, error) {
	line, err := readLine(r)
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
	case kind == '$' && number <= bulkMax:
		text := make([]byte, number+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		if text[number] != '\r' || text[number+1] != '\n' {
			return nil, errProtocol
		}
		return string(text[:number]), nil
	case number > countMax:
		return nil, errProtocol
	case kind == '*' || kind == '>':
		return readList(r, kind, number, depth)
	case kind == '%':
		return readMap(r, number, depth)
	}
	return nil, fmt.Errorf("%w: %q", errProtocol, line)
}

func readList(r *bufio.Reader, kind byte, count int64, depth int) (any, error) {
	var list []any
	for i := int64(0); i < count; i++ {
		value, err := readValue(r, depth+1)
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

func readMap(r *bufio.Reader, count int64, depth int) (any, error) {
	found := map[string]any{}
	for i := int64(0); i < count; i++ {
		key, err := readValue(r, depth+1)
		if err != nil {
			return nil, err
		}
		value, err := readValue(r, depth+1)
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

// The values of a reply, or the zero value where it is of another type.

func asMap(value any) map[string]any { m, _ := value.(map[string]any); return m }
func asList(value any) []any         { l, _ := value.([]any); return l }
func asInt(value any) int64          { n, _ := value.(int64); return n }
func asText(value any) string        { s, _ := value.(string); return s }
