package drda

import (
	"errors"
	"fmt"
)

// A Column is how a server sends the values of one column: a type of FD:OCA, whose last bit says
// that there may be NULLs.
type Column struct {
	Type   byte
	Length uint16 // bytes; characters of graphic types; precision and scale of decimals
}

// kind is what the decoder does with a value.
type kind uint8

const (
	kindInt16 kind = iota
	kindInt32
	kindInt64
	kindFloat32
	kindFloat64
	kindDecimal
	kindDate
	kindTime
	kindTimestamp
	kindBool
	kindText
	kindVarText
	kindBytes
	kindVarBytes
	kindGraphic
	kindVarGraphic
	kindLobBytes
	kindLobText
	kindLobGraphic
)

// A column is a Column with what follows from it.
type column struct {
	kind     kind
	nullable bool
	page     page
	size     int // bytes of fixed values; of decimals; of the placeholder of a large value
	scale    int // of decimals
	digits   int
}

// Decoder's form of a column.
func (c *Conn) column(d Column) (column, error) {
	n := int(d.Length)
	out := column{nullable: d.Type&1 != 0, size: n}
	fixed := func(k kind, size int) (column, error) {
		out.kind = k
		if n != size {
			return out, fmt.Errorf("the server sends values of type %02X in %d bytes instead of %d", d.Type, n, size)
		}
		return out, nil
	}
	switch t := d.Type &^ 1; t {
	case 0x02:
		return fixed(kindInt32, 4)
	case 0x04:
		return fixed(kindInt16, 2)
	case 0x16:
		return fixed(kindInt64, 8)
	case 0x0A:
		return fixed(kindFloat64, 8)
	case 0x0C:
		return fixed(kindFloat32, 4)
	case 0x0E:
		out.kind, out.digits, out.scale = kindDecimal, n>>8, n&0xFF
		out.size = out.digits/2 + 1
		if out.digits == 0 || out.digits > 63 || out.scale > out.digits {
			return out, fmt.Errorf("the server sends decimals of %d digits, %d of them after the point", out.digits, out.scale)
		}
	case 0x20:
		return fixed(kindDate, 10)
	case 0x22:
		return fixed(kindTime, 8)
	case 0x24:
		if out.kind = kindTimestamp; n < 19 || n > 32 {
			return out, fmt.Errorf("the server sends timestamps of %d characters", n)
		}
	case 0xBE:
		if out.kind = kindBool; n != 1 && n != 2 {
			return out, fmt.Errorf("the server sends booleans of %d bytes", n)
		}
	case 0x26, 0xC0:
		out.kind = kindBytes
	case 0x28, 0x2A, 0xC2:
		out.kind = kindVarBytes
	case 0x30:
		out.kind, out.page = kindText, c.single
	case 0x3C:
		out.kind, out.page = kindText, c.mixed
	case 0x32, 0x34:
		out.kind, out.page = kindVarText, c.single
	case 0x3E, 0x40:
		out.kind, out.page = kindVarText, c.mixed
	case 0x36:
		out.kind, out.page, out.size = kindGraphic, c.double, 2*n
	case 0x38, 0x3A:
		out.kind, out.page = kindVarGraphic, c.double
	case 0xC8, 0xCA, 0xCC, 0xCE:
		out.size = n & 0x7FFF
		switch t {
		case 0xC8:
			out.kind = kindLobBytes
		case 0xCA:
			out.kind, out.page = kindLobText, c.single
		case 0xCE:
			out.kind, out.page = kindLobText, c.mixed
		default:
			out.kind, out.page = kindLobGraphic, c.double
		}
		if out.size == 0 || out.size > 8 {
			return out, fmt.Errorf("the server sends lengths of large values in %d bytes", out.size)
		}
	default:
		return out, fmt.Errorf("the server sends values of type %02X, which is not read", d.Type)
	}
	if out.page == pageNone {
		return out, errors.New("the server sends text in a code page that is not supported")
	}
	return out, nil
}

// parseQRYDSC reads the types of a result's columns. They come in groups of up to 84, after which a
// fixed end says that rows consist of them.
func parseQRYDSC(b []byte) (out []Column, err error) {
	for len(b) > 0 {
		n := int(b[0])
		if n < 3 || n > len(b) {
			return nil, errCut
		}
		switch b[1] {
		case 0x76, 0x7F: // a group of columns, and its continuation
			entries := b[3:n]
			if len(entries)%3 != 0 {
				return nil, errCut
			}
			for ; len(entries) > 0; entries = entries[3:] {
				out = append(out, Column{Type: entries[0], Length: be.Uint16(entries[1:])})
			}
		case 0x71: // how rows are made of groups: always in the same way
		default:
			return nil, fmt.Errorf("the server describes rows by a triplet of type %02X, which is not read", b[1])
		}
		b = b[n:]
	}
	if len(out) == 0 {
		return nil, errors.New("the server described rows without columns")
	}
	return out, nil
}
