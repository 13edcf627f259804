package mysql

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
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
	typeJSON           = 245
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

// A tableMap is a TABLE_MAP event, taken apart.
type tableMap struct {
	id       tidemark.TableID
	types    []byte
	metas    []uint16
	signs    []bool   // unsigned, per column; nil: not said
	charsets []uint64 // collation, per column; nil: not said
	names    []string
	labels   [][][]byte
	key      []int
	hasKey   bool
	mariadb  bool // which of the servers has written it
}

var errEvent = errors.New("an event of the log that is not in its format")

// A reading takes fields from the beginning of an event; bad says that it was too short.
type reading struct {
	p   []byte
	bad bool
}

func (r *reading) take(n int) []byte {
	if n < 0 || n > len(r.p) {
		r.bad, r.p = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	v := r.p[:n:n]
	r.p = r.p[n:]
	return v
}

func (r *reading) byte() byte        { return r.take(1)[0] }
func (r *reading) uint(n int) uint64 { return little(r.take(n)) }

func (r *reading) lenenc() int {
	n, size := lenencInt(r.p)
	if size == 0 || n > 1<<31 {
		r.bad, r.p = true, nil
		return 0
	}
	r.p = r.p[size:]
	return int(n)
}

// readTableMap takes a TABLE_MAP event apart, behind the table's number.
func readTableMap(body []byte, mariadb bool) (*tableMap, error) {
	r := &reading{p: body}
	r.take(2) // flags
	m := &tableMap{mariadb: mariadb}
	m.id.Schema = string(r.take(int(r.byte())))
	r.take(1)
	m.id.Name = string(r.take(int(r.byte())))
	r.take(1)
	n := r.lenenc()
	m.types = r.take(n)
	metas := &reading{p: r.take(r.lenenc())}
	if r.bad || len(m.types) != n {
		return nil, errEvent
	}
	m.types = slices.Clone(m.types)
	m.metas = make([]uint16, n)
	for i := range m.types {
		m.readMeta(i, metas)
	}
	r.take((n + 7) / 8) // which may be NULL
	for len(r.p) > 0 && !r.bad {
		kind := r.byte()
		m.option(kind, &reading{p: r.take(r.lenenc())})
	}
	if r.bad || metas.bad || len(metas.p) > 0 {
		return nil, errEvent
	}
	return m, nil
}

// readMeta reads what the event says of the size of column i. ENUM and SET stand there
// as strings.
func (m *tableMap) readMeta(i int, r *reading) {
	switch m.types[i] {
	case typeFloat, typeDouble, typeBlob, typeGeometry, typeJSON, typeVector, typeTimestamp2, typeDateTime2, typeTime2, typePackedBlob:
		m.metas[i] = uint16(r.byte())
	case typeVarchar, typePackedVarchar:
		m.metas[i] = uint16(r.uint(2))
	case typeBit:
		bits := uint16(r.byte())
		m.metas[i] = uint16(r.byte())*8 + bits
	case typeNewDecimal:
		digits := uint16(r.byte())
		m.metas[i] = digits<<8 | uint16(r.byte())
	case typeString, typeVarString, typeEnum, typeSet:
		real, size := r.byte(), uint16(r.byte())
		if real&0x30 != 0x30 { // two bits of the length are there, turned
			size |= uint16(real&0x30^0x30) << 4
			real |= 0x30
		}
		m.types[i], m.metas[i] = real, size
	}
}

// isText reports whether a type is of text or bytes.
func isText(t byte) bool {
	return t == typeString || t == typeVarString || t == typeVarchar || t == typeBlob || t == typePackedBlob || t == typePackedVarchar
}

// hasCharset reports whether the optional fields on character sets count columns of a type: text and bytes, and what
// a server has made of its BLOB, which is GEOMETRY for MariaDB and VECTOR for MySQL 9.
func (m *tableMap) hasCharset(t byte) bool {
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

// option reads an optional field. Those that are too short are as good as not there.
func (m *tableMap) option(kind byte, r *reading) {
	switch kind {
	case metaSigned:
		m.signs = make([]bool, len(m.types))
		n := 0
		for i, t := range m.types {
			if isNumber(t) {
				m.signs[i] = n/8 < len(r.p) && r.p[n/8]>>(7-n%8)&1 == 1
				n++
			}
		}
	case metaDefaultCharset, metaEnumDefault:
		m.defaultCharset(kind == metaEnumDefault, r)
	case metaCharsets, metaEnumCharsets:
		for i, t := range m.types {
			if kind == metaCharsets && m.hasCharset(t) || kind == metaEnumCharsets && isLabel(t) {
				m.charset(i, uint64(r.lenenc()))
			}
		}
	case metaNames:
		m.names = make([]string, len(m.types))
		for i := range m.names {
			m.names[i] = string(r.take(r.lenenc()))
		}
		if r.bad {
			m.names = nil
		}
	case metaSetLabels, metaEnumLabels:
		for i, t := range m.types {
			if kind == metaSetLabels && t == typeSet || kind == metaEnumLabels && t == typeEnum {
				m.readLabels(i, r)
			}
		}
	case metaKey, metaPrefixKey:
		m.hasKey = true
		for len(r.p) > 0 && !r.bad {
			m.key = append(m.key, r.lenenc())
			if kind == metaPrefixKey {
				r.lenenc()
			}
		}
	}
}

func (m *tableMap) charset(i int, collation uint64) {
	if m.charsets == nil {
		m.charsets = make([]uint64, len(m.types))
	}
	m.charsets[i] = collation
}

// defaultCharset reads the collation of most columns, and pairs of number and collation
// for the others.
func (m *tableMap) defaultCharset(labels bool, r *reading) {
	common := uint64(r.lenenc())
	other := map[int]uint64{}
	for len(r.p) > 0 && !r.bad {
		i := r.lenenc()
		other[i] = uint64(r.lenenc())
	}
	n := 0
	for i, t := range m.types {
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

func (m *tableMap) readLabels(i int, r *reading) {
	if m.labels == nil {
		m.labels = make([][][]byte, len(m.types))
	}
	for range r.lenenc() {
		if r.bad {
			return
		}
		m.labels[i] = append(m.labels[i], slices.Clone(r.take(r.lenenc())))
	}
}

// setOp finds how a column's values stand in the log. native is its type as
// information_schema spells it, if that is known.
func (c *logColumn) setOp(native string, bytes, boolean bool) error {
	size := int(c.meta)
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
	switch c.typ {
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
			return errEvent
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
	case typeJSON:
		long(opJSON, size)
	case typeGeometry:
		long(opGeometry, size)
	case typeVector:
		long(opBytes, size)
	default:
		return c.setString(native, bytes)
	}
	if frac > 3 && c.op != opDecimal && (c.typ == typeTimestamp2 || c.typ == typeDateTime2 || c.typ == typeTime2) ||
		c.prefix > 4 || c.width > 8 && c.op != opDecimal {
		return errEvent
	}
	return nil
}

// setString is setOp for text and bytes.
func (c *logColumn) setString(native string, bytes bool) error {
	size := int(c.meta)
	c.op, c.prefix = opText, 1
	if bytes {
		c.op = opBytes
	}
	switch c.typ {
	case typeVarchar, typePackedVarchar, typeString, typeVarString:
		if size > 255 {
			c.prefix = 2
		}
	case typeBlob, typePackedBlob:
		if c.prefix = size; size < 1 || size > 4 {
			return errEvent
		}
	default:
		return fmt.Errorf("a column of the type %d, which is not known", c.typ)
	}
	switch {
	case c.typ == typePackedBlob || c.typ == typePackedVarchar:
		c.op = opPackedText
		if bytes {
			c.op = opPackedBytes
		}
	case c.typ != typeString:
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
