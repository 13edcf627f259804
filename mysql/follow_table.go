package mysql

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A logTable is a table as the log's row events have it.
type logTable struct {
	id     tidemark.TableID
	mapped []byte // its TABLE_MAP event behind the table's number
	cols   []logColumn
	outN   int // columns that are given away
	skip   bool
	marker bool // whose rows mark a transaction as ours

	relation []byte // the message that says what it is
	relID    uint32
	full     bool  // there is no key: all columns are the identity
	old      bool  // whole old rows are given though there is one
	spare    []int // columns: an update does not have them where it has not changed them
	watched  []int // columns: old rows are given of deletes, and where one of these changes
	links    []int // columns: the same, as far as the log has them
	sparse   bool  // there may be spare ones, and an update that has changed nothing is left out
	apart    bool  // some of the links are not in the key
	docs     []int // columns that are JSON
	ends     int   // 1 + the column that says until when a row of a system-versioned table is right
	stale    bool  // it has been altered since
}

// A logColumn is a column of a logTable.
type logColumn struct {
	name     string
	number   int32 // see columnNames
	typ      byte
	meta     uint16
	op       op
	prefix   int // bytes of the length before a value; 0: all have width bytes
	width    int // or the length of a BINARY
	digits   int // DECIMAL, BIT
	scale    int
	unsigned bool
	zoned    bool // TIMESTAMP
	key      bool
	hidden   bool // generated: the target makes it itself
	labels   [][]byte
	charset  *charset
	zero     Policy
	absent   []byte // what stands for it in an INSERT that does not say it; nil: it is not known
}

// A shownTable is what information_schema says of a table now.
type shownTable struct {
	columns []tidemark.Column
	key     []string // of the primary key, or else of a unique index without NULLs
	primary bool
	form    string // TABLE_TYPE; empty: there is none
	charset string // of columns that name none
	keys    []defKey
	end     uint64 // of the log after that was asked
}

