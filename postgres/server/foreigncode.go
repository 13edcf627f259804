package server

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// Foreign code is code on the target that would run with the rights of our session when we write to
// a table: a function that belongs to a role with fewer rights, called by a trigger that fires for
// us, a constraint, a default, a generated column, an index, a domain or a rule. Its owner decides
// what it does, so a superuser who writes to the table does what that role wants. SET ROLE to the
// table's owner does not help: such a function may SET ROLE back, as long as the session's user is
// a superuser (PostgreSQL's own subscriptions forbid that inside the server).
//
// Functions that are SECURITY DEFINER run as their owner in any case.
//
// The query begins with such functions, of which there are few: a server with many tables answers
// it as fast as one with few.
const foreignCodeSQL = `WITH theirs AS MATERIALIZED (
	SELECT p.oid, r.rolname FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
	WHERE (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AND NOT r.rolsuper AND NOT p.prosecdef),
uses AS MATERIALIZED (
	SELECT d.classid, d.objid, theirs.oid AS f FROM theirs JOIN pg_depend d ON d.refclassid = 'pg_proc'::regclass AND d.refobjid = theirs.oid),
calls(rel, what, f) AS (
	SELECT tgrelid, 'trigger ' || quote_ident(tgname), tgfoid FROM theirs JOIN pg_trigger ON tgfoid = theirs.oid
		WHERE NOT tgisinternal AND tgenabled = ANY (CASE WHEN $2 THEN '{A,R}' ELSE '{O,A}' END::"char"[])
	UNION ALL SELECT k.conrelid, 'constraint ' || quote_ident(k.conname), u.f FROM uses u
		JOIN pg_constraint k ON u.classid = 'pg_constraint'::regclass AND u.objid = k.oid
	UNION ALL SELECT a.attrelid, 'domain ' || a.atttypid::regtype, u.f FROM uses u
		JOIN pg_constraint k ON u.classid = 'pg_constraint'::regclass AND u.objid = k.oid AND k.contypid <> 0 JOIN pg_attribute a ON a.atttypid = k.contypid WHERE a.attnum > 0
	UNION ALL SELECT v.adrelid, 'the default of column ' || quote_ident(a.attname), u.f FROM uses u
		JOIN pg_attrdef v ON u.classid = 'pg_attrdef'::regclass AND u.objid = v.oid JOIN pg_attribute a ON a.attrelid = v.adrelid AND a.attnum = v.adnum
	UNION ALL SELECT i.indrelid, 'index ' || i.indexrelid::regclass, u.f FROM uses u
		JOIN pg_index i ON u.classid = 'pg_class'::regclass AND u.objid = i.indexrelid
	UNION ALL SELECT w.ev_class, 'rule ' || quote_ident(w.rulename), u.f FROM uses u
		JOIN pg_rewrite w ON u.classid = 'pg_rewrite'::regclass AND u.objid = w.oid WHERE w.ev_type <> '1')
SELECT c.relname, n.nspname, calls.what, p.oid::regprocedure::text, theirs.rolname
FROM calls JOIN theirs ON theirs.oid = calls.f JOIN pg_proc p ON p.oid = calls.f
	JOIN pg_class c ON c.oid = calls.rel JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE calls.rel = ANY ($1) OR EXISTS (SELECT FROM pg_partition_ancestors(calls.rel) up WHERE up.relid = ANY ($1))
ORDER BY 2, 1, 3 LIMIT 1`

// RefuseForeignCode refuses to write to tables that would run others' code with our rights. replica
// means that only triggers that are ENABLE ALWAYS or REPLICA fire.
func (s *Server) RefuseForeignCode(ctx context.Context, conn *pgx.Conn, op string, tables []uint32, replica bool) error {
	if s.Options.RunAsMe || len(tables) == 0 {
		return nil
	}
	var id tidemark.TableID
	var what, function, owner string
	switch err := conn.QueryRow(ctx, foreignCodeSQL, tables, replica).Scan(&id.Name, &id.Schema, &what, &function, &owner); {
	case err == pgx.ErrNoRows:
		return nil
	case err != nil:
		return err
	}
	me := QuoteIdent(s.Config.User)
	return &tidemark.Error{Kind: tidemark.Forbidden, Op: op, Object: QuoteTable(id), Err: fmt.Errorf("%s calls %s, which belongs to %s and would run with the rights of the superuser %s", what, function, QuoteIdent(owner), me), Hint: fmt.Sprintf("Write to the target as a role that is not a superuser; or review the function and make a superuser its owner: ALTER FUNCTION %s OWNER TO %s; or accept it with --run-as-me.", function, me)}
}

// RefuseForeignCodeOf is RefuseForeignCode for tables given by name; missing ones are ignored.
func (s *Server) RefuseForeignCodeOf(ctx context.Context, conn *pgx.Conn, op string, tables []tidemark.TableID, replica bool) error {
	var schemas, names []string
	for _, t := range tables {
		schemas, names = append(schemas, t.Schema), append(names, t.Name)
	}
	rows, err := conn.Query(ctx, "SELECT c.oid FROM unnest($1::text[], $2::text[]) t(s, n) JOIN pg_namespace n ON n.nspname = t.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.n", schemas, names)
	if err != nil {
		return err
	}
	oids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	if err != nil {
		return err
	}
	return s.RefuseForeignCode(ctx, conn, op, oids, replica)
}
