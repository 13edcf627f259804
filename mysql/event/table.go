package event

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Table is a table as the log's row events describe it.
type Table struct {
	ID      tidemark.TableID
	Mapped  []byte // its TABLE_MAP event after the table's number
	Columns []Column
	Emitted int // number of columns that are emitted
	Skip    bool
	Marker  bool // its rows mark a transaction as ours

	Relation   []byte // the message that describes it
	RelationID uint32
	Full       bool  // there is no key: all columns are the identity
	Old        bool  // whole old rows are emitted although there is a key
	Spare      []int // columns that an update leaves out if unchanged
	Watched    []int // columns: deletes, and updates that change one of these, emit old rows
	Links      []int // columns: like Watched, as far as the log has them
	Sparse     bool  // there may be spare columns, and an update that changed nothing is left out
	Apart      bool  // some of the links are not in the key
	Docs       []int // columns that are JSON
	ends       int   // 1 + the column with the end time of a row of a system-versioned table
	Stale      bool  // it has been altered since
}

// A Column is a column of a Table.
type Column struct {
	Name     string
	Number   int32 // see ColumnNames
	Type     byte
	Meta     uint16
	op       op
	prefix   int // bytes of the length before a value; 0: all values have width bytes
	width    int // or length of a BINARY
	digits   int // DECIMAL, BIT
	scale    int
	unsigned bool
	zoned    bool // TIMESTAMP
	Key      bool
	Hidden   bool // generated: the target makes it itself
	labels   [][]byte
	charset  *charset
	Zero     server.Policy
	absent   []byte // its value in an INSERT that leaves it out; nil: unknown
}

// SetVersions finds the columns of a system-versioned table (MariaDB) with the start and end time
// of a row. If the user has not named them, information_schema does not list them.
func (t *Table) SetVersions(m *TableMap, shown *schema.Shown) {
	for i := range t.Columns {
		c := &t.Columns[i]
		for _, now := range shown.Columns {
			if now.Name == c.Name && now.Generated == "ROW END" {
				t.ends = i + 1
			}
		}
	}
	n := len(t.Columns)
	if t.ends > 0 || n < 3 || n != len(shown.Columns)+VersionColumns && len(shown.Columns) > 0 {
		return
	}
	if m.Names != nil && (m.Names[n-2] != "row_start" || m.Names[n-1] != "row_end") {
		return
	}
	t.Columns[n-2].Hidden, t.Columns[n-1].Hidden, t.ends = true, true, n
}

const VersionColumns = 2 // row_start, row_end

// SetKey finds the columns that identify a row.
func (t *Table) SetKey(m *TableMap, shown *schema.Shown) {
	key := m.key
	identity := byte('d')
	if !m.hasKey {
		// FULL metadata without a primary key means that there is none.
		names := shown.Key
		if m.Names != nil && shown.Primary {
			names = nil
		}
		if !shown.Primary {
			identity = 'i'
		}
		for _, name := range names {
			key = append(key, slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name }))
		}
	}
	key = slices.DeleteFunc(key, func(i int) bool { return i == t.ends-1 })
	for _, i := range key {
		if i < 0 || i >= len(t.Columns) || t.Columns[i].Hidden {
			key = nil
			break
		}
	}
	for _, i := range key {
		t.Columns[i].Key = true
	}
	if t.Full = len(key) == 0; t.Full {
		identity = 'f'
	}
	r := change.Relation{Table: t.ID, Identity: identity}
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Hidden {
			continue
		}
		t.Emitted++
		r.Columns = append(r.Columns, change.RelationColumn{Name: c.Name, Key: c.Key || t.Full, Type: uint32(c.Type), Mod: int32(c.Meta), Number: c.Number})
	}
	t.Relation = r.Append(nil)
}

// absentValue returns the value, in the form of a tuple, of a column that an INSERT did not name:
// binlog_row_image=MINIMAL leaves constant defaults to the replica.
func absentValue(c *tidemark.Column) []byte {
	switch {
	case c.Default == nil && !c.NotNull:
		return []byte{change.NullValue}
	case c.Default == nil || c.Default.Kind != tidemark.Literal:
		return nil
	}
	return change.AppendTuple(nil, []change.Value{{Kind: change.TextValue, Data: []byte(c.Default.Text)}})[2:]
}

