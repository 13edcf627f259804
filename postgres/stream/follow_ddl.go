package stream

import (
	"bytes"
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
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A DDLLog writes changed definitions into the log, for the stream of a slot: PostgreSQL's own log
// lacks them. It consists of two event triggers and a function in its own schema, whose comment
// lists the streams that use it.
type DDLLog struct {
	Source *Source
	Slot   Slot
}

const ddlLock = 0x7469646564646c // "tideddl"

// loggedSQL is a LoggedDefinition of the table c, in JSON; its function reads catalogues only. It
// locks no other table: partition bounds are expressions without a table.
func loggedSQL(major int) string {
	virtual := "false"
	if major >= 18 {
		virtual = "a.attgenerated = 'v'"
	}
	return `json_build_object('table', json_build_object('schema', n.nspname, 'name', c.relname, 'id', c.oid::bigint, 'parted', c.relkind = 'p',
	'columns', (SELECT json_agg(json_build_object('number', a.attnum, 'name', a.attname, 'not_null', a.attnotnull, 'type', a.atttypid::bigint, 'mod', a.atttypmod,
		'native', format_type(a.atttypid, a.atttypmod), 'collation', ` + schema.DefinedCollationSQL + `, 'identity', a.attidentity <> '', 'virtual', ` + virtual + `,
		'default', CASE WHEN a.attgenerated = '' THEN coalesce(pg_get_expr(d.adbin, d.adrelid), '') ELSE '' END,
		'generated', CASE WHEN a.attgenerated <> '' THEN coalesce(pg_get_expr(d.adbin, d.adrelid), '') ELSE '' END,
		'missing', (SELECT (m.attmissingval::text::text[])[1] FROM pg_attribute m
			WHERE m.attrelid IN (SELECT c.oid UNION SELECT t.relid FROM pg_partition_tree(c.oid) t) AND m.attname = a.attname AND m.atthasmissing LIMIT 1)) ORDER BY a.attnum)
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
	'parts', (WITH RECURSIVE tree AS (
			SELECT c.oid AS rel, 0::oid AS parent, 0 AS level, ''::text AS link, NULL::xid AS xmin WHERE c.relkind = 'p'
			UNION ALL SELECT i.inhrelid, i.inhparent, tree.level + 1, i.xmin::text, i.xmin
			FROM tree JOIN pg_class p ON p.oid = tree.rel AND p.relkind = 'p' JOIN pg_inherits i ON i.inhparent = tree.rel)
		SELECT json_agg(json_build_object('id', k.oid::bigint, 'table', json_build_object('schema', kn.nspname, 'name', k.relname), 'of', json_build_object('schema', pn.nspname, 'name', p.relname),
			'bound', coalesce(pg_get_expr(k.relpartbound, 0), ''), 'by', CASE WHEN k.relkind = 'p' THEN pg_get_partkeydef(k.oid) ELSE '' END, 'link', tree.link,
			'fresh', k.oid = ANY (empty) OR y.xmin = tree.xmin AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = k.oid AND a.attnum > 0 AND a.xmin = y.xmin AND a.cmin = y.cmin),
			'file', CASE WHEN k.relkind = 'r' THEN coalesce(pg_relation_filenode(k.oid), 0)::bigint ELSE 0 END) ORDER BY tree.level, k.oid)
		FROM tree JOIN pg_class k ON k.oid = tree.rel JOIN pg_namespace kn ON kn.oid = k.relnamespace JOIN pg_class p ON p.oid = tree.parent
		JOIN pg_namespace pn ON pn.oid = p.relnamespace JOIN pg_type y ON y.oid = k.reltype WHERE tree.level > 0),
	'labels', (SELECT json_agg(json_build_object('id', l.oid, 'type', l.type, 'column', l.col, 'text', l.enumlabel) ORDER BY l.typ, l.enumsortorder) FROM (
		SELECT e.oid::bigint AS oid, y.oid AS typ, format('%I.%I', yn.nspname, y.typname) AS type, min(a.attname) AS col, e.enumlabel, e.enumsortorder
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type y ON y.oid IN (t.oid, t.typelem, t.typbasetype) AND y.typtype = 'e'
		JOIN pg_namespace yn ON yn.oid = y.typnamespace JOIN pg_enum e ON e.enumtypid = y.oid
		WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped GROUP BY e.oid, y.oid, yn.nspname, y.typname, e.enumlabel, e.enumsortorder) l)),
	'cast', plain)`
}

// publishedSQL is the condition that the table c is in a stream.
func publishedSQL(major int) string {
	schemas := ""
	if major >= 15 {
		schemas = " OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)"
	}
	return `EXISTS (SELECT FROM pg_publication p WHERE p.pubname ~ '^tidemark_'
		AND (p.puballtables OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)` + schemas + `))`
}

// padPrefix marks an empty message. The server sorts a message by where it ends, which is where the
// next record begins; if one of the two belongs to a subtransaction, a row that follows could come
// first.
const padPrefix = "tidemark.pad"

// functionSQL creates the function. It runs with the rights of the user who changes a definition,
// and reads only what everybody may read, except whether a table is empty that its owner attaches.
// An error in it does not fail the user's statement.
func functionSQL(major int) string {
	return `CREATE FUNCTION ` + schema.DDLSchema + `.tell() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS $tidemark$
DECLARE
	roots oid[]; empty oid[] := '{}'; plain boolean; stack text; part record; none boolean; message json; gone json;
BEGIN
	GET DIAGNOSTICS stack = PG_CONTEXT;
	plain := current_query() !~* '\musing\M' AND strpos(stack, chr(10)) = 0;
	IF TG_EVENT = 'sql_drop' THEN
		SELECT json_agg(x.objid::bigint) INTO gone FROM pg_event_trigger_dropped_objects() x WHERE x.classid = 'pg_class'::regclass AND x.objsubid = 0 AND x.object_type = 'table' AND NOT x.is_temporary;
		IF gone IS NOT NULL THEN
			PERFORM pg_logical_emit_message(true, '` + change.DefinitionPrefix + `', json_build_object('dropped', gone)::text);
			PERFORM pg_logical_emit_message(true, '` + padPrefix + `', '');
		END IF;
		SELECT array_agg(x.objid) INTO roots FROM pg_event_trigger_dropped_objects() x
		WHERE TG_TAG <> 'ALTER TABLE' AND x.classid = 'pg_class'::regclass AND x.objsubid > 0 AND NOT x.is_temporary;
	ELSE
		SELECT array_agg(x.objid) INTO roots FROM pg_event_trigger_ddl_commands() x WHERE x.classid = 'pg_class'::regclass AND x.schema_name !~ '^pg_temp';
		FOR message IN SELECT json_build_object('labels', json_build_object('type', format('%I.%I', n.nspname, t.typname),
				'labels', json_agg(json_build_object('id', e.oid::bigint, 'text', e.enumlabel) ORDER BY e.enumsortorder)))
			FROM pg_event_trigger_ddl_commands() x JOIN pg_type t ON x.classid = 'pg_type'::regclass AND t.oid = x.objid AND x.command_tag = 'ALTER TYPE'
			JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_enum e ON e.enumtypid = t.oid WHERE n.nspname !~ '^pg_temp' GROUP BY n.nspname, t.typname
		LOOP
			PERFORM pg_logical_emit_message(true, '` + change.DefinitionPrefix + `', message::text);
			PERFORM pg_logical_emit_message(true, '` + padPrefix + `', '');
		END LOOP;
	END IF;
	IF roots IS NULL THEN
		RETURN;
	END IF;
	SELECT array_agg(DISTINCT u.root) INTO roots FROM (
		SELECT coalesce((SELECT a.relid FROM pg_partition_ancestors(x) WITH ORDINALITY a (relid, n) ORDER BY a.n DESC LIMIT 1), x)::oid AS root FROM unnest(roots) x) u
	JOIN pg_class c ON c.oid = u.root AND c.relkind IN ('r', 'p') WHERE ` + publishedSQL(major) + `;
	IF roots IS NULL THEN
		RETURN;
	END IF;
	-- What was attached just now, in a statement that sees all rows, may be empty.
	IF TG_EVENT = 'ddl_command_end' AND TG_TAG = 'ALTER TABLE' AND current_setting('transaction_isolation') = 'read committed' THEN
		FOR part IN SELECT i.inhrelid AS oid FROM unnest(roots) x, pg_partition_tree(x) t JOIN pg_inherits i ON i.inhrelid = t.relid JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind IN ('r', 'p')
			WHERE i.xmin::text = mod(pg_current_xact_id()::text::numeric, 4294967296)::text
		LOOP
			BEGIN
				EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s)', part.oid::regclass) INTO none;
			EXCEPTION WHEN OTHERS THEN
				none := false;
			END;
			IF none THEN
				empty := empty || part.oid;
			END IF;
		END LOOP;
	END IF;
	FOR message IN SELECT ` + loggedSQL(major) + ` FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (roots)
	LOOP
		PERFORM pg_logical_emit_message(true, '` + change.DefinitionPrefix + `', message::text);
		PERFORM pg_logical_emit_message(true, '` + padPrefix + `', '');
	END LOOP;
EXCEPTION WHEN OTHERS THEN
	RAISE WARNING 'tidemark cannot write this change into the log, and will stop the tables of it: %', SQLERRM;
END
$tidemark$`
}

// Keep makes the log contain definitions, for this stream too. It does nothing if it already does.
// Kind Unsupported before version 14; Forbidden if the server does not allow it.
func (d DDLLog) Keep(ctx context.Context) error {
	e := d.Source
	if e.Major < 14 {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow DDL", Object: e.Object, Err: errors.New("PostgreSQL 13 does not send the messages in its log to a stream"), Hint: "Leave out --follow-ddl: the stream then reads the catalogue."}
	}
	if kept, err := d.Kept(ctx); err != nil || kept {
		return err
	}
	return d.change(ctx, func(tx pgx.Tx, streams []string) error {
		for _, sql := range []string{
			"CREATE SCHEMA IF NOT EXISTS " + schema.DDLSchema,
			"DROP EVENT TRIGGER IF EXISTS tidemark_ddl_end", "DROP EVENT TRIGGER IF EXISTS tidemark_ddl_drop",
			"DROP FUNCTION IF EXISTS " + schema.DDLSchema + ".tell()",
			functionSQL(e.Major),
			"CREATE EVENT TRIGGER tidemark_ddl_end ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'ALTER TYPE', 'CREATE SCHEMA', 'CREATE EXTENSION', 'ALTER EXTENSION') EXECUTE FUNCTION " + schema.DDLSchema + ".tell()",
			"CREATE EVENT TRIGGER tidemark_ddl_drop ON sql_drop EXECUTE FUNCTION " + schema.DDLSchema + ".tell()",
			"ALTER EVENT TRIGGER tidemark_ddl_end ENABLE ALWAYS", "ALTER EVENT TRIGGER tidemark_ddl_drop ENABLE ALWAYS",
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return d.failed(ctx, err)
			}
		}
		if err := d.owned(ctx, tx); err != nil {
			return err
		}
		return d.note(ctx, tx, append(streams, d.Slot.Name))
	})
}

