package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// publishable refuses tables that a publication would harm, or cannot include. Updates and deletes
// of a published table without replica identity fail on the source itself, so this must be known
// first.
func (s *Source) publishable(ctx context.Context, conn pgx.Tx, moves []tidemark.Move) error {
	keyless, other, err := Unpublishable(ctx, conn, moves)
	switch {
	case err != nil:
		return s.Fail(ctx, "replicate", s.Object, err)
	case len(other) > 0:
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: other[0], Err: fmt.Errorf("is unlogged or foreign, so its changes are not in the log%s", AndMore(other)), Hint: "Leave it out with --exclude."}
	case len(keyless) > 0:
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: keyless[0], Err: fmt.Errorf("has no primary key and no other replica identity: once it is published, its updates and deletes would fail on the source%s", AndMore(keyless)), Hint: "On the source: ALTER TABLE " + strings.Join(keyless[:min(len(keyless), 3)], " REPLICA IDENTITY FULL; ALTER TABLE ") + " REPLICA IDENTITY FULL; or leave it out with --exclude."}
	}
	return nil
}

// WithoutOldRows returns the tables whose log lacks the old values of changed rows, in the table or
// some of its partitions, and the remedy.
func (s *Source) WithoutOldRows(ctx context.Context, tables []tidemark.TableID) (lacking []tidemark.TableID, remedy string, err error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return nil, "", err
	}
	defer release()
	schemas, names := make([]string, len(tables)), make([]string, len(tables))
	for i, t := range tables {
		schemas[i], names[i] = t.Schema, t.Name
	}
	rows, err := conn.Query(ctx, `WITH RECURSIVE wanted AS (
			SELECT w.s, w.t, c.oid FROM unnest($1::text[], $2::text[]) AS w(s, t) JOIN pg_namespace n ON n.nspname = w.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t
			UNION ALL SELECT w.s, w.t, i.inhrelid FROM wanted w JOIN pg_class p ON p.oid = w.oid AND p.relkind = 'p' JOIN pg_inherits i ON i.inhparent = w.oid)
		SELECT w.s, w.t, c.oid::regclass::text FROM wanted w JOIN pg_class c ON c.oid = w.oid WHERE c.relreplident <> 'f' ORDER BY 1, 2, 3`, schemas, names)
	if err != nil {
		return nil, "", s.Fail(ctx, "replicate", s.Object, err)
	}
	var t tidemark.TableID
	var part string
	var alter []string
	_, err = pgx.ForEachRow(rows, []any{&t.Schema, &t.Name, &part}, func() error {
		if !slices.Contains(lacking, t) {
			lacking = append(lacking, t)
		}
		if alter = append(alter, "ALTER TABLE "+part+" REPLICA IDENTITY FULL;"); len(alter) > 3 {
			alter[3] = "..."
		}
		return nil
	})
	return lacking, strings.Join(alter[:min(len(alter), 4)], " "), s.Fail(ctx, "replicate", s.Object, err)
}

// TellsRows checks whether the log has the old values of the columns in the moves' filters: they
// must be in the replica identity. Kind Unsupported, with a hint, if not.
func (s *Source) TellsRows(ctx context.Context, moves []tidemark.Move) error {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	for i := range moves {
		if len(moves[i].Filter) == 0 {
			continue
		}
		if err := s.tellsRows(ctx, conn, &moves[i]); err != nil {
			return s.Fail(ctx, "replicate", server.QuoteTable(moves[i].From.TableID), err)
		}
	}
	return nil
}

