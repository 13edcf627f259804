package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// A History has the definitions of tables by place in the log, for sources whose log has no column
// names (binlog_row_metadata is not FULL): rows read at a place are decoded by the definition that
// was valid there, whatever happened to the table since.
//
// It begins with information_schema where the stream begins, continues with the effects of the
// log's DDL (ddl.go), and reads information_schema again where both leave a definition unknown
// (look.go of package stream). The stream's journal keeps it, a line D for each statement.
type History struct {
	On   bool // the log has no column names, or once had none
	Defs map[tidemark.TableID][]defAt
}

// A defAt is a definition and the first place where it is valid.
type defAt struct {
	place uint64
	def   *Definition
}

// A Definition is a table's definition or, for a TableID without Name, a database's defaults for
// new tables.
type Definition struct {
	// Unknown says why the definition is unknown, as the end of a sentence; then nothing else is
	// set.
	Unknown string `json:"unknown,omitempty"`
	Gone    bool   `json:"gone,omitempty"` // the table does not exist
	// Whole, for a database, means that its tables without a definition do not exist.
	Whole   bool               `json:"whole,omitempty"`
	Form    string             `json:"form,omitempty"`    // TABLE_TYPE of information_schema
	Charset string             `json:"charset,omitempty"` // default for columns that name none
	Columns []Column           `json:"columns,omitempty"`
	Keys    []schema.UniqueKey `json:"keys,omitempty"` // PRIMARY and unique ones
	// Derived means that the definition was derived from DDL.
	Derived bool `json:"derived,omitempty"`
}

// A Column is a column in a Definition. Its type is spelled as in information_schema, but the
// display width of numbers may be missing.
type Column struct {
	Name      string  `json:"name"`
	Type      string  `json:"type"`
	Charset   string  `json:"charset,omitempty"`
	NotNull   bool    `json:"notnull,omitempty"`
	Generated string  `json:"generated,omitempty"` // its expression; never empty for a generated column
	Default   *string `json:"default,omitempty"`   // canonical text of a constant
	Computed  bool    `json:"computed,omitempty"`  // the default is not a constant, or unknown
}

func New() *History { return &History{Defs: map[tidemark.TableID][]defAt{}} }

// At returns the definition that is valid at a place; nil if nothing is known about the table.
func (h *History) At(id tidemark.TableID, place uint64) *Definition {
	if s := h.last(id, place); s != nil || id.Name == "" {
		return s
	}
	if db := h.last(tidemark.TableID{Schema: id.Schema}, place); db != nil && db.Whole {
		return &Definition{Gone: true}
	}
	return nil
}

func (h *History) last(id tidemark.TableID, place uint64) *Definition {
	list := h.Defs[id]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].place <= place {
			return list[i].def
		}
	}
	return nil
}

// Put records that a definition is valid from a place up to the next known one.
func (h *History) Put(id tidemark.TableID, place uint64, s *Definition) {
	list := h.Defs[id]
	i, there := slices.BinarySearchFunc(list, place, func(a defAt, place uint64) int { return cmp.Compare(a.place, place) })
	if there {
		list[i].def = s
		return
	}
	h.Defs[id] = slices.Insert(list, i, defAt{place, s})
}

// Says reports whether this definition is already recorded at a place: the statement there was read
// before.
func (h *History) Says(id tidemark.TableID, place uint64, s *Definition) bool {
	i := slices.IndexFunc(h.Defs[id], func(a defAt) bool { return a.place == place })
	return i >= 0 && reflect.DeepEqual(h.Defs[id][i].def, s)
}

