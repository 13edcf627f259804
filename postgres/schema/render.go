package schema

import (
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Render returns the objects that create db's tables, as in moves, on PostgreSQL, and reports what
// it cannot create. It does not connect to a server.
//
// From a PostgreSQL source it takes the native objects, except those of tables that are not copied,
// and those that need one of these. A table that is copied in another shape, or from another
// engine, is built from its logical shape (render_table.go). Grants and owners are included if
// Options ask for them.
func (s *Schema) Render(db *tidemark.Database, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding) {
	r := s.renderer(db, moves)
	for i := range moves {
		r.byFrom[moves[i].From.TableID], r.byTo[moves[i].To.TableID] = &moves[i], &moves[i]
	}
	if r.same {
		if db.Handed {
			r.objects = db.Objects[:0] // takeOver reads ahead of what it writes
		} else {
			r.objects = make([]tidemark.Object, 0, len(db.Objects))
		}
		r.takeOver()
		if db.Handed {
			db.Objects = nil
		}
	}
	r.build()
	if db.Piecewise && len(moves) == 1 {
		s.names.Keep(r.taken)
	}
	return r.objects, r.findings
}

// renderer begins to render.
func (s *Schema) renderer(db *tidemark.Database, moves []tidemark.Move) *renderer {
	return &renderer{db: db, moves: moves, opt: s.Options, same: db.Engine == "postgres", byFrom: map[tidemark.TableID]*tidemark.Move{},
		byTo: map[tidemark.TableID]*tidemark.Move{}, gone: map[string]string{}, native: map[tidemark.TableID][]string{},
		taken: map[string]map[string]server.Holder{}, names: &s.names, major: s.Major, unique: map[tidemark.TableID][]uniqueKey{}, dependsOn: map[tidemark.TableID][]string{},
		enums: map[columnID]madeType{}, types: map[tidemark.TableID]map[string]string{}, constraints: map[string]bool{}, relinked: map[string]*tidemark.ForeignKey{}}
}

// A renderer holds the state of one call of Render, or of AddColumn.
type renderer struct {
	db     *tidemark.Database
	moves  []tidemark.Move
	opt    server.Options
	same   bool // the source is PostgreSQL: types and expressions are used unchanged
	major  int  // of the target
	byFrom map[tidemark.TableID]*tidemark.Move
	byTo   map[tidemark.TableID]*tidemark.Move
	native map[tidemark.TableID][]string // what the CREATE TABLE of a PostgreSQL source depends on, by table
	gone   map[string]string             // IDs of objects left out, with what is missing

	logical   []*tidemark.Move                       // to be built from their logical shape
	taken     map[string]map[string]server.Holder    // names given, by schema
	names     *server.Names                          // those of the target, and of earlier calls for a database in pieces
	unique    map[tidemark.TableID][]uniqueKey       // by target table: what a foreign key can refer to
	dependsOn map[tidemark.TableID][]string          // what a logical table needs
	enums     map[columnID]madeType                  // of another engine's columns
	types     map[tidemark.TableID]map[string]string // of the columns of logical tables, by the source's name of the table

	constraints map[string]bool                 // of logical tables, as "name ON table"
	relinked    map[string]*tidemark.ForeignKey // of native tables to logical ones, by ID

	objects  []tidemark.Object
	findings []tidemark.Finding
}

func (r *renderer) find(s tidemark.Severity, object, text, hint string) {
	r.findings = append(r.findings, tidemark.Finding{Severity: s, Object: object, Text: text, Hint: hint})
}

// takeOver copies native objects, in order, and leaves out those that depend on tables that are not
// copied unchanged.
func (r *renderer) takeOver() {
	root := map[tidemark.TableID]tidemark.TableID{}
	for _, t := range r.db.Tables {
		if t.Form == tidemark.Partition {
			root[t.TableID] = t.PartitionOf
		}
	}
	stays := func(t tidemark.TableID) bool {
		if top, ok := root[t]; ok {
			t = top
		}
		m := r.byFrom[t]
		return m != nil && m.Direct
	}
	out := map[tidemark.TableID]bool{}
	for i := range r.db.Objects {
		if o := &r.db.Objects[i]; o.Kind == "table" {
			r.native[o.Table] = o.Depends
			out[o.Table] = !stays(o.Table)
		}
	}
	if r.byFrom[LargeObjects] == nil {
		out[LargeObjects] = true
	}
	apart := r.apart()
	for i := range r.db.Objects {
		o := &r.db.Objects[i]
		switch why := apart[o.ID]; {
		case why != "":
			r.gone[o.ID] = o.ID
			r.find(tidemark.Warning, o.ID, "left out: "+why, unfitHint)
			continue
		case o.Kind == "grant" && !r.opt.Grants, o.Kind == "default privileges" && !r.opt.Grants, o.Kind == "owner" && !r.opt.Owners:
			continue
		case out[o.Table]:
			r.gone[o.ID] = o.Table.String()
			continue
		}
		if missing := r.missing(o); missing != "" && !r.blocked(o) && !r.relinks(o, missing) {
			r.leaveOut(o, missing)
			if o.Kind == "table" {
				out[o.Table] = true
			}
			continue
		}
		r.carry(*o)
	}
	for i := range r.moves {
		m := &r.moves[i]
		id := "table " + server.QuoteTable(m.From.TableID)
		_, native := r.native[m.From.TableID]
		if why, gone := r.gone[id]; m.Direct && gone && why != id && native {
			r.find(tidemark.Warning, "table "+m.From.String(), "it is created with its columns and keys only, since "+
				r.gone["table "+server.QuoteTable(m.From.TableID)]+", which it needs, is not copied", "")
		}
	}
}

// apart returns the foreign keys of native tables, by their ID, that cannot refer to the table that
// the target keeps, and why.
func (r *renderer) apart() map[string]string {
	out := map[string]string{}
	for i := range r.moves {
		m := &r.moves[i]
		for j := range m.To.ForeignKeys {
			fk := &m.To.ForeignKeys[j]
			p := r.byTo[fk.Ref]
			if !m.Direct || p == nil || p.There == nil {
				continue
			}
			if why := r.unfit(m, p.There, fk); why != "" {
				out[foreignKeyID(m, fk)] = why
			}
		}
	}
	return out
}

// relinks reports whether a foreign key of a native table can refer as it is to a table that a rule
// changes: under its name it has a key of the same columns, whose types fit.
func (r *renderer) relinks(o *tidemark.Object, missing string) bool {
	m, p := r.byFrom[o.Table], r.moveNamed(missing)
	if o.Kind != "foreign key" || m == nil || p == nil || p.To.TableID != p.From.TableID {
		return false
	}
	for i := range m.To.ForeignKeys {
		fk := &m.To.ForeignKeys[i]
		if fk.Ref == p.To.TableID && o.ID == foreignKeyID(m, fk) && serves(p.To, fk) && r.misfit(m, fk) == "" {
			r.relinked[o.ID] = fk
			return true
		}
	}
	return false
}

// foreignKeyID is the ID of a native table's foreign key.
func foreignKeyID(m *tidemark.Move, fk *tidemark.ForeignKey) string {
	return "foreign key " + server.QuoteIdent(fk.Name) + " ON " + server.QuoteTable(m.To.TableID)
}

// blocked reports whether the target's version is too old for o's rows.
func (r *renderer) blocked(o *tidemark.Object) bool {
	older := o.On(r.major)
	return r.major > 0 && older != nil && older.SQL == nil && older.Severity == tidemark.Blocker
}

// carry copies an object in the form for the target's version.
func (r *renderer) carry(o tidemark.Object) {
	older := o.On(r.major)
	o.Older = nil
	if older == nil || r.major == 0 {
		r.objects = append(r.objects, o)
		return
	}
	if older.SQL != nil {
		if older.Text != "" {
			r.find(older.Severity, o.ID, older.Text, "")
		}
		o.SQL = older.SQL
		r.objects = append(r.objects, o)
		return
	}
	r.gone[o.ID] = o.ID
	r.find(older.Severity, o.ID, "left out: "+older.Text, "")
	if older.Severity == tidemark.Blocker {
		last := &r.findings[len(r.findings)-1]
		last.Kind, last.Text, last.Hint = tidemark.Unmapped, older.Text, "Give the column another type (tables: {NAME: {types: {COLUMN: text}}}), or leave the table out."
	}
}

// leaveOut records that o is not created, and reports it unless it is a mere property of another
// object that is not created either.
func (r *renderer) leaveOut(o *tidemark.Object, missing string) {
	r.gone[o.ID] = missing
	switch o.Kind {
	case "table", "grant", "owner", "statistics", "sequence value", "index mark", "foreign key validation", "refresh", "comment", "security label":
		return
	}
	why := "is not copied"
	if m := r.moveNamed(missing); m != nil {
		why = "is copied under another name or in another shape"
	}
	r.find(tidemark.Warning, o.ID, fmt.Sprintf("left out: it needs %s, which %s", missing, why), "")
}

func (r *renderer) moveNamed(name string) *tidemark.Move {
	for i := range r.moves {
		if r.moves[i].From.String() == name {
			return &r.moves[i]
		}
	}
	return nil
}

// missing returns the object that o needs and that will not exist; "" if none.
func (r *renderer) missing(o *tidemark.Object) string {
	for _, d := range o.Depends {
		if what, gone := r.gone[d]; gone {
			return what
		}
	}
	return ""
}
