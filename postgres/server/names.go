package server

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// A Holder is what has a name: an index or a sequence of a table, the table itself, or something of
// no table.
type Holder struct {
	Table tidemark.TableID
	Text  string // of a type or a function: what another one of that name must have to be the same
}

// Names are those of relations, types and functions (with parentheses) that cannot be given again,
// by schema: the target has them, or calls of Render for a database in pieces have given them.
type Names struct {
	mu    sync.Mutex
	there map[string]map[string]Holder
	given map[string]map[string]Holder
}

// Free reports whether nobody else has a name. What the target has may also be the same already.
func (n *Names) Free(schema, name string, by Holder) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h, is := n.given[schema][name]; is && h.Table != by.Table {
		return false
	}
	h, is := n.there[schema][name]
	return !is || h.Table == by.Table || h.Text != "" && h.Text == by.Text
}

// Keep remembers the names that a call has given.
func (n *Names) Keep(taken map[string]map[string]Holder) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.given == nil {
		n.given = map[string]map[string]Holder{}
	}
	for schema, list := range taken {
		if n.given[schema] == nil {
			n.given[schema] = map[string]Holder{}
		}
		for name, h := range list {
			n.given[schema][name] = h
		}
	}
}

// There returns what has a name on the server.
func (n *Names) There(schema, name string) Holder {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.there[schema][name]
}

// Given returns who was given a name by an earlier call for a database in pieces.
func (n *Names) Given(schema, name string) Holder {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.given[schema][name]
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

// Read reads the names that a server has in the schemas of tables.
func (n *Names) Read(ctx context.Context, s *Server, tables []tidemark.TableID) error {
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
	there := map[string]map[string]Holder{}
	rows, err := conn.Query(ctx, namesSQL, schemas)
	if err == nil {
		var schema, name, table, text string
		_, err = pgx.ForEachRow(rows, []any{&schema, &name, &table, &text}, func() error {
			if there[schema] == nil {
				there[schema] = map[string]Holder{}
			}
			h := Holder{Text: text}
			if table != "" {
				h.Table = tidemark.TableID{Schema: schema, Name: table}
			}
			there[schema][name] = h
			return nil
		})
	}
	if err != nil {
		return s.Fail(ctx, "read the names of", s.Config.Database, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.there == nil {
		n.there = map[string]map[string]Holder{}
	}
	for _, schema := range schemas {
		n.there[schema] = there[schema]
	}
	return nil
}