// tellsRows checks partitions too: the log contains of a partition's rows what its own replica
// identity says, and sends it under the published table's name as if it were that table's.
func (s *Source) tellsRows(ctx context.Context, conn *pgx.Conn, m *tidemark.Move) error {
	rows, err := conn.Query(ctx, `WITH RECURSIVE part AS (
			SELECT c.oid, c.relkind FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $1 AND c.relname = $2
			UNION ALL SELECT c.oid, c.relkind FROM part p JOIN pg_inherits i ON p.relkind = 'p' AND i.inhparent = p.oid JOIN pg_class c ON c.oid = i.inhrelid)
		SELECT c.oid::regclass::text, c.relkind = 'r', c.relreplident = 'f', coalesce((SELECT array_agg(k.attname::text) FROM `+identityColumns+`), '{}')
		FROM part p JOIN pg_class c ON c.oid = p.oid ORDER BY c.relkind = 'r', 1`, m.From.Schema, m.From.Name)
	if err != nil {
		return err
	}
	type part struct {
		table        string
		holds, whole bool // it holds rows; its identity is all columns
		key          []string
	}
	parts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p part, err error) {
		err = row.Scan(&p.table, &p.holds, &p.whole, &p.key)
		return p, err
	})
	if err != nil {
		return err
	}
	var columns, alter []string
	for _, f := range m.Filter {
		if c := server.QuoteIdent(f.Column); !slices.Contains(columns, c) {
			columns = append(columns, c)
		}
	}
	lacking := ""
	for _, p := range parts {
		if p.holds && !p.whole {
			alter = append(alter, "ALTER TABLE "+p.table+" REPLICA IDENTITY FULL;")
		}
		told := p.whole && p.holds || !p.whole && !slices.ContainsFunc(m.Filter, func(f tidemark.Filter) bool { return !slices.Contains(p.key, f.Column) })
		if lacking == "" && !told {
			lacking = p.table
		}
	}
	if lacking == "" || len(alter) == 0 {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: server.QuoteTable(m.From.TableID), Err: errors.New("its row filter uses " + strings.Join(columns, ", ") + ", and the log does not have what a row of " + lacking + " had there before it was changed"), Hint: "On the source: " + strings.Join(alter[:min(len(alter), 3)], " ") + " Or filter by columns of its key, or leave the table out."}
}

// AndMore returns a note on how many more names there are besides the first; "" if there are none.
func AndMore(names []string) string {
	if len(names) < 2 {
		return ""
	}
	return fmt.Sprintf(" (and so for %d more)", len(names)-1)
}

// Sources returns the source tables of moves.
func Sources(moves []tidemark.Move) []tidemark.TableID {
	out := make([]tidemark.TableID, len(moves))
	for i := range moves {
		out[i] = moves[i].From.TableID
	}
	return out
}

// Unpublishable returns tables, leaves of partitioned ones included, that a publication would harm
// (keyless: their updates and deletes would fail), or cannot include.
func Unpublishable(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, moves []tidemark.Move) (keyless, other []string, err error) {
	schemas, names := server.ByName(Sources(moves))
	// A partitioned table depends on its leaves, which hold the rows.
	rows, err := q.Query(ctx, `WITH RECURSIVE wanted AS (
			SELECT c.oid FROM unnest($1::text[], $2::text[]) AS w(s, t) JOIN pg_namespace n ON n.nspname = w.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t
			UNION ALL SELECT i.inhrelid FROM wanted w JOIN pg_class p ON p.oid = w.oid AND p.relkind = 'p' JOIN pg_inherits i ON i.inhparent = w.oid)
		SELECT n.nspname, c.relname, c.relkind::text, c.relpersistence::text FROM wanted w JOIN pg_class c ON c.oid = w.oid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind <> 'p' AND (c.relkind <> 'r' OR c.relpersistence <> 'p' OR NOT CASE c.relreplident WHEN 'f' THEN true WHEN 'n' THEN false
			WHEN 'd' THEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
			ELSE EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident) END)
		ORDER BY 1, 2`, schemas, names)
	if err != nil {
		return nil, nil, err
	}
	var schema, name, kind, persistence string
	_, err = pgx.ForEachRow(rows, []any{&schema, &name, &kind, &persistence}, func() error {
		table := server.QuoteTable(tidemark.TableID{Schema: schema, Name: name})
		if kind != "r" || persistence != "p" {
			other = append(other, table)
		} else {
			keyless = append(keyless, table)
		}
		return nil
	})
	return slices.Compact(keyless), slices.Compact(other), err
}
