// SPDX-License-Identifier: MIT

package hasp

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

// The bytes that libhasp sends and understands: tests/unit/test_wire_vectors.c
// makes them, and documents the format.
type wireVectors struct {
	Requests []struct {
		Words []string
		Bytes string
	}
	Replies []struct {
		Says, Bytes string
		Value       any
	}
	Broken []struct{ Says, Bytes string }
}

func readWireVectors(t *testing.T) (wire wireVectors) {
	text, err := os.ReadFile("../../tests/vectors/wire.json")
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&wire); err != nil || len(wire.Requests) < 5 ||
		len(wire.Replies) < 20 || len(wire.Broken) < 20 {
		t.Fatal("few vectors: ", err)
	}
	return wire
}

// asVector is a value as the vectors write it.
func asVector(value any) any {
	all := func(values []any) []any {
		list := []any{}
		for _, one := range values {
			list = append(list, asVector(one))
		}
		return list
	}
	switch v := value.(type) {
	case int64:
		return json.Number(fmt.Sprint(v))
	case []any:
		return all(v)
	case push:
		return map[string]any{"push": all(v)}
	case *replyError:
		return map[string]any{"error": v.Error()}
	case map[string]any:
		found := map[string]any{}
		for key, one := range v {
			found[key] = asVector(one)
		}
		return found
	}
	return value
}

// plain has maps where a vector has the list of what is in them: here their
// order is lost.
func plain(vector any) any {
	switch v := vector.(type) {
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		pairs, isMap := v["map"].([]any)
		if !isMap {
			for key := range v {
				v[key] = plain(v[key])
			}
			return v
		}
		found := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			found[pairs[i].(string)] = plain(pairs[i+1])
		}
		return found
	}
	return vector
}

func parse(text []byte) (any, error) {
	r := newReader(bytes.NewReader(text))
	r.from = bufio.NewReaderSize(bytes.NewReader(text), 16)
	return r.reply()
}

func fromHex(t *testing.T, text string) []byte {
	found, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestARequestIsThatOfTheCLibrary(t *testing.T) {
	for _, one := range readWireVectors(t).Requests {
		if got := appendRequest(nil, one.Words); hex.EncodeToString(got) != one.Bytes {
			t.Errorf("%q: %q", one.Words, got)
		}
	}
}

func TestAReplyIsUnderstoodAsByTheCLibraryHoweverItArrives(t *testing.T) {
	for _, one := range readWireVectors(t).Replies {
		text := fromHex(t, one.Bytes)
		for cut := range text {
			if value, err := parse(text[:cut]); err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Errorf("%s: after %d bytes: %v, %v", one.Says, cut, value, err)
			}
		}
		value, err := parse(text)
		if want := plain(one.Value); err != nil || !reflect.DeepEqual(asVector(value), want) {
			t.Errorf("%s: %#v, %v", one.Says, value, err)
		}
	}
}

func TestWhatIsBrokenEndsTheConnection(t *testing.T) {
	for _, one := range readWireVectors(t).Broken {
		if value, err := parse(fromHex(t, one.Bytes)); !errors.Is(err, errProtocol) &&
			!errors.Is(err, errTooLarge) {
			t.Errorf("%s: %#v, %v", one.Says, value, err)
		}
	}
}

func TestAnAnswerIsBoundedAsAWhole(t *testing.T) {
	part := strings.Repeat("*1\r\n_\r\n", 1000)
	for _, one := range []struct {
		says, text string
		want       error
	}{
		{"a text of 64 MiB", fmt.Sprintf("$%d\r\n", 64<<20), errTooLarge},
		{"a list of empty lists", "*9000000000\r\n" + strings.Repeat(part, 1000),
			errTooLarge},
		{"a list of texts", "*3\r\n" + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n",
			32<<20, strings.Repeat("x", 32<<20)), 2), errTooLarge},
		{"a large list", "*100000\r\n" + strings.Repeat(part, 100), nil},
	} {
		if _, err := parse([]byte(one.text)); !errors.Is(err, one.want) {
			t.Errorf("%s: %v", one.says, err)
		}
	}
}