// TablesOf returns the tables of a database that exist, or may exist, at a place.
func (h *History) TablesOf(db string, place uint64) (out []tidemark.TableID) {
	for id := range h.Defs {
		if s := h.last(id, place); id.Schema == db && id.Name != "" && s != nil && !s.Gone {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, schema.CompareID)
	return out
}

// Forget removes definitions that are not valid at end or later.
func (h *History) Forget(end uint64) {
	for id, list := range h.Defs {
		keep := 0
		for i, s := range list {
			if s.place <= end {
				keep = i
			}
		}
		list = list[keep:]
		if len(list) == 1 && list[0].def.Gone && list[0].place <= end && h.whole(id.Schema, end) {
			delete(h.Defs, id)
			continue
		}
		h.Defs[id] = slices.Clone(list)
	}
}

func (h *History) whole(db string, place uint64) bool {
	s := h.last(tidemark.TableID{Schema: db}, place)
	return s != nil && s.Whole
}

// Revoke removes definitions recorded from a place on.
func (h *History) Revoke(from uint64) {
	for id, list := range h.Defs {
		h.Defs[id] = slices.DeleteFunc(list, func(s defAt) bool { return s.place >= from })
	}
}

// A defLine is one table in a line D of the journal.
type defLine struct {
	Schema string      `json:"schema"`
	Table  string      `json:"table,omitempty"`
	Def    *Definition `json:"def"`
}

// AppendDefs appends a journal line with the definitions that are valid from a place on.
func AppendDefs(b []byte, place uint64, defs map[tidemark.TableID]*Definition) []byte {
	lines := make([]defLine, 0, len(defs))
	for _, id := range slices.SortedFunc(maps.Keys(defs), schema.CompareID) {
		lines = append(lines, defLine{id.Schema, id.Name, defs[id]})
	}
	text, err := json.Marshal(lines)
	if err != nil {
		panic(err) // cannot fail: strings and numbers
	}
	return fmt.Appendf(b, "D %d %s\n", place, text)
}

// Take reads a line of the journal.
func (h *History) Take(place uint64, text string) bool {
	var lines []defLine
	if json.Unmarshal([]byte(text), &lines) != nil {
		return false
	}
	for _, l := range lines {
		if l.Def == nil {
			return false
		}
		h.Put(tidemark.TableID{Schema: l.Schema, Name: l.Table}, place, l.Def)
	}
	return true
}

// Append appends the whole history as lines.
func (h *History) Append(b []byte) []byte {
	at := map[uint64]map[tidemark.TableID]*Definition{}
	for id, list := range h.Defs {
		for _, s := range list {
			if at[s.place] == nil {
				at[s.place] = map[tidemark.TableID]*Definition{}
			}
			at[s.place][id] = s.def
		}
	}
	for _, place := range slices.Sorted(maps.Keys(at)) {
		b = AppendDefs(b, place, at[place])
	}
	return b
}

// Shown returns a definition in the form of information_schema.
func (s *Definition) Shown(bool1 bool) *schema.Shown {
	out := &schema.Shown{Form: s.Form}
	if s.Gone {
		return out
	}
	for i := range s.Columns {
		out.Columns = append(out.Columns, s.Columns[i].column(bool1))
	}
	out.SetKey(s.Keys)
	return out
}

func (c *Column) column(bool1 bool) tidemark.Column {
	out := tidemark.Column{Name: c.Name, Type: mysqltype.Parse(c.Type), NotNull: c.NotNull, Generated: c.Generated}
	out.Type.Charset = c.Charset
	if out.Type.Width1 && bool1 {
		out.Type.Kind = tidemark.Bool
	}
	switch {
	case c.Computed:
		out.Default = &tidemark.Default{Kind: tidemark.Expression}
	case c.Default != nil:
		out.Default = &tidemark.Default{Kind: tidemark.Literal, Text: *c.Default}
	}
	return out
}

// DefinitionOf returns the definition of a table shown by information_schema.
func DefinitionOf(shown *schema.Shown) *Definition {
	if shown.Form == "" {
		return &Definition{Gone: true}
	}
	out := &Definition{Form: shown.Form, Charset: shown.Charset, Keys: shown.Keys}
	for i := range shown.Columns {
		c := &shown.Columns[i]
		x := Column{Name: c.Name, Type: c.Type.Native, Charset: c.Type.Charset, NotNull: c.NotNull, Generated: c.Generated}
		switch {
		case c.Default == nil:
		case c.Default.Kind == tidemark.Literal:
			x.Default = &c.Default.Text
		default:
			x.Computed = true
		}
		out.Columns = append(out.Columns, x)
	}
	return out
}
