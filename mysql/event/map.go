package event

import (
	"errors"
	"fmt"
	mathbits "math/bits"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Types of columns in a TABLE_MAP event (include/field_types.h; MariaDB's sql/field.h).
const (
	typeTiny           = 1
	typeShort          = 2
	typeLong           = 3
	typeFloat          = 4
	typeDouble         = 5
	typeTimestamp      = 7
	typeLongLong       = 8
	typeInt24          = 9
	typeDate           = 10
	typeTime           = 11
	typeDateTime       = 12
	typeYear           = 13
	typeNewDate        = 14
	typeVarchar        = 15
	typeBit            = 16
	typeTimestamp2     = 17
	typeDateTime2      = 18
	typeTime2          = 19
	typePackedBlob     = 140 // MariaDB: COMPRESSED
	typePackedVarchar  = 141
	typeVector         = 242
	TypeJSON           = 245
	typeNewDecimal     = 246
	typeEnum           = 247
	typeSet            = 248
	typeBlob           = 252
	typeVarString      = 253
	typeString         = 254
	typeGeometry       = 255
	binaryCollation    = 63
	metaSigned         = 1
	metaDefaultCharset = 2
	metaCharsets       = 3
	metaNames          = 4
	metaSetLabels      = 5
	metaEnumLabels     = 6
	metaKey            = 8
	metaPrefixKey      = 9
	metaEnumDefault    = 10
	metaEnumCharsets   = 11
)

// A TableMap is a parsed TABLE_MAP event.
type TableMap struct {
	ID       tidemark.TableID
	Types    []byte
	Metas    []uint16
	signs    []bool   // unsigned, per column; nil: not logged
	charsets []uint64 // collation, per column; nil: not logged
	Names    []string
	labels   [][][]byte
	key      []int
	hasKey   bool
	mariadb  bool // written by MariaDB rather than MySQL
}

var ErrEvent = errors.New("a malformed event of the log")

// A Reader takes fields from the beginning of an event; Bad means that it was too short.
type Reader struct {
	Rest []byte
	Bad  bool
}

func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.Rest) {
		r.Bad, r.Rest = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	v := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return v
}

func (r *Reader) Byte() byte        { return r.Take(1)[0] }
func (r *Reader) Uint(n int) uint64 { return Little(r.Take(n)) }

func (r *Reader) Lenenc() int {
	n, size := server.LenencInt(r.Rest)
	if size == 0 || n > 1<<31 {
		r.Bad, r.Rest = true, nil
		return 0
	}
	r.Rest = r.Rest[size:]
	return int(n)
}

// ReadTableMap parses a TABLE_MAP event, after the table's number.
func ReadTableMap(body []byte, mariadb bool) (*TableMap, error) {
	r := &Reader{Rest: body}
	r.Take(2) // flags
	m := &TableMap{mariadb: mariadb}
	m.ID.Schema = string(r.Take(int(r.Byte())))
	r.Take(1)
	m.ID.Name = string(r.Take(int(r.Byte())))
	r.Take(1)
	n := r.Lenenc()
	m.Types = r.Take(n)
	metas := &Reader{Rest: r.Take(r.Lenenc())}
	if r.Bad || len(m.Types) != n {
		return nil, ErrEvent
	}
	m.Types = slices.Clone(m.Types)
	m.Metas = make([]uint16, n)
	for i := range m.Types {
		m.readMeta(i, metas)
	}
	r.Take((n + 7) / 8) // nullable columns
	for len(r.Rest) > 0 && !r.Bad {
		kind := r.Byte()
		m.option(kind, &Reader{Rest: r.Take(r.Lenenc())})
	}
	if r.Bad || metas.Bad || len(metas.Rest) > 0 {
		return nil, ErrEvent
	}
	return m, nil
}

// readMeta reads the event's size information of column i. ENUM and SET are stored as strings.
func (m *TableMap) readMeta(i int, r *Reader) {
	switch m.Types[i] {
	case typeFloat, typeDouble, typeBlob, typeGeometry, TypeJSON, typeVector, typeTimestamp2, typeDateTime2, typeTime2, typePackedBlob:
		m.Metas[i] = uint16(r.Byte())
	case typeVarchar, typePackedVarchar:
		m.Metas[i] = uint16(r.Uint(2))
	case typeBit:
		bits := uint16(r.Byte())
		m.Metas[i] = uint16(r.Byte())*8 + bits
	case typeNewDecimal:
		digits := uint16(r.Byte())
		m.Metas[i] = digits<<8 | uint16(r.Byte())
	case typeString, typeVarString, typeEnum, typeSet:
		real, size := r.Byte(), uint16(r.Byte())
		if real&0x30 != 0x30 { // two bits of the length, inverted
			size |= uint16(real&0x30^0x30) << 4
			real |= 0x30
		}
		m.Types[i], m.Metas[i] = real, size
	}
}

// isText reports whether a type holds text or bytes.
func isText(t byte) bool {
	return t == typeString || t == typeVarString || t == typeVarchar || t == typeBlob || t == typePackedBlob || t == typePackedVarchar
}

// hasCharset reports whether the optional fields on character sets count columns of a type: text
// and bytes, and types that a server derives from its BLOB, which are GEOMETRY for MariaDB and
// VECTOR for MySQL 9.
func (m *TableMap) hasCharset(t byte) bool {
	return isText(t) || m.mariadb && t == typeGeometry || !m.mariadb && t == typeVector
}

func isNumber(t byte) bool {
	switch t {
	case typeTiny, typeShort, typeInt24, typeLong, typeLongLong, typeNewDecimal, typeFloat, typeDouble, typeYear:
		return true
	}
	return false
}

func isLabel(t byte) bool { return t == typeEnum || t == typeSet }

// option reads an optional field. Fields that are too short count as absent.
func (m *TableMap) option(kind byte, r *Reader) {
	switch kind {
	case metaSigned:
		m.signs = make([]bool, len(m.Types))
		n := 0
		for i, t := range m.Types {
			if isNumber(t) {
				m.signs[i] = n/8 < len(r.Rest) && r.Rest[n/8]>>(7-n%8)&1 == 1
				n++
			}
		}
	case metaDefaultCharset, metaEnumDefault:
		m.defaultCharset(kind == metaEnumDefault, r)
	case metaCharsets, metaEnumCharsets:
		for i, t := range m.Types {
			if kind == metaCharsets && m.hasCharset(t) || kind == metaEnumCharsets && isLabel(t) {
				m.charset(i, uint64(r.Lenenc()))
			}
		}
	case metaNames:
		m.Names = make([]string, len(m.Types))
		for i := range m.Names {
			m.Names[i] = string(r.Take(r.Lenenc()))
		}
		if r.Bad {
			m.Names = nil
		}
	case metaSetLabels, metaEnumLabels:
		for i, t := range m.Types {
			if kind == metaSetLabels && t == typeSet || kind == metaEnumLabels && t == typeEnum {
				m.readLabels(i, r)
			}
		}
	case metaKey, metaPrefixKey:
		m.hasKey = true
		for len(r.Rest) > 0 && !r.Bad {
			m.key = append(m.key, r.Lenenc())
			if kind == metaPrefixKey {
				r.Lenenc()
			}
		}
	}
}

func (m *TableMap) charset(i int, collation uint64) {
	if m.charsets == nil {
		m.charsets = make([]uint64, len(m.Types))
	}
	m.charsets[i] = collation
}

// defaultCharset reads the collation of most columns, and pairs of number and collation
// for the others.
func (m *TableMap) defaultCharset(labels bool, r *Reader) {
	common := uint64(r.Lenenc())
	other := map[int]uint64{}
	for len(r.Rest) > 0 && !r.Bad {
		i := r.Lenenc()
		other[i] = uint64(r.Lenenc())
	}
	n := 0
	for i, t := range m.Types {
		if labels && isLabel(t) || !labels && m.hasCharset(t) {
			collation, ok := other[n]
			if !ok {
				collation = common
			}
			m.charset(i, collation)
			n++
		}
	}
}

func (m *TableMap) readLabels(i int, r *Reader) {
	if m.labels == nil {
		m.labels = make([][][]byte, len(m.Types))
	}
	for range r.Lenenc() {
		if r.Bad {
			return
		}
		m.labels[i] = append(m.labels[i], slices.Clone(r.Take(r.Lenenc())))
	}
}

// setOp determines how the log stores a column's values. native is its type as information_schema
// spells it, if known.
func (c *Column) setOp(native string, bytes, boolean bool) error {
	size := int(c.Meta)
	fixed := func(o op, width int) { c.op, c.width = o, width }
	integer := func(width int) {
		c.op, c.width = opInt, width
		switch {
		case boolean:
			c.op = opBool
		case c.unsigned:
			c.op = opUint
		}
	}
	long := func(o op, prefix int) { c.op, c.prefix = o, prefix }
	frac := (size + 1) / 2
	switch c.Type {
	case typeTiny:
		integer(1)
	case typeShort:
		integer(2)
	case typeInt24:
		integer(3)
	case typeLong:
		integer(4)
	case typeLongLong:
		integer(8)
	case typeFloat:
		fixed(opFloat, 4)
	case typeDouble:
		fixed(opDouble, 8)
	case typeNewDecimal:
		c.digits, c.scale = size>>8, size&0xff
		if c.scale > c.digits {
			return ErrEvent
		}
		fixed(opDecimal, decimalWidth(c.digits, c.scale))
	case typeYear:
		fixed(opYear, 1)
	case typeDate, typeNewDate:
		fixed(opDate, 3)
	case typeTime:
		fixed(opOldTime, 3)
		c.setHires(native)
	case typeDateTime:
		fixed(opOldDateTime, 8)
		c.setHires(native)
	case typeTimestamp:
		fixed(opOldTimestamp, 4)
		c.setHires(native)
		c.zoned = true
	case typeTimestamp2:
		fixed(opTimestamp, 4+frac)
		c.zoned = true
	case typeDateTime2:
		fixed(opDateTime, 5+frac)
	case typeTime2:
		fixed(opTime, 3+frac)
	case typeBit:
		c.digits = size
		fixed(opBit, (size+7)/8)
	case typeEnum:
		fixed(opEnum, size)
	case typeSet:
		fixed(opSet, size)
	case TypeJSON:
		long(opJSON, size)
	case typeGeometry:
		long(opGeometry, size)
	case typeVector:
		long(opBytes, size)
	default:
		return c.setString(native, bytes)
	}
	if frac > 3 && c.op != opDecimal && (c.Type == typeTimestamp2 || c.Type == typeDateTime2 || c.Type == typeTime2) ||
		c.prefix > 4 || c.width > 8 && c.op != opDecimal {
		return ErrEvent
	}
	return nil
}

// setString is setOp for text and bytes.
func (c *Column) setString(native string, bytes bool) error {
	size := int(c.Meta)
	c.op, c.prefix = opText, 1
	if bytes {
		c.op = opBytes
	}
	switch c.Type {
	case typeVarchar, typePackedVarchar, typeString, typeVarString:
		if size > 255 {
			c.prefix = 2
		}
	case typeBlob, typePackedBlob:
		if c.prefix = size; size < 1 || size > 4 {
			return ErrEvent
		}
	default:
		return fmt.Errorf("a column of the unknown type %d", c.Type)
	}
	switch {
	case c.Type == typePackedBlob || c.Type == typePackedVarchar:
		c.op = opPackedText
		if bytes {
			c.op = opPackedBytes
		}
	case c.Type != typeString:
	case native == "uuid" && size == 16:
		c.op, c.width = opUUID, size
	case native == "inet6" && size == 16:
		c.op, c.width = opInet6, size
	case native == "inet4" && size == 4:
		c.op, c.width = opInet4, size
	case bytes:
		c.op, c.width = opBinary, size
	}
	return nil
}

// Varlen reads a number of one to nine bytes, little-endian: the first byte has as many ones at its
// low end as bytes follow; these and the zero after them are not part of the number.
func (r *Reader) Varlen() uint64 {
	first := r.Byte()
	n := mathbits.TrailingZeros8(^first)
	if n == 8 {
		return r.Uint(8)
	}
	return (r.Uint(n)<<8 | uint64(first)) >> (n + 1)
}
