package mysql

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A history has the definitions of tables by place in the log, for sources whose log has no
// names of columns (binlog_row_metadata is not FULL): rows that are read at a place are taken
// apart by the definition that was valid there, whatever became of the table since.
//
// It begins with what information_schema says where the stream begins, goes on with what the
// log's DDL makes of that (history_ddl.go), and asks information_schema again where neither
// tells (history_look.go). It is kept in the stream's journal, a line D for each statement.
type history struct {
	on   bool // the log has no names, or had none once
	defs map[tidemark.TableID][]defAt
}

// A defAt is a definition and the first place of which it is true.
type defAt struct {
	place uint64
	def   *tableDef
}

// A tableDef is a table's definition, or with a TableID without Name what a database gives to
// tables that are made in it.
type tableDef struct {
	// Unknown says why it is not known, as the end of a sentence; nothing else is set then.
	Unknown string `json:"unknown,omitempty"`
	Gone    bool   `json:"gone,omitempty"` // there is no such table
	// Whole is of a database: tables of it of which the history says nothing are not there.
	Whole   bool        `json:"whole,omitempty"`
	Form    string      `json:"form,omitempty"`    // TABLE_TYPE of information_schema
	Charset string      `json:"charset,omitempty"` // of columns that name none
	Columns []defColumn `json:"columns,omitempty"`
	Keys    []defKey    `json:"keys,omitempty"` // PRIMARY and unique ones
	// Derived says that it was worked out of DDL.
	Derived bool `json:"derived,omitempty"`
}

// A defColumn is a column in a tableDef. Its type is as information_schema spells it; what it
// says of the width of numbers may be missing.
type defColumn struct {
	Name      string  `json:"name"`
	Type      string  `json:"type"`
	Charset   string  `json:"charset,omitempty"`
	NotNull   bool    `json:"notnull,omitempty"`
	Generated string  `json:"generated,omitempty"` // what makes it; never empty for a generated one
	Default   *string `json:"default,omitempty"`   // canonical text of a constant
	Computed  bool    `json:"computed,omitempty"`  // the default is another one, or not known
}

// A defKey is a unique key. A part that is no column is "".
type defKey struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
}

const primaryKey = "PRIMARY"

func newHistory() *history { return &history{defs: map[tidemark.TableID][]defAt{}} }

// at gives the definition that is valid at a place; nil if nothing is known of it.
func (h *history) at(id tidemark.TableID, place uint64) *tableDef {
	if s := h.last(id, place); s != nil || id.Name == "" {
		return s
	}
	if db := h.last(tidemark.TableID{Schema: id.Schema}, place); db != nil && db.Whole {
		return &tableDef{Gone: true}
	}
	return nil
}

func (h *history) last(id tidemark.TableID, place uint64) *tableDef {
	list := h.defs[id]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].place <= place {
			return list[i].def
		}
	}
	return nil
}

// put notes that a definition is valid from a place on, up to the next that is known.
func (h *history) put(id tidemark.TableID, place uint64, s *tableDef) {
	list := h.defs[id]
	i, there := slices.BinarySearchFunc(list, place, func(a defAt, place uint64) int { return cmp.Compare(a.place, place) })
	if there {
		list[i].def = s
		return
	}
	h.defs[id] = slices.Insert(list, i, defAt{place, s})
}

// says reports whether a definition is known already from a place on: the statement there was
// read before.
func (h *history) says(id tidemark.TableID, place uint64, s *tableDef) bool {
	i := slices.IndexFunc(h.defs[id], func(a defAt) bool { return a.place == place })
	return i >= 0 && reflect.DeepEqual(h.defs[id][i].def, s)
}

