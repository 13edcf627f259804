package apply

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/order"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A destination is a table as an applier's session sees it.
type destination struct {
	bound *change.Bound
	name  string // quoted
	gone  bool   // cascades may already have deleted a row to delete

	// From the server's catalogue.
	oid     uint32
	natts   int64 // columns, dropped ones included: a change means that it was altered
	fill    []int // for each column of its row type the relation's column, or -1
	domains []bool
	checks  []check // for each column of the relation
	split   bool    // has so many partitions that a multi-row statement, which opens them all, costs more
	order.Table

	always bool // has columns that are GENERATED ALWAYS AS IDENTITY
	shapes map[shapeKey]*shape
}

// A shapeKey identifies one of a table's statements.
type shapeKey struct {
	kind  tidemark.ChangeKind
	old   byte   // 0: the new row has the key; 'K', 'O': kind of the old row
	moved bool   // the row gets another key
	same  string // columns that are not sent and stay unchanged, two bytes each
}

// A shape is how changes of one kind to the same columns of a table are made.
type shape struct {
	order.Shape
	to *destination

	one  *prepared // nil: there is nothing to do
	args []arg
	many *prepared // for an array of rows; nil: not possible
	fill []int     // for each column of the array's rows: the relation's column, or -1
	both bool      // a second array has the old values

	sureOne, sureMany *prepared // the same with a guard; nil: not needed so far
}

// An arg of a statement is a column of the new or of the old row.
type arg struct {
	column int
	old    bool
}

// shape finds the shape of a change whose values are in vals and olds.
func (a *applier) shape(d *destination, c change.Change) *shape {
	key := shapeKey{kind: c.Kind}
	switch {
	case c.Old != nil && c.OldKey:
		key.old = 'K'
	case c.Old != nil:
		key.old = 'O'
	}
	if c.Kind == tidemark.UpdateChange {
		key.moved = c.Old != nil && d.Key != nil && slices.ContainsFunc(d.Key, func(i int) bool {
			return a.vals[i].Kind != change.UnchangedValue && !bytes.Equal(a.vals[i].Data, a.olds[i].Data)
		})
		for i, v := range a.vals {
			if v.Kind == change.UnchangedValue {
				key.same += string([]byte{byte(i >> 8), byte(i)})
			}
		}
	}
	s := d.shapes[key]
	if s == nil {
		s = a.newShape(d, c, key)
		d.shapes[key] = s
	}
	return s
}

func (a *applier) newShape(d *destination, c change.Change, key shapeKey) *shape {
	s := &shape{to: d, Shape: order.Shape{Table: &d.Table, Kind: c.Kind, Alone: key.moved, Keyless: d.Key == nil && c.Kind != tidemark.InsertChange}}
	checks := d.checksOf(c)
	sql, args := statement(d.bound, c, a.vals, a.olds, checks)
	if sql == "" {
		return s
	}
	s.one, s.args = a.prepare(sql), args
	// A long key may be stored out of line; its value is then in the old row only.
	if c.Kind == tidemark.UpdateChange && slices.ContainsFunc(d.Key, func(i int) bool { return a.vals[i].Kind == change.UnchangedValue }) {
		s.Alone, s.Keyless = true, true
	}
	if s.Alone || s.Keyless || !d.Batched {
		s.Alone = true
		return s
	}
	if d.split && c.Kind != tidemark.InsertChange {
		return s
	}
	if sql, fill := statementForMany(d, c, a.vals, checks); sql != "" {
		s.many, s.fill, s.both = a.prepare(sql), fill, checks != nil && c.Kind == tidemark.UpdateChange
		s.many.binary = true
	}
	return s
}

// fewer reports whether statements of a kind may affect fewer rows than they should.
func (d *destination) fewer(kind tidemark.ChangeKind) bool {
	return d.gone && kind == tidemark.DeleteChange || d.bound.Loading
}

