package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// FiltersRows reports whether the server's publications have row filters.
func (s *Source) FiltersRows() bool { return s.Major >= 15 }

// publish creates the publication, replacing one left by an attempt that created no slot. From
// version 15 on it has only the rows that pass the moves' filters, and only the columns that they
// select, where the server allows that.
func (s *Source) publish(ctx context.Context, slot Slot, moves []tidemark.Move) error {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return s.Fail(ctx, "create publication", slot.Publication, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // does nothing after the commit
	var there bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)", slot.Name).Scan(&there); err != nil {
		return s.Fail(ctx, "create slot", slot.Name, err)
	}
	if there {
		return &tidemark.Error{Kind: tidemark.Exists, Op: "create slot", Object: slot.Name, Err: errors.New("a slot of that name exists"), Hint: "Continue from it, or drop it first."}
	}
	if len(moves) > 0 {
		if err := s.publishable(ctx, tx, moves); err != nil {
			return err
		}
	}
	if err := s.makePublication(ctx, tx, slot, moves); err != nil {
		return err
	}
	return s.Fail(ctx, "create publication", slot.Publication, tx.Commit(ctx))
}

func (s *Source) makePublication(ctx context.Context, tx pgx.Tx, slot Slot, moves []tidemark.Move) error {
	name := server.QuoteIdent(slot.Publication)
	what := " FOR ALL TABLES"
	if len(moves) > 0 {
		what = ""
	}
	// Rows of partitions are sent under the name of the table that is copied.
	for _, sql := range []string{"DROP PUBLICATION IF EXISTS " + name, "CREATE PUBLICATION " + name + what + " WITH (publish_via_partition_root = true)"} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return s.FailGrant(ctx, "create publication", slot.Publication, err, "CREATE ON DATABASE "+server.QuoteIdent(s.Config.Database))
		}
	}
	return s.addTables(ctx, tx, slot, moves)
}

// addTables adds tables to a publication.
func (s *Source) addTables(ctx context.Context, tx pgx.Tx, slot Slot, moves []tidemark.Move) error {
	name := server.QuoteIdent(slot.Publication)
	filters := make([]string, len(moves))
	var plain []string
	for i := range moves {
		sql, err := bulk.FilterSQL(&moves[i])
		switch {
		case err != nil:
			return err
		case sql == "" || !s.FiltersRows():
			plain = append(plain, server.QuoteTable(moves[i].From.TableID))
			continue
		}
		filters[i] = " WHERE (" + sql + ")"
		if err := s.publishFiltered(ctx, tx, name, &moves[i], filters[i]); err != nil {
			return err
		}
	}
	if len(plain) > 0 {
		if _, err := tx.Exec(ctx, "ALTER PUBLICATION "+name+" ADD TABLE "+strings.Join(plain, ", ")); err != nil {
			return s.Fail(ctx, "create publication", slot.Publication, err)
		}
	}
	if !s.FiltersRows() {
		return nil
	}
	if err := s.filterable(ctx, tx, slot); err != nil {
		return err
	}
	if err := s.publishColumns(ctx, tx, slot, moves, filters); err != nil {
		return err
	}
	// The server rewrites filters in its own words, so ours are kept beside them.
	var comment string
	if err := tx.QueryRow(ctx, "SELECT coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = $1", slot.Publication).Scan(&comment); err != nil {
		return s.Fail(ctx, "create publication", slot.Publication, err)
	}
	said := map[string]string{}
	_ = json.Unmarshal([]byte(comment), &said) // a new publication has no comment
	for i := range moves {
		if filters[i] != "" {
			said[server.QuoteTable(moves[i].From.TableID)] = filters[i]
		}
	}
	text, err := json.Marshal(said)
	if err != nil {
		return s.Fail(ctx, "create publication", slot.Publication, err)
	}
	_, err = tx.Exec(ctx, "COMMENT ON PUBLICATION "+name+" IS "+server.QuoteLiteral(string(text)))
	return s.Fail(ctx, "create publication", slot.Publication, err)
}

