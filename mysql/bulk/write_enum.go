package bulk

import (
	"bytes"
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// An enumCounter counts the ENUM values that are expected to raise a warning. An ENUM column can
// hold index 0, no member at all, if rows were written without strict mode. LOAD DATA stores it,
// from the empty string or from 0, but with a warning, and we treat any warning as an error. So
// these values are counted as they pass, and that many warnings are accepted.
type enumCounter struct {
	empty, zero []bool // by column: '' or 0 is not a label and stands for index 0
	last        int    // of the relevant columns; -1 none

	col   int  // of the next value
	n     int  // bytes of it seen
	first byte // of it
	count int64
}

// newEnumCounter looks for columns whose labels are the same on source and target: there a value
// that is not a label can only be index 0.
func newEnumCounter(m *tidemark.Move, warnsOfZero bool) *enumCounter {
	to := m.To.Stored()
	k := &enumCounter{empty: make([]bool, len(to)), zero: make([]bool, len(to)), last: -1}
	for i, c := range to {
		if i >= len(m.Source) || c.Type.Kind != tidemark.Enum {
			continue
		}
		from := m.From.Column(m.Source[i])
		if from == nil || from.Type.Kind != tidemark.Enum || !slices.Equal(from.Type.Labels, c.Type.Labels) {
			continue
		}
		k.empty[i] = !slices.Contains(c.Type.Labels, "")
		k.zero[i] = warnsOfZero && !slices.Contains(c.Type.Labels, "0")
		if k.empty[i] || k.zero[i] {
			k.last = i
		}
	}
	return k
}

// warnsOfZero reports whether the server warns about a 0 in an ENUM: MariaDB 10.11 does; MySQL and
// MariaDB 11.8 do not (observed; versions in between were not tested).
func warnsOfZero(e *Bulk) bool { return e.MariaDB && !e.AtLeast(11, 8, 0) }

// see counts in a piece of the stream, which may begin and end anywhere.
func (k *enumCounter) see(data []byte) {
	if k.last < 0 {
		return
	}
	for len(data) > 0 {
		if k.col > k.last {
			n := bytes.IndexByte(data, '\n')
			if n < 0 {
				return
			}
			k.col, k.n, data = 0, 0, data[n+1:]
			continue
		}
		end := byte('\t')
		if k.col == len(k.empty)-1 {
			end = '\n'
		}
		n := bytes.IndexByte(data, end)
		if k.n == 0 {
			k.first = data[0]
		}
		if n < 0 {
			k.n += len(data)
			return
		}
		k.n += n
		if k.n == 0 && k.empty[k.col] || k.n == 1 && k.first == '0' && k.zero[k.col] {
			k.count++
		}
		if k.n, data = 0, data[n+1:]; end == '\n' {
			k.col = 0
		} else {
			k.col++
		}
	}
}

// drain returns the count and resets it.
func (k *enumCounter) drain() int64 {
	n := k.count
	k.count, k.col, k.n = 0, 0, 0
	return n
}