// owned refuses a schema that another user has created: its other contents are unknown.
func (d DDLLog) owned(ctx context.Context, tx pgx.Tx) error {
	var owner string
	err := tx.QueryRow(ctx, `SELECT coalesce((SELECT r.rolname FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
		WHERE n.nspname = $1 AND NOT r.rolsuper AND r.rolname <> current_user), '')`, schema.DDLSchema).Scan(&owner)
	if err == nil && owner != "" {
		return &tidemark.Error{Kind: tidemark.Forbidden, Op: "follow DDL", Object: "schema " + schema.DDLSchema, Err: errors.New("belongs to " + owner + ", who is not a superuser"), Hint: "Drop it: the stream creates its own."}
	}
	return d.Source.Fail(ctx, "follow DDL", schema.DDLSchema, err)
}

// Kept reports whether definitions are in the log for this stream.
func (d DDLLog) Kept(ctx context.Context) (bool, error) {
	conn, release, err := d.Source.Control(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	var n int
	err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_event_trigger WHERE evtname IN ('tidemark_ddl_end', 'tidemark_ddl_drop') AND evtenabled <> 'D'").Scan(&n)
	if err != nil || n < 2 {
		return false, d.Source.Fail(ctx, "follow DDL", d.Source.Object, err)
	}
	streams, err := d.streams(ctx, conn)
	return slices.Contains(streams, d.Slot.Name), err
}

// Tell writes the current definitions of the stream's tables into the log.
func (d DDLLog) Tell(ctx context.Context) error {
	conn, release, err := d.Source.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	sql := strings.NewReplacer("ANY (empty)", "ANY ('{}')", "plain)", "false)").Replace(loggedSQL(d.Source.Major))
	_, err = conn.Exec(ctx, "SELECT count(pg_logical_emit_message(true, $2, ("+sql+`)::text)) FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
		JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1`, d.Slot.Publication, change.DefinitionPrefix)
	return d.Source.Fail(ctx, "follow DDL", d.Slot.Publication, err)
}

// Drop ends the logging for this stream, and removes it if this was the last.
func (d DDLLog) Drop(ctx context.Context) error {
	conn, release, err := d.Source.Control(ctx)
	if err != nil {
		return err
	}
	streams, err := d.streams(ctx, conn)
	release()
	if err != nil || !slices.Contains(streams, d.Slot.Name) {
		return err
	}
	return d.change(ctx, func(tx pgx.Tx, streams []string) error {
		if streams = slices.DeleteFunc(streams, func(s string) bool { return s == d.Slot.Name }); len(streams) > 0 {
			return d.note(ctx, tx, streams)
		}
		for _, sql := range []string{"DROP EVENT TRIGGER IF EXISTS tidemark_ddl_end", "DROP EVENT TRIGGER IF EXISTS tidemark_ddl_drop",
			"DROP FUNCTION IF EXISTS " + schema.DDLSchema + ".tell()", "DROP SCHEMA IF EXISTS " + schema.DDLSchema} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return d.failed(ctx, err)
			}
		}
		return nil
	})
}

