package schema

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// uncoveredSQL lists every object of the catalogue that a user can have created. An object in it
// without a node is a gap, and is reported as a finding.
const uncoveredSQL = `
SELECT 1259::oid, c.oid FROM pg_class c WHERE c.oid >= 16384 AND c.relkind <> 't' AND c.relpersistence <> 't' AND c.relnamespace <> 99
UNION ALL SELECT 1247, t.oid FROM pg_type t ` + rowTypes + `
          WHERE t.oid >= 16384 AND t.typnamespace <> 99 AND NOT ` + isRowType + ` -- before 14 the server's own TOAST tables have types
UNION ALL SELECT 1255, oid FROM pg_proc WHERE oid >= 16384 AND pronamespace::regnamespace::text <> '` + DDLSchema + `'
UNION ALL SELECT 2604, d.oid FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid WHERE d.oid >= 16384 AND c.relpersistence <> 't'
UNION ALL SELECT 2606, k.oid FROM pg_constraint k LEFT JOIN pg_class c ON c.oid = k.conrelid WHERE k.oid >= 16384 AND coalesce(c.relpersistence <> 't', true)
UNION ALL SELECT 2618, r.oid FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.oid >= 16384 AND r.rulename <> '_RETURN' AND c.relpersistence <> 't'
UNION ALL SELECT 2620, t.oid FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
          WHERE t.oid >= 16384 AND NOT t.tgisinternal AND t.tgparentid = 0 AND c.relpersistence <> 't'
UNION ALL SELECT 2615, n.oid FROM pg_namespace n WHERE oid >= 16384 AND ` + userSchema + `
UNION ALL SELECT 2617, oid FROM pg_operator WHERE oid >= 16384
UNION ALL SELECT 2616, oid FROM pg_opclass WHERE oid >= 16384
UNION ALL SELECT 2753, oid FROM pg_opfamily WHERE oid >= 16384
UNION ALL SELECT 2602, oid FROM pg_amop WHERE oid >= 16384
UNION ALL SELECT 2603, oid FROM pg_amproc WHERE oid >= 16384
UNION ALL SELECT 2601, oid FROM pg_am WHERE oid >= 16384
UNION ALL SELECT 2605, c.oid FROM pg_cast c WHERE oid >= 16384
          AND NOT EXISTS (SELECT FROM pg_range r WHERE r.rngtypid = c.castsource AND c.casttarget = (to_jsonb(r)->>'rngmultitypid')::oid)
UNION ALL SELECT 2607, oid FROM pg_conversion WHERE oid >= 16384
UNION ALL SELECT 2612, oid FROM pg_language WHERE oid >= 16384
UNION ALL SELECT 3079, oid FROM pg_extension WHERE oid >= 16384
UNION ALL SELECT 3256, oid FROM pg_policy WHERE oid >= 16384
UNION ALL SELECT 3381, oid FROM pg_statistic_ext WHERE oid >= 16384
UNION ALL SELECT 3456, oid FROM pg_collation WHERE oid >= 16384
UNION ALL SELECT 3466, oid FROM pg_event_trigger WHERE oid >= 16384 AND evtname NOT IN ('tidemark_ddl_end', 'tidemark_ddl_drop')
UNION ALL SELECT 3576, oid FROM pg_transform WHERE oid >= 16384
UNION ALL SELECT 3600, oid FROM pg_ts_dict WHERE oid >= 16384
UNION ALL SELECT 3601, oid FROM pg_ts_parser WHERE oid >= 16384
UNION ALL SELECT 3602, oid FROM pg_ts_config WHERE oid >= 16384
UNION ALL SELECT 3764, oid FROM pg_ts_template WHERE oid >= 16384
UNION ALL SELECT 2328, oid FROM pg_foreign_data_wrapper WHERE oid >= 16384
UNION ALL SELECT 1417, oid FROM pg_foreign_server WHERE oid >= 16384
UNION ALL SELECT 1418, umid FROM pg_user_mappings
UNION ALL SELECT 6104, oid FROM pg_publication WHERE oid >= 16384 AND pubname !~ '^tidemark_'
UNION ALL SELECT 6106, oid FROM pg_publication_rel WHERE oid >= 16384 AND prpubid IN (SELECT oid FROM pg_publication WHERE pubname !~ '^tidemark_')
`

// fails is the severity of a remark about what fails in a copy, as far as is known.
const fails = 3

