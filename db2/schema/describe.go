package schema

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/server"
)

// A Schema reads definitions.
type Schema struct {
	*server.Server

	// KeepTables prevents changes of tables while their rows are read; nil if nothing is frozen.
	KeepTables func(ctx context.Context, tables []tidemark.TableID) error
}

// Describe reads the catalogue: the tables and views that want selects (nil: all). It describes
// logical definitions only: nothing of Db2's own SQL is carried to another engine, and what cannot
// be carried is named in the findings.
func (e *Schema) Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	d := &describer{e: e, s: s, want: want, tables: map[tidemark.TableID]*tidemark.Table{},
		db: &tidemark.Database{Engine: e.Name(), Version: e.Version(), Major: e.Major(), Name: e.Database(), Charset: "UTF-8"}}
	if err := d.run(ctx); err != nil {
		return nil, e.Fail("describe", e.Masked, err)
	}
	return d.db, nil
}

// A describer holds what Describe has found so far.
type describer struct {
	e      *Schema
	s      *server.Session
	want   func(tidemark.TableID) bool
	db     *tidemark.Database
	tables map[tidemark.TableID]*tidemark.Table
}

func (d *describer) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{d.readTables, d.hold, d.readColumns, d.readIdentities, d.readIndexes, d.readForeignKeys, d.readChecks, d.readOthers} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for _, t := range d.tables {
		d.size(t)
		d.db.Tables = append(d.db.Tables, t)
	}
	d.find(tidemark.Note, "source", "the view is of one moment because the tables are locked in share mode until the copy's end: readers continue, writers wait",
		"Copy while nothing writes.")
	slices.SortFunc(d.db.Tables, func(a, b *tidemark.Table) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

func (d *describer) find(severity tidemark.Severity, object, text, hint string) {
	d.db.Findings = append(d.db.Findings, tidemark.Finding{Severity: severity, Object: object, Text: text, Hint: hint})
}

// rows runs a query of the catalogue; NULL is "".
func (d *describer) rows(ctx context.Context, sql string) ([][]string, error) {
	rows, err := d.s.Strings(ctx, strings.ReplaceAll(sql, "SYSCAT.", server.Quote(d.e.Catalog)+"."))
	if err != nil {
		return nil, err
	}
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = make([]string, len(row))
		for k, v := range row {
			if v != nil {
				out[i][k] = *v
			}
		}
	}
	return out, nil
}

// query calls f with each row of a query of the catalogue that belongs to a selected table: the
// first two columns are its schema and name.
func (d *describer) query(ctx context.Context, sql string, f func(t *tidemark.Table, row []string)) error {
	rows, err := d.rows(ctx, sql)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if t := d.tables[tableID(row)]; t != nil {
			f(t, row)
		}
	}
	return nil
}

// tableID is the table that a row of the catalogue belongs to: schemas of old catalogues are
// padded.
func tableID(row []string) tidemark.TableID {
	return tidemark.TableID{Schema: strings.TrimRight(row[0], " "), Name: row[1]}
}

// mine excludes Db2's own schemas.
const mine = " TABSCHEMA NOT LIKE 'SYS%' AND TABSCHEMA <> 'NULLID' "

func (d *describer) readTables(ctx context.Context) error {
	rows, err := d.rows(ctx, "SELECT TABSCHEMA, TABNAME, TYPE, STATUS, CARD, NPAGES, REMARKS FROM SYSCAT.TABLES WHERE TYPE IN ('T', 'S', 'V') AND"+mine+"ORDER BY TABSCHEMA, TABNAME")
	if err != nil {
		return err
	}
	for _, row := range rows {
		id := tableID(row)
		if id.Ours() || d.want != nil && !d.want(id) {
			continue
		}
		t := &tidemark.Table{TableID: id, Rows: -1, Comment: row[6]}
		switch strings.TrimSpace(row[2]) {
		case "V":
			t.Form = tidemark.View
		case "S":
			d.find(tidemark.Note, "table "+id.String(), "is a materialized query table: its rows are copied, its query is not", "")
		}
		if n, err := strconv.ParseInt(row[4], 10, 64); err == nil && n >= 0 {
			t.Rows = n
		}
		if strings.TrimSpace(row[3]) == "C" {
			d.find(tidemark.Blocker, "table "+id.String(), "is in set integrity pending state: its rows cannot be read", "SET INTEGRITY FOR "+server.QuoteTable(id)+" IMMEDIATE CHECKED ends it.")
		}
		d.tables[id] = t
	}
	return nil
}

