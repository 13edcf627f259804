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

// The log refers to columns by name or by order, and neither identifies them: a column that was
// dropped and added again keeps its name, and a renamed one has another. So each has a number
// (change.RelationColumn), derived from its name unless statements in the log say otherwise. The
// journal keeps these by place, a line C for each statement, so that the numbers at a place are the
// same whenever it is read.

// ColumnNames are the effects of statements on the names of a table's columns.
type ColumnNames struct {
	// Since, if not 0, is where the table was recreated: no column is the earlier one of that name.
	Since uint64 `json:"since,omitempty"`
	// Numbers are the column numbers that do not follow from the names, by name in lower case; 0:
	// the column no longer exists.
	Numbers map[string]int32 `json:"numbers,omitempty"`
}

type columnsAt struct {
	place uint64
	names ColumnNames
}

// A ColumnHistory has the column names of tables by place.
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

// Forget removes entries that are not valid at end or later.
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
		panic(err) // cannot fail: strings and numbers
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

// Append appends the whole history as lines.
func (h ColumnHistory) Append(b []byte) []byte {
	for _, id := range slices.SortedFunc(maps.Keys(h), schema.CompareID) {
		for _, x := range h[id] {
			b = AppendColumns(b, x.place, map[tidemark.TableID]ColumnNames{id: x.names})
		}
	}
	return b
}

// Number returns a column's number; never 0.
func (n *ColumnNames) Number(name string) int32 {
	if x := n.Numbers[strings.ToLower(name)]; x != 0 {
		return x
	}
	return ColumnNumber(name, n.Since)
}

// ColumnNumber returns the number of a column that received its name at a place; 0: from the
// beginning.
func ColumnNumber(name string, place uint64) int32 {
	h := fnv.New32a()
	h.Write([]byte(strings.ToLower(name)))
	for place > 0 {
		h.Write([]byte{byte(place)})
		place >>= 8
	}
	return int32(h.Sum32()&(1<<31-1)) | 1
}

// alter applies ALTER TABLE to the names. All of its parts see the names as they were before it.
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
		if x, known := n.Numbers[strings.ToLower(name)]; known && x == 0 { // the name belonged to another column before
			n.Numbers[strings.ToLower(name)] = ColumnNumber(name, place)
		}
	}
}

// After returns the column names after a statement at a place, by the table's key.
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
		if err != nil { // its names may mean other columns afterwards
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