// change changes the triggers, the function or their comment, one stream at a time.
func (d DDLLog) change(ctx context.Context, do func(tx pgx.Tx, streams []string) error) error {
	conn, release, err := d.Source.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return d.Source.Fail(ctx, "follow DDL", schema.DDLSchema, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // does nothing after the commit
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(ddlLock)); err != nil {
		return d.Source.Fail(ctx, "follow DDL", schema.DDLSchema, err)
	}
	streams, err := d.streams(ctx, tx)
	if err == nil {
		err = do(tx, streams)
	}
	if err != nil {
		return err
	}
	return d.Source.Fail(ctx, "follow DDL", schema.DDLSchema, tx.Commit(ctx))
}

// streams returns the slots that use the log of definitions; none if that does not exist.
func (d DDLLog) streams(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}) (out []string, _ error) {
	var text string
	if err := q.QueryRow(ctx, "SELECT coalesce((SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1), '')", schema.DDLSchema).Scan(&text); err != nil {
		return nil, d.Source.Fail(ctx, "follow DDL", schema.DDLSchema, err)
	}
	for _, s := range strings.Fields(strings.TrimPrefix(text, ddlComment)) {
		out = append(out, strings.Trim(s, ","))
	}
	return out, nil
}

const ddlComment = "writes changed definitions into the log for the streams of the slots"

