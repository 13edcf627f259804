package drda

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark/internal/escape"
)

// A ParamKind is how a parameter's values are sent. The server converts them to what the statement
// needs.
type ParamKind uint8

const (
	ParamText     ParamKind = iota // also for dates, times and what only the server can read
	ParamInt                       // 64 bits
	ParamFloat                     // 64 bits
	ParamDecimal                   // of Digits, Scale of them after the point
	ParamBool                      // "t" and "f" are sent as the texts "true" and "false"
	ParamBytes                     // "\x" and hex digits
	ParamLobText                   // text of any length
	ParamLobBytes                  // bytes of any length
)

// A Param is a parameter of a statement. Values are COPY text.
type Param struct {
	Kind          ParamKind
	Digits, Scale int // of decimals
}

// large reports whether values follow the parameters in objects of their own.
func (p Param) large() bool { return p.Kind == ParamLobText || p.Kind == ParamLobBytes }

// maxVar is the longest text or bytes that a parameter of a variable length holds.
const maxVar = 32767

// descriptor is the type of FD:OCA of a parameter that may be NULL.
func (p Param) descriptor() [3]byte {
	switch p.Kind {
	case ParamInt:
		return [3]byte{0x17, 0, 8}
	case ParamFloat:
		return [3]byte{0x0B, 0, 8}
	case ParamDecimal:
		return [3]byte{0x0F, byte(p.Digits), byte(p.Scale)}
	case ParamBytes:
		return [3]byte{0x29, maxVar >> 8, maxVar & 0xFF}
	case ParamLobText:
		return [3]byte{0xCF, 0x80, 4}
	case ParamLobBytes:
		return [3]byte{0xC9, 0x80, 4}
	}
	return [3]byte{0x3F, maxVar >> 8, maxVar & 0xFF}
}

// maxTriplets is how many types a group of a description has.
const maxTriplets = 84

// appendFDODSC describes the values of many rows.
func appendFDODSC(dst []byte, params []Param, rows int) []byte {
	group := [2]byte{0x76, 0xD0}
	for i, left := 0, rows*len(params); left > 0; group = [2]byte{0x7F, 0x00} {
		n := min(left, maxTriplets)
		left -= n
		dst = append(dst, byte(3+3*n), group[0], group[1])
		for range n {
			d := params[i%len(params)].descriptor()
			dst = append(dst, d[:]...)
			i++
		}
	}
	return append(dst, 6, 0x71, 0xE4, 0xD0, 0, 1)
}

// A ValueError is a value that a parameter cannot have.
type ValueError struct {
	Column int // from 0
	Reason string
}

func (e *ValueError) Error() string { return e.Reason }

func badValue(format string, args ...any) error {
	return &ValueError{Reason: fmt.Sprintf(format, args...)}
}

// appendParam appends the value of a parameter that is not large, after the byte that says that it
// is not NULL.
func (p Param) appendParam(dst, text []byte) ([]byte, error) {
	if string(text) == null {
		return append(dst, 0xFF), nil
	}
	dst = append(dst, 0)
	switch p.Kind {
	case ParamInt:
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return dst, badValue("%.40q is no integer of 64 bits", text)
		}
		return be.AppendUint64(dst, uint64(n)), nil
	case ParamFloat:
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return dst, badValue("%.40q is not among the floating-point numbers that Db2 has", text)
		}
		return be.AppendUint64(dst, math.Float64bits(f)), nil
	case ParamDecimal:
		return p.appendPacked(dst, text)
	case ParamBool:
		switch string(text) {
		case "t", "true", "1":
			text = []byte("true")
		case "f", "false", "0":
			text = []byte("false")
		default:
			return dst, badValue("%.40q is neither true nor false", text)
		}
	}
	at := len(dst)
	dst = append(dst, 0, 0)
	var err error
	if p.Kind == ParamBytes {
		dst, err = appendHex(dst, text)
	} else {
		dst, err = appendPlain(dst, text)
	}
	n := len(dst) - at - 2
	if err == nil && n > maxVar {
		err = badValue("a value has %d bytes, and the column at most %d", n, maxVar)
	}
	be.PutUint16(dst[at:], uint16(n))
	return dst, err
}

// appendPlain appends a text without its escapes.
func appendPlain(dst, text []byte) ([]byte, error) {
	at := len(dst)
	dst = escape.Undo(dst, text)
	if !utf8.Valid(dst[at:]) {
		return dst, badValue("a text is not UTF-8: %.40q", dst[at:])
	}
	return dst, nil
}

// appendHex appends bytes, from their text.
func appendHex(dst, text []byte) ([]byte, error) {
	if text = bytes.TrimPrefix(text, []byte(`\\x`)); len(text)%2 != 0 {
		return dst, badValue("bytes have an odd number of hex digits")
	}
	at := len(dst)
	dst = append(dst, make([]byte, len(text)/2)...)
	if _, err := hex.Decode(dst[at:], text); err != nil {
		return dst, badValue("bytes have something else than hex digits")
	}
	return dst, nil
}

// appendPacked appends a decimal: a digit in each half of a byte, the sign in the last. Zeros after
// the last digit may be missing, or too many.
func (p Param) appendPacked(dst, text []byte) ([]byte, error) {
	digits := make([]byte, p.Digits)
	sign, rest := byte(0x0C), text
	if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
		if rest[0] == '-' {
			sign = 0x0D
		}
		rest = rest[1:]
	}
	whole, fraction, _ := bytes.Cut(rest, []byte("."))
	if len(whole)+len(fraction) == 0 || !allDigits(whole) || !allDigits(fraction) {
		return dst, badValue("%.40q is no decimal number", text)
	}
	whole, fraction = bytes.TrimLeft(whole, "0"), bytes.TrimRight(fraction, "0")
	if len(whole) > p.Digits-p.Scale || len(fraction) > p.Scale {
		return dst, badValue("%.80s does not fit DECIMAL(%d,%d)", text, p.Digits, p.Scale)
	}
	for i, c := range whole {
		digits[p.Digits-p.Scale-len(whole)+i] = c - '0'
	}
	for i, c := range fraction {
		digits[p.Digits-p.Scale+i] = c - '0'
	}
	if p.Digits%2 == 0 {
		digits = append([]byte{0}, digits...)
	}
	for i := 0; i+1 < len(digits); i += 2 {
		dst = append(dst, digits[i]<<4|digits[i+1])
	}
	return append(dst, digits[len(digits)-1]<<4|sign), nil
}