// show asks information_schema for a table.
func (e *Engine) show(ctx context.Context, id tidemark.TableID) (*shownTable, error) {
	c, back, err := e.ordinary(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	stop := crash.OnDone(ctx, c.abort)
	defer func() { c.dead = !stop() || c.dead }()
	d := &describer{e: e, c: c.c}
	found, err := d.shownTables("TABLE_SCHEMA=" + literal(id.Schema) + " AND TABLE_NAME=" + literal(id.Name))
	if err != nil {
		return nil, err
	}
	out := &shownTable{}
	for name, t := range found { // as the server writes its name
		if out.form == "" || name == id {
			out = t
		}
	}
	out.end, err = e.logEnd(ctx, c)
	return out, err
}

// showAll asks for all tables of the engine, for what databases give to new ones, and for the
// end of the log after that.
func (e *Engine) showAll(ctx context.Context) (tables map[tidemark.TableID]*shownTable, charsets map[string]string, end uint64, err error) {
	c, back, err := e.ordinary(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	defer back()
	stop := crash.OnDone(ctx, c.abort)
	defer func() { c.dead = !stop() || c.dead }()
	d := &describer{e: e, c: c.c}
	charsets = map[string]string{}
	tables, err = d.shownTables(d.inScope("TABLE_SCHEMA") + " AND TABLE_TYPE<>'VIEW'")
	if err == nil {
		err = d.each("SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE "+d.inScope("SCHEMA_NAME"), func(r rowReader) { charsets[r.text(0)] = r.text(1) })
	}
	if err == nil {
		end, err = e.logEnd(ctx, c)
	}
	return tables, charsets, end, err
}

// shownTables asks for the tables for which a condition on information_schema.TABLES holds.
func (d *describer) shownTables(where string) (map[tidemark.TableID]*shownTable, error) {
	out := map[tidemark.TableID]*shownTable{}
	err := d.each("SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION FROM information_schema.TABLES WHERE "+where, func(r rowReader) {
		t := &shownTable{form: r.text(2)}
		t.charset, _, _ = strings.Cut(r.text(3), "_")
		out[r.id()] = t
	})
	where, _, _ = strings.Cut(where, " AND TABLE_TYPE")
	if err == nil {
		err = d.each(d.columnsSQL()+where+" ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION", func(r rowReader) {
			if t := out[r.id()]; t != nil {
				t.columns = append(t.columns, d.column(&tidemark.Table{}, r))
			}
		})
	}
	keys := map[tidemark.TableID][]defKey{}
	if err == nil {
		err = d.each("SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE "+where+" AND NON_UNIQUE=0 ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
			func(r rowReader) {
				list := keys[r.id()]
				if n := len(list); n == 0 || list[n-1].Name != r.text(2) {
					list = append(list, defKey{Name: r.text(2)})
				}
				k := &list[len(list)-1]
				k.Columns = append(k.Columns, r.text(3))
				keys[r.id()] = list
			})
	}
	for id, t := range out {
		t.setKey(keys[id])
	}
	return out, err
}

// wanted reports whether changes of a table are given away, and whether it is the one
// whose rows mark a transaction as ours.
func (s *Stream) wanted(id tidemark.TableID) (want, marker bool) {
	if id.Name == appliedName {
		return false, true
	}
	return s.inScope(id) && (s.only == nil || s.only(id)), false
}

// inScope reports whether a table is one of those that the engine is of.
func (s *Stream) inScope(id tidemark.TableID) bool {
	switch {
	case id.Name == appliedName || id.Name == ledgerName || id.Name == claimName:
		return false
	case s.e.db != "":
		return id.Schema == s.e.db || s.fold && strings.EqualFold(id.Schema, s.e.db)
	}
	return !slices.Contains(systemSchemas, strings.ToLower(id.Schema))
}

var systemSchemas = []string{"mysql", "sys", "information_schema", "performance_schema"}

// key is under what a table is remembered.
func (s *Stream) key(id tidemark.TableID) tidemark.TableID {
	if s.fold {
		return tidemark.TableID{Schema: strings.ToLower(id.Schema), Name: strings.ToLower(id.Name)}
	}
	return id
}

// tableMap takes note of a TABLE_MAP event, of which most repeat an earlier one.
func (s *Stream) tableMap(ctx context.Context, body []byte) error {
	if len(body) < 8 {
		return errEvent
	}
	number, rest := little(body[:6]), body[6:]
	if t := s.maps[number]; t != nil && !t.stale && string(t.mapped) == string(rest) {
		return nil
	}
	m, err := readTableMap(rest, s.e.mariadb)
	if err != nil {
		return err
	}
	t := s.tables[s.key(m.id)]
	if t == nil || t.stale || string(t.mapped) != string(rest) {
		if t, err = s.describe(ctx, m); err != nil {
			return err
		}
		t.mapped = slices.Clone(rest)
		s.tables[s.key(m.id)] = t
	}
	if len(s.maps) > 20_000 { // numbers of tables that were opened again since
		clear(s.maps)
	}
	s.maps[number] = t
	return nil
}

// describe works out a table from its TABLE_MAP and, as far as that does not say it, from
// information_schema.
//
// What the log says is right for the rows that follow, but with
// binlog_row_metadata=MINIMAL (or MariaDB's NO_LOG) it says neither names nor labels: then the
// history does. What information_schema says is right for now, which may be days later.
func (s *Stream) describe(ctx context.Context, m *tableMap) (*logTable, error) {
	t := &logTable{id: m.id}
	want, marker := s.wanted(m.id)
	if !want {
		t.skip, t.marker = true, marker
		return t, nil
	}
	look := func() (*shownTable, error) { return s.e.show(ctx, m.id) }
	if m.names == nil {
		look = func() (*shownTable, error) { return s.definition(ctx, m) }
	}
	shown, err := look()
	if err != nil {
		return nil, err
	}
	if shown.form == "SEQUENCE" || shown.form == "" && m.sequence() {
		t.skip = true // MariaDB's, whose rows are their counters
		return t, nil
	}
	return s.build(m, shown)
}

// sequence reports whether a table that is gone was one of MariaDB's sequences.
func (m *tableMap) sequence() bool {
	const types = "\x08\x08\x08\x08\x08\x08\x01\x08"
	return string(m.types) == types && (m.names == nil || m.names[0] == "next_not_cached_value")
}

// build puts together what the log and information_schema say.
func (s *Stream) build(m *tableMap, shown *shownTable) (*logTable, error) {
	t := &logTable{id: m.id, old: s.old != nil && s.old(m.id)}
	t.cols = make([]logColumn, len(m.types))
	names := s.journal.columns.at(s.key(m.id), s.group.place)
	for i := range t.cols {
		c := &t.cols[i]
		c.typ, c.meta, c.zero = m.types[i], m.metas[i], s.zero
		var now *tidemark.Column
		switch {
		case m.names == nil && i >= len(shown.columns):
			c.name = [versionColumns]string{"row_start", "row_end"}[i-len(shown.columns)]
		case m.names == nil:
			now = &shown.columns[i]
			c.name = now.Name
		default:
			c.name = m.names[i]
			if at := slices.IndexFunc(shown.columns, func(x tidemark.Column) bool { return x.Name == c.name }); at >= 0 && fits(m, i, &shown.columns[at].Type) {
				now = &shown.columns[at]
			}
		}
		if err := s.column(c, m, i, now); err != nil {
			return nil, err
		}
		c.number = names.number(c.name)
		if c.typ == typeJSON {
			t.docs = append(t.docs, i)
		}
	}
	if s.oldOf != nil {
		for _, name := range s.oldOf(m.id) {
			if at := slices.IndexFunc(t.cols, func(c logColumn) bool { return c.name == name }); at >= 0 {
				t.watched = append(t.watched, at)
			}
		}
	}
	t.setVersions(m, shown)
	t.setKey(m, shown)
	s.setLinks(t)
	s.setSpare(t)
	s.relate(t)
	return t, nil
}

// setSpare finds the columns that updates may leave out.
func (s *Stream) setSpare(t *logTable) {
	if s.keep == nil || t.full || t.old {
		return
	}
	keep := s.keep(t.id)
	if len(keep) == 0 {
		return
	}
	for i := range t.cols {
		if c := &t.cols[i]; !c.key && !c.hidden && !slices.Contains(keep, c.name) && !slices.Contains(t.watched, i) && !slices.Contains(t.links, i) {
			t.spare = append(t.spare, i)
		}
	}
	t.sparse = true
}

// setVersions finds the columns of a system-versioned table (MariaDB) that say when a row
// was right. Where the user has not named them, information_schema does not know them.
func (t *logTable) setVersions(m *tableMap, shown *shownTable) {
	for i := range t.cols {
		c := &t.cols[i]
		for _, now := range shown.columns {
			if now.Name == c.name && now.Generated == "ROW END" {
				t.ends = i + 1
			}
		}
	}
	n := len(t.cols)
	if t.ends > 0 || n < 3 || n != len(shown.columns)+versionColumns && len(shown.columns) > 0 {
		return
	}
	if m.names != nil && (m.names[n-2] != "row_start" || m.names[n-1] != "row_end") {
		return
	}
	t.cols[n-2].hidden, t.cols[n-1].hidden, t.ends = true, true, n
}

const versionColumns = 2 // row_start, row_end

// misfit says why rows of the log cannot be of a definition; "" if they can. A derived one
// has to fit in all that the log says.
func (s *Stream) misfit(m *tableMap, shown *shownTable, derived bool) (string, error) {
	switch {
	case shown.form == "":
		return "there is no such table any more", nil
	case len(shown.columns) != len(m.types) && (shown.form != "SYSTEM VERSIONED" || len(shown.columns)+versionColumns != len(m.types)):
		return fmt.Sprintf("it has %d columns now, and %d in the log", len(shown.columns), len(m.types)), nil
	}
	for i := range min(len(m.types), len(shown.columns)) {
		c := &shown.columns[i]
		ok := fits(m, i, &c.Type)
		if ok && derived {
			var err error
			if ok, err = s.fitsWhole(m, i, &c.Type); err != nil {
				return "", err
			}
		}
		if !ok {
			return fmt.Sprintf("its column %s is %s now, and of another type in the log", c.Name, c.Type.Native), nil
		}
	}
	return "", nil
}

// fitsWhole looks at what fits does not: signs, character sets, and the length of text.
func (s *Stream) fitsWhole(m *tableMap, i int, t *tidemark.Type) (bool, error) {
	if m.signs != nil && isNumber(m.types[i]) && m.types[i] != typeYear && m.signs[i] != t.Unsigned {
		return false, nil
	}
	if m.charsets != nil && m.charsets[i] != 0 && (isText(m.types[i]) && t.Kind != tidemark.UUID && t.Kind != tidemark.Other) {
		set, err := s.collation(m.charsets[i])
		if err != nil {
			return false, err
		}
		if want := t.Charset; set != want && !(set == "binary" && want == "") && strings.Replace(set, "utf8mb3", "utf8", 1) != want {
			return false, nil
		}
	}
	if t.Kind == tidemark.Varchar && m.types[i] == typeVarchar {
		return int64(m.metas[i]) == t.Length*setWidth(t.Charset), nil
	}
	return true, nil
}

// fits reports whether column i of the log can be one of type t.
func fits(m *tableMap, i int, t *tidemark.Type) bool {
	typ, meta := m.types[i], m.metas[i]
	switch t.Kind {
	case tidemark.Int, tidemark.Bool:
		return typ == map[int]byte{8: typeTiny, 16: typeShort, 24: typeInt24, 32: typeLong, 64: typeLongLong}[t.Bits]
	case tidemark.Float:
		return typ == typeFloat && t.Bits == 32 || typ == typeDouble && t.Bits == 64
	case tidemark.Decimal:
		return typ == typeNewDecimal && int(meta>>8) == t.Precision && int(meta&0xff) == t.Scale
	case tidemark.Year:
		return typ == typeYear
	case tidemark.Date:
		return typ == typeDate || typ == typeNewDate
	case tidemark.Time:
		return typ == typeTime || typ == typeTime2 && int(meta) == t.Precision
	case tidemark.DateTime:
		return typ == typeDateTime || typ == typeDateTime2 && int(meta) == t.Precision
	case tidemark.Timestamp:
		return typ == typeTimestamp || typ == typeTimestamp2 && int(meta) == t.Precision
	case tidemark.Bit:
		return typ == typeBit && int64(meta) == max(t.Length, 1)
	case tidemark.Enum:
		return typ == typeEnum && (len(t.Labels) > 255) == (meta == 2)
	case tidemark.Set:
		n := (len(t.Labels) + 7) / 8
		return typ == typeSet && (int(meta) == n || n > 4 && meta == 8)
	case tidemark.Geometry:
		return typ == typeGeometry
	case tidemark.Char, tidemark.Binary, tidemark.UUID:
		return typ == typeString
	case tidemark.Varchar, tidemark.Varbinary:
		return typ == typeVarchar || typ == typePackedVarchar
	case tidemark.Text, tidemark.Blob:
		return typ == typeBlob && t.Length>>(8*meta) == 0 && (meta == 1 || t.Length>>(8*(meta-1)) > 0) || typ == typePackedBlob || typ == typeVector
	case tidemark.JSON:
		return typ == typeJSON || typ == typeBlob
	}
	return typ == typeString || typ == typeVarchar // inet4, inet6 and what comes
}

// column sets how the values of a column are read. now is what information_schema says
// of it, nil if it does not know it any more.
func (s *Stream) column(c *logColumn, m *tableMap, i int, now *tidemark.Column) error {
	native, set := "", ""
	if now != nil {
		native, set = strings.ToLower(now.Type.Native), now.Type.Charset
		c.unsigned = now.Type.Unsigned
		c.hidden = now.Generated != ""
	}
	if m.signs != nil {
		c.unsigned = m.signs[i]
	}
	bytes := now != nil && (now.Type.Kind.Bytes() || set == "")
	if m.charsets != nil && m.charsets[i] != 0 && (isText(c.typ) || isLabel(c.typ)) { // MINIMAL has none of labels
		var err error
		if set, err = s.collation(m.charsets[i]); err != nil {
			return err
		}
		bytes = m.charsets[i] == binaryCollation
	}
	if err := c.setOp(native, bytes, now != nil && now.Type.Kind == tidemark.Bool); err != nil {
		return err
	}
	if _, args, ok := strings.Cut(native, "double("); ok { // DOUBLE(M,D) prints D digits behind the point
		_, decimals, _ := strings.Cut(args, ",")
		decimals, _, _ = strings.Cut(decimals, ")")
		if n, err := strconv.Atoi(decimals); err == nil {
			c.op, c.scale = opRounded, n
		}
	}
	text := c.op == opText || c.op == opPackedText
	if text || isLabel(c.typ) && m.labels != nil {
		var err error
		if c.charset, err = s.charsetFor(set); err != nil {
			return err
		}
	}
	switch {
	case !isLabel(c.typ):
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

// absentValue is the value, in the form of a tuple, of a column that an INSERT did not
// name: binlog_row_image=MINIMAL leaves constant defaults to the replica.
func absentValue(c *tidemark.Column) []byte {
	switch {
	case c.Default == nil && !c.NotNull:
		return []byte{tidemark.NullValue}
	case c.Default == nil || c.Default.Kind != tidemark.Literal:
		return nil
	}
	return tidemark.AppendTuple(nil, []tidemark.Value{{Kind: tidemark.TextValue, Data: []byte(c.Default.Text)}})[2:]
}

// setKey finds the columns by which a row is known.
func (t *logTable) setKey(m *tableMap, shown *shownTable) {
	key := m.key
	identity := byte('d')
	if !m.hasKey {
		// FULL metadata without a primary key says that there is none.
		names := shown.key
		if m.names != nil && shown.primary {
			names = nil
		}
		if !shown.primary {
			identity = 'i'
		}
		for _, name := range names {
			key = append(key, slices.IndexFunc(t.cols, func(c logColumn) bool { return c.name == name }))
		}
	}
	key = slices.DeleteFunc(key, func(i int) bool { return i == t.ends-1 })
	for _, i := range key {
		if i < 0 || i >= len(t.cols) || t.cols[i].hidden {
			key = nil
			break
		}
	}
	for _, i := range key {
		t.cols[i].key = true
	}
	if t.full = len(key) == 0; t.full {
		identity = 'f'
	}
	r := tidemark.Relation{Table: t.id, Identity: identity}
	for i := range t.cols {
		c := &t.cols[i]
		if c.hidden {
			continue
		}
		t.outN++
		r.Columns = append(r.Columns, tidemark.RelationColumn{Name: c.name, Key: c.key || t.full, Type: uint32(c.typ), Mod: int32(c.meta), Number: c.number})
	}
	t.relation = r.Append(nil)
}

// setLinks finds the columns where the old row is given if they change or go. A foreign key may
// spell them otherwise than their table.
func (s *Stream) setLinks(t *logTable) {
	if s.links == nil {
		return
	}
	for _, name := range s.links(t.id) {
		at := slices.IndexFunc(t.cols, func(c logColumn) bool { return !c.hidden && strings.EqualFold(c.name, name) })
		if at >= 0 {
			t.links = append(t.links, at)
			t.apart = t.apart || !t.cols[at].key
		}
	}
}

// relate gives a table's description its number: the same one in every stream, but for
// two that would get the same.
func (s *Stream) relate(t *logTable) {
	for t.relID = relationID(t.relation); ; t.relID++ {
		other, taken := s.relations[t.relID]
		if !taken || other == string(t.relation[5:]) {
			break
		}
	}
	s.relations[t.relID] = string(t.relation[5:])
	for i := range 4 {
		t.relation[1+i] = byte(t.relID >> (24 - 8*i))
	}
}

func relationID(message []byte) uint32 {
	h := fnv.New32a()
	h.Write(message[5:])
	return max(h.Sum32(), 1)
}

// collation gives the character set of a collation's number.
func (s *Stream) collation(n uint64) (string, error) {
	if s.collations == nil {
		got, err := s.askAll("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL")
		var my *gomysql.MyError
		if errors.As(err, &my) { // MariaDB has that from 10.10 on, where COLLATIONS leaves some out
			got, err = s.askAll("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL")
		}
		if err != nil {
			return "", err
		}
		s.collations = map[uint64]string{}
		for _, row := range got {
			id, _ := strconv.ParseUint(row[0], 10, 64)
			s.collations[id] = row[1]
		}
	}
	set, ok := s.collations[n]
	if !ok {
		return "", fmt.Errorf("the log has a collation of the number %d, which the server does not know", n)
	}
	return set, nil
}
