package stream

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// entrySQL describes tables as a publication has them. A table that was removed and added again
// has another entry; row filters, column lists and what the publication sends are part of it. The
// changes of a partition come under the name of its topmost published parent.
const entrySQL = `SELECT n.nspname, c.relname, c.oid, CASE WHEN p.oid IS NULL OR r.oid IS NULL AND NOT p.puballtables THEN ''
		ELSE concat_ws(' ', coalesce(r.oid::text, 'all'), p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, p.pubviaroot,
			hashtextextended(concat(to_jsonb(r) ->> 'prqual', '/', to_jsonb(r) ->> 'prattrs'), 0)) END,
	coalesce(u.nspname, ''), coalesce(u.relname, '')
	FROM unnest($2::text[], $3::text[]) w (s, t) JOIN pg_namespace n ON n.nspname = w.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t
	LEFT JOIN pg_publication p ON p.pubname = $1 LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
	LEFT JOIN LATERAL (SELECT un.nspname, uc.relname FROM pg_partition_ancestors(c.oid) WITH ORDINALITY a (relid, level) JOIN pg_publication_rel ur ON ur.prpubid = p.oid AND ur.prrelid = a.relid
		JOIN pg_class uc ON uc.oid = a.relid JOIN pg_namespace un ON un.oid = uc.relnamespace
		WHERE c.relispartition AND p.pubviaroot AND a.relid <> c.oid ORDER BY a.level DESC LIMIT 1) u ON true`

// Published returns how a slot's publication has tables; missing tables are left out.
func (s *Source) Published(ctx context.Context, slot Slot, tables []tidemark.TableID) (map[tidemark.TableID]change.Published, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	schemas, names := make([]string, len(tables)), make([]string, len(tables))
	for i, id := range tables {
		schemas[i], names[i] = id.Schema, id.Name
	}
	rows, err := conn.Query(ctx, entrySQL, slot.Publication, schemas, names)
	out := map[tidemark.TableID]change.Published{}
	if err == nil {
		var id tidemark.TableID
		var x change.Published
		_, err = pgx.ForEachRow(rows, []any{&id.Schema, &id.Name, &x.ID, &x.As, &x.Under.Schema, &x.Under.Name}, func() error {
			out[id] = x
			return nil
		})
	}
	return out, s.Fail(ctx, "look at", "publication "+slot.Publication, err)
}

// Withdraw removes a table from a slot's publication, if it is there, so that AddToSlot adds it as
// it should be, and lets the publication send all kinds of changes.
func (s *Source) Withdraw(ctx context.Context, slot Slot, table tidemark.TableID) error {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	name := server.QuoteIdent(slot.Publication)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var there bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid
			JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1 AND n.nspname = $2 AND c.relname = $3)`, slot.Publication, table.Schema, table.Name).Scan(&there)
		if err == nil && there {
			_, err = tx.Exec(ctx, "ALTER PUBLICATION "+name+" DROP TABLE "+server.QuoteTable(table))
		}
		if err == nil {
			_, err = tx.Exec(ctx, "ALTER PUBLICATION "+name+" SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)")
		}
		return err
	})
	return s.Fail(ctx, "publish", slot.Publication, err)
}
