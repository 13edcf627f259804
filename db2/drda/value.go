package drda

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/internal/float"
)

const null = `\N`

// row decodes one row.
func (r *Rows) row() error {
	r.marked = false
	for i := range r.columns {
		if i > 0 {
			r.out = append(r.out, '\t')
		}
		col := &r.columns[i]
		if col.nullable {
			if r.pos == len(r.win) {
				if err := r.need(1); err != nil {
					return r.amid(err)
				}
			}
			absent := r.win[r.pos]
			r.pos++
			if absent&0x80 != 0 { // FF is NULL; FE an expression that failed
				r.out = append(r.out, null...)
				continue
			}
		}
		if err := r.value(col); err != nil {
			return err
		}
	}
	r.out = append(r.out, '\n')
	return nil
}

// value decodes a value that is not NULL.
func (r *Rows) value(col *column) error {
	n := col.size
	switch col.kind {
	case kindVarText, kindVarBytes, kindVarGraphic:
		b, err := r.bytes(2)
		if err != nil {
			return err
		}
		n = int(be.Uint16(b))
		if col.kind == kindVarGraphic {
			n *= 2
		}
	}
	if len(r.win)-r.pos < n {
		if err := r.need(n); err != nil {
			return r.amid(err)
		}
	}
	v := r.win[r.pos : r.pos+n]
	r.pos += n
	order := r.c.order
	ok := true
	switch col.kind {
	case kindInt16:
		r.out = strconv.AppendInt(r.out, int64(int16(order.Uint16(v))), 10)
	case kindInt32:
		r.out = strconv.AppendInt(r.out, int64(int32(order.Uint32(v))), 10)
	case kindInt64:
		r.out = strconv.AppendInt(r.out, int64(order.Uint64(v)), 10)
	case kindFloat32:
		r.out = float.Append(r.out, float64(math.Float32frombits(order.Uint32(v))), 32)
	case kindFloat64:
		r.out = float.Append(r.out, math.Float64frombits(order.Uint64(v)), 64)
	case kindDecimal:
		r.out, ok = appendDecimal(r.out, v, col.digits, col.scale)
	case kindDate:
		r.out, ok = appendDate(r.out, v)
	case kindTime:
		r.out, ok = appendTime(r.out, v)
	case kindTimestamp:
		r.out, ok = appendTimestamp(r.out, v)
	case kindBool:
		r.out = append(r.out, "ft"[min(1, len(bytes.TrimLeft(v, "\x00")))])
	case kindText, kindVarText:
		r.out = appendText(r.out, v, col.page)
	case kindBytes, kindVarBytes:
		r.out = hex.AppendEncode(append(r.out, `\\x`...), v)
	case kindGraphic, kindVarGraphic:
		var text []byte
		text, ok = appendUTF16(nil, v)
		r.out = escape.Append(r.out, text, &escape.Copy)
	default:
		return r.large(col, v)
	}
	if !ok {
		return r.c.broken(fmt.Errorf("the server sent a value that cannot be read: %q", v))
	}
	return nil
}

func appendText(dst, v []byte, p page) []byte {
	if p == pageLatin1 {
		for i, c := range v {
			if c >= 0x80 {
				return escape.Append(dst, appendLatin1(append([]byte(nil), v[:i]...), v[i:]), &escape.Copy)
			}
		}
	}
	return escape.Append(dst, v, &escape.Copy)
}

// appendDecimal appends a packed decimal: a digit in each half of a byte, the sign in the last.
func appendDecimal(dst, v []byte, digits, scale int) ([]byte, bool) {
	sign := v[len(v)-1] & 0x0F
	if sign < 0x0A {
		return dst, false
	}
	start := len(dst)
	if sign == 0x0B || sign == 0x0D {
		dst = append(dst, '-')
	}
	zero, begun := true, false
	half := 2*len(v) - 1 - digits // 1 if the first half is not used
	for i := range digits {
		d := v[(i+half)/2]
		if (i+half)%2 == 0 {
			d >>= 4
		}
		if d &= 0x0F; d > 9 {
			return dst, false
		}
		whole := digits - scale - i // digits before the point that are left, with this one
		if whole == 0 {
			if !begun {
				dst = append(dst, '0')
			}
			dst, begun = append(dst, '.'), true
		}
		if zero = zero && d == 0; d != 0 || begun || whole == 1 {
			dst, begun = append(dst, '0'+d), true
		}
	}
	if zero && dst[start] == '-' {
		dst = append(dst[:start], dst[start+1:]...)
	}
	return dst, true
}

