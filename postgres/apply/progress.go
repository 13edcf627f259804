package apply

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// ApplyFindings reports what to expect of a stream into these tables, whose foreign keys have to
// act or not.
func (t *Target) ApplyFindings(ctx context.Context, tables []*tidemark.Table, cascades bool) ([]tidemark.Finding, error) {
	conn, release, err := t.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	hint := "Disable them until the cutover, where they write what the source writes: ALTER TABLE ... DISABLE TRIGGER ..."
	if !cascades {
		hint = fmt.Sprintf("As a superuser, on PostgreSQL 15 or later: GRANT SET ON PARAMETER session_replication_role TO %s; or disable them.", server.QuoteIdent(t.Config.User))
		if may, err := server.MayBeReplica(ctx, conn); may || err != nil {
			return nil, t.Fail(ctx, "check", t.Object, err)
		}
	}
	var schemas, names []string
	for _, x := range tables {
		schemas, names = append(schemas, x.Schema), append(names, x.Name)
	}
	rows, err := conn.Query(ctx, `SELECT DISTINCT n.nspname || '.' || c.relname FROM unnest($1::text[], $2::text[]) w(s, t) JOIN pg_namespace n ON n.nspname = w.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t
		JOIN pg_trigger g ON g.tgrelid = c.oid JOIN pg_proc p ON p.oid = g.tgfoid
		WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A') AND strpos(p.prosrc, $3) = 0 ORDER BY 1`, schemas, names, server.StreamSetting)
	if err != nil {
		return nil, t.Fail(ctx, "check", t.Object, err)
	}
	fire, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(fire) == 0 {
		return nil, t.Fail(ctx, "check", t.Object, err)
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: "triggers",
		Text: "the target's triggers fire for the stream's changes, which already contain what the source's triggers did: " + tidemark.Some(fire, 5),
		Hint: hint}}, nil
}

// Applied returns how far each stream into this database is applied.
func (t *Target) Applied(ctx context.Context) (map[string]change.Progress, error) {
	conn, release, err := t.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", progressTable).Scan(&there); err != nil || !there {
		return nil, t.Fail(ctx, "read progress", progressTable, err)
	}
	rows, err := conn.Query(ctx, "SELECT queue, max(epoch), max(low) FROM tidemark.applied GROUP BY queue")
	if err != nil {
		return nil, t.Fail(ctx, "read progress", progressTable, err)
	}
	out := map[string]change.Progress{}
	var queue string
	var epoch, low int64
	_, err = pgx.ForEachRow(rows, []any{&queue, &epoch, &low}, func() error {
		out[queue] = change.Progress{Epoch: epoch, Low: uint64(low)}
		return nil
	})
	return out, t.Fail(ctx, "read progress", progressTable, err)
}

// EndApply deletes the progress of a stream. The last stream drops the rest of the progress table.
func (t *Target) EndApply(ctx context.Context, queue string) error {
	conn, release, err := t.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", progressTable).Scan(&there); err != nil || !there {
		return t.Fail(ctx, "end apply", queue, err)
	}
	if _, err := conn.Exec(ctx, "DELETE FROM tidemark.applied WHERE queue = $1", queue); err != nil {
		return t.Fail(ctx, "end apply", queue, err)
	}
	_, err = conn.Exec(ctx, `DO $$ BEGIN LOCK TABLE tidemark.applied;
		IF NOT EXISTS (SELECT FROM tidemark.applied) THEN DROP TABLE tidemark.applied; END IF;
		IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = 'tidemark'::regnamespace) THEN DROP SCHEMA tidemark; END IF; END $$`)
	return t.Fail(ctx, "end apply", queue, err)
}
