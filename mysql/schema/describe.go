package schema

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Schema reads and writes definitions on a server.
type Schema struct {
	*server.Server

	// KeepTables prevents altering or dropping tables while their rows are read; nil if nothing is
	// frozen.
	KeepTables func(ctx context.Context, tables []tidemark.TableID) error
}

// Describe reads the catalogue: the logical tables and views that want selects (nil: all), and all
// native objects as the text of SHOW CREATE (describe_native.go). The number of catalogue queries
// does not depend on the number of tables, except for columns, which are queried for some thousand
// tables at once; SHOW CREATE runs in batches.
//
// Objects that the login may not see are missing in information_schema, and so here.
//
// Errors are those of the connection, and Forbidden.
func (e *Schema) Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error) {
	return e.describe(ctx, want, nil)
}

func (e *Schema) describe(ctx context.Context, want func(tidemark.TableID) bool, in []string) (*tidemark.Database, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	// The driver's connection takes no ctx.
	stop := s.Watch(ctx)
	defer func() { s.Dead = !stop() || s.Dead }()
	d := &describer{e: e, c: s.Client, want: want, in: in, tables: map[tidemark.TableID]*tidemark.Table{}}
	if err := d.run(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, e.Fail("describe", e.Masked, err)
	}
	return d.db, nil
}

// Tables reads the logical form of these tables and views, of any database. Those that the login
// does not see are missing.
func (e *Schema) Tables(ctx context.Context, names []tidemark.TableID) ([]*tidemark.Table, error) {
	if len(names) == 0 {
		return nil, nil
	}
	wanted, in := map[tidemark.TableID]bool{}, []string(nil)
	for _, id := range names {
		wanted[id], in = true, append(in, id.Schema)
	}
	slices.Sort(in)
	db, err := e.describe(ctx, func(id tidemark.TableID) bool { return wanted[id] }, slices.Compact(in))
	if err != nil {
		return nil, err
	}
	return db.Tables, nil
}

// A describer holds what Describe has found so far.
type describer struct {
	e        *Schema
	c        *server.Client
	want     func(tidemark.TableID) bool
	in       []string // databases whose tables are read, without native objects; nil: see Describe
	db       *tidemark.Database
	schemas  []string
	tables   map[tidemark.TableID]*tidemark.Table
	bases    []tidemark.TableID // all base tables, selected or not, in order
	views    []tidemark.TableID
	sequence []tidemark.TableID
	auto     map[tidemark.TableID]uint64 // next AUTO_INCREMENT value
	json     map[columnID]bool           // MariaDB: columns whose check makes them JSON
	session  *server.Session             // see asking
}

// A columnID names a column.
type columnID struct {
	table tidemark.TableID
	name  string
}