func RelationID(message []byte) uint32 {
	h := fnv.New32a()
	h.Write(message[5:])
	return max(h.Sum32(), 1)
}

// TableOf describes a table as the log would, as far as that is certain; columns of uncertain type
// have the type 0.
func TableOf(id tidemark.TableID, shown *schema.Shown, mariadb bool) *Table {
	t := &Table{ID: id}
	for i := range shown.Columns {
		c := Column{Name: shown.Columns[i].Name, Hidden: shown.Columns[i].Generated != ""}
		c.Type, c.Meta = logged(mariadb, &shown.Columns[i].Type)
		t.Columns = append(t.Columns, c)
	}
	t.SetVersions(&TableMap{}, shown)
	t.SetKey(&TableMap{}, shown)
	return t
}

// logged returns the type and the size information of a column in the log.
func logged(mariadb bool, t *tidemark.Type) (typ byte, meta uint16) {
	switch t.Kind {
	case tidemark.Int, tidemark.Bool:
		return map[int]byte{8: typeTiny, 16: typeShort, 24: typeInt24, 32: typeLong, 64: typeLongLong}[t.Bits], 0
	case tidemark.Float:
		if t.Bits == 32 {
			return typeFloat, 4
		}
		return typeDouble, 8
	case tidemark.Decimal:
		return typeNewDecimal, uint16(t.Precision<<8 | t.Scale)
	case tidemark.Year:
		return typeYear, 0
	case tidemark.Date:
		return typeDate, 0
	case tidemark.Enum:
		if len(t.Labels) > 255 {
			return typeEnum, 2
		}
		return typeEnum, 1
	case tidemark.JSON:
		if !mariadb {
			return TypeJSON, 4
		}
	case tidemark.Geometry:
		return typeGeometry, 4
	}
	return 0, 0
}

// Describe sets how the values of a column are read. now is the column in information_schema, nil
// if it no longer exists there.
func (c *Column) Describe(sets *Charsets, m *TableMap, i int, now *tidemark.Column) error {
	native, set := "", ""
	if now != nil {
		native, set = strings.ToLower(now.Type.Native), now.Type.Charset
		c.unsigned = now.Type.Unsigned
		c.Hidden = now.Generated != ""
	}
	if m.signs != nil {
		c.unsigned = m.signs[i]
	}
	bytes := now != nil && (now.Type.Kind.Bytes() || set == "")
	if m.charsets != nil && m.charsets[i] != 0 && (isText(c.Type) || isLabel(c.Type)) { // MINIMAL has none for labels
		var err error
		if set, err = sets.collation(m.charsets[i]); err != nil {
			return err
		}
		bytes = m.charsets[i] == binaryCollation
	}
	if err := c.setOp(native, bytes, now != nil && now.Type.Kind == tidemark.Bool); err != nil {
		return err
	}
	if _, args, ok := strings.Cut(native, "double("); ok { // DOUBLE(M,D) prints D decimal places
		_, decimals, _ := strings.Cut(args, ",")
		decimals, _, _ = strings.Cut(decimals, ")")
		if n, err := strconv.Atoi(decimals); err == nil {
			c.op, c.scale = opRounded, n
		}
	}
	text := c.op == opText || c.op == opPackedText
	if text || isLabel(c.Type) && m.labels != nil {
		var err error
		if c.charset, err = sets.named(set); err != nil {
			return err
		}
	}
	switch {
	case !isLabel(c.Type):
	case m.labels != nil:
		for _, label := range m.labels[i] {
			if c.charset != nil {
				var err error
				if label, err = c.charset.decode(nil, label); err != nil {
					return err
				}
			}
			c.labels = append(c.labels, label)
		}
	case now != nil:
		for _, label := range now.Type.Labels {
			c.labels = append(c.labels, []byte(label))
		}
	}
	if now != nil {
		c.absent = absentValue(now)
	}
	return nil
}
