package diff

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
)

var errRow = errors.New("an invalid row")

// nextRow cuts the first row off data, which holds whole rows only. The row is without its newline;
// in COPY binary it is the whole tuple.
func nextRow(f tidemark.Format, data []byte) (row, rest []byte, err error) {
	if f == tidemark.CopyBinary {
		n, err := tupleLen(data)
		if err != nil {
			return nil, nil, err
		}
		return data[:n], data[n:], nil
	}
	// A newline inside a value is escaped in both text forms, so any newline ends a row.
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		return nil, nil, errRow
	}
	return data[:i], data[i+1:], nil
}

// tupleLen returns the length of the tuple at the beginning of data: a 16-bit count, and per field
// a 32-bit length (-1 for NULL) and the bytes.
func tupleLen(data []byte) (int, error) {
	if len(data) < 2 {
		return 0, errRow
	}
	fields := int(int16(binary.BigEndian.Uint16(data)))
	if fields < 0 {
		return 0, errRow
	}
	at := 2
	for range fields {
		if len(data)-at < 4 {
			return 0, errRow
		}
		n := int32(binary.BigEndian.Uint32(data[at:]))
		at += 4
		if n < -1 || int(n) > len(data)-at {
			return 0, errRow
		}
		at += max(int(n), 0)
	}
	return at, nil
}

// A span is the position of a field in its row.
type span struct{ from, to int }

// fields finds the first n fields of a row, and reports whether the row has them. In COPY binary a
// field includes its length in front, so that NULL and the empty value differ; in the text forms it
// is escaped.
func fields(f tidemark.Format, row []byte, n int, out []span) ([]span, bool) {
	out = out[:0]
	if f == tidemark.CopyBinary {
		at := 2
		for range n {
			if len(row)-at < 4 {
				return out, false
			}
			size := int(int32(binary.BigEndian.Uint32(row[at:])))
			end := at + 4 + max(size, 0)
			if size < -1 || end > len(row) {
				return out, false
			}
			out = append(out, span{at, end})
			at = end
		}
		return out, true
	}
	at := 0
	for i := range n {
		end := len(row)
		if tab := bytes.IndexByte(row[at:], '\t'); tab >= 0 {
			end = at + tab
		} else if i < n-1 {
			return out, false
		}
		out = append(out, span{at, end})
		at = end + 1
	}
	return out, true
}

// A keyFinder returns the bytes that identify a row. One worker uses it: its result is valid until
// the next call.
type keyFinder struct {
	format tidemark.Format
	key    []int
	prefix int // the key is the first prefix columns, in order; 0: it is not
	upTo   int // columns that must be found
	spans  []span
	buf    []byte
}

func newKeyFinder(f tidemark.Format, key []int) *keyFinder {
	k := &keyFinder{format: f, key: key, prefix: len(key)}
	for i, pos := range key {
		k.upTo = max(k.upTo, pos+1)
		if pos != i {
			k.prefix = 0
		}
	}
	return k
}

// find returns the key of a row; nil if the row has too few columns. Without key columns it is the
// row.
func (k *keyFinder) find(row []byte) []byte {
	if len(k.key) == 0 {
		return row
	}
	if k.prefix == 1 && k.format == tidemark.CopyBinary && len(row) >= 6 {
		size := int(int32(binary.BigEndian.Uint32(row[2:])))
		if end := 6 + max(size, 0); end <= len(row) {
			return row[2:end]
		}
		return nil
	}
	if k.prefix == 1 && k.format != tidemark.CopyBinary {
		if i := bytes.IndexByte(row, '\t'); i >= 0 {
			return row[:i]
		}
		return row
	}
	var ok bool
	if k.spans, ok = fields(k.format, row, k.upTo, k.spans); !ok {
		return nil
	}
	if k.prefix > 0 {
		return row[k.spans[0].from:k.spans[k.prefix-1].to]
	}
	k.buf = k.buf[:0]
	for _, pos := range k.key {
		s := k.spans[pos]
		k.buf = append(append(k.buf, row[s.from:s.to]...), '\t')
	}
	return k.buf
}

// unescape appends the value of a field in a text form to dst. null is true for \N.
func unescape(dst, field []byte) (value []byte, null bool) {
	if len(field) == 2 && field[0] == '\\' && field[1] == 'N' {
		return dst, true
	}
	return escape.Undo(dst, field), false
}

// lastRow returns where the last, incomplete row of a batch with More set begins.
func lastRow(f tidemark.Format, data []byte) int {
	if f != tidemark.CopyBinary {
		return bytes.LastIndexByte(data, '\n') + 1
	}
	at := 0
	for at < len(data) {
		n, err := tupleLen(data[at:])
		if err != nil {
			return at // the row is cut here
		}
		at += n
	}
	return at
}
