package wal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// HistoryName returns the name of a timeline's history file.
func HistoryName(timeline uint32) string { return fmt.Sprintf("%08X.history", timeline) }

// ParseHistory reads a timeline's history: the timelines before it, in order, and the position at
// which each was left.
func ParseHistory(text string) (left []tidemark.LogPlace, err error) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line) // number, position, reason
		if len(words) < 2 || strings.HasPrefix(words[0], "#") {
			continue
		}
		n, err := strconv.ParseUint(words[0], 10, 32)
		high, low, ok := strings.Cut(words[1], "/")
		a, aerr := strconv.ParseUint(high, 16, 32)
		b, berr := strconv.ParseUint(low, 16, 32)
		if err != nil || !ok || aerr != nil || berr != nil {
			return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "read the history of a timeline", Err: fmt.Errorf("a line that is not in its format: %.80q", line)}
		}
		left = append(left, tidemark.LogPlace{Timeline: uint32(n), Place: a<<32 | b})
	}
	return left, nil
}
