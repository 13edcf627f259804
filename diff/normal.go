package diff

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// When are two values of different types, or of different engines, equal? When one, converted to
// the other's type, is the other: a correct copy is equal to its source. The type that holds less
// (a float for a decimal, a boolean for an integer) sets the precision. This is the complete table;
// a column pair not listed is compared by its text, and so is any pair within a family of engines
// whose types have the same name.
//
//	one side       other side       normal form
//	Bool           Int, Bit         0, or 1 for all else
//	Int, Year      Int, Year        no leading zeros (ZEROFILL, the year 0000)
//	Int            Bit              the number
//	Decimal        Decimal Int      no zeros at the end of the fraction or in front, no "-0"
//	               Money
//	Money          Money            without currency sign and grouping, then as Decimal
//	Float          Float, Decimal   shortest text of the nearest double (of the nearest
//	               Int              single if both are); -0 is 0
//	Char           Char Varchar     without blanks at the end, on both sides
//	               Text Enum
//	Bit            Bit, VarBit      no leading zeros where the lengths differ
//	Bit, VarBit    Bytes            hex, padded with zeros in front
//	Date           DateTime         with " 00:00:00"
//	               Timestamp
//	DateTime       DateTime         no zeros at the end of the fraction; without "+00"
//	Timestamp      Timestamp
//	Time, TimeTZ   Time, TimeTZ     no zeros at the end of the fraction
//	Time           Interval         microseconds
//	Interval       Interval         no zeros at the end of the fraction
//	UUID           Char..., Bytes   hex digits, lower case
//	JSON           JSON, Text...    keys sorted, the last of equal keys, exact numbers,
//	                                shortest string escapes, no blanks
//	Geometry       Bytes            hex
//
// Options.ZeroDates and Options.NoNumberIsNull are applied on top.

// A policy is a side's handling of values that the other engine cannot hold.
type policy struct {
	zeroDates string
	unheld    bool // NoNumberIsNull
}

// normals returns the normal forms of a column pair; nil if the field stays unchanged. alike means
// that both engines are of one family.
func normals(a, b tidemark.Type, alike bool, p policy) (forA, forB maker) {
	if !alike || !sameShape(a, b) {
		forA, forB = equalise(a, b)
	}
	return p.facing(b).wrap(a, forA), p.facing(a).wrap(b, forB)
}

// facing returns the policy for values whose counterpart is of type t: a text column can hold them
// all.
func (p policy) facing(t tidemark.Type) policy {
	if textual(t.Kind) {
		return policy{}
	}
	return p
}

// sameShape reports whether two types of one family hold the same values in the same text.
func sameShape(a, b tidemark.Type) bool {
	if a.Native == b.Native && a.Native != "" {
		return a.Charset == b.Charset
	}
	if a.Kind != b.Kind || a.Kind == tidemark.JSON || a.Kind == tidemark.Array || a.Kind == tidemark.Other {
		return false
	}
	return a.Bits == b.Bits && a.Length == b.Length && a.Precision == b.Precision && a.Scale == b.Scale &&
		a.Charset == b.Charset && zerofill(a) == zerofill(b) && strings.Join(a.Labels, "\x00") == strings.Join(b.Labels, "\x00")
}

func zerofill(t tidemark.Type) bool { return strings.Contains(strings.ToLower(t.Native), "zerofill") }

func equalise(a, b tidemark.Type) (maker, maker) {
	if f := symmetric(a, b); f != nil {
		return f, f
	}
	if f, g := directed(a, b); f != nil || g != nil {
		return f, g
	}
	g, f := directed(b, a)
	return f, g
}

func number(k tidemark.TypeKind) bool {
	return k == tidemark.Int || k == tidemark.Decimal || k == tidemark.Float || k == tidemark.Money || k == tidemark.Year
}

func textual(k tidemark.TypeKind) bool {
	return k == tidemark.Char || k == tidemark.Varchar || k == tidemark.Text || k == tidemark.Enum || k == tidemark.Set || k == tidemark.Other
}

// symmetric returns the normal form for both sides; nil if there is none.
func symmetric(a, b tidemark.Type) maker {
	either := func(k tidemark.TypeKind) bool { return a.Kind == k || b.Kind == k }
	both := func(f func(tidemark.TypeKind) bool) bool { return f(a.Kind) && f(b.Kind) }
	switch {
	case both(number) && either(tidemark.Float):
		if a.Kind == b.Kind && a.Bits == 32 && b.Bits == 32 {
			return always(func(dst, f []byte) []byte { return normFloat(dst, f, 32) })
		}
		return always(func(dst, f []byte) []byte { return normFloat(dst, f, 64) })
	case both(number) && either(tidemark.Money):
		return always(normMoney)
	case both(number) && either(tidemark.Decimal):
		if a.Kind == b.Kind && a.Precision > 0 && a.Precision == b.Precision && a.Scale == b.Scale && !zerofill(a) && !zerofill(b) {
			return nil
		}
		return always(normDecimal)
	case both(number):
		if a.Kind == tidemark.Int && b.Kind == tidemark.Int && !zerofill(a) && !zerofill(b) {
			return nil
		}
		return always(normDecimal)
	case both(textual) && either(tidemark.Char):
		return always(func(dst, f []byte) []byte { return append(dst, bytes.TrimRight(f, " ")...) })
	case either(tidemark.JSON) && both(func(k tidemark.TypeKind) bool { return k == tidemark.JSON || textual(k) }):
		return newJSON
	case both(func(k tidemark.TypeKind) bool { return k == tidemark.Bit || k == tidemark.VarBit }) && a.Length != b.Length:
		return always(func(dst, f []byte) []byte { return append(dst, trimZeros(f)...) })
	case either(tidemark.UUID) && both(func(k tidemark.TypeKind) bool { return k == tidemark.UUID || textual(k) || k.Bytes() }):
		return always(normUUID)
	case either(tidemark.Geometry) && both(func(k tidemark.TypeKind) bool { return k == tidemark.Geometry || k.Bytes() }):
		return always(func(dst, f []byte) []byte { return append(dst, bytes.ToLower(trimHexMark(f))...) })
	case either(tidemark.Time) && either(tidemark.Interval):
		return always(normSpan)
	case both(func(k tidemark.TypeKind) bool { return k == tidemark.Time || k == tidemark.TimeTZ }), a.Kind == tidemark.Interval && b.Kind == tidemark.Interval:
		return always(normTime)
	case both(func(k tidemark.TypeKind) bool {
		return k == tidemark.DateTime || k == tidemark.Timestamp || k == tidemark.Date
	}) && (a.Kind != tidemark.Date || b.Kind != tidemark.Date):
		return always(normInstant)
	}
	return nil
}