func allDigits(v []byte) bool {
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// appendDate appends YYYY-MM-DD.
func appendDate(dst, v []byte) ([]byte, bool) {
	if v[4] != '-' || v[7] != '-' || !allDigits(v[:4]) || !allDigits(v[5:7]) || !allDigits(v[8:10]) {
		return dst, false
	}
	return append(dst, v...), true
}

// appendTime appends HH:MM:SS, of which servers separate the parts by points.
func appendTime(dst, v []byte) ([]byte, bool) {
	if v[2] != '.' && v[2] != ':' || v[5] != v[2] || !allDigits(v[:2]) || !allDigits(v[3:5]) || !allDigits(v[6:8]) {
		return dst, false
	}
	return append(append(append(append(append(dst, v[:2]...), ':'), v[3:5]...), ':'), v[6:8]...), true
}

// appendTimestamp appends YYYY-MM-DD HH:MM:SS and what is not zero of the fraction.
func appendTimestamp(dst, v []byte) (_ []byte, ok bool) {
	if dst, ok = appendDate(dst, v[:10]); !ok || v[10] != '-' && v[10] != ' ' && v[10] != 'T' {
		return dst, false
	}
	if dst, ok = appendTime(append(dst, ' '), v[11:19]); !ok {
		return dst, false
	}
	fraction := bytes.TrimRight(v[19:], " ")
	if len(fraction) == 0 {
		return dst, true
	}
	if fraction[0] != '.' || !allDigits(fraction[1:]) {
		return dst, false
	}
	if fraction = bytes.TrimRight(fraction[1:], "0"); len(fraction) > 0 {
		dst = append(append(dst, '.'), fraction...)
	}
	return dst, true
}

// large decodes a large value, which follows the rows in an object of its own unless it is empty.
// The row has its length, unless the first bit says that it was not known.
func (r *Rows) large(col *column, placeholder []byte) error {
	if col.kind == kindLobBytes {
		r.out = append(r.out, `\\x`...)
	}
	length, known := int64(0), placeholder[0]&0x80 == 0 && !r.c.Server.Derby()
	for _, b := range placeholder {
		length = length<<8 | int64(b)
	}
	if length == 0 {
		return nil
	}
	if err := r.external(); err != nil {
		return err
	}
	// Derby gives each large value after a nullable one of its row the byte that these have.
	if r.marked = col.nullable || r.marked && r.c.Server.Derby(); r.marked {
		b, err := r.c.in.chunkOf(1)
		if err != nil {
			return r.c.broken(err)
		}
		if len(b) != 1 || b[0] != 0 {
			return r.c.broken(errors.New("the server sent NULL, or an error, for a large value that the row has"))
		}
	}
	var half []byte // of a character that was cut
	var n int64
	for {
		b, err := r.c.in.chunk()
		if err != nil {
			return r.c.broken(err)
		}
		if b == nil {
			break
		}
		n += int64(len(b))
		switch col.kind {
		case kindLobBytes:
			r.out = hex.AppendEncode(r.out, b)
		case kindLobText:
			r.out = appendText(r.out, b, col.page)
		default:
			if half, err = r.graphic(half, b); err != nil {
				return r.c.broken(err)
			}
		}
		if len(r.out) >= r.piece {
			if err := r.flush(true); err != nil {
				return err
			}
		}
	}
	if known && n != length && !(col.kind == kindLobGraphic && n == 2*length) {
		return r.c.broken(fmt.Errorf("the server sent %d bytes of a large value that has %d", n, length))
	}
	if len(half) > 0 {
		return r.c.broken(errors.New("the server sent a large value that ends amid a character"))
	}
	return nil
}

// graphic appends the characters that are complete, and returns the rest.
func (r *Rows) graphic(half, b []byte) ([]byte, error) {
	b = append(half, b...)
	n := len(b) &^ 1
	if n >= 2 && b[n-2]&0xFC == 0xD8 { // the first half of a pair
		n -= 2
	}
	text, ok := appendUTF16(nil, b[:n])
	if !ok {
		return nil, errors.New("the server sent a large value with half a character")
	}
	r.out = escape.Append(r.out, text, &escape.Copy)
	return append([]byte(nil), b[n:]...), nil
}

// external finds the next large value in the replies. Rows that come before it are kept.
func (r *Rows) external() error {
	r.keep()
	for {
		for r.inData {
			b, err := r.c.in.chunk()
			if err != nil {
				return r.c.broken(err)
			}
			if r.inData = b != nil; len(r.spill)+len(b) > maxObject {
				return r.c.broken(errors.New("the server sent too many rows before their large values"))
			}
			r.spill = append(r.spill, b...)
			r.win = r.spill
		}
		code, err := r.object()
		switch {
		case err != nil:
			return err
		case code == 0:
			return r.c.broken(errors.New("the server did not send a large value that a row has"))
		case code == cpEXTDTA:
			return nil
		}
		if err := r.handleObject(code); err != nil {
			return err
		}
	}
}

// chunkOf returns the next n bytes of the object, or those that are there.
func (r *reader) chunkOf(n int) ([]byte, error) {
	var out []byte
	for len(out) < n && r.left != 0 {
		if ok, err := r.avail(); !ok {
			return out, err
		}
		out = append(out, r.buf[r.at])
		r.at++
		r.segment--
		if r.left > 0 {
			r.left--
		}
	}
	return out, nil
}

// splitText takes COPY text apart.
func splitText(text []byte) (out [][]*string) {
	for line := range bytes.Lines(text) {
		var row []*string
		for _, v := range bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte("\t")) {
			if string(v) == null {
				row = append(row, nil)
				continue
			}
			s := string(escape.Undo(nil, v))
			row = append(row, &s)
		}
		out = append(out, row)
	}
	return out
}