// remarksSQL lists objects that by their nature are not copied: severity, object, text, hint.
const remarksSQL = `
SELECT 1, 'subscription ' || quote_ident(subname), 'subscriptions are not carried: two databases would take the same changes, and its connection string may hold a password',
       'Create it on the target once the source''s own is dropped.'
FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL
SELECT 1, 'table ' || c.oid::regclass, 'its rows are configuration of extension ' || quote_ident(e.extname) || ' and are not copied: CREATE EXTENSION makes the table',
       'Copy the rows that were added by hand.'
FROM pg_extension e CROSS JOIN LATERAL unnest(e.extconfig) t(oid) JOIN pg_class c ON c.oid = t.oid
WHERE c.relkind = 'r' AND coalesce(pg_relation_size(c.oid), 0) > 0
UNION ALL
SELECT 1, 'database ' || quote_ident(current_database()), 'its setting ' || split_part(s, '=', 1)
          || CASE WHEN r.setrole <> 0 THEN ' for role ' || r.setrole::regrole ELSE '' END || ' is not carried',
       format('ALTER %s SET %s TO %L on the target.', CASE WHEN r.setrole = 0 THEN 'DATABASE' ELSE format('ROLE %s IN DATABASE', r.setrole::regrole) END,
              split_part(s, '=', 1), substr(s, strpos(s, '=') + 1))
FROM pg_db_role_setting r CROSS JOIN LATERAL unnest(r.setconfig) s WHERE r.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND s !~* '^[^=]*(pass|secret|token)'
UNION ALL
SELECT 1, x.object, 'its option ' || quote_ident(o.option_name) || ' looks secret and is not carried', 'Set it on the target with ALTER ... OPTIONS (ADD ...).'
FROM (SELECT 'foreign data wrapper ' || quote_ident(fdwname), fdwoptions, oid, 2328 FROM pg_foreign_data_wrapper
      UNION ALL SELECT 'server ' || quote_ident(srvname), srvoptions, oid, 1417 FROM pg_foreign_server
      UNION ALL SELECT 'user mapping for ' || usename || ' server ' || quote_ident(srvname), umoptions, umid, 1418 FROM pg_user_mappings) x(object, options, oid, class)
CROSS JOIN LATERAL pg_options_to_table(x.options) o WHERE o.option_name ~* '` + secretOption + `'
UNION ALL
` + bareNamesSQL + `
`

// bareNamesSQL finds functions that a copy evaluates (in generated columns, checks, indexes,
// statistics, materialized views, and what those call) and whose text names a function or table
// without its schema: sessions of a copy have no search path, as those of pg_restore, and, since
// PostgreSQL 17, those of REINDEX and REFRESH. Whether that is so is seen from the text.
const bareNamesSQL = `
(WITH RECURSIVE evaluated(oid) AS (
  SELECT d.refobjid FROM pg_depend d WHERE d.refclassid = 1255 AND d.refobjid >= 16384 AND CASE d.classid
    WHEN 1259 THEN EXISTS (SELECT FROM pg_index WHERE indexrelid = d.objid)
    WHEN 2604 THEN EXISTS (SELECT FROM pg_attrdef e JOIN pg_attribute a ON a.attrelid = e.adrelid AND a.attnum = e.adnum WHERE e.oid = d.objid AND a.attgenerated <> '')
    WHEN 2618 THEN EXISTS (SELECT FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.oid = d.objid AND c.relkind = 'm')
    ELSE d.classid IN (2606, 3381) END
  UNION
  SELECT x.oid FROM evaluated e CROSS JOIN LATERAL (
    SELECT d.refobjid FROM pg_depend d WHERE d.classid = 1255 AND d.objid = e.oid AND d.refclassid = 1255
    UNION ALL
    SELECT g.oid FROM (SELECT DISTINCT ` + foldedName + ` AS name FROM pg_proc f CROSS JOIN LATERAL regexp_matches(f.prosrc, '("[^"]+"|[[:alpha:]_][\w$]*)\s*\(', 'g') w WHERE f.oid = e.oid AND ` + inText + `) n
    JOIN pg_proc g ON g.proname = n.name WHERE g.oid >= 16384
  ) x(oid)
)
SELECT 3, 'function ' || f.oid::regprocedure, 'names ' || string_agg(DISTINCT n.name, ', ') || ' without a schema, which is not found where the copy evaluates it, since the session has no search path',
       format('ALTER FUNCTION %s SET search_path = %s, pg_temp on the source.', f.oid::regprocedure, string_agg(DISTINCT quote_ident(n.schema), ', '))
FROM evaluated JOIN pg_proc f USING (oid) CROSS JOIN LATERAL (
  SELECT c.name, g.pronamespace::regnamespace::text FROM (SELECT DISTINCT ` + foldedName + ` AS name FROM regexp_matches(f.prosrc, '(?:^|[^.\w$"])("[^"]+"|[[:alpha:]_][\w$]*)\s*\(', 'g') w) c JOIN pg_proc g ON g.proname = c.name
  WHERE NOT EXISTS (SELECT FROM pg_proc b WHERE b.proname = g.proname AND b.pronamespace = 11)
  UNION ALL
  SELECT c.name, r.relnamespace::regnamespace::text FROM (SELECT DISTINCT ` + foldedName + ` AS name FROM regexp_matches(f.prosrc, '\m(?:from|join|into|update)\s+(?:only\s+)?("[^"]+"|[[:alpha:]_][\w$]*)(?![\w$]|\s*[.(])', 'gi') w) c
  JOIN pg_class r ON r.relname = c.name WHERE r.relkind IN ('r', 'p', 'v', 'm', 'f') AND r.relnamespace <> 11 AND r.relpersistence <> 't'
) n(name, schema) WHERE ` + inText + ` AND NOT coalesce(array_to_string(f.proconfig, ' '), '') || f.prosrc ~* 'search_path' GROUP BY f.oid)`