// sendOne sends the statement of one change.
func (a *applier) sendOne(s *shape, c order.Row) error {
	a.vals, a.olds = c.New.Values(a.vals[:0]), c.Old.Values(a.olds[:0])
	stmt := cmp.Or(a.guarded(s, false), s.one)
	a.bind(stmt, len(s.args))
	for _, x := range s.args {
		v := a.vals
		if x.old {
			v = a.olds
		}
		a.param(v[x.column].Data)
	}
	return a.execute(sentStmt{stmt: stmt, to: s.to, kind: s.Kind, rows: 1, gone: s.to.fewer(s.Kind)})
}

// sendMany sends one statement for all rows: an array of texts, each the literal of the table's row
// type, so that every type is parsed as usual. (An array for each column would cost the server a
// set of rows for each, and VALUES an expression to compile for each value.) The array is sent in
// binary, so nothing has to be quoted twice.
func (a *applier) sendMany(s *shape, rows []order.Row) error {
	stmt, params, want := s.many, 1, int64(len(rows))
	if s.both {
		params++
	}
	sure := a.guarded(s, true)
	if sure != nil {
		stmt, want = sure, 1 // the answer of its guard
		params++
	}
	a.bind(stmt, params)
	a.records(rows, s.fill, s.Kind == tidemark.DeleteChange)
	if s.both {
		a.records(rows, s.to.fill, true)
	}
	if sure != nil {
		a.paramRows(len(rows))
	}
	return a.execute(sentStmt{stmt: stmt, to: s.to, kind: s.Kind, rows: want, gone: s.to.fewer(s.Kind)})
}

// records sends the new or the old values of rows as an array.
func (a *applier) records(rows []order.Row, fill []int, old bool) {
	const textOID = 25
	at := len(a.out)
	a.out = binary.BigEndian.AppendUint32(a.out, 0)        // length
	for _, n := range []int{1, 0, textOID, len(rows), 1} { // dimensions, NULLs, type; number of elements, lower bound
		a.out = binary.BigEndian.AppendUint32(a.out, uint32(n))
	}
	for _, c := range rows {
		t := c.New
		if old {
			t = c.Old
		}
		a.vals = t.Values(a.vals[:0])
		from := len(a.out)
		a.out = binary.BigEndian.AppendUint32(a.out, 0)
		a.out = appendRecord(a.out, a.vals, fill)
		binary.BigEndian.PutUint32(a.out[from:], uint32(len(a.out)-from-4))
	}
	binary.BigEndian.PutUint32(a.out[at:], uint32(len(a.out)-at-4))
}

// appendRecord appends the literal of a row type
// (https://www.postgresql.org/docs/current/rowtypes.html).
func appendRecord(b []byte, values []change.Value, fill []int) []byte {
	b = append(b, '(')
	for i, from := range fill {
		if i > 0 {
			b = append(b, ',')
		}
		if from < 0 || values[from].Data == nil {
			continue // NULL
		}
		b = append(b, '"')
		data, start := values[from].Data, 0
		for i, c := range data {
			if c == '"' || c == '\\' {
				b = append(b, data[start:i+1]...)
				b = append(b, c)
				start = i + 1
			}
		}
		b = append(append(b, data[start:]...), '"')
	}
	return append(b, ')')
}

