package apply

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Vacate empties a table, even if others reference it, and renames the constraint of its primary
// key to key, unless that is empty. Indexes of other tables among these that have one of names get
// another name: two tables that exchange their names exchange the names of their keys, too. Kind
// Forbidden: others reference it, and the user may not disable what that leads to.
func (t *Target) Vacate(ctx context.Context, table tidemark.TableID, key string, names []string, others []tidemark.TableID) error {
	conn, release, err := t.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	name := server.QuoteTable(table)
	if _, err := conn.Exec(ctx, emptying(table), pgx.QueryExecModeSimpleProtocol); err != nil {
		return t.Fail(ctx, "empty", name, err)
	}
	if err := free(ctx, conn, name, names, others); err != nil || key == "" {
		return t.Fail(ctx, "rename keys in the way of", name, err)
	}
	const named = "SELECT coalesce(max(conname), '') FROM pg_catalog.pg_constraint WHERE contype = 'p' AND conrelid = $1::text::regclass AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relname = $2 AND c.relnamespace = connamespace)"
	var is string
	if err := conn.QueryRow(ctx, named, name, key).Scan(&is); err != nil || is == "" {
		return t.Fail(ctx, "rename the key of", name, err)
	}
	_, err = conn.Exec(ctx, "ALTER TABLE "+name+" RENAME CONSTRAINT "+server.QuoteIdent(is)+" TO "+server.QuoteIdent(key))
	return t.Fail(ctx, "rename the key of", name, err)
}

// free renames indexes of others that have one of names in the schema of a table. A name with an
// OID is nobody's.
func free(ctx context.Context, conn *pgx.Conn, table string, names []string, others []tidemark.TableID) error {
	var quoted []string
	for _, id := range others {
		quoted = append(quoted, server.QuoteTable(id))
	}
	const taken = `SELECT i.oid::regclass::text, left(i.relname, 50) || '_' || i.oid FROM pg_catalog.pg_class i JOIN pg_catalog.pg_index x ON x.indexrelid = i.oid
		WHERE i.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = $1::text::regclass) AND i.relname = ANY ($2)
		AND x.indrelid <> $1::text::regclass AND x.indrelid IN (SELECT to_regclass(o) FROM unnest($3::text[]) o)`
	rows, err := conn.Query(ctx, taken, table, names, quoted)
	if err != nil {
		return err
	}
	var sql []string
	var is, to string
	if _, err := pgx.ForEachRow(rows, []any{&is, &to}, func() error {
		sql = append(sql, "ALTER INDEX "+is+" RENAME TO "+server.QuoteIdent(to))
		return nil
	}); err != nil {
		return err
	}
	for _, one := range sql {
		if _, err := conn.Exec(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// emptying empties a table that is to be reloaded, even if other tables reference its rows: the
// rows return in the end. TRUNCATE is faster, but refuses referenced tables.
func emptying(table tidemark.TableID) string {
	name := server.QuoteTable(table)
	return `DO $tidemark$ DECLARE was text := pg_catalog.current_setting('session_replication_role'); BEGIN
		IF NOT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid = ` + server.QuoteLiteral(name) + `::regclass AND conrelid <> confrelid) THEN TRUNCATE ` + name + `;
		ELSE
			BEGIN PERFORM pg_catalog.set_config('session_replication_role', 'replica', true);
			EXCEPTION WHEN insufficient_privilege THEN
				RAISE insufficient_privilege USING MESSAGE = 'other tables reference ' || ` + server.QuoteLiteral(name) + ` || ', and the user may not set session_replication_role';
			END;
			DELETE FROM ` + name + `;
			PERFORM pg_catalog.set_config('session_replication_role', was, true);
		END IF; END $tidemark$`
}