// hold keeps the tables as they are, if the source is frozen.
func (d *describer) hold(ctx context.Context) error {
	if d.e.KeepTables == nil {
		return nil
	}
	var ids []tidemark.TableID
	for id, t := range d.tables {
		if t.Form == tidemark.Ordinary {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b tidemark.TableID) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
	})
	return d.e.KeepTables(ctx, ids)
}

func (d *describer) readColumns(ctx context.Context) error {
	const sql = `SELECT TABSCHEMA, TABNAME, COLNAME, TYPESCHEMA, TYPENAME, LENGTH, SCALE, STRINGUNITSLENGTH, TYPESTRINGUNITS, "DEFAULT", NULLS, CODEPAGE, "IDENTITY", "GENERATED", TEXT, HIDDEN, REMARKS,
		CASE WHEN "DEFAULT" IS NULL THEN 'Y' ELSE 'N' END FROM SYSCAT.COLUMNS WHERE` + mine + `ORDER BY TABSCHEMA, TABNAME, COLNO`
	return d.query(ctx, sql, func(t *tidemark.Table, row []string) {
		c := tidemark.Column{Name: row[2], NotNull: row[10] == "N", Comment: row[16], Invisible: strings.TrimSpace(row[15]) != ""}
		object := "column " + t.String() + "." + c.Name
		number := func(i int) int64 { n, _ := strconv.ParseInt(row[i], 10, 64); return n }
		c.Type = typeOf(catalogType{name: row[4], length: number(5), scale: int(number(6)), units: number(7), unit: strings.TrimSpace(row[8]), bits: row[11] == "0"})
		if strings.TrimSpace(row[3]) != "SYSIBM" {
			d.find(tidemark.Blocker, object, "is of the user's own type "+strings.TrimSpace(row[3])+"."+row[4]+", which is not read yet", "Leave the column out, or copy a view that casts it.")
			d.db.Findings[len(d.db.Findings)-1].Kind = tidemark.Unmapped
		}
		switch c.Type.Kind {
		case tidemark.Other:
			d.find(tidemark.Blocker, object, "is of the type "+row[4]+", which has no counterpart", "Leave the column out, or copy a view that casts it.")
			d.db.Findings[len(d.db.Findings)-1].Kind = tidemark.Unmapped
		case tidemark.DateTime:
			if c.Type.Precision > 6 && !d.e.Derby() {
				d.find(tidemark.Warning, object, fmt.Sprintf("has %d digits of a second; other engines keep 6, and round", c.Type.Precision), "")
			}
		}
		switch {
		case row[12] == "Y":
			c.Identity = &tidemark.Identity{Always: row[13] == "A", Increment: 1}
		case strings.TrimSpace(row[13]) != "" && strings.TrimSpace(row[14]) != "":
			// Without a text it is a timestamp of the row, whose values are data for others.
			c.Generated = strings.TrimSpace(strings.TrimPrefix(row[14], "AS "))
		case row[17] == "N":
			if c.Default = defaultOf(row[9], &c.Type); c.Default != nil && c.Default.Kind == tidemark.Expression {
				d.find(tidemark.Warning, object, "has a default that other engines do not know: "+row[9], "Set a default by hand after the copy.")
			}
		}
		t.Columns = append(t.Columns, c)
	})
}