// statementForMany writes the SQL for an array of rows of the table's row type, and returns which
// of the relation's columns fill it; "" if that is impossible. An update that checks (see
// statement) takes a second array with the old values.
func statementForMany(d *destination, c change.Change, vals []change.Value, checks []check) (sql string, fill []int) {
	b := d.bound
	var names, from, sets, where []string
	always := false
	is, was := d.inRows(checks != nil && c.Kind == tidemark.UpdateChange)
	for i, v := range vals {
		at := b.Columns[i]
		if at < 0 || v.Kind == change.UnchangedValue || b.Table.Columns[at].Generated != "" {
			continue
		}
		col := &b.Table.Columns[at]
		name := server.QuoteIdent(col.Name)
		if geometry(b, i) {
			return "", nil
		}
		names, from = append(names, name), append(from, is(i))
		identity := col.Identity != nil && col.Identity.Always
		always = always || identity
		if !identity && !slices.Contains(d.Key, i) && (c.Old != nil || !b.Relation.Columns[i].Key) {
			sets = append(sets, name+" = "+setTo(b, checks, i, "t."+name, is(i), is, was))
		}
	}
	for _, i := range d.Key {
		name := server.QuoteIdent(b.Table.Columns[b.Columns[i]].Name)
		where = append(where, "t."+name+" = "+is(i))
	}
	where = append(where, stillSo(b, c, checks, vals, "t.", is, was)...)
	fill = slices.Clone(d.fill)
	for i, x := range fill {
		if x >= 0 && (len(vals) > 0 && vals[x].Kind == change.UnchangedValue || c.Kind == tidemark.DeleteChange && checks == nil && !slices.Contains(d.Key, x)) {
			fill[i] = -1
		}
		if fill[i] < 0 && d.domains[i] {
			return "", nil // the domain may not accept NULL
		}
	}
	rows := "unnest($1::text[]::" + d.name + "[]) AS v"
	if checks != nil && c.Kind == tidemark.UpdateChange {
		rows = d.twoRows()
	}
	switch {
	case c.Kind == tidemark.InsertChange && len(names) > 0:
		overriding := ""
		if always {
			overriding = " OVERRIDING SYSTEM VALUE"
		}
		return "INSERT INTO " + d.name + " (" + strings.Join(names, ", ") + ")" + overriding + " SELECT " + strings.Join(from, ", ") + " FROM " + rows + overwrite(b), fill
	case c.Kind == tidemark.UpdateChange && len(sets) > 0:
		return "UPDATE " + d.name + " AS t SET " + strings.Join(sets, ", ") + " FROM " + rows + " WHERE " + strings.Join(where, " AND "), fill
	case c.Kind == tidemark.DeleteChange:
		return "DELETE FROM " + d.name + " AS t USING " + rows + " WHERE " + strings.Join(where, " AND "), fill
	}
	return "", nil
}

