package event

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	mathbits "math/bits"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A field is the value of a column in a row's image, as it is in the log.
type field struct {
	state fieldState
	v     []byte
}

type fieldState uint8

const (
	fieldAbsent fieldState = iota // not in the image
	fieldNull
	fieldValue
	fieldSame  // unchanged, and left out of the change
	fieldDiffs // only the changes of a document
)

// A RowForm is the format of rows in an event.
type RowForm struct {
	Version int
	Packed  bool // compressed by MariaDB
	Diffs   bool // documents may be logged as diffs
}

// thin removes unchanged spare columns from an update, and reports whether it has changed anything.
func (t *Table) thin(before, after []field) (changed bool) {
	for i := range after {
		a, b := &before[i], &after[i]
		changed = changed || !t.Columns[i].Hidden && !same(a, b)
	}
	for _, i := range t.Spare {
		if same(&before[i], &after[i]) {
			after[i].state = fieldSame
		}
	}
	return changed
}

// same reports whether an update has left a column unchanged. A column that the after image lacks
// is unchanged.
func same(a, b *field) bool {
	return b.state == fieldAbsent || a.state == b.state && (b.state != fieldValue || bytes.Equal(a.v, b.v))
}

// ofNow returns what a change of a system-versioned table does to its current rows; 0 if nothing.
func (t *Table) ofNow(kind tidemark.ChangeKind, before, after []field) tidemark.ChangeKind {
	was, is := isCurrent(&before[t.ends-1]), isCurrent(&after[t.ends-1])
	switch {
	case kind == tidemark.InsertChange && is, kind == tidemark.DeleteChange && was, kind == tidemark.UpdateChange && was && is:
		return kind
	case kind == tidemark.UpdateChange && was:
		return tidemark.DeleteChange
	}
	return 0
}

// isCurrent reports whether a row's end time is the maximum: in 2038, or from MariaDB 11.5 on in
// 2106. (Changes of tables versioned by transaction number are logged as statements.)
func isCurrent(f *field) bool {
	switch string(f.v) {
	case "\x7f\xff\xff\xff\x0f\x42\x3f", "\xff\xff\xff\xff\x0f\x42\x3f":
		return true
	}
	return f.state != fieldValue
}

func fields(f []field, n int) []field {
	if cap(f) < n {
		f = make([]field, n)
	}
	return f[:n]
}

// image finds the values of one image of a row: a null bit for each of its columns, and then the
// values of the others.
func (t *Table) image(p, present []byte, out []field) (rest []byte, err error) {
	n := 0
	for i, b := range present {
		if left := len(t.Columns) - 8*i; left < 8 { // bits beyond the last column must not be set
			b &= 1<<left - 1
		}
		n += mathbits.OnesCount8(b)
	}
	if len(p) < (n+7)/8 {
		return nil, ErrEvent
	}
	nulls, p := p[:(n+7)/8], p[(n+7)/8:]
	at := 0
	for i := range t.Columns {
		f := &out[i]
		if present[i>>3]>>(i&7)&1 == 0 {
			f.state = fieldAbsent
			continue
		}
		null := nulls[at>>3]>>(at&7)&1 == 1
		at++
		if null {
			f.state = fieldNull
			continue
		}
		var ok bool
		if f.v, p, ok = t.Columns[i].cut(p); !ok {
			return nil, ErrEvent
		}
		f.state = fieldValue
	}
	return p, nil
}

// rekeyed reports whether an update has changed the key.
func (t *Table) rekeyed(before, after []field) bool {
	for i := range t.Columns {
		a, b := &before[i], &after[i]
		if t.Columns[i].Key && b.state != fieldAbsent && (a.state != b.state || !bytes.Equal(a.v, b.v)) {
			return true
		}
	}
	return false
}

// changed reports whether an update has changed one of these columns. A column that the after image
// lacks is unchanged.
func changed(columns []int, before, after []field) bool {
	return slices.ContainsFunc(columns, func(i int) bool { return !same(&before[i], &after[i]) })
}

// tuple appends a row. Columns missing from its image are taken from the image before, if there is
// one, since they are unchanged; in an insert they have the column's default.
func (t *Table) tuple(dst []byte, row, before []field, keyOnly bool) (_ []byte, err error) {
	dst = binary.BigEndian.AppendUint16(dst, uint16(t.Emitted))
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Hidden {
			continue
		}
		if keyOnly && !c.Key {
			dst = append(dst, change.NullValue)
			continue
		}
		f := &row[i]
		if f.state == fieldAbsent && before != nil {
			f = &before[i]
		}
		switch f.state {
		case fieldNull:
			dst = append(dst, change.NullValue)
		case fieldValue, fieldDiffs:
			dst = append(dst, change.TextValue, 0, 0, 0, 0)
			at := len(dst)
			if f.state == fieldDiffs {
				dst, err = t.patched(dst, c, &before[i], f.v)
			} else {
				dst, err = c.text(dst, f.v)
			}
			if err == errNull {
				dst, err = append(dst[:at-5], change.NullValue), nil
				continue
			}
			if err != nil {
				if err == errValue || err == errDiff {
					err = fmt.Errorf("column %s: %w", c.Name, err)
				}
				return dst, err
			}
			binary.BigEndian.PutUint32(dst[at-4:], uint32(len(dst)-at))
		default:
			switch {
			case keyOnly || t.Full && c.Key:
				return dst, t.noImage(c)
			case before == nil && c.absent != nil:
				dst = append(dst, c.absent...)
			default:
				dst = append(dst, change.UnchangedValue)
			}
		}
	}
	return dst, nil
}