func (d *describer) readIdentities(ctx context.Context) error {
	return d.query(ctx, "SELECT TABSCHEMA, TABNAME, COLNAME, START, INCREMENT, NEXTCACHEFIRSTVALUE FROM SYSCAT.COLIDENTATTRIBUTES WHERE"+mine, func(t *tidemark.Table, row []string) {
		c := t.Column(row[2])
		if c == nil || c.Identity == nil {
			return
		}
		number := func(i int) int64 { n, _ := strconv.ParseInt(strings.TrimSuffix(row[i], "."), 10, 64); return n }
		c.Identity.Start, c.Identity.Increment = number(3), number(4)
		if next := number(5); next > 0 {
			c.Identity.Next = uint64(next)
		}
	})
}

func (d *describer) readIndexes(ctx context.Context) error {
	type indexID struct{ schema, name string }
	byName := map[indexID]*tidemark.Index{}
	where := map[indexID]*tidemark.Table{}
	var order []indexID
	primary := map[indexID]bool{}
	err := d.query(ctx, "SELECT TABSCHEMA, TABNAME, INDSCHEMA, INDNAME, UNIQUERULE, INDEXTYPE FROM SYSCAT.INDEXES WHERE"+mine+"ORDER BY TABSCHEMA, TABNAME, INDNAME", func(t *tidemark.Table, row []string) {
		id := indexID{strings.TrimRight(row[2], " "), row[3]}
		if kind := strings.TrimSpace(row[5]); kind != "REG" && kind != "CLUS" && kind != "" {
			d.find(tidemark.Warning, "index "+id.schema+"."+id.name, "is of the kind "+kind+", which is not copied", "")
			return
		}
		byName[id], where[id] = &tidemark.Index{Name: row[3], Unique: row[4] != "D"}, t
		primary[id] = row[4] == "P"
		order = append(order, id)
	})
	if err != nil {
		return err
	}
	sql := "SELECT i.TABSCHEMA, i.TABNAME, u.INDSCHEMA, u.INDNAME, u.COLNAME, u.COLORDER, u.TEXT FROM SYSCAT.INDEXES i JOIN SYSCAT.INDEXCOLUSE u ON u.INDSCHEMA = i.INDSCHEMA AND u.INDNAME = i.INDNAME" +
		" WHERE i." + strings.TrimSpace(strings.ReplaceAll(mine, "AND TABSCHEMA", "AND i.TABSCHEMA")) + " ORDER BY u.INDSCHEMA, u.INDNAME, u.COLSEQ"
	err = d.query(ctx, sql, func(t *tidemark.Table, row []string) {
		x := byName[indexID{strings.TrimRight(row[2], " "), row[3]}]
		if x == nil {
			return
		}
		switch part := (tidemark.IndexPart{Column: row[4], Desc: row[5] == "D"}); {
		case row[5] == "I":
			x.Include = append(x.Include, row[4])
		case t.Column(row[4]) == nil: // an expression, whose column has a name of the system's
			part.Column, part.Expr = "", row[6]
			fallthrough
		default:
			x.Parts = append(x.Parts, part)
		}
	})
	if err != nil {
		return err
	}
	// Indexes of constraints may exist twice under different names (Derby keeps one for each).
	seen := map[string]bool{}
	for _, id := range order {
		x, t := byName[id], where[id]
		columns := fmt.Sprint(t.String(), x.Unique, x.Parts, x.Include)
		switch {
		case len(x.Parts) == 0:
		case primary[id]:
			t.Key = x
			seen[columns] = true
		case !seen[columns]:
			seen[columns] = true
			t.Indexes = append(t.Indexes, *x)
		}
	}
	for _, t := range d.tables { // the key's index may come after one like it
		if t.Key != nil {
			t.Indexes = slices.DeleteFunc(t.Indexes, func(x tidemark.Index) bool {
				return x.Unique && fmt.Sprint(x.Parts, x.Include) == fmt.Sprint(t.Key.Parts, t.Key.Include)
			})
		}
	}
	return nil
}

