package schema

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// A holder is what has a name: an index or a sequence of a table, the table itself, or something of
// no table.
type holder struct {
	table tidemark.TableID
	text  string // of a type or a function: what another one of that name must have to be the same
}

// names are those of relations, types and functions (with parentheses) that cannot be given again,
// by schema: the target has them, or calls of Render for a database in pieces have given them.
type names struct {
	mu    sync.Mutex
	there map[string]map[string]holder
	given map[string]map[string]holder
}

// free reports whether nobody else has a name. What the target has may also be the same already.
func (n *names) free(schema, name string, by holder) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h, is := n.given[schema][name]; is && h.table != by.table {
		return false
	}
	h, is := n.there[schema][name]
	return !is || h.table == by.table || h.text != "" && h.text == by.text
}

// keep remembers the names that a call has given.
func (n *names) keep(taken map[string]map[string]holder) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.given == nil {
		n.given = map[string]map[string]holder{}
	}
	for schema, list := range taken {
		if n.given[schema] == nil {
			n.given[schema] = map[string]holder{}
		}
		for name, h := range list {
			n.given[schema][name] = h
		}
	}
}

const namesSQL = `
SELECT n.nspname, c.relname, coalesce(t.relname, s.relname, CASE WHEN c.relkind IN ('r', 'p') THEN c.relname END, ''), ''
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
LEFT JOIN pg_depend d ON c.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
LEFT JOIN pg_class s ON s.oid = d.refobjid AND s.relnamespace = c.relnamespace
WHERE n.nspname = ANY($1)
UNION ALL SELECT n.nspname, t.typname, '', coalesce((SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid), '')
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typrelid = 0 AND t.typcategory <> 'A' AND n.nspname = ANY($1)
UNION ALL SELECT n.nspname, p.proname || '()', '', p.prosrc
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.pronargs = 0 AND n.nspname = ANY($1)`

// Names reads the names that the target has in the schemas of tables: what Render names itself
// then gets others, unless it is of the same table, or the same.
func (s *Schema) Names(ctx context.Context, tables []tidemark.TableID) error {
	seen := map[string]bool{}
	var schemas []string
	for _, t := range tables {
		if !seen[t.Schema] {
			seen[t.Schema] = true
			schemas = append(schemas, t.Schema)
		}
	}
	if len(schemas) == 0 {
		return nil
	}
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	there := map[string]map[string]holder{}
	rows, err := conn.Query(ctx, namesSQL, schemas)
	if err == nil {
		var schema, name, table, text string
		_, err = pgx.ForEachRow(rows, []any{&schema, &name, &table, &text}, func() error {
			if there[schema] == nil {
				there[schema] = map[string]holder{}
			}
			h := holder{text: text}
			if table != "" {
				h.table = tidemark.TableID{Schema: schema, Name: table}
			}
			there[schema][name] = h
			return nil
		})
	}
	if err != nil {
		return s.Fail(ctx, "read the names of", s.Config.Database, err)
	}
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	if s.names.there == nil {
		s.names.there = map[string]map[string]holder{}
	}
	for _, schema := range schemas {
		s.names.there[schema] = there[schema]
	}
	return nil
}

// take reserves a name in a schema; it returns false if the name is taken.
func (r *renderer) take(schema, name string, by holder) bool {
	list := r.taken[schema]
	if list == nil {
		list = map[string]holder{}
		r.taken[schema] = list
	}
	if by.table.Name = clip(by.table.Name); !strings.HasSuffix(name, "()") {
		name = clip(name)
	}
	if _, is := list[name]; is || !r.names.free(schema, name, by) {
		return false
	}
	list[name] = by
	return true
}

// takeNative reserves the name of an index that keeps the name it has on the source. What has it on
// the target must be of a table that the copy fills.
func (r *renderer) takeNative(m *tidemark.Move, name string) {
	if r.take(m.To.Schema, name, holder{table: m.To.TableID}) {
		return
	}
	r.names.mu.Lock()
	h := r.names.there[m.To.Schema][clip(name)]
	r.names.mu.Unlock()
	for id := range r.byTo {
		if id.Schema == h.table.Schema && clip(id.Name) == h.table.Name {
			return
		}
	}
	r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Collision, Object: "index " + m.To.Schema + "." + name,
		Text: "something else on the target has this name, and so " + m.To.String() + " would be without the index", Hint: "Rename one of the two."})
}

// free returns a name that no relation or type of the schema has yet, but for what is the same:
// name, table_name, or name with a number.
func (r *renderer) free(name, table string, by holder) string {
	for i := 0; ; i++ {
		try := name
		switch {
		case i == 1 && table != "":
			try = table + "_" + name
		case i > 0:
			try = fmt.Sprintf("%s_%d", name, i+1)
		}
		if try = shorten(try); r.take(by.table.Schema, try, by) {
			return try
		}
	}
}

// freeFunction is free for a function without parameters.
func (r *renderer) freeFunction(name string, by holder) string {
	for i := 1; ; i++ {
		try := name
		if i > 1 {
			try = fmt.Sprintf("%s_%d", name, i)
		}
		if try = shorten(try); r.take(by.table.Schema, try+"()", by) {
			return try
		}
	}
}

// shorten returns a name that the server does not truncate: what is cut off is replaced by a hash
// of the whole name, so that different names stay different.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	n := maxName - 9
	for n > 0 && name[n]&0xc0 == 0x80 {
		n--
	}
	return fmt.Sprintf("%s_%08x", name[:n], h.Sum32())
}

// holder is the maker's table as what has a name.
func (mk *maker) holder(text string) holder { return holder{mk.t.TableID, text} }
