package stream

import (
	"context"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	parsermysql "github.com/pingcap/tidb/pkg/parser/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/history"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// statement handles a statement that was logged instead of its rows (binlog_format STATEMENT or
// MIXED in a session), and reports which tables it changed: their rows are no longer known.
//
// These are the tables that it writes to, and those that their triggers, views, functions and
// foreign keys lead to, as the server has them now and this user may see them. If the parser cannot
// read the statement, they are all tables that it names.
func (s *decoder) statement(ctx context.Context, sql, db string, vars queryVars) error {
	if s.passes() {
		return nil
	}
	written, parsed := writtenTables(sql, db, vars.mode)
	if parsed && s.allUnfollowed(written) {
		return nil
	}
	x, err := s.effects(ctx)
	if err != nil {
		return err
	}
	if parsed {
		x.add(written)
		x.calls(sql, db)
	} else {
		x.names(sql, db)
	}
	var hit []tidemark.TableID
	for _, id := range x.changed() {
		if want, _ := s.wanted(id); want && !s.unfollowed[s.key(id)] {
			hit = append(hit, id)
		}
	}
	for _, id := range append(hit, written...) {
		s.unfollow(id)
	}
	if len(hit) == 0 {
		return nil
	}
	return s.sayDDL(change.DDL{Tables: hit, Schema: db, SQL: clipped(sql), Rows: true, Place: s.placeName(s.eventPlace)})
}

// allUnfollowed reports whether all these tables are already unfollowed, so that the statement adds
// nothing new: programs that log statements log many.
func (s *decoder) allUnfollowed(tables []tidemark.TableID) bool {
	for _, id := range tables {
		if !s.unfollowed[s.key(id)] {
			return false
		}
	}
	return len(tables) > 0
}

func (s *decoder) unfollow(id tidemark.TableID) {
	if s.unfollowed == nil {
		s.unfollowed = map[tidemark.TableID]bool{}
	}
	s.unfollowed[s.key(id)] = true
}

// clipped returns the part of a statement that a message shows.
func clipped(sql string) string {
	const most = 32 << 10
	if len(sql) > most {
		sql = sql[:most] + " ..."
	}
	return strings.ToValidUTF8(sql, "\uFFFD")
}

// writtenTables returns the tables that a statement writes to; parsed is false if the parser cannot
// read it.
func writtenTables(sql, db string, mode uint64) (tables []tidemark.TableID, parsed bool) {
	const most = 1 << 20
	if len(sql) > most {
		return nil, false
	}
	defer func() {
		if recover() != nil { // the library parses another server's dialect
			tables, parsed = nil, false
		}
	}()
	p := parser.New()
	flags := parsermysql.SQLMode(0)
	if mode&history.ModeANSIQuotes != 0 {
		flags |= parsermysql.ModeANSIQuotes
	}
	if mode&history.ModeNoBackslash != 0 {
		flags |= parsermysql.ModeNoBackslashEscapes
	}
	p.SetSQLMode(flags)
	node, err := p.ParseOneStmt(sql, "", "")
	if err != nil {
		return nil, false
	}
	w := &writeTargets{db: db}
	switch n := node.(type) {
	case *ast.InsertStmt:
		w.all(n.Table)
	case *ast.LoadDataStmt:
		w.one(n.Table)
	case *ast.UpdateStmt:
		w.all(n.TableRefs)
	case *ast.DeleteStmt:
		w.deleted(n)
	}
	return w.out, len(w.out) > 0
}

// A writeTargets collects tables of a parsed statement.
type writeTargets struct {
	db  string
	out []tidemark.TableID
}

func (w *writeTargets) one(t *ast.TableName) {
	if t == nil {
		return
	}
	id := tidemark.TableID{Schema: t.Schema.O, Name: t.Name.O}
	if id.Schema == "" {
		id.Schema = w.db
	}
	w.out = append(w.out, id)
}

// all adds all tables of a list, of which an UPDATE may change several.
func (w *writeTargets) all(refs *ast.TableRefsClause) {
	if refs != nil {
		eachTable(refs.TableRefs, func(t *ast.TableName, _ string) { w.one(t) })
	}
}

// deleted adds the tables of a DELETE, which may be named by their aliases.
func (w *writeTargets) deleted(n *ast.DeleteStmt) {
	if !n.IsMultiTable || n.Tables == nil {
		w.all(n.TableRefs)
		return
	}
	for _, named := range n.Tables.Tables {
		found := named
		if n.TableRefs != nil && named.Schema.O == "" {
			eachTable(n.TableRefs.TableRefs, func(t *ast.TableName, alias string) {
				if strings.EqualFold(alias, named.Name.O) {
					found = t
				}
			})
		}
		w.one(found)
	}
}

// eachTable calls do with the tables of a list and their aliases.
func eachTable(node ast.ResultSetNode, do func(t *ast.TableName, alias string)) {
	switch n := node.(type) {
	case *ast.Join:
		if n.Left != nil {
			eachTable(n.Left, do)
		}
		if n.Right != nil {
			eachTable(n.Right, do)
		}
	case *ast.TableSource:
		if t, is := n.Source.(*ast.TableName); is {
			do(t, n.AsName.O)
		} else {
			eachTable(n.Source, do)
		}
	case *ast.TableName:
		do(n, "")
	}
}

// effects are what a write triggers on the server: triggers, views and routines by name, where
// every name in their bodies counts, and foreign keys that act.
type effects struct {
	key      func(tidemark.TableID) tidemark.TableID
	tables   map[tidemark.TableID]tidemark.TableID // as the server writes them, by key
	bodies   map[tidemark.TableID][]string         // of the triggers of a table, of a view, of a function
	children map[tidemark.TableID][]tidemark.TableID
	seen     map[tidemark.TableID]bool
	queue    []tidemark.TableID
}

// effects queries the server's triggers, views, routines and foreign keys.
func (s *decoder) effects(ctx context.Context) (*effects, error) {
	x := &effects{key: s.key, tables: map[tidemark.TableID]tidemark.TableID{}, bodies: map[tidemark.TableID][]string{}, children: map[tidemark.TableID][]tidemark.TableID{}, seen: map[tidemark.TableID]bool{}}
	for _, q := range []string{
		"SELECT TABLE_SCHEMA, TABLE_NAME, NULL FROM information_schema.TABLES WHERE TABLE_TYPE <> 'VIEW'",
		"SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, ACTION_STATEMENT FROM information_schema.TRIGGERS",
		"SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS",
		"SELECT ROUTINE_SCHEMA, ROUTINE_NAME, COALESCE(ROUTINE_DEFINITION, '') FROM information_schema.ROUTINES",
	} {
		rows, err := s.e.Ask(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			id := tidemark.TableID{Schema: row[0], Name: row[1]}
			if strings.Contains(q, "NULL FROM") {
				x.tables[x.key(id)] = id
				continue
			}
			x.bodies[x.key(id)] = append(x.bodies[x.key(id)], row[2])
		}
	}
	rows, err := s.e.Ask(ctx, "SELECT UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, CONSTRAINT_SCHEMA, TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS "+
		"WHERE DELETE_RULE IN ('CASCADE','SET NULL') OR UPDATE_RULE IN ('CASCADE','SET NULL')")
	for _, row := range rows {
		parent := x.key(tidemark.TableID{Schema: row[0], Name: row[1]})
		x.children[parent] = append(x.children[parent], tidemark.TableID{Schema: row[2], Name: row[3]})
	}
	return x, err
}

func (x *effects) add(ids []tidemark.TableID) {
	for _, id := range ids {
		if k := x.key(id); !x.seen[k] {
			x.seen[k] = true
			x.queue = append(x.queue, k)
		}
	}
}

// names adds everything that a text names.
func (x *effects) names(sql, db string) {
	x.eachName(sql, db, func(id tidemark.TableID, _ bool) { x.add([]tidemark.TableID{id}) })
}

// calls adds the functions that a text calls.
func (x *effects) calls(sql, db string) {
	x.eachName(sql, db, func(id tidemark.TableID, called bool) {
		if called && x.tables[x.key(id)] == (tidemark.TableID{}) {
			x.add([]tidemark.TableID{id})
		}
	})
}

// eachName calls do with the names in a text that the server knows.
func (x *effects) eachName(sql, db string, do func(id tidemark.TableID, called bool)) {
	r := &history.Words{}
	r.Tokens = sqltext.Said(sqltext.Scan(sql))
	for ; r.At < len(r.Tokens); r.At++ {
		at := r.At
		if t := r.Token(); t.Kind != sqltext.Word && t.Kind != sqltext.Name && !strings.HasPrefix(t.Text, `"`) {
			continue
		}
		id := tidemark.TableID{Schema: db, Name: r.Name()}
		if r.Token().Punct('.') {
			r.At++
			id.Schema, id.Name = id.Name, r.Name()
		}
		known := x.tables[x.key(id)] != (tidemark.TableID{}) || len(x.bodies[x.key(id)]) > 0
		if called := r.Token().Punct('('); known {
			do(id, called)
		}
		if r.At--; !known {
			r.At = at // the second part of a.b may be a name of its own
		}
	}
}

// changed returns all tables that the added names lead to.
func (x *effects) changed() (out []tidemark.TableID) {
	for len(x.queue) > 0 {
		k := x.queue[0]
		x.queue = x.queue[1:]
		if id, is := x.tables[k]; is {
			out = append(out, id)
		}
		for _, body := range x.bodies[k] {
			x.names(body, k.Schema)
		}
		x.add(x.children[k])
	}
	return out
}