func (d *describer) readForeignKeys(ctx context.Context) error {
	columns := map[string][]string{} // of a constraint, by its table and name
	name := func(schema, table, constraint string) string {
		return strings.TrimRight(schema, " ") + "\x00" + table + "\x00" + constraint
	}
	rows, err := d.rows(ctx, "SELECT TABSCHEMA, TABNAME, CONSTNAME, COLNAME FROM SYSCAT.KEYCOLUSE WHERE"+mine+"ORDER BY TABSCHEMA, TABNAME, CONSTNAME, COLSEQ")
	if err != nil {
		return err
	}
	for _, row := range rows {
		if !slices.Contains(row, "") {
			n := name(row[0], row[1], row[2])
			columns[n] = append(columns[n], row[3])
		}
	}
	rules := map[string]string{"A": "NO ACTION", "C": "CASCADE", "N": "SET NULL", "R": "RESTRICT"}
	return d.query(ctx, "SELECT TABSCHEMA, TABNAME, CONSTNAME, REFTABSCHEMA, REFTABNAME, REFKEYNAME, DELETERULE, UPDATERULE FROM SYSCAT.\"REFERENCES\" WHERE"+mine+"ORDER BY TABSCHEMA, TABNAME, CONSTNAME", func(t *tidemark.Table, row []string) {
		f := tidemark.ForeignKey{Name: row[2], Columns: columns[name(row[0], row[1], row[2])], Ref: tableID(row[3:5]), RefColumns: columns[name(row[3], row[4], row[5])],
			OnDelete: rules[row[6]], OnUpdate: rules[row[7]]}
		if len(f.Columns) == 0 || len(f.Columns) != len(f.RefColumns) {
			d.find(tidemark.Warning, "foreign key "+t.String()+"."+f.Name, "is not copied: the catalogue does not show its columns", "Check the rights on the table that it references.")
			return
		}
		t.ForeignKeys = append(t.ForeignKeys, f)
	})
}

func (d *describer) readChecks(ctx context.Context) error {
	return d.query(ctx, "SELECT TABSCHEMA, TABNAME, CONSTNAME, TEXT FROM SYSCAT.CHECKS WHERE TYPE = 'C' AND"+mine+"ORDER BY TABSCHEMA, TABNAME, CONSTNAME", func(t *tidemark.Table, row []string) {
		t.Checks = append(t.Checks, tidemark.Check{Name: row[2], Expr: row[3]})
	})
}

// readOthers names what is not copied besides tables.
func (d *describer) readOthers(ctx context.Context) error {
	if d.e.Derby() {
		return nil
	}
	for _, q := range []struct{ what, sql string }{
		{"table", "SELECT RTRIM(TABSCHEMA) || '.' || TABNAME FROM SYSCAT.TABLES WHERE TYPE NOT IN ('T', 'S', 'V', 'A', 'G') AND" + mine},
		{"trigger", "SELECT RTRIM(TRIGSCHEMA) || '.' || TRIGNAME FROM SYSCAT.TRIGGERS WHERE TRIGSCHEMA NOT LIKE 'SYS%'"},
		{"routine", "SELECT RTRIM(ROUTINESCHEMA) || '.' || ROUTINENAME FROM SYSCAT.ROUTINES WHERE ROUTINESCHEMA NOT LIKE 'SYS%' AND ROUTINESCHEMA NOT IN ('SQLJ', 'NULLID')"},
	} {
		rows, err := d.s.Strings(ctx, q.sql)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row[0] != nil {
				d.find(tidemark.Warning, q.what+" "+*row[0], "is not copied: only Db2 has it, or its SQL", "Rewrite it for the target.")
			}
		}
	}
	return nil
}

// size estimates how large a table is. The catalogue knows its rows only if it has statistics, and
// its pages in a unit that depends on the table space.
func (d *describer) size(t *tidemark.Table) {
	if t.Rows > 0 {
		t.Bytes = t.Rows * rowWidth(t)
	}
}
