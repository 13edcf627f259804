package history

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// The log tells columns by their names or by their order, and neither identifies them: a column that was dropped and
// added again has its name, and one that was renamed has another. So each has a number (change.RelationColumn): it
// follows from its name, unless the log's own statements say otherwise. What they say is kept in the journal by
// place, a line C for each statement, so that the numbers of a place are the same whenever it is read.

// ColumnNames are what statements have made of the names of a table's columns.
type ColumnNames struct {
	// Since, if not 0, is where the table was made anew: all columns are others than those of the names before.
	Since uint64 `json:"since,omitempty"`
	// Numbers are those of columns that do not follow from their names, by name in small letters; 0: there is no such
	// column any more.
	Numbers map[string]int32 `json:"numbers,omitempty"`
}

type columnsAt struct {
	place uint64
	names ColumnNames
}

// A ColumnHistory has the names of tables' columns by place.
type ColumnHistory map[tidemark.TableID][]columnsAt

func (h ColumnHistory) At(id tidemark.TableID, place uint64) (out ColumnNames) {
	for _, x := range h[id] {
		if x.place <= place {
			out = x.names
		}
	}
	return out
}

func (h ColumnHistory) Put(id tidemark.TableID, place uint64, names ColumnNames) {
	list := slices.DeleteFunc(h[id], func(x columnsAt) bool { return x.place == place })
	list = append(list, columnsAt{place, names})
	slices.SortFunc(list, func(a, b columnsAt) int { return int(min(max(int64(a.place)-int64(b.place), -1), 1)) })
	h[id] = list
}

// Forget takes out what is not valid at an end or behind it.
func (h ColumnHistory) Forget(end uint64) {
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

func (h ColumnHistory) Revoke(from uint64) {
	for id, list := range h {
		h[id] = slices.DeleteFunc(list, func(x columnsAt) bool { return x.place >= from })
	}
}

// A columnsLine is one table in a line C of the journal.
type columnsLine struct {
	Schema string      `json:"schema"`
	Table  string      `json:"table"`
	Names  ColumnNames `json:"names"`
}

func AppendColumns(b []byte, place uint64, of map[tidemark.TableID]ColumnNames) []byte {
	var lines []columnsLine
	for _, id := range slices.SortedFunc(maps.Keys(of), schema.CompareID) {
		lines = append(lines, columnsLine{id.Schema, id.Name, of[id]})
	}
	text, err := json.Marshal(lines)
	if err != nil {
		panic(err) // of strings and numbers
	}
	return fmt.Appendf(b, "C %d %s\n", place, text)
}

func (h ColumnHistory) Take(place uint64, text string) bool {
	var lines []columnsLine
	if json.Unmarshal([]byte(text), &lines) != nil {
		return false
	}
	for _, l := range lines {
		h.Put(tidemark.TableID{Schema: l.Schema, Name: l.Table}, place, l.Names)
	}
	return true
}

// Append puts all of it into lines.
func (h ColumnHistory) Append(b []byte) []byte {
	for _, id := range slices.SortedFunc(maps.Keys(h), schema.CompareID) {
		for _, x := range h[id] {
			b = AppendColumns(b, x.place, map[tidemark.TableID]ColumnNames{id: x.names})
		}
	}
	return b
}

// Number gives a column's; never 0.
func (n *ColumnNames) Number(name string) int32 {
	if x := n.Numbers[strings.ToLower(name)]; x != 0 {
		return x
	}
	return ColumnNumber(name, n.Since)
}

// ColumnNumber is the number of a column that was given its name at a place; 0 is from the beginning on.
func ColumnNumber(name string, place uint64) int32 {
	h := fnv.New32a()
	h.Write([]byte(strings.ToLower(name)))
	for place > 0 {
		h.Write([]byte{byte(place)})
		place >>= 8
	}
	return int32(h.Sum32()&(1<<31-1)) | 1
}

// alter carries the names over ALTER TABLE. All of its parts see the names as they were before it.
func (n *ColumnNames) alter(stmt *ast.AlterTableStmt, place uint64) {
	old := ColumnNames{n.Since, maps.Clone(n.Numbers)}
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
		n.Numbers[strings.ToLower(p.to)] = old.Number(p.from)
	}
	for _, name := range added {
		if x, known := n.Numbers[strings.ToLower(name)]; known && x == 0 { // the name had another column before
			n.Numbers[strings.ToLower(name)] = ColumnNumber(name, place)
		}
	}
}

// After gives the names that a statement at a place makes of columns, by the table's key.
func (h ColumnHistory) After(d *Reader, st Statement, sql string, place uint64) map[tidemark.TableID]ColumnNames {
	was := func(id tidemark.TableID) ColumnNames {
		n := h.At(id, place-1)
		n.Numbers = maps.Clone(n.Numbers)
		if n.Numbers == nil {
			n.Numbers = map[string]int32{}
		}
		return n
	}
	out := map[tidemark.TableID]ColumnNames{}
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
			out[to], out[from] = names, ColumnNames{Since: place}
		}
	case *ast.CreateTableStmt:
		if d.text.replace || !n.IfNotExists {
			out[d.id(n.Table)] = ColumnNames{Since: place}
		}
	case *ast.DropTableStmt:
		for _, t := range n.Tables {
			out[d.id(t)] = ColumnNames{Since: place}
		}
	default:
		if err != nil { // what it names may be other columns behind it
			for _, id := range st.Tables {
				names := was(d.Key(id))
				for _, t := range sqltext.Scan(sql) {
					if t.Kind == sqltext.Word || t.Kind == sqltext.Name {
						names.Numbers[strings.ToLower(t.Name())] = ColumnNumber(t.Name(), place)
					}
				}
				out[d.Key(id)] = names
			}
		}
	}
	return out
}