const (
	// inText is of functions whose text is looked at: what BEGIN ATOMIC calls is a dependency.
	inText = `f.prolang IN (SELECT oid FROM pg_language WHERE lanname IN ('sql', 'plpgsql')) AND f.prosrc <> ''`
	// foldedName is the name that a text means, by which the catalogue has an index.
	foldedName = `(CASE WHEN w[1] LIKE '"%' THEN btrim(w[1], '"') ELSE lower(w[1]) END)::name`
)

// readUncovered compares the catalogue with the nodes created from it.
func (c *creator) readUncovered(ctx context.Context) error {
	type remark struct {
		Severity           int
		Object, Text, Hint string
	}
	remarks, err := rows[remark](ctx, c.catalogue, remarksSQL)
	if err != nil {
		return err
	}
	for _, r := range remarks {
		c.find(min(tidemark.Severity(r.Severity), tidemark.Warning), r.Object, r.Text, r.Hint)
		if r.Severity == fails {
			c.db.Findings[len(c.db.Findings)-1].Kind = tidemark.Refused
		}
	}
	var classes, ids []uint32
	var class, id uint32
	err = c.each(ctx, uncoveredSQL, []any{&class, &id}, func() error {
		if !c.covered(address{class, id}) {
			classes, ids = append(classes, class), append(ids, id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	type unknown struct{ Name, Schema string }
	if err := c.ahead.end(); err != nil {
		return err
	}
	// pg_describe_object and pg_identify_object end the server (15.18, a segmentation fault) if an
	// object's schema was dropped meanwhile.
	names, err := server.Rows[unknown](ctx, c.conn, `
		SELECT CASE WHEN o.oid IS NOT NULL THEN format('%s %I.%I', o.kind, coalesce(n.nspname, 'unknown'), o.name) WHEN c IN (2602, 2603, 2617) THEN format('%s of class %s', i, c)
			ELSE coalesce(pg_describe_object(c, i, 0), format('%s of class %s', i, c)) END, coalesce(n.nspname, '') FROM unnest($1::oid[], $2::oid[]) u(c, i)
		LEFT JOIN (SELECT 1259 AS class, oid, relnamespace AS schema, relname AS name, CASE relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' WHEN 'i' THEN 'index' ELSE 'table' END AS kind FROM pg_class
			UNION ALL SELECT 1255, oid, pronamespace, proname, 'function' FROM pg_proc
			UNION ALL SELECT 1247, oid, typnamespace, typname, 'type' FROM pg_type UNION ALL SELECT 2617, oid, oprnamespace, oprname, 'operator' FROM pg_operator
			UNION ALL SELECT 3456, oid, collnamespace, collname, 'collation' FROM pg_collation UNION ALL SELECT 2607, oid, connamespace, conname, 'conversion' FROM pg_conversion
			UNION ALL SELECT 2616, oid, opcnamespace, opcname, 'operator class' FROM pg_opclass UNION ALL SELECT 2753, oid, opfnamespace, opfname, 'operator family' FROM pg_opfamily
			UNION ALL SELECT 3602, oid, cfgnamespace, cfgname, 'text search configuration' FROM pg_ts_config UNION ALL SELECT 3600, oid, dictnamespace, dictname, 'text search dictionary' FROM pg_ts_dict
			UNION ALL SELECT 3601, oid, prsnamespace, prsname, 'text search parser' FROM pg_ts_parser UNION ALL SELECT 3764, oid, tmplnamespace, tmplname, 'text search template' FROM pg_ts_template
			UNION ALL SELECT 3381, oid, stxnamespace, stxname, 'statistics object' FROM pg_statistic_ext) o ON o.class = u.c AND o.oid = u.i
		LEFT JOIN pg_namespace n ON n.oid = o.schema`, classes, ids)
	for _, n := range names {
		why := "Tidemark does not support objects of this kind"
		if strings.HasPrefix(n.Schema, "pg_") || n.Schema == "information_schema" {
			why = fmt.Sprintf("it is in %s, where only the server's own objects should be", n.Schema)
		}
		c.find(tidemark.Warning, n.Name, "left out: "+why, "Make it by hand on the target.")
	}
	return err
}

func (c *creator) covered(a address) bool {
	g := &c.graph
	if _, member := g.member[a]; member || g.silent[a] || g.resolve(a) != nil {
		return true
	}
	if a.class == classType {
		t := c.types[a.id]
		// A multirange comes with its range; row types come with their table.
		return t != nil && (t.Class == "m" || t.Rel != 0 && c.covered(address{classClass, t.Rel}) || t.Elem != 0 && c.covered(address{classType, t.Elem}))
	}
	return false
}
