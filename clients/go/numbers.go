// SPDX-License-Identifier: MIT

package hasp

import (
	"sort"
	"strconv"
	"strings"
	"sync"
)

// ackedRanges is the largest number of ranges that a node accepts in ACKED.
const ackedRanges = 16

// numbers are the numbers of a session's requests. Each is used for one
// request, which takes effect once however often it is sent. Each request lists
// the finished numbers, so that the cluster can forget their results.
type numbers struct {
	mu     sync.Mutex
	newest int64
	open   []int64 // Unfinished numbers, ascending.
	turn   int     // Where the next ranges begin.
}

// begin returns a new number, and the words for it.
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

// acked returns "4,6-9": all numbers up to the first open one, and the ranges
// between open ones. If there are too many ranges, the next request sends the
// others.
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
