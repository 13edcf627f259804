package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/tidemarkdb/tidemark"
)

// The log tells columns by their names or by their order, and neither identifies them: a column that was dropped and
// added again has its name, and one that was renamed has another. So each has a number (tidemark.RelationColumn): it
// follows from its name, unless the log's own statements say otherwise. What they say is kept in the journal by
// place, a line C for each statement, so that the numbers of a place are the same whenever it is read.

// columnNames are what statements have made of the names of a table's columns.
type columnNames struct {
	// Since, if not 0, is where the table was made anew: all columns are others than those of the names before.
	Since uint64 `json:"since,omitempty"`
	// Numbers are those of columns that do not follow from their names, by name in small letters; 0: there is no such
	// column any more.
	Numbers map[string]int32 `json:"numbers,omitempty"`
}

type columnsAt struct {
	place uint64
	names columnNames
}

// A columnHistory has the names of tables' columns by place.
type columnHistory map[tidemark.TableID][]columnsAt

func (h columnHistory) at(id tidemark.TableID, place uint64) (out columnNames) {
	for _, x := range h[id] {
		if x.place <= place {
			out = x.names
		}
	}
	return out
}

func (h columnHistory) put(id tidemark.TableID, place uint64, names columnNames) {
	list := slices.DeleteFunc(h[id], func(x columnsAt) bool { return x.place == place })
	list = append(list, columnsAt{place, names})
	slices.SortFunc(list, func(a, b columnsAt) int { return int(min(max(int64(a.place)-int64(b.place), -1), 1)) })
	h[id] = list
}

// forget takes out what is not valid at an end or behind it.
func (h columnHistory) forget(end uint64) {
	for id, list := range h {
		keep := 0
		for i, x := range list {
			if x.place <= end {
				keep = i
			}
		}
		h[id] = slices.Clone(list[keep:])
	}
}

func (h columnHistory) revoke(from uint64) {
	for id, list := range h {
		h[id] = slices.DeleteFunc(list, func(x columnsAt) bool { return x.place >= from })
	}
}

// A columnsLine is one table in a line C of the journal.
type columnsLine struct {
	Schema string      `json:"schema"`
	Table  string      `json:"table"`
	Names  columnNames `json:"names"`
}

func appendColumns(b []byte, place uint64, of map[tidemark.TableID]columnNames) []byte {
	var lines []columnsLine
	for _, id := range slices.SortedFunc(maps.Keys(of), compareID) {
		lines = append(lines, columnsLine{id.Schema, id.Name, of[id]})
	}
	text, err := json.Marshal(lines)
	if err != nil {
		panic(err) // of strings and numbers
	}
	return fmt.Appendf(b, "C %d %s\n", place, text)
}

func (h columnHistory) take(place uint64, text string) bool {
	var lines []columnsLine
	if json.Unmarshal([]byte(text), &lines) != nil {
		return false
	}
	for _, l := range lines {
		h.put(tidemark.TableID{Schema: l.Schema, Name: l.Table}, place, l.Names)
	}
	return true
}

// append puts all of it into lines.
func (h columnHistory) append(b []byte) []byte {
	for _, id := range slices.SortedFunc(maps.Keys(h), compareID) {
		for _, x := range h[id] {
			b = appendColumns(b, x.place, map[tidemark.TableID]columnNames{id: x.names})
		}
	}
	return b
}

// number gives a column's; never 0.
func (n *columnNames) number(name string) int32 {
	if x := n.Numbers[strings.ToLower(name)]; x != 0 {
		return x
	}
	return columnNumber(name, n.Since)
}

// columnNumber is the number of a column that was given its name at a place; 0 is from the beginning on.
func columnNumber(name string, place uint64) int32 {
	h := fnv.New32a()
	h.Write([]byte(strings.ToLower(name)))
	for place > 0 {
		h.Write([]byte{byte(place)})
		place >>= 8
	}
	return int32(h.Sum32()&(1<<31-1)) | 1
}