// directed returns the normal forms if the sides need different ones; a's type decides.
func directed(a, b tidemark.Type) (forA, forB maker) {
	switch {
	case a.Kind == tidemark.Bool && (b.Kind == tidemark.Int || b.Kind == tidemark.Bit):
		return always(normBool), always(normBool)
	case (a.Kind == tidemark.Bit || a.Kind == tidemark.VarBit) && b.Kind == tidemark.Int:
		return always(normBitsNumber), nil
	case (a.Kind == tidemark.Bit || a.Kind == tidemark.VarBit) && b.Kind == tidemark.Decimal:
		return always(normBitsNumber), always(normDecimal)
	case (a.Kind == tidemark.Bit || a.Kind == tidemark.VarBit) && b.Kind.Bytes():
		return always(normBitsHex), nil
	}
	return nil, nil
}

// normBool: f and any zero is 0, all else 1.
func normBool(dst, f []byte) []byte {
	if len(f) == 1 && f[0] == 'f' || len(bytes.Trim(f, "0-")) == 0 {
		return append(dst, '0')
	}
	return append(dst, '1')
}

func trimZeros(f []byte) []byte {
	for len(f) > 1 && f[0] == '0' {
		f = f[1:]
	}
	return f
}

// normDecimal normalizes decimal digits without exponent, and leaves all else unchanged.
func normDecimal(dst, f []byte) []byte {
	digits := bytes.TrimLeft(f, "+-")
	if len(f)-len(digits) > 1 || len(digits) == 0 || len(bytes.Trim(digits, "0123456789.")) != 0 {
		return append(dst, f...) // NaN, Infinity
	}
	whole, fraction, _ := bytes.Cut(digits, []byte{'.'})
	fraction = bytes.TrimRight(fraction, "0")
	whole = bytes.TrimLeft(whole, "0")
	if f[0] == '-' && len(whole)+len(fraction) > 0 {
		dst = append(dst, '-')
	}
	if len(whole) == 0 {
		dst = append(dst, '0')
	}
	dst = append(dst, whole...)
	if len(fraction) > 0 {
		dst = append(append(dst, '.'), fraction...)
	}
	return dst
}

// normMoney removes currency and grouping: "-$1,234.50" becomes -1234.5. Amounts in parentheses are
// negative.
func normMoney(dst, f []byte) []byte {
	var room [64]byte
	plain := room[:0]
	for _, c := range f {
		switch {
		case c == '(':
			plain = append(plain, '-')
		case c >= '0' && c <= '9' || c == '.' || c == '-':
			plain = append(plain, c)
		}
	}
	return normDecimal(dst, plain)
}

// normFloat accepts any text of a number.
func normFloat(dst, f []byte, bits int) []byte {
	v, err := strconv.ParseFloat(string(f), bits)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return normMoney(dst, f) // an amount, or not a number
	}
	if v == 0 {
		return append(dst, '0')
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// trimHexMark removes "\x" from the front of bytes; the backslash is escaped.
func trimHexMark(f []byte) []byte {
	return bytes.TrimPrefix(f, []byte(`\\x`))
}

func normUUID(dst, f []byte) []byte {
	for _, c := range trimHexMark(bytes.Trim(f, " {}")) {
		switch {
		case c == '-':
		case c >= 'A' && c <= 'F':
			dst = append(dst, c+'a'-'A')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// normBitsNumber converts 0s and 1s to a decimal number.
func normBitsNumber(dst, f []byte) []byte {
	v, err := strconv.ParseUint(string(f), 2, 64)
	if err != nil {
		return append(dst, f...)
	}
	return strconv.AppendUint(dst, v, 10)
}

// normBitsHex converts 0s and 1s to bytes, padded with zeros in front.
func normBitsHex(dst, f []byte) []byte {
	dst = append(dst, `\\x`...)
	var b byte
	for i, c := range f {
		b = b<<1 | c&1
		if (len(f)-i-1)%8 == 0 {
			dst = hex.AppendEncode(dst, []byte{b})
			b = 0
		}
	}
	return dst
}
