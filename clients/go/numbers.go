// SPDX-License-Identifier: MIT

package hasp

import (
	"sort"
	"strconv"
	"strings"
	"sync"
)

// ackedRanges is how many ranges a node takes in ACKED.
const ackedRanges = 16

// numbers are those of a session's requests. No two requests have the same one,
// and one that is sent again does nothing again. Each request tells which ones
// are over, so that the cluster may forget them.
type numbers struct {
	mu     sync.Mutex
	newest int64
	open   []int64 // Those that are not over, ascending.
	turn   int     // Where the next ranges begin.
}

// begin gives a new number, and the words that go with it.
func (n *numbers) begin() (int64, []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.newest++
	n.open = append(n.open, n.newest)
	return n.newest, []string{"REQ", strconv.FormatInt(n.newest, 10), "ACKED",
		n.acked()}
}

func (n *numbers) end(number int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := sort.Search(len(n.open), func(i int) bool { return n.open[i] >= number })
	n.open = append(n.open[:at], n.open[at+1:]...)
}

// acked gives "4,6-9": all up to the first that is open, and the ranges between
// open ones; of very many some, and others with the next request.
func (n *numbers) acked() string {
	words := []string{strconv.FormatInt(n.open[0]-1, 10)}
	for i := range n.open {
		at := (n.turn + i) % len(n.open)
		end := n.newest + 1
		if at+1 < len(n.open) {
			end = n.open[at+1]
		}
		if n.open[at]+1 < end {
			words = append(words, strconv.FormatInt(n.open[at]+1, 10)+"-"+
				strconv.FormatInt(end-1, 10))
		}
		if len(words) > ackedRanges {
			n.turn = at + 1
			break
		}
	}
	return strings.Join(words, ",")
}