func (t *Table) noImage(c *Column) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: t.ID.String(), Err: errors.New("the log does not identify the changed row: its image lacks column " + c.Name), Hint: "SET GLOBAL binlog_row_image = FULL on the source, and copy the table again."}
}

// Unpack decompresses what MariaDB has compressed, row events and values of COMPRESSED columns: a
// byte with the method and the number of bytes of the size, the size, big-endian, and a stream of
// zlib, or of bare deflate. Values may follow a zero byte uncompressed.
func Unpack(v []byte) ([]byte, error) {
	if len(v) == 0 || v[0] == 0 {
		return v[min(len(v), 1):], nil
	}
	n := int(v[0] & 7)
	if v[0]&0xf0 != 0x80 || n > 4 || len(v) < 1+n {
		return nil, ErrEvent
	}
	size := big8(v[1 : 1+n])
	from, err := expand(v[1+n:], v[0]&8 != 0)
	if err != nil {
		return nil, ErrEvent
	}
	var out bytes.Buffer // grows with the actual data, not with the declared size
	out.Grow(int(min(size+bytes.MinRead, 1<<20)))
	m, err := io.Copy(&out, io.LimitReader(from, int64(size)+1))
	if err != nil || uint64(m) != size {
		return nil, ErrEvent
	}
	if v[0]&8 == 0 {
		expanders.Put(from)
	}
	return out.Bytes(), nil
}

// expanders are idle zlib readers: a new one for each event would cost more than the decompression.
var expanders sync.Pool

func expand(v []byte, bare bool) (io.Reader, error) {
	in := bytes.NewReader(v)
	if bare {
		return flate.NewReader(in), nil
	}
	if from, ok := expanders.Get().(io.Reader); ok {
		return from, from.(zlib.Resetter).Reset(in, nil)
	}
	return zlib.NewReader(in)
}

// Images are buffers for the values of a row before and after its change, reused for one row after
// the other.
type Images struct{ before, after []field }

// Row reads one row, or the two images of an updated one, from the beginning of p; present has a
// bit for each column in them. It appends the change to dst, or nothing if there is nothing to
// emit.
func (t *Table) Row(dst []byte, of *Images, kind tidemark.ChangeKind, form RowForm, present [2][]byte, p []byte) (_, rest []byte, err error) {
	of.before, of.after = fields(of.before, len(t.Columns)), fields(of.after, len(t.Columns))
	before, after := of.before, of.after
	switch kind {
	case tidemark.InsertChange:
		rest, err = t.image(p, present[0], after)
	case tidemark.DeleteChange:
		rest, err = t.image(p, present[0], before)
	default:
		later := t.image
		if form.Diffs {
			later = t.diffImage
		}
		if rest, err = t.image(p, present[0], before); err == nil {
			rest, err = later(rest, present[1], after)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if t.ends > 0 {
		if kind = t.ofNow(kind, before, after); kind == 0 {
			return dst, rest, nil
		}
	}
	if t.Sparse && kind == tidemark.UpdateChange && !t.thin(before, after) {
		return dst, rest, nil
	}
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(kind))
	dst = binary.BigEndian.AppendUint32(dst, t.RelationID)
	removed, updated := kind == tidemark.DeleteChange, kind == tidemark.UpdateChange
	asked := t.Old || len(t.Watched) > 0 && (removed || updated && changed(t.Watched, before, after))
	whole := t.Full || asked || removed && t.Apart || updated && changed(t.Links, before, after)
	if kind != tidemark.InsertChange && (whole || kind == tidemark.DeleteChange || t.rekeyed(before, after)) {
		letter := byte('K')
		if whole {
			letter = 'O'
		}
		for i := range before {
			if (asked || whole && t.Columns[i].Key) && before[i].state == fieldAbsent && !t.Columns[i].Hidden {
				return nil, nil, t.noImage(&t.Columns[i])
			}
		}
		// Columns that it lacks do not have an insert's defaults.
		if dst, err = t.tuple(append(dst, letter), before, before, !whole); err != nil {
			return nil, nil, err
		}
	}
	if kind != tidemark.DeleteChange {
		if kind == tidemark.InsertChange {
			before = nil
		}
		if dst, err = t.tuple(append(dst, 'N'), after, before, false); err != nil {
			return nil, nil, err
		}
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst, rest, nil
}