// learnColumns notes what a statement does to the names of columns, on the disk, before anything behind it is given
// away.
func (s *Stream) learnColumns(st stmt, sql, db string, vars queryVars) error {
	if s.seek != nil || st.kind != stmtTable || !st.reshapes {
		return nil
	}
	place, h := s.group.place, s.journal.columns
	d := &ddlReader{mariadb: s.e.mariadb, version: s.e.major*10000 + s.e.minor*100 + s.e.patch, mode: vars.mode, db: db, key: s.key}
	was := func(id tidemark.TableID) columnNames {
		n := h.at(id, place-1)
		n.Numbers = maps.Clone(n.Numbers)
		if n.Numbers == nil {
			n.Numbers = map[string]int32{}
		}
		return n
	}
	out := map[tidemark.TableID]columnNames{}
	node, err := d.statement(sql)
	switch n := node.(type) {
	case *ast.AlterTableStmt:
		id := d.id(n.Table)
		names := was(id)
		names.alter(n, place)
		out[id] = names
		for _, spec := range n.Specs {
			if spec.Tp == ast.AlterTableRenameTable {
				out[d.id(spec.NewTable)] = names
			}
		}
	case *ast.RenameTableStmt:
		for _, pair := range n.TableToTables {
			from, to := d.id(pair.OldTable), d.id(pair.NewTable)
			names, done := out[from]
			if !done {
				names = was(from)
			}
			out[to], out[from] = names, columnNames{Since: place}
		}
	case *ast.CreateTableStmt:
		if d.text.replace || !n.IfNotExists {
			out[d.id(n.Table)] = columnNames{Since: place}
		}
	case *ast.DropTableStmt:
		for _, t := range n.Tables {
			out[d.id(t)] = columnNames{Since: place}
		}
	default:
		if err != nil { // what it names may be other columns behind it
			for _, id := range st.tables {
				names := was(s.key(id))
				for _, t := range scanSQL(sql) {
					if t.kind == wordToken || t.kind == nameToken {
						names.Numbers[strings.ToLower(t.name())] = columnNumber(t.name(), place)
					}
				}
				out[s.key(id)] = names
			}
		}
	}
	maps.DeleteFunc(out, func(id tidemark.TableID, _ columnNames) bool { return !s.inScope(id) })
	if len(out) == 0 {
		return nil
	}
	for id, names := range out {
		h.put(id, place, names)
	}
	if s.journal.path == "" {
		return nil
	}
	return s.journal.sync(appendColumns(nil, place, out))
}

// alter carries the names over ALTER TABLE. All of its parts see the names as they were before it.
func (n *columnNames) alter(stmt *ast.AlterTableStmt, place uint64) {
	old := columnNames{n.Since, maps.Clone(n.Numbers)}
	gone := func(name string) { n.Numbers[strings.ToLower(name)] = 0 }
	type pair struct{ from, to string }
	var moved []pair
	var added []string
	for _, spec := range stmt.Specs {
		switch spec.Tp {
		case ast.AlterTableDropColumn:
			gone(spec.OldColumnName.Name.O)
		case ast.AlterTableChangeColumn:
			moved = append(moved, pair{spec.OldColumnName.Name.O, spec.NewColumns[0].Name.Name.O})
		case ast.AlterTableRenameColumn:
			moved = append(moved, pair{spec.OldColumnName.Name.O, spec.NewColumnName.Name.O})
		case ast.AlterTableAddColumns:
			for _, c := range spec.NewColumns {
				added = append(added, c.Name.Name.O)
			}
		}
	}
	moved = slices.DeleteFunc(moved, func(p pair) bool { return strings.EqualFold(p.from, p.to) })
	for _, p := range moved {
		gone(p.from)
	}
	for _, p := range moved {
		n.Numbers[strings.ToLower(p.to)] = old.number(p.from)
	}
	for _, name := range added {
		if x, known := n.Numbers[strings.ToLower(name)]; known && x == 0 { // the name had another column before
			n.Numbers[strings.ToLower(name)] = columnNumber(name, place)
		}
	}
}

// Looks gives the numbers that columns of tables have as long as no statement of the log says otherwise.
func (e *Engine) Looks(ctx context.Context, _ string, tables []tidemark.TableID) (map[tidemark.TableID]*tidemark.CatalogueLook, error) {
	db, err := e.Describe(ctx, func(id tidemark.TableID) bool { return slices.Contains(tables, id) })
	if err != nil {
		return nil, err
	}
	at, err := e.End(ctx)
	out := map[tidemark.TableID]*tidemark.CatalogueLook{}
	for _, t := range db.Tables {
		look := &tidemark.CatalogueLook{At: at}
		for i := range t.Columns {
			look.Columns = append(look.Columns, tidemark.CatalogueColumn{Number: columnNumber(t.Columns[i].Name, 0), Name: t.Columns[i].Name, Generated: t.Columns[i].Generated != ""})
		}
		out[t.TableID] = look
	}
	return out, err
}