// tablesOf gives the tables of a database that are, or may be, there at a place.
func (h *history) tablesOf(db string, place uint64) (out []tidemark.TableID) {
	for id := range h.defs {
		if s := h.last(id, place); id.Schema == db && id.Name != "" && s != nil && !s.Gone {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, compareID)
	return out
}

// forget takes out what is not valid at an end or behind it.
func (h *history) forget(end uint64) {
	for id, list := range h.defs {
		keep := 0
		for i, s := range list {
			if s.place <= end {
				keep = i
			}
		}
		list = list[keep:]
		if len(list) == 1 && list[0].def.Gone && list[0].place <= end && h.whole(id.Schema, end) {
			delete(h.defs, id)
			continue
		}
		h.defs[id] = slices.Clone(list)
	}
}

func (h *history) whole(db string, place uint64) bool {
	s := h.last(tidemark.TableID{Schema: db}, place)
	return s != nil && s.Whole
}

// revoke takes out what is said of places from one on.
func (h *history) revoke(from uint64) {
	for id, list := range h.defs {
		h.defs[id] = slices.DeleteFunc(list, func(s defAt) bool { return s.place >= from })
	}
}

// A defLine is one table in a line D of the journal.
type defLine struct {
	Schema string    `json:"schema"`
	Table  string    `json:"table,omitempty"`
	Def    *tableDef `json:"def"`
}

// appendDefs appends a line of the journal that says what is valid from a place on.
func appendDefs(b []byte, place uint64, defs map[tidemark.TableID]*tableDef) []byte {
	lines := make([]defLine, 0, len(defs))
	for _, id := range slices.SortedFunc(maps.Keys(defs), compareID) {
		lines = append(lines, defLine{id.Schema, id.Name, defs[id]})
	}
	text, err := json.Marshal(lines)
	if err != nil {
		panic(err) // of strings and numbers
	}
	return fmt.Appendf(b, "D %d %s\n", place, text)
}

// take reads what a line of the journal says.
func (h *history) take(place uint64, text string) bool {
	var lines []defLine
	if json.Unmarshal([]byte(text), &lines) != nil {
		return false
	}
	for _, l := range lines {
		if l.Def == nil {
			return false
		}
		h.put(tidemark.TableID{Schema: l.Schema, Name: l.Table}, place, l.Def)
	}
	return true
}

// append puts the whole history into lines.
func (h *history) append(b []byte) []byte {
	at := map[uint64]map[tidemark.TableID]*tableDef{}
	for id, list := range h.defs {
		for _, s := range list {
			if at[s.place] == nil {
				at[s.place] = map[tidemark.TableID]*tableDef{}
			}
			at[s.place][id] = s.def
		}
	}
	for _, place := range slices.Sorted(maps.Keys(at)) {
		b = appendDefs(b, place, at[place])
	}
	return b
}

// shown gives a definition in the form of what information_schema shows.
func (s *tableDef) shown(bool1 bool) *shownTable {
	out := &shownTable{form: s.Form}
	if s.Gone {
		return out
	}
	for i := range s.Columns {
		out.columns = append(out.columns, s.Columns[i].column(bool1))
	}
	out.setKey(s.Keys)
	return out
}

func (c *defColumn) column(bool1 bool) tidemark.Column {
	out := tidemark.Column{Name: c.Name, Type: tidemark.MySQLType(c.Type), NotNull: c.NotNull, Generated: c.Generated}
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

// defOf is the definition of what information_schema shows.
func defOf(shown *shownTable) *tableDef {
	if shown.form == "" {
		return &tableDef{Gone: true}
	}
	out := &tableDef{Form: shown.form, Charset: shown.charset, Keys: shown.keys}
	for i := range shown.columns {
		c := &shown.columns[i]
		x := defColumn{Name: c.Name, Type: c.Type.Native, Charset: c.Type.Charset, NotNull: c.NotNull, Generated: c.Generated}
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

// setKey finds the key by which rows are known: the primary one, or else the first unique one
// without NULLs.
func (shown *shownTable) setKey(keys []defKey) {
	shown.keys = keys
	nullable := map[string]bool{"": true}
	for _, c := range shown.columns {
		nullable[strings.ToLower(c.Name)] = !c.NotNull
	}
	keys = slices.SortedFunc(slices.Values(keys), func(a, b defKey) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	for _, k := range keys {
		switch {
		case k.Name == primaryKey:
			shown.key, shown.primary = k.Columns, true
			return
		case shown.key == nil && !slices.ContainsFunc(k.Columns, func(c string) bool { return nullable[strings.ToLower(c)] }):
			shown.key = k.Columns
		}
	}
}