func (d DDLLog) note(ctx context.Context, tx pgx.Tx, streams []string) error {
	slices.Sort(streams)
	_, err := tx.Exec(ctx, "COMMENT ON SCHEMA "+schema.DDLSchema+" IS "+server.QuoteLiteral(ddlComment+" "+strings.Join(slices.Compact(streams), ", ")))
	return d.failed(ctx, err)
}

// failed explains an error of the server: it may not let this user create event triggers.
func (d DDLLog) failed(ctx context.Context, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		return &tidemark.Error{Kind: tidemark.Forbidden, Op: "follow DDL", Object: d.Source.Object, Err: errors.New("the server does not let " + d.Source.Config.User + " create event triggers and their schema: " + pg.Message), Hint: "Connect as a superuser (on hosted servers their role for that, such as rds_superuser), or leave out --follow-ddl: the stream then reads the catalogue."}
	}
	return d.Source.Fail(ctx, "follow DDL", schema.DDLSchema, err)
}

// definition handles a message that contains a changed definition. It returns nil if the stream
// does not want it.
func (s *Stream) definition(m []byte) ([]byte, error) {
	if len(m) < 10 {
		return nil, errShort(m)
	}
	prefix, _, _ := bytes.Cut(m[10:], []byte{0})
	switch {
	case string(prefix) == padPrefix, string(prefix) == change.DefinitionPrefix && !s.definitions:
		return nil, nil
	case string(prefix) != change.DefinitionPrefix:
		return m, nil
	}
	msg, err := change.ParseLogicalMessage(m[1:])
	if err != nil {
		return nil, err
	}
	var d change.LoggedDefinition
	if err := json.Unmarshal(msg.Data, &d); err != nil {
		return nil, fmt.Errorf("read a definition in the log: %w", err)
	}
	table := uint32(0)
	if d.Table != nil {
		table = d.Table.ID
	}
	if d.Rows, err = s.changedRows(table); err != nil || !d.Rows {
		return m, err
	}
	if msg.Data, err = json.Marshal(d); err != nil {
		return nil, err
	}
	return msg.Append(nil), nil
}

// changedRows reports whether the transaction in progress has changed rows of a table; 0: of any
// table.
func (s *Stream) changedRows(table uint32) (bool, error) {
	if s.tx.Rows > 0 && table == 0 || s.given {
		return true, nil
	}
	for rest := s.tx.Changes; len(rest) > 0; {
		message, next, err := change.NextMessage(rest)
		if err != nil {
			return false, err
		}
		rest = next
		switch c, err := change.Parse(message); {
		case err != nil:
			return false, err
		case c.Kind == tidemark.TruncateChange:
			t, err := change.ParseTruncation(c.Body)
			if err != nil || table == 0 || slices.Contains(t.Tables, table) {
				return true, err
			}
		case c.Kind == tidemark.InsertChange || c.Kind == tidemark.UpdateChange || c.Kind == tidemark.DeleteChange:
			if c.Table == table {
				return true, nil
			}
		}
	}
	return false, nil
}
