package bulk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// The marker table. A row says that a range of a run is completely on this target; it is committed
// together with the range's rows. Range 0 stands for the run itself, so that nobody drops the table
// between two of its ranges; its rows column counts how often the run was started or resumed: the
// epoch.
const (
	markerTable = "tidemark.copied"
	markerDDL   = `CREATE TABLE IF NOT EXISTS tidemark.copied (run text, range int, rows bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(),
		PRIMARY KEY (run, range))`
)

// Begin creates the marker table if it is missing, and begins a new epoch of the run.
//
// A killed process may have sent the end of a range, commit included, that the server is still
// executing. So each range's transaction, as its last act before the marker, checks whether its
// epoch is current, and locks the epoch until it ends: Begin waits for transactions that have
// checked, and later ones are refused. So after Begin, Marks returns all that earlier epochs will
// ever have.
func (b *Bulk) Begin(ctx context.Context, run string) error {
	conn, release, err := b.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	for try := 0; ; try++ {
		err = b.begin(ctx, conn, run)
		// Two runs may create it at the same moment, or one may drop it as the other begins: the
		// loser retries.
		switch server.SQLState(err) {
		case "23505", "42P06", "42P07", "42710", "42P01", "3F000", "XX000":
			if try < 5 {
				continue
			}
		}
		return b.FailGrant(ctx, "make marker table", markerTable, err, "CREATE ON DATABASE "+server.QuoteIdent(b.Config.Database))
	}
}

func (b *Bulk) begin(ctx context.Context, conn *pgx.Conn, run string) error {
	var table, schema, fenced bool
	err := conn.QueryRow(ctx, `SELECT to_regclass('tidemark.copied') IS NOT NULL, to_regnamespace('tidemark') IS NOT NULL, `+server.FencedSQL).Scan(&table, &schema, &fenced)
	if err != nil {
		return err
	}
	if fenced {
		return b.Fenced()
	}
	var sql []string
	if !schema {
		sql = append(sql, "CREATE SCHEMA IF NOT EXISTS tidemark")
	}
	if !table {
		sql = append(sql, markerDDL)
	}
	if len(sql) > 0 {
		if _, err := conn.Exec(ctx, strings.Join(sql, "; "), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	var epoch int64
	err = conn.QueryRow(ctx, `INSERT INTO tidemark.copied AS c (run, range, rows) VALUES ($1, 0, 1)
		ON CONFLICT (run, range) DO UPDATE SET rows = c.rows + 1 RETURNING rows`, run).Scan(&epoch)
	if err != nil {
		return err
	}
	b.target.mu.Lock()
	defer b.target.mu.Unlock()
	if b.target.epochs == nil {
		b.target.epochs = map[string]int64{}
	}
	b.target.epochs[run] = epoch
	return nil
}

// fenceSQL returns the check of the epoch: a division by zero once it is outdated.
func (b *Bulk) fenceSQL(run string) string {
	b.target.mu.Lock()
	defer b.target.mu.Unlock()
	epoch, ok := b.target.epochs[run]
	if !ok {
		return "" // this Engine has not begun the run
	}
	return fmt.Sprintf("SELECT 1 / count(*) FROM (SELECT FROM tidemark.copied WHERE run = %s AND range = 0 AND rows = %d FOR SHARE) s; ", server.QuoteLiteral(run), epoch)
}

// superseded checks, without locking, whether a newer epoch exists of a run that this Engine has
// begun.
func (b *Bulk) superseded(ctx context.Context, run string) bool {
	b.target.mu.Lock()
	epoch, begun := b.target.epochs[run]
	b.target.mu.Unlock()
	if !begun || ctx.Err() != nil {
		return false
	}
	conn, release, err := b.Control(ctx)
	if err != nil {
		return false
	}
	defer release()
	var now int64
	err = conn.QueryRow(ctx, "SELECT rows FROM tidemark.copied WHERE run = $1 AND range = 0", run).Scan(&now)
	if err != nil { // without the row, or the table, another process has ended the run
		return errors.Is(err, pgx.ErrNoRows) || server.SQLState(err) == "42P01" || server.SQLState(err) == "3F000"
	}
	return now != epoch
}

// takenOver is the error of a range whose epoch is outdated.
func takenOver(run string) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "write", Object: "run " + run, Err: errors.New("another process has taken over this run"), Hint: "End one of the two processes, then resume."}
}

// Marks lists the ranges of a run that are on the target, in order.
func (b *Bulk) Marks(ctx context.Context, run string) ([]tidemark.Mark, error) {
	conn, release, err := b.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	marks, err := marksOf(ctx, conn, run, nil)
	if server.SQLState(err) == "42P01" || server.SQLState(err) == "3F000" {
		return nil, nil // no table, no marks
	}
	return marks, b.markFailed(ctx, err)
}

// marksOf returns the marks of these ranges, nil for all of the run, in order.
func marksOf(ctx context.Context, conn *pgx.Conn, run string, ranges []int) ([]tidemark.Mark, error) {
	rows, err := conn.Query(ctx, "SELECT range, rows FROM tidemark.copied WHERE run = $1 AND range > 0 AND ($2::int[] IS NULL OR range = ANY ($2)) ORDER BY range", run, ranges)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[tidemark.Mark])
}

func (b *Bulk) markFailed(ctx context.Context, err error) error {
	return b.FailGrant(ctx, "read marker table", markerTable, err, "SELECT, INSERT, UPDATE, DELETE ON TABLE "+markerTable)
}