// truncation returns the statement of a TruncateChange; "" if none of its tables is the stream's.
func truncation(c change.Change, bounds map[uint32]*change.Bound) (string, error) {
	t, err := change.ParseTruncation(c.Body)
	if err != nil {
		return "", err
	}
	var names []string
	for _, id := range t.Tables {
		if b := bounds[id]; b != nil {
			if b.Loading && len(t.Tables) == 1 {
				return emptying(b.Table.TableID), nil
			}
			names = append(names, server.QuoteTable(b.Table.TableID))
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	sql := "TRUNCATE " + strings.Join(names, ", ")
	if t.RestartIdentity {
		sql += " RESTART IDENTITY"
	}
	if t.Cascade {
		sql += " CASCADE"
	}
	return sql, nil
}

// destinationSQL returns what an applier needs to know about tables. Types marked exact, whose
// values are equal exactly when their texts are, can be compared here.
const destinationSQL = `SELECT w.n::int, c.oid, c.relnatts::bigint,
	c.relkind IN ('r', 'p') AND NOT c.relhasrules AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND (t.tgenabled IN ('A', 'R') OR t.tgenabled = 'O' AND NOT $3)),
	c.relkind = 'p' AND (SELECT count(*) > 16 FROM pg_partition_tree(c.oid)),
	c.oid IN (SELECT unnest(ARRAY[f.conrelid, f.confrelid]) FROM pg_constraint f WHERE f.contype = 'f'),
	(SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)),
	a.names, a.domains, a.exact, a.types, a.compared
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, n)
	JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
	CROSS JOIN LATERAL (SELECT array_agg(a.attname::text ORDER BY a.attnum) AS names, array_agg(t.typtype = 'd' ORDER BY a.attnum) AS domains,
		array_agg((t.typtype = 'e' OR t.oid IN ('bool'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype, 'date'::regtype, 'timestamp'::regtype,
			'timestamptz'::regtype, 'bytea'::regtype, 'text'::regtype, 'varchar'::regtype) OR t.oid = 'numeric'::regtype AND a.atttypmod > 0)
			AND coalesce(l.collisdeterministic, true) ORDER BY a.attnum) AS exact,
		array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum) AS types,
		array_agg(CASE WHEN t.oid = 'json'::regtype THEN 'j' WHEN t.typtype = 'e' OR t.oid IN ('bool'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'oid'::regtype,
			'uuid'::regtype, 'date'::regtype, 'time'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'bytea'::regtype, 'numeric'::regtype, 'float4'::regtype, 'float8'::regtype,
			'jsonb'::regtype) THEN 'v' ELSE 's' END ORDER BY a.attnum) AS compared
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
		WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) a`

// know looks up the tables of a group that are new to the session.
func (a *applier) know(ctx context.Context, g *change.Group) error {
	if a.aliases > 100 { // earlier Bounds, mostly unused by now
		maps.DeleteFunc(a.tables, func(b *change.Bound, d *destination) bool { return d.bound != b })
		a.aliases = 0
	}
	var fresh []*destination
	var last *change.Bound
	err := g.Each(func(tx *change.Tx, bounds map[uint32]*change.Bound) error {
		for rest := tx.Changes; len(rest) >= 9; {
			n := int(binary.BigEndian.Uint32(rest)) + 4
			kind := tidemark.ChangeKind(rest[4])
			if kind == tidemark.InsertChange || kind == tidemark.UpdateChange || kind == tidemark.DeleteChange {
				b := bounds[binary.BigEndian.Uint32(rest[5:])]
				if b != nil && b != last && a.tables[b] == nil {
					d := a.again(b)
					if d == nil {
						d = newDestination(b)
						fresh = append(fresh, d)
					}
					a.tables[b] = d
				}
				last = b
			}
			rest = rest[min(n, len(rest)):]
		}
		return nil
	})
	if err != nil || len(fresh) == 0 {
		return err
	}
	if err := a.describe(ctx, fresh); err != nil {
		clear(a.tables)
		return err
	}
	return nil
}

// again finds the destination of a relation equal to b's, and reuses it for b: the server sends the
// same relation many times, and its prepared statements stay valid.
func (a *applier) again(b *change.Bound) *destination {
	for x, d := range a.tables {
		if x.Table == b.Table && x.Relation.ID == b.Relation.ID && x.Relation.Identity == b.Relation.Identity && x.Loading == b.Loading &&
			slices.Equal(x.Relation.Columns, b.Relation.Columns) && slices.Equal(x.Columns, b.Columns) {
			d.bound = b
			a.aliases++
			return d
		}
	}
	return nil
}

func newDestination(b *change.Bound) *destination {
	d := &destination{bound: b, name: server.QuoteTable(b.Table.TableID), shapes: map[shapeKey]*shape{}}
	d.ID = b.Table.TableID
	d.Salt = xxh3.HashString(d.name)
	// The target's key, if the stream has it in every row.
	d.Key = keyColumns(b, true)
	if slices.ContainsFunc(d.Key, func(i int) bool { return !b.Relation.Columns[i].Key }) || d.Key == nil && b.Relation.Identity != 'f' {
		d.Key = keyColumns(b, false)
	}
	for _, at := range b.Columns {
		d.always = d.always || at >= 0 && b.Table.Columns[at].Identity != nil && b.Table.Columns[at].Identity.Always
	}
	return d
}

func (a *applier) describe(ctx context.Context, fresh []*destination) error {
	var schemas, tables []string
	for _, d := range fresh {
		schemas, tables = append(schemas, d.bound.Table.Schema), append(tables, d.bound.Table.Name)
	}
	rows, err := a.conn.Query(ctx, destinationSQL, schemas, tables, a.replica)
	if err != nil {
		return err
	}
	var n int
	var unique int64
	var x destination
	var names []string
	var exact []bool
	var types, compared []string
	_, err = pgx.ForEachRow(rows, []any{&n, &x.oid, &x.natts, &x.Batched, &x.split, &x.Related, &unique, &names, &x.domains, &exact, &types, &compared}, func() error {
		d := fresh[n-1]
		d.oid, d.natts, d.Batched, d.split, d.Related, d.domains = x.oid, x.natts, x.Batched, x.split, x.Related, slices.Clone(x.domains)
		d.gone = !a.replica && cascades(d.bound.Table)
		d.Uniques = unique > 1 || unique > 0 && d.Key == nil
		d.checks = make([]check, len(d.bound.Columns))
		for i, name := range names {
			from := slices.IndexFunc(d.bound.Columns, func(at int) bool {
				return at >= 0 && d.bound.Table.Columns[at].Name == name && d.bound.Table.Columns[at].Generated == ""
			})
			d.fill = append(d.fill, from)
			if from >= 0 && !geometry(d.bound, from) {
				d.checks[from] = check{compared[i][0], types[i]}
			}
			d.InOrder = d.InOrder || !exact[i] && from >= 0 && slices.Contains(d.Key, from)
		}
		return nil
	})
	if err != nil {
		return err
	}
	oids := make([]uint32, 0, len(fresh))
	for _, d := range fresh {
		oids = append(oids, d.oid)
	}
	return a.t.RefuseForeignCode(ctx, a.conn, "apply", oids, a.replica)
}

// renumbered refuses an update that gave a row a new number in a column GENERATED ALWAYS AS
// IDENTITY (SET column = DEFAULT): the target would accept only a number of its own.
func renumbered(b *change.Bound, vals, olds []change.Value) error {
	for i, at := range b.Columns {
		if at < 0 || b.Table.Columns[at].Identity == nil || !b.Table.Columns[at].Identity.Always {
			continue
		}
		if was := olds[i]; was.Kind == change.TextValue && !bytes.Equal(was.Data, vals[i].Data) {
			name := server.QuoteIdent(b.Table.Columns[at].Name)
			return &tidemark.Error{Kind: tidemark.BadRow, Op: "apply", Object: server.QuoteTable(b.Table.TableID), Err: fmt.Errorf("an update has changed %s, which is GENERATED ALWAYS", name), Hint: fmt.Sprintf("ALTER TABLE %s ALTER %s SET GENERATED BY DEFAULT; on the target, and start again.", server.QuoteTable(b.Table.TableID), name)}
		}
	}
	return nil
}

// statement writes the SQL of a change; "" if it changes nothing on the target. The server infers
// the parameters' types from their context. checks, if not nil, say how the row is compared with
// its old values.
func statement(b *change.Bound, c change.Change, vals, olds []change.Value, checks []check) (sql string, args []arg) {
	table := server.QuoteTable(b.Table.TableID)
	param := func(column int, old bool) string {
		n := slices.Index(args, arg{column, old})
		if n < 0 {
			n, args = len(args), append(args, arg{column, old})
		}
		if geometry(b, column) {
			return fmt.Sprintf("decode($%d::text, 'hex')", n+1)
		}
		return fmt.Sprintf("$%d", n+1)
	}
	is, was := asTyped(checks, param)
	var names, places, sets []string
	always := false
	for i, v := range vals {
		at := b.Columns[i]
		if at < 0 || v.Kind == change.UnchangedValue || b.Table.Columns[at].Generated != "" {
			continue
		}
		col := &b.Table.Columns[at]
		// No update can set an identity column that is ALWAYS (renumbered refuses it if it should);
		// and an unchanged key need not be written.
		if c.Kind == tidemark.UpdateChange && (col.Identity != nil && col.Identity.Always || c.Old == nil && b.Relation.Columns[i].Key) {
			continue
		}
		name, place := server.QuoteIdent(col.Name), param(i, false)
		names, places = append(names, name), append(places, place)
		if c.Kind == tidemark.UpdateChange {
			sets = append(sets, name+" = "+setTo(b, checks, i, name, place, is, was))
		}
		always = always || col.Identity != nil && col.Identity.Always
	}
	switch c.Kind {
	case tidemark.InsertChange:
		overriding := ""
		if always {
			overriding = " OVERRIDING SYSTEM VALUE"
		}
		if len(names) == 0 {
			return "INSERT INTO " + table + " DEFAULT VALUES", nil
		}
		return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ")" + overriding + " VALUES (" + strings.Join(places, ", ") + ")" + overwrite(b), args
	case tidemark.UpdateChange:
		if len(sets) == 0 {
			return "", nil
		}
	}
	where := strings.Join(append([]string{whichRow(b, c, param)}, stillSo(b, c, checks, vals, "", is, was)...), " AND ")
	if c.Kind == tidemark.UpdateChange {
		return "UPDATE " + table + " SET " + strings.Join(sets, ", ") + " WHERE " + where, args
	}
	return "DELETE FROM " + table + " WHERE " + where, args
}

// overwrite returns the end of an INSERT into a table that is loading.
func overwrite(b *change.Bound) string {
	key := keyColumns(b, true)
	if !b.Loading || key == nil {
		return ""
	}
	var columns, sets []string
	for i, at := range b.Columns {
		if at < 0 || b.Table.Columns[at].Generated != "" {
			continue
		}
		name := server.QuoteIdent(b.Table.Columns[at].Name)
		switch identity := b.Table.Columns[at].Identity; {
		case slices.Contains(key, i):
			columns = append(columns, name)
		case identity == nil || !identity.Always:
			sets = append(sets, name+" = excluded."+name)
		}
	}
	if len(sets) == 0 {
		return " ON CONFLICT (" + strings.Join(columns, ", ") + ") DO NOTHING"
	}
	return " ON CONFLICT (" + strings.Join(columns, ", ") + ") DO UPDATE SET " + strings.Join(sets, ", ")
}

// geometry reports whether column i of the relation is a geometry of MySQL, whose text is hex EWKB,
// and the target's column holds bytes or is PostGIS's geometry, which accepts these.
func geometry(b *change.Bound, i int) bool {
	const mysqlGeometry = 255 // no PostgreSQL type has this number
	if b.Relation.Columns[i].Type != mysqlGeometry || b.Columns[i] < 0 {
		return false
	}
	kind := b.Table.Columns[b.Columns[i]].Type.Kind
	return kind == tidemark.Geometry || kind.Bytes()
}

// whichRow returns the condition that finds the row of an update or delete.
func whichRow(b *change.Bound, c change.Change, param func(column int, old bool) string) string {
	old := c.Old != nil
	var conds []string
	if columns := keyColumns(b, old && !c.OldKey); columns != nil {
		for _, i := range columns {
			conds = append(conds, server.QuoteIdent(b.Table.Columns[b.Columns[i]].Name)+" = "+param(i, old))
		}
		return strings.Join(conds, " AND ")
	}
	// No key: one of the rows that are equal in all columns. Not every type can be compared, but
	// every one has a text. CASE gives the parameter the column's type, which may have another name
	// on the source.
	for i, at := range b.Columns {
		if at >= 0 && b.Table.Columns[at].Generated == "" {
			name := server.QuoteIdent(b.Table.Columns[at].Name)
			conds = append(conds, name+"::text IS NOT DISTINCT FROM "+"(CASE WHEN false THEN "+name+" ELSE "+param(i, old)+" END)::text")
		}
	}
	return "ctid = (SELECT ctid FROM " + server.QuoteTable(b.Table.TableID) + " WHERE " + strings.Join(conds, " AND ") + " LIMIT 1)"
}

// keyColumns returns the columns of the relation that identify a row; nil if none do. If whole is
// set (the stream has the whole old row), they are the target's own primary key.
func keyColumns(b *change.Bound, whole bool) []int {
	var out []int
	if !whole {
		for i, c := range b.Relation.Columns {
			if c.Key {
				out = append(out, i)
			}
		}
		return out
	}
	if b.Table.Key == nil {
		if b.Relation.Identity != 'f' {
			return keyColumns(b, false)
		}
		return nil
	}
	for _, name := range b.Table.Key.Columns() {
		at := slices.IndexFunc(b.Columns, func(at int) bool { return at >= 0 && b.Table.Columns[at].Name == name })
		if at < 0 {
			return nil
		}
		out = append(out, at)
	}
	return out
}