// CheckPublication refuses to continue a stream whose publication has other rows or fewer columns
// of a table than the moves now select. Kind Unsupported.
func (s *Source) CheckPublication(ctx context.Context, slot Slot, moves []tidemark.Move) error {
	if !s.FiltersRows() {
		return nil
	}
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	rows, err := conn.Query(ctx, `SELECT n.nspname, c.relname, coalesce(obj_description(p.oid, 'pg_publication'), ''),
			coalesce((SELECT array_agg(a.attname::text) FROM pg_attribute a WHERE a.attrelid = r.prrelid AND a.attnum = ANY (r.prattrs)), '{}')
		FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE p.pubname = $1`, slot.Publication)
	if err != nil {
		return s.Fail(ctx, "follow", slot.Publication, err)
	}
	var comment string
	columns := map[string][]string{} // of tables with a column list
	var id tidemark.TableID
	var some []string
	_, err = pgx.ForEachRow(rows, []any{&id.Schema, &id.Name, &comment, &some}, func() error {
		columns[server.QuoteTable(id)] = slices.Clone(some)
		return nil
	})
	if err != nil {
		return s.Fail(ctx, "follow", slot.Publication, err)
	}
	said := map[string]string{}
	_ = json.Unmarshal([]byte(comment), &said) // one of an earlier version of this program has no comment, and no filters
	for i := range moves {
		m := &moves[i]
		table := server.QuoteTable(m.From.TableID)
		published, in := columns[table]
		filter, err := bulk.FilterSQL(m)
		if err != nil {
			return err
		}
		if filter != "" {
			filter = " WHERE (" + filter + ")"
		}
		if in && said[table] != filter {
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: table, Err: errors.New("its row filter has changed since the stream started, so the target lacks rows that it selects now"), Hint: "Restore the old rules, or copy again with --anew."}
		}
		for _, c := range m.Source {
			if len(published) > 0 && !slices.Contains(published, c) {
				return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: table, Err: errors.New("its column " + server.QuoteIdent(c) + " is not in the stream: when that began, the rules or the table did not have it"), Hint: "Leave the column out by the rules, or start over with --anew."}
			}
		}
	}
	return nil
}

// publishFiltered adds one table with its filter, and explains an error of the server.
func (s *Source) publishFiltered(ctx context.Context, tx pgx.Tx, publication string, m *tidemark.Move, filter string) error {
	_, err := tx.Exec(ctx, "ALTER PUBLICATION "+publication+" ADD TABLE "+server.QuoteTable(m.From.TableID)+filter)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "42") && pg.Code != "42501" || pg.Code == "0A000" || strings.HasPrefix(pg.Code, "22")) {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: server.QuoteTable(m.From.TableID), Err: errors.New("the server does not take its row filter for a publication: " + server.PlainCause(err)), Hint: "A stream's filter may use the table's own columns, constants, and built-in functions and types whose results never change; or leave the table out."}
	}
	return s.Fail(ctx, "create publication", publication, err)
}

// filterable refuses filters by columns outside the replica identity: the server would accept them,
// and then refuse updates and deletes of these tables.
func (s *Source) filterable(ctx context.Context, tx pgx.Tx, slot Slot) error {
	// A partition's own replica identity decides how its rows are identified.
	rows, err := tx.Query(ctx, `WITH RECURSIVE leaf AS (
			SELECT r.oid AS pub, r.prrelid AS root, r.prrelid AS rel FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = $1 AND r.prqual IS NOT NULL
			UNION ALL SELECT l.pub, l.root, i.inhrelid FROM leaf l JOIN pg_class c ON c.oid = l.rel AND c.relkind = 'p' JOIN pg_inherits i ON i.inhparent = l.rel)
		SELECT n.nspname, t.relname, string_agg(DISTINCT quote_ident(a.attname), ', ')
		FROM leaf l JOIN pg_class c ON c.oid = l.rel AND c.relkind = 'r' AND c.relreplident <> 'f' JOIN pg_class t ON t.oid = l.root JOIN pg_namespace n ON n.oid = t.relnamespace
		JOIN pg_depend d ON d.classid = 'pg_publication_rel'::regclass AND d.objid = l.pub AND d.refclassid = 'pg_class'::regclass AND d.refobjid = l.root AND d.refobjsubid > 0
		JOIN pg_attribute a ON a.attrelid = l.root AND a.attnum = d.refobjsubid
		WHERE NOT EXISTS (SELECT FROM `+identityColumns+` AND k.attname = a.attname)
		GROUP BY 1, 2 ORDER BY 1, 2`, slot.Publication)
	if err != nil {
		return s.Fail(ctx, "create publication", slot.Publication, err)
	}
	var schema, name, columns string
	var first *tidemark.Error
	var tables []string
	_, err = pgx.ForEachRow(rows, []any{&schema, &name, &columns}, func() error {
		table := server.QuoteTable(tidemark.TableID{Schema: schema, Name: name})
		tables = append(tables, table)
		if first == nil {
			first = &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: table, Err: errors.New("its row filter uses " + columns + ", which the replica identity does not have: once it is published, its updates and deletes would fail on the source"), Hint: "On the source: ALTER TABLE " + table + " REPLICA IDENTITY FULL; or filter by columns of its key, or leave the table out."}
		}
		return nil
	})
	if err != nil {
		return s.Fail(ctx, "create publication", slot.Publication, err)
	}
	if first != nil {
		first.Err = fmt.Errorf("%w%s", first.Err, AndMore(tables))
		return first
	}
	return nil
}