// Forget removes marks; nil means all of the run, and then also the marker table and its schema if
// nothing else is in them. Its commit is synchronous, so all earlier commits are on disk too.
func (b *Bulk) Forget(ctx context.Context, run string, ranges []int) error {
	conn, release, err := b.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	b.forgetCommits(run, ranges)
	if ranges != nil {
		_, err := conn.Exec(ctx, "DELETE FROM tidemark.copied WHERE run = $1 AND range = ANY ($2)", run, ranges)
		return b.markFailed(ctx, err)
	}
	// The lock keeps another run from beginning between the check and the drop.
	return b.markFailed(ctx, server.DropRows(ctx, conn, markerTable, "LOCK TABLE "+markerTable+" IN ACCESS EXCLUSIVE MODE", "run = "+server.QuoteLiteral(run), "true"))
}

// clearChunk is the most tables that one statement clears, and so the most locks that it holds;
// tables connected by foreign keys are cleared together, whatever their number.
const clearChunk = 500

// Clear empties tables, or drops them. Tables that reference a cleared table must be cleared as
// well; anything else that depends on it is kept, and is an error of Kind NotEmpty that names it.
// Views among the tables are dropped with them, the last one first.
func (b *Bulk) Clear(ctx context.Context, tables []tidemark.TableID, drop bool) error {
	conn, release, err := b.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	groups, views, err := b.clearGroups(ctx, conn, tables)
	if err != nil {
		return err
	}
	for i, g := range groups {
		sql := "TRUNCATE TABLE " + strings.Join(g, ", ")
		if drop {
			sql = "DROP TABLE IF EXISTS " + strings.ReplaceAll(strings.Join(g, ", "), "ONLY ", "")
			if i == 0 {
				sql = strings.Join(append(views, sql), "; ") // in one transaction
			}
		}
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return b.clearFailed(ctx, g, drop, err)
		}
	}
	for _, t := range tables {
		if t == schema.LargeObjects {
			return b.clearLargeObjects(ctx, conn)
		}
	}
	return nil
}

// clearGroups returns the tables that exist, quoted, in groups for one statement each: the first
// contains all tables with foreign keys. It also returns the statements that drop views.
func (b *Bulk) clearGroups(ctx context.Context, conn *pgx.Conn, tables []tidemark.TableID) (groups [][]string, views []string, _ error) {
	schemas, names := server.ByName(tables)
	rows, err := conn.Query(ctx, `SELECT w.n, c.relkind::text, c.relkind = 'p' OR EXISTS (SELECT 1 FROM pg_constraint f WHERE f.contype = 'f' AND c.oid IN (f.conrelid, f.confrelid))
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, n)
		JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
		WHERE c.relkind IN ('r', 'p', 'v', 'm') AND c.oid <> 'pg_largeobject'::regclass ORDER BY w.n`, schemas, names)
	if err != nil {
		return nil, nil, b.Fail(ctx, "clear", b.Object, err)
	}
	var bound, free []string
	for rows.Next() {
		var n int
		var kind string
		var connected bool
		if err := rows.Scan(&n, &kind, &connected); err != nil {
			return nil, nil, b.Fail(ctx, "clear", b.Object, err)
		}
		name := server.QuoteTable(tables[n-1])
		switch kind {
		case "v":
			views = append([]string{"DROP VIEW " + name}, views...)
			continue
		case "m":
			views = append([]string{"DROP MATERIALIZED VIEW " + name}, views...)
			continue
		case "r":
			name = "ONLY " + name // children by inheritance are separate tables
		}
		if connected {
			bound = append(bound, name)
		} else {
			free = append(free, name)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, nil, b.Fail(ctx, "clear", b.Object, err)
	}
	if len(bound) > 0 {
		groups = append(groups, bound)
	}
	for len(free) > 0 {
		n := min(clearChunk, len(free))
		groups = append(groups, free[:n])
		free = free[n:]
	}
	return groups, views, nil
}

func (b *Bulk) clearFailed(ctx context.Context, group []string, drop bool, err error) error {
	object := strings.TrimPrefix(group[0], "ONLY ")
	if len(group) > 1 {
		object += fmt.Sprintf(" and %d more tables", len(group)-1)
	}
	op, grant := "truncate", "TRUNCATE ON TABLE "+strings.ReplaceAll(strings.Join(group[:min(3, len(group))], ", "), "ONLY ", "")
	if drop {
		op, grant = "drop", ""
	}
	out := b.FailGrant(ctx, op, object, err, grant)
	if s := server.SQLState(err); s == "2BP01" || s == "0A000" {
		if te, ok := out.(*tidemark.Error); ok {
			te.Kind, te.Hint = tidemark.NotEmpty, "Something that is not part of the copy depends on these tables: drop it first, or copy it too."
			if drop {
				te.Hint = "Views, or tables that are not part of the copy, depend on these tables: drop them first, or choose --prep truncate."
			}
		}
	}
	return out
}

// clearLargeObjects removes large objects in transactions that hold a bounded number of locks.
func (b *Bulk) clearLargeObjects(ctx context.Context, conn *pgx.Conn) error {
	for {
		var n int64
		err := conn.QueryRow(ctx, "SELECT count(lo_unlink(oid)) FROM (SELECT oid FROM pg_largeobject_metadata ORDER BY oid LIMIT 1000) s").Scan(&n)
		if err != nil || n == 0 {
			return b.Fail(ctx, "drop", "large objects", err)
		}
	}
}
