package schema

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Shown is the current information_schema entry of a table.
type Shown struct {
	Columns []tidemark.Column
	Key     []string // columns of the primary key, or else of a unique index without NULLs
	Primary bool
	Form    string // TABLE_TYPE; empty: no such table
	Charset string // default for columns that name none
	Keys    []UniqueKey
	End     uint64 // end of the log after the query
}

// A UniqueKey is a unique key. A part that is not a column is "".
type UniqueKey struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
}

const PrimaryKey = "PRIMARY"

// Show reads a table from information_schema.
func (e *Schema) Show(ctx context.Context, id tidemark.TableID) (*Shown, error) {
	c, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	stop := c.Watch(ctx)
	defer func() { c.Dead = !stop() || c.Dead }()
	d := &describer{e: e, c: c.Client}
	found, err := d.shownTables("TABLE_SCHEMA=" + server.Literal(id.Schema) + " AND TABLE_NAME=" + server.Literal(id.Name))
	if err != nil {
		return nil, err
	}
	out := &Shown{}
	for name, t := range found { // names are as the server writes them
		if out.Form == "" || name == id {
			out = t
		}
	}
	out.End, err = e.LogEnd(ctx, c)
	return out, err
}

// ShowAll reads all tables in the engine's scope, the databases' default character sets, and then
// the end of the log.
func (e *Schema) ShowAll(ctx context.Context) (tables map[tidemark.TableID]*Shown, charsets map[string]string, end uint64, err error) {
	c, back, err := e.Lend(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	defer back()
	stop := c.Watch(ctx)
	defer func() { c.Dead = !stop() || c.Dead }()
	d := &describer{e: e, c: c.Client}
	charsets = map[string]string{}
	tables, err = d.shownTables(d.inScope("TABLE_SCHEMA") + " AND TABLE_TYPE<>'VIEW'")
	if err == nil {
		err = d.each("SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE "+d.inScope("SCHEMA_NAME"), func(r rowReader) { charsets[r.text(0)] = r.text(1) })
	}
	if err == nil {
		end, err = e.LogEnd(ctx, c)
	}
	return tables, charsets, end, err
}

// shownTables reads the tables that satisfy a condition on information_schema.TABLES.
func (d *describer) shownTables(where string) (map[tidemark.TableID]*Shown, error) {
	out := map[tidemark.TableID]*Shown{}
	err := d.each("SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION FROM information_schema.TABLES WHERE "+where, func(r rowReader) {
		t := &Shown{Form: r.text(2)}
		t.Charset, _, _ = strings.Cut(r.text(3), "_")
		out[r.id()] = t
	})
	where, _, _ = strings.Cut(where, " AND TABLE_TYPE")
	if err == nil {
		err = d.each(d.columnsSQL()+where+" ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION", func(r rowReader) {
			if t := out[r.id()]; t != nil {
				t.Columns = append(t.Columns, d.column(&tidemark.Table{}, r))
			}
		})
	}
	keys := map[tidemark.TableID][]UniqueKey{}
	if err == nil {
		err = d.each("SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE "+where+" AND NON_UNIQUE=0 ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
			func(r rowReader) {
				list := keys[r.id()]
				if n := len(list); n == 0 || list[n-1].Name != r.text(2) {
					list = append(list, UniqueKey{Name: r.text(2)})
				}
				k := &list[len(list)-1]
				k.Columns = append(k.Columns, r.text(3))
				keys[r.id()] = list
			})
	}
	for id, t := range out {
		t.SetKey(keys[id])
	}
	return out, err
}

// SetKey finds the key that identifies rows: the primary one, or else the first unique one without
// NULLs.
func (shown *Shown) SetKey(keys []UniqueKey) {
	shown.Keys = keys
	nullable := map[string]bool{"": true}
	for _, c := range shown.Columns {
		nullable[strings.ToLower(c.Name)] = !c.NotNull
	}
	keys = slices.SortedFunc(slices.Values(keys), func(a, b UniqueKey) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	for _, k := range keys {
		switch {
		case k.Name == PrimaryKey:
			shown.Key, shown.Primary = k.Columns, true
			return
		case shown.Key == nil && !slices.ContainsFunc(k.Columns, func(c string) bool { return nullable[strings.ToLower(c)] }):
			shown.Key = k.Columns
		}
	}
}