// identityColumns are the columns k of the replica identity of the table c, if that is not all
// columns.
const identityColumns = `pg_index x JOIN pg_attribute k ON k.attrelid = x.indrelid AND k.attnum = ANY ((x.indkey::int2[])[0:x.indnkeyatts - 1])
	WHERE x.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN x.indisprimary ELSE x.indisreplident END`

// publishColumns leaves out columns that the moves do not select. The replica identity has to stay;
// if that is all columns, the server does not allow leaving out any.
func (s *Source) publishColumns(ctx context.Context, tx pgx.Tx, slot Slot, moves []tidemark.Move, filters []string) error {
	for i := range moves {
		m := &moves[i]
		stored := m.From.Stored()
		if len(m.Source) >= len(stored) {
			continue
		}
		var whole bool
		var identity []string
		err := tx.QueryRow(ctx, `WITH RECURSIVE leaf AS (
				SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
				UNION ALL SELECT i.inhrelid FROM leaf l JOIN pg_inherits i ON i.inhparent = l.oid JOIN pg_class p ON p.oid = l.oid AND p.relkind = 'p')
			SELECT coalesce(bool_or(c.relkind = 'r' AND c.relreplident = 'f'), false),
				coalesce((SELECT array_agg(DISTINCT k.attname::text) FROM leaf l JOIN pg_class c ON c.oid = l.oid AND c.relkind = 'r', LATERAL (SELECT k.attname FROM `+identityColumns+`) k), '{}')
			FROM leaf l JOIN pg_class c ON c.oid = l.oid`, m.From.Schema, m.From.Name).Scan(&whole, &identity)
		if err != nil {
			return s.Fail(ctx, "create publication", slot.Publication, err)
		}
		var columns []string
		for _, c := range stored {
			if slices.Contains(m.Source, c.Name) || slices.Contains(identity, c.Name) {
				columns = append(columns, c.Name)
			}
		}
		if whole || len(columns) == len(stored) {
			continue
		}
		table := server.QuoteTable(m.From.TableID)
		for _, sql := range []string{" DROP TABLE " + table, " ADD TABLE " + table + " (" + server.QuoteIdents(columns) + ")" + filters[i]} {
			if _, err := tx.Exec(ctx, "ALTER PUBLICATION "+server.QuoteIdent(slot.Publication)+sql); err != nil {
				return s.Fail(ctx, "create publication", slot.Publication, err)
			}
		}
	}
	return nil
}

// filtered returns an empty map (see sift) if the publication has row filters, else nil.
func (s *Source) filtered(ctx context.Context, slot Slot) (map[uint32]tidemark.TableID, error) {
	if !s.FiltersRows() {
		return nil, nil
	}
	conn, release, err := s.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var yes bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid WHERE p.pubname = $1 AND r.prqual IS NOT NULL)", slot.Publication).Scan(&yes)
	if err != nil || !yes {
		return nil, s.Fail(ctx, "follow", slot.Publication, err)
	}
	return map[uint32]tidemark.TableID{}, nil
}

// sift remembers the names of tables, and refuses an insert that lacks values: one that the server
// made from an update that moves a row into the filter, if an out-of-line value was not modified
// and is not in the replica identity.
func (s *Stream) sift(m []byte) error {
	c, err := change.Parse(m)
	if err != nil {
		return err
	}
	if c.Kind == tidemark.RelationChange {
		r, err := change.ParseRelation(c.Body)
		s.filtered[r.ID] = r.Table
		return err
	}
	if slices.ContainsFunc(c.New.Values(nil), func(v change.Value) bool { return v.Kind == change.UnchangedValue }) {
		table := server.QuoteTable(s.filtered[c.Table])
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: table, Err: errors.New("an update moved a row into the row filter, and the log does not have all of it: a value stored out of line (TOAST) did not change"), Hint: "On the source: ALTER TABLE " + table + " REPLICA IDENTITY FULL; then start over with --anew."}
	}
	return nil
}