func (d *describer) run(ctx context.Context) error {
	d.db = &tidemark.Database{Engine: d.e.Name(), Version: d.e.Version(), Major: d.e.Major, Name: d.e.DB}
	d.auto, d.json = map[tidemark.TableID]uint64{}, map[columnID]bool{}
	hold := func() error { return d.holdTables(ctx) }
	steps := []func() error{d.readSchemas, d.readTables, hold, d.readChecks, d.readColumns, d.readIndexes, d.readForeignKeys, d.readPartitions, d.readNative}
	if d.in != nil {
		steps = []func() error{d.readTables, d.readChecks, d.readColumns, d.readIndexes, d.readForeignKeys, d.readPartitions}
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	defer func() {
		if d.session != nil {
			d.session.Close()
		}
	}()
	if err := d.readLabels(ctx); err != nil {
		return err
	}
	if err := d.readDefaults(ctx); err != nil {
		return err
	}
	for _, id := range append(slices.Clone(d.bases), d.views...) {
		if t := d.tables[id]; t != nil {
			d.finish(t)
			d.db.Tables = append(d.db.Tables, t)
		}
	}
	slices.SortFunc(d.db.Tables, func(a, b *tidemark.Table) int { return CompareID(a.TableID, b.TableID) })
	return nil
}

func CompareID(a, b tidemark.TableID) int {
	return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
}

// finish sets fields that depend on several catalogue tables.
func (d *describer) finish(t *tidemark.Table) {
	// MySQL does not report the order of keys.
	slices.SortFunc(t.Indexes, func(a, b tidemark.Index) int {
		if a.Unique != b.Unique {
			if a.Unique {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	for i := range t.Columns {
		c := &t.Columns[i]
		if d.json[columnID{t.TableID, c.Name}] && c.Type.Kind != tidemark.JSON {
			t.Checks = append(t.Checks, tidemark.Check{Name: c.Name, Expr: "json_valid(" + server.Quote(c.Name) + ")"})
		}
		if c.Identity == nil {
			continue
		}
		// MyISAM counts per leading key columns: then there is no single next value.
		keys := append([]tidemark.Index(nil), t.Indexes...)
		if t.Key != nil {
			keys = append(keys, *t.Key)
		}
		for _, x := range keys {
			if x.Parts[0].Column == c.Name {
				c.Identity.Next = d.auto[t.TableID]
			}
		}
	}
}

func (d *describer) find(severity tidemark.Severity, object, text, hint string) {
	d.db.Findings = append(d.db.Findings, tidemark.Finding{Severity: severity, Object: object, Text: text, Hint: hint})
}

// A rowReader reads the columns of one row of a catalogue query.
type rowReader struct {
	r   *gomysql.Result
	row int
}

func (r rowReader) text(col int) string {
	s, err := r.r.GetString(r.row, col)
	if err != nil {
		return ""
	}
	// The bytes belong to the driver's buffer.
	return strings.Clone(s)
}

func (r rowReader) null(col int) bool {
	null, err := r.r.IsNull(r.row, col)
	return err != nil || null
}

// int returns a number; def for NULL.
func (r rowReader) int(col int, def int64) int64 {
	if r.null(col) {
		return def
	}
	n, err := r.r.GetInt(r.row, col)
	if err != nil {
		return def
	}
	return n
}

func (r rowReader) uint(col int) uint64 {
	if r.null(col) {
		return 0
	}
	n, err := r.r.GetUint(r.row, col)
	if err != nil {
		return 0
	}
	return n
}

// id returns the table that the first two columns name.
func (r rowReader) id() tidemark.TableID { return tidemark.TableID{Schema: r.text(0), Name: r.text(1)} }

// each runs a query and calls row for each of its rows.
func (d *describer) each(sql string, row func(rowReader)) error {
	r, err := d.c.Execute(sql)
	if err != nil {
		return err
	}
	defer r.Close()
	for i := range r.RowNumber() {
		row(rowReader{r, i})
	}
	return nil
}

// inScope returns the condition on a column with the name of a database.
func (d *describer) inScope(column string) string {
	if d.in == nil {
		return d.e.InScope(column)
	}
	names := make([]string, len(d.in))
	for i, name := range d.in {
		names[i] = server.Literal(name)
	}
	return column + " IN (" + strings.Join(names, ",") + ")"
}

func (d *describer) readSchemas() error {
	err := d.each("SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE "+
		d.inScope("SCHEMA_NAME")+" ORDER BY SCHEMA_NAME", func(r rowReader) {
		d.schemas = append(d.schemas, r.text(0))
		if r.text(0) == d.e.DB {
			d.db.Charset, d.db.Collate = r.text(1), r.text(2)
		}
	})
	if err == nil && d.e.DB != "" && len(d.schemas) == 0 {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "describe", Object: d.e.Masked, Err: fmt.Errorf("there is no database %s that this login may see", d.e.DB), Hint: "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON " + server.Quote(d.e.DB) + ".* TO " + d.e.Grantee() + ", or correct the name in the URL."}
	}
	return err
}

func (d *describer) readTables() error {
	err := d.each("SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_ROWS, DATA_LENGTH, AUTO_INCREMENT, TABLE_COLLATION, TABLE_COMMENT "+
		"FROM information_schema.TABLES WHERE "+d.inScope("TABLE_SCHEMA"), d.addTable)
	slices.SortFunc(d.bases, CompareID)
	slices.SortFunc(d.views, CompareID)
	slices.SortFunc(d.sequence, CompareID)
	return err
}

func (d *describer) addTable(r rowReader) {
	t := &tidemark.Table{TableID: r.id(), Rows: r.int(4, -1), Bytes: r.int(5, 0), Storage: r.text(3), Comment: r.text(8)}
	t.Collation = r.text(7)
	t.Charset, _, _ = strings.Cut(t.Collation, "_")
	switch kind := r.text(2); kind {
	case "VIEW":
		t.Form, t.Comment, t.Rows = tidemark.View, "", -1
		d.views = append(d.views, t.TableID)
	case "SEQUENCE":
		d.sequence = append(d.sequence, t.TableID)
		return
	case "SYSTEM VERSIONED":
		d.bases = append(d.bases, t.TableID)
		d.find(tidemark.Warning, "table "+t.String(), "is system-versioned: its current rows are copied, their history is not", "")
	case "BASE TABLE":
		d.bases = append(d.bases, t.TableID)
		if r.null(3) {
			d.find(tidemark.Warning, "table "+t.String(), "cannot be opened: "+t.Comment, "Repair it on the source, or exclude it.")
			t.Comment = ""
		}
	default: // TEMPORARY, SYSTEM VIEW
		d.find(tidemark.Note, strings.ToLower(kind)+" "+t.String(), "is not copied", "")
		return
	}
	d.auto[t.TableID] = r.uint(6)
	if d.want == nil || d.want(t.TableID) {
		d.tables[t.TableID] = t
	}
}

// holdTables prevents changes to the selected tables while their rows are read, once the engine is
// frozen.
func (d *describer) holdTables(ctx context.Context) error {
	if d.e.KeepTables == nil {
		return nil
	}
	var ids []tidemark.TableID
	for _, id := range d.bases {
		if t := d.tables[id]; t != nil && t.Storage != "" {
			ids = append(ids, id)
		}
	}
	return d.e.KeepTables(ctx, ids)
}

func (d *describer) readPartitions() error {
	return d.each("SELECT TABLE_SCHEMA, TABLE_NAME, PARTITION_NAME, SUBPARTITION_NAME, TABLE_ROWS, DATA_LENGTH FROM information_schema.PARTITIONS WHERE "+
		d.inScope("TABLE_SCHEMA")+" AND PARTITION_NAME IS NOT NULL ORDER BY TABLE_SCHEMA, TABLE_NAME, PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION",
		func(r rowReader) {
			t := d.tables[r.id()]
			if t == nil {
				return
			}
			p := tidemark.Part{Name: r.text(2), Rows: r.int(4, -1), Bytes: r.int(5, 0)}
			if !r.null(3) {
				p.Name, p.Parent = r.text(3), p.Name
			}
			t.Partitions = append(t.Partitions, p)
		})
}
