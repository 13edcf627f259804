package schema

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A class is a catalogue whose objects' statements can be written by one query. Its columns: OID;
// kind and name, as in COMMENT ON; OID of the relation it belongs to, or 0; OID of the owner, or 0;
// statements; statements of the stub that replaces it in cycles, or NULL.
//
// to_jsonb(x)->>'column' reads a column that only some versions have.
type class struct {
	oid   int
	since int // major version that introduced the catalogue
	phase tidemark.Phase
	sql   string
}

var classes = []class{
	{classNamespace, 0, tidemark.BeforeRows, `
SELECT n.oid, 'schema', quote_ident(n.nspname), 0::oid, CASE WHEN n.oid = 2200 AND n.nspowner IN (10, 6171) THEN 0::oid ELSE n.nspowner END,
       ARRAY[format('CREATE SCHEMA IF NOT EXISTS %I', n.nspname)], NULL::text[]
FROM pg_namespace n WHERE ` + userSchema},

	// An extension creates the schema that belongs to it.
	{classExtension, 0, tidemark.BeforeRows, `
SELECT e.oid, 'extension', quote_ident(e.extname), 0::oid, 0::oid,
       ARRAY[format('CREATE EXTENSION IF NOT EXISTS %I', e.extname) ||
             CASE WHEN EXISTS (SELECT FROM pg_depend d WHERE d.classid = 2615 AND d.objid = e.extnamespace AND d.refobjid = e.oid AND d.deptype = 'e')
                  THEN '' ELSE format(' WITH SCHEMA %I', n.nspname) END]
       || CASE WHEN d.description IS NOT NULL AND d.description IS DISTINCT FROM a.comment
               THEN ARRAY[format('COMMENT ON EXTENSION %I IS %L', e.extname, d.description)] END, NULL
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
LEFT JOIN pg_description d ON d.classoid = 3079 AND d.objoid = e.oid
LEFT JOIN pg_available_extensions a ON a.name = e.extname
WHERE e.oid >= 16384`},

	{classAM, 0, tidemark.BeforeRows, `
SELECT oid, 'access method', quote_ident(amname), 0::oid, 0::oid,
       ARRAY[format('CREATE ACCESS METHOD %I TYPE %s HANDLER %s', amname, CASE amtype WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END, amhandler::regproc)], NULL
FROM pg_am WHERE oid >= 16384`},

	{classLanguage, 0, tidemark.BeforeRows, `
SELECT oid, 'language', quote_ident(lanname), 0::oid, lanowner,
       ARRAY[format('CREATE %sLANGUAGE %I HANDLER %s', CASE WHEN lanpltrusted THEN 'TRUSTED ' END, lanname, lanplcallfoid::regproc)
             || CASE WHEN laninline <> 0 THEN ' INLINE ' || laninline::regproc ELSE '' END
             || CASE WHEN lanvalidator <> 0 THEN ' VALIDATOR ' || lanvalidator::regproc ELSE '' END], NULL
FROM pg_language WHERE oid >= 16384 AND lanplcallfoid <> 0`},

	{classCollation, 0, tidemark.BeforeRows, `
SELECT c.oid, 'collation', format('%I.%I', n.nspname, c.collname), 0::oid, c.collowner,
       ARRAY[format('CREATE COLLATION %I.%I (provider = %s%s%s)', n.nspname, c.collname,
             CASE c.collprovider WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
             CASE WHEN NOT c.collisdeterministic THEN ', deterministic = false' END,
             CASE WHEN c.collprovider IN ('i', 'b') THEN format(', locale = %L', coalesce(j.r->>'colllocale', j.r->>'colliculocale', j.r->>'collcollate'))
                  WHEN j.r->>'collcollate' = j.r->>'collctype' THEN format(', locale = %L', j.r->>'collcollate')
                  ELSE format(', lc_collate = %L, lc_ctype = %L', j.r->>'collcollate', j.r->>'collctype') END
             || coalesce(', rules = ' || quote_literal(j.r->>'collicurules'), ''))], NULL
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace CROSS JOIN LATERAL (SELECT to_jsonb(c) AS r) j
WHERE ` + userSchema},

	{classConversion, 0, tidemark.BeforeRows, `
SELECT c.oid, 'conversion', format('%I.%I', n.nspname, c.conname), 0::oid, c.conowner,
       ARRAY[format('CREATE %sCONVERSION %I.%I FOR %L TO %L FROM %s', CASE WHEN c.condefault THEN 'DEFAULT ' END, n.nspname, c.conname,
             pg_encoding_to_char(c.conforencoding), pg_encoding_to_char(c.contoencoding), c.conproc::regproc)], NULL
FROM pg_conversion c JOIN pg_namespace n ON n.oid = c.connamespace WHERE ` + userSchema},

	{classType, 0, tidemark.BeforeRows, `
SELECT t.oid, 'type', format('%I.%I', n.nspname, t.typname), 0::oid, t.typowner,
       ARRAY[format('CREATE TYPE %I.%I AS ENUM (%s)', n.nspname, t.typname,
             (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))], NULL
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype = 'e' AND ` + userSchema},

	{classType, 0, tidemark.BeforeRows, `
SELECT t.oid, 'type', format('%I.%I', n.nspname, t.typname), 0::oid, t.typowner,
       ARRAY[format('CREATE TYPE %I.%I AS (%s)', n.nspname, t.typname,
             (SELECT string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                     CASE WHEN a.attcollation <> at.typcollation THEN ' COLLATE ' || a.attcollation::regcollation END), ', ' ORDER BY a.attnum)
              FROM pg_attribute a JOIN pg_type at ON at.oid = a.atttypid
              WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped))], NULL
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_class c ON c.oid = t.typrelid
WHERE t.typtype = 'c' AND c.relkind = 'c' AND ` + userSchema},

	{classType, 0, tidemark.BeforeRows, `
SELECT t.oid, 'domain', format('%I.%I', n.nspname, t.typname), 0::oid, t.typowner,
       ARRAY[format('CREATE DOMAIN %I.%I AS %s%s%s%s', n.nspname, t.typname, format_type(t.typbasetype, t.typtypmod),
             CASE WHEN t.typcollation <> b.typcollation THEN ' COLLATE ' || t.typcollation::regcollation END,
             ' DEFAULT ' || coalesce(pg_get_expr(t.typdefaultbin, 0), quote_literal(t.typdefault)),
             CASE WHEN t.typnotnull AND current_setting('server_version_num')::int < 170000 THEN ' NOT NULL' END)], NULL
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_type b ON b.oid = t.typbasetype
WHERE t.typtype = 'd' AND ` + userSchema},

	// A canonical function takes the range type, which must exist as a shell before it.
	{classType, 0, tidemark.BeforeRows, `
SELECT t.oid, 'type', format('%I.%I', n.nspname, t.typname), 0::oid, t.typowner,
       ARRAY[format('CREATE TYPE %I.%I AS RANGE (subtype = %s%s%s%s%s%s)', n.nspname, t.typname, format_type(r.rngsubtype, NULL),
             CASE WHEN NOT oc.opcdefault THEN format(', subtype_opclass = %I.%I', ocn.nspname, oc.opcname) END,
             CASE WHEN r.rngcollation <> st.typcollation THEN ', collation = ' || r.rngcollation::regcollation END,
             CASE WHEN r.rngcanonical <> 0 THEN ', canonical = ' || r.rngcanonical END,
             CASE WHEN r.rngsubdiff <> 0 THEN ', subtype_diff = ' || r.rngsubdiff END,
             (SELECT format(', multirange_type_name = %I.%I', mn.nspname, m.typname) FROM pg_type m JOIN pg_namespace mn ON mn.oid = m.typnamespace
              WHERE m.oid = (to_jsonb(r)->>'rngmultitypid')::oid))],
       ARRAY[format('CREATE TYPE %I.%I', n.nspname, t.typname)]
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_range r ON r.rngtypid = t.oid JOIN pg_type st ON st.oid = r.rngsubtype
JOIN pg_opclass oc ON oc.oid = r.rngsubopc JOIN pg_namespace ocn ON ocn.oid = oc.opcnamespace
WHERE t.typtype = 'r' AND ` + userSchema},

	{classType, 0, tidemark.BeforeRows, `
SELECT t.oid, CASE WHEN t.typisdefined THEN 'type' ELSE 'shell type' END, format('%I.%I', n.nspname, t.typname), 0::oid, t.typowner,
       CASE WHEN t.typisdefined THEN ARRAY[format('CREATE TYPE %I.%I (%s)', n.nspname, t.typname, concat_ws(', ',
            'INPUT = ' || t.typinput, 'OUTPUT = ' || t.typoutput,
            CASE WHEN t.typreceive <> 0 THEN 'RECEIVE = ' || t.typreceive END, CASE WHEN t.typsend <> 0 THEN 'SEND = ' || t.typsend END,
            CASE WHEN t.typmodin <> 0 THEN 'TYPMOD_IN = ' || t.typmodin END, CASE WHEN t.typmodout <> 0 THEN 'TYPMOD_OUT = ' || t.typmodout END,
            CASE WHEN t.typanalyze <> 0 THEN 'ANALYZE = ' || t.typanalyze END,
            CASE WHEN to_jsonb(t)->>'typsubscript' <> '-' THEN 'SUBSCRIPT = ' || (to_jsonb(t)->>'typsubscript') END,
            'INTERNALLENGTH = ' || CASE t.typlen WHEN -1 THEN 'variable' ELSE t.typlen::text END,
            CASE WHEN t.typbyval THEN 'PASSEDBYVALUE' END,
            'ALIGNMENT = ' || CASE t.typalign WHEN 'c' THEN 'char' WHEN 's' THEN 'int2' WHEN 'i' THEN 'int4' ELSE 'double' END,
            'STORAGE = ' || CASE t.typstorage WHEN 'p' THEN 'plain' WHEN 'e' THEN 'external' WHEN 'x' THEN 'extended' ELSE 'main' END,
            'CATEGORY = ' || quote_literal(t.typcategory::text), CASE WHEN t.typispreferred THEN 'PREFERRED = true' END,
            CASE WHEN t.typdefault IS NOT NULL THEN 'DEFAULT = ' || quote_literal(t.typdefault) END,
            CASE WHEN t.typelem <> 0 THEN 'ELEMENT = ' || format_type(t.typelem, NULL) END,
            CASE WHEN t.typdelim <> ',' THEN 'DELIMITER = ' || quote_literal(t.typdelim::text) END,
            CASE WHEN t.typcollation <> 0 THEN 'COLLATABLE = true' END))]
            ELSE ARRAY[format('CREATE TYPE %I.%I', n.nspname, t.typname)] END,
       CASE WHEN t.typisdefined THEN ARRAY[format('CREATE TYPE %I.%I', n.nspname, t.typname)] END
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE (t.typtype = 'b' AND NOT EXISTS (SELECT FROM pg_type e WHERE e.typarray = t.oid) OR t.typtype = 'p' AND NOT t.typisdefined) AND ` + userSchema},

	// The stub has the signature, so that CREATE OR REPLACE can give it the body.
	{classProc, 0, tidemark.BeforeRows, `
SELECT p.oid, CASE p.prokind WHEN 'p' THEN 'procedure' ELSE 'function' END, 
       -- Procedures of one name may differ in what they give back alone.
       CASE p.prokind WHEN 'p' THEN format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) ELSE p.oid::regprocedure::text END, 0::oid, p.proowner,
       ARRAY[rtrim(pg_get_functiondef(p.oid), E'\n')],
       CASE WHEN p.prokind <> 'w' THEN ARRAY[format('CREATE %s %I.%I(%s)%s LANGUAGE plpgsql AS %L', CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
             n.nspname, p.proname, pg_get_function_arguments(p.oid), ' RETURNS ' || pg_get_function_result(p.oid), 'BEGIN END')] END
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.prokind IN ('f', 'p', 'w') AND ` + userSchema + ` AND ` + notMember(classProc, "p.oid") + `
 AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 1255 AND d.objid = p.oid AND d.deptype = 'i')`},

	{classProc, 0, tidemark.BeforeRows, aggregatesSQL},

	{classCast, 0, tidemark.BeforeRows, `
SELECT c.oid, 'cast', format('(%s AS %s)', format_type(c.castsource, NULL), format_type(c.casttarget, NULL)), 0::oid, 0::oid,
       ARRAY[format('CREATE CAST (%s AS %s) %s%s', format_type(c.castsource, NULL), format_type(c.casttarget, NULL),
             CASE c.castmethod WHEN 'f' THEN 'WITH FUNCTION ' || c.castfunc::regprocedure WHEN 'i' THEN 'WITH INOUT' ELSE 'WITHOUT FUNCTION' END,
             CASE c.castcontext WHEN 'a' THEN ' AS ASSIGNMENT' WHEN 'i' THEN ' AS IMPLICIT' END)], NULL
FROM pg_cast c WHERE c.oid >= 16384 AND ` + notMember(classCast, "c.oid") + `
 AND NOT EXISTS (SELECT FROM pg_range r WHERE r.rngtypid = c.castsource AND c.casttarget = (to_jsonb(r)->>'rngmultitypid')::oid)`},

	{classTransform, 0, tidemark.BeforeRows, `
SELECT t.oid, 'transform', format('FOR %s LANGUAGE %I', format_type(t.trftype, NULL), l.lanname), 0::oid, 0::oid,
       ARRAY[format('CREATE TRANSFORM FOR %s LANGUAGE %I (%s)', format_type(t.trftype, NULL), l.lanname, concat_ws(', ',
             CASE WHEN t.trffromsql <> 0 THEN 'FROM SQL WITH FUNCTION ' || t.trffromsql::regprocedure END,
             CASE WHEN t.trftosql <> 0 THEN 'TO SQL WITH FUNCTION ' || t.trftosql::regprocedure END))], NULL
FROM pg_transform t JOIN pg_language l ON l.oid = t.trflang WHERE t.oid >= 16384`},

	// A commutator or negator that does not exist yet becomes a shell, which its own definition
	// completes.
	{classOperator, 0, tidemark.BeforeRows, `
SELECT o.oid, 'operator', format('%I.%s (%s, %s)', n.nspname, o.oprname,
             CASE WHEN o.oprleft = 0 THEN 'NONE' ELSE format_type(o.oprleft, NULL) END, CASE WHEN o.oprright = 0 THEN 'NONE' ELSE format_type(o.oprright, NULL) END),
       0::oid, o.oprowner,
       ARRAY[format('CREATE OPERATOR %I.%s (%s)', n.nspname, o.oprname, concat_ws(', ', 'FUNCTION = ' || o.oprcode,
             CASE WHEN o.oprleft <> 0 THEN 'LEFTARG = ' || format_type(o.oprleft, NULL) END,
             CASE WHEN o.oprright <> 0 THEN 'RIGHTARG = ' || format_type(o.oprright, NULL) END,
             (SELECT format('COMMUTATOR = OPERATOR(%I.%s)', cn.nspname, c.oprname) FROM pg_operator c JOIN pg_namespace cn ON cn.oid = c.oprnamespace WHERE c.oid = o.oprcom),
             (SELECT format('NEGATOR = OPERATOR(%I.%s)', cn.nspname, c.oprname) FROM pg_operator c JOIN pg_namespace cn ON cn.oid = c.oprnamespace WHERE c.oid = o.oprnegate),
             CASE WHEN o.oprrest <> 0 THEN 'RESTRICT = ' || o.oprrest END, CASE WHEN o.oprjoin <> 0 THEN 'JOIN = ' || o.oprjoin END,
             CASE WHEN o.oprcanhash THEN 'HASHES' END, CASE WHEN o.oprcanmerge THEN 'MERGES' END))], NULL
FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace WHERE o.oprcode <> 0 AND ` + userSchema},

	{classOpfamily, 0, tidemark.BeforeRows, `
SELECT f.oid, 'operator family', format('%I.%I USING %I', n.nspname, f.opfname, am.amname), 0::oid, f.opfowner,
       ARRAY[format('CREATE OPERATOR FAMILY %I.%I USING %I', n.nspname, f.opfname, am.amname)], NULL
FROM pg_opfamily f JOIN pg_namespace n ON n.oid = f.opfnamespace JOIN pg_am am ON am.oid = f.opfmethod WHERE ` + userSchema},

	{classOpclass, 0, tidemark.BeforeRows, `
SELECT o.oid, 'operator class', format('%I.%I USING %I', n.nspname, o.opcname, am.amname), 0::oid, o.opcowner,
       ARRAY[format('CREATE OPERATOR CLASS %I.%I%s FOR TYPE %s USING %I FAMILY %I.%I AS ', n.nspname, o.opcname,
             CASE WHEN o.opcdefault THEN ' DEFAULT' END, format_type(o.opcintype, NULL), am.amname, fn.nspname, f.opfname),
             CASE WHEN o.opckeytype <> 0 AND o.opckeytype <> o.opcintype THEN 'STORAGE ' || format_type(o.opckeytype, NULL) ELSE '' END,
             format_type(o.opcintype, NULL)], NULL
FROM pg_opclass o JOIN pg_namespace n ON n.oid = o.opcnamespace JOIN pg_am am ON am.oid = o.opcmethod
JOIN pg_opfamily f ON f.oid = o.opcfamily JOIN pg_namespace fn ON fn.oid = f.opfnamespace WHERE ` + userSchema},

	{classTSParser, 0, tidemark.BeforeRows, `
SELECT p.oid, 'text search parser', format('%I.%I', n.nspname, p.prsname), 0::oid, 0::oid,
       ARRAY[format('CREATE TEXT SEARCH PARSER %I.%I (START = %s, GETTOKEN = %s, END = %s, %sLEXTYPES = %s)', n.nspname, p.prsname, p.prsstart, p.prstoken, p.prsend,
             CASE WHEN p.prsheadline <> 0 THEN format('HEADLINE = %s, ', p.prsheadline) END, p.prslextype)], NULL
FROM pg_ts_parser p JOIN pg_namespace n ON n.oid = p.prsnamespace WHERE ` + userSchema},

	{classTSTemplate, 0, tidemark.BeforeRows, `
SELECT t.oid, 'text search template', format('%I.%I', n.nspname, t.tmplname), 0::oid, 0::oid,
       ARRAY[format('CREATE TEXT SEARCH TEMPLATE %I.%I (%sLEXIZE = %s)', n.nspname, t.tmplname,
             CASE WHEN t.tmplinit <> 0 THEN format('INIT = %s, ', t.tmplinit) END, t.tmpllexize)], NULL
FROM pg_ts_template t JOIN pg_namespace n ON n.oid = t.tmplnamespace WHERE ` + userSchema},

	{classTSDict, 0, tidemark.BeforeRows, `
SELECT d.oid, 'text search dictionary', format('%I.%I', n.nspname, d.dictname), 0::oid, d.dictowner,
       ARRAY[format('CREATE TEXT SEARCH DICTIONARY %I.%I (TEMPLATE = %I.%I%s)', n.nspname, d.dictname, tn.nspname, t.tmplname, ', ' || d.dictinitoption)], NULL
FROM pg_ts_dict d JOIN pg_namespace n ON n.oid = d.dictnamespace JOIN pg_ts_template t ON t.oid = d.dicttemplate
JOIN pg_namespace tn ON tn.oid = t.tmplnamespace WHERE ` + userSchema},

	{classTSConfig, 0, tidemark.BeforeRows, `
SELECT c.oid, 'text search configuration', format('%I.%I', n.nspname, c.cfgname), 0::oid, c.cfgowner,
       ARRAY[format('CREATE TEXT SEARCH CONFIGURATION %I.%I (PARSER = %I.%I)', n.nspname, c.cfgname, pn.nspname, p.prsname)]
       || (SELECT array_agg(format('ALTER TEXT SEARCH CONFIGURATION %I.%I ADD MAPPING FOR %I WITH %s', n.nspname, c.cfgname, m.alias, m.dicts) ORDER BY m.tokid)
           FROM (SELECT t.tokid, t.alias, string_agg(m.mapdict::regdictionary::text, ', ' ORDER BY m.mapseqno) AS dicts
                 FROM pg_ts_config_map m JOIN ts_token_type(c.cfgparser) t ON t.tokid = m.maptokentype WHERE m.mapcfg = c.oid GROUP BY 1, 2) m), NULL
FROM pg_ts_config c JOIN pg_namespace n ON n.oid = c.cfgnamespace JOIN pg_ts_parser p ON p.oid = c.cfgparser
JOIN pg_namespace pn ON pn.oid = p.prsnamespace WHERE ` + userSchema},

	{classFDW, 0, tidemark.BeforeRows, `
SELECT f.oid, 'foreign data wrapper', quote_ident(f.fdwname), 0::oid, f.fdwowner,
       ARRAY[format('CREATE FOREIGN DATA WRAPPER %I%s%s%s', f.fdwname, CASE WHEN f.fdwhandler <> 0 THEN ' HANDLER ' || f.fdwhandler::regproc END,
             CASE WHEN f.fdwvalidator <> 0 THEN ' VALIDATOR ' || f.fdwvalidator::regproc END, ' OPTIONS (' || ` + fdwOptionsSQL("f.fdwoptions") + ` || ')')], NULL
FROM pg_foreign_data_wrapper f`},

	{classServer, 0, tidemark.BeforeRows, `
SELECT s.oid, 'server', quote_ident(s.srvname), 0::oid, s.srvowner,
       ARRAY[format('CREATE SERVER %I%s%s FOREIGN DATA WRAPPER %I%s', s.srvname, ' TYPE ' || quote_literal(s.srvtype), ' VERSION ' || quote_literal(s.srvversion),
             f.fdwname, ' OPTIONS (' || ` + fdwOptionsSQL("s.srvoptions") + ` || ')')], NULL
FROM pg_foreign_server s JOIN pg_foreign_data_wrapper f ON f.oid = s.srvfdw`},

	{classUserMap, 0, tidemark.AfterRows, `
SELECT u.umid, 'user mapping', format('FOR %s SERVER %I', CASE WHEN u.umuser = 0 THEN 'PUBLIC' ELSE quote_ident(u.usename) END, u.srvname), 0::oid, 0::oid,
       ARRAY[format('CREATE USER MAPPING FOR %s SERVER %I%s', CASE WHEN u.umuser = 0 THEN 'PUBLIC' ELSE quote_ident(u.usename) END, u.srvname,
             ' OPTIONS (' || ` + fdwOptionsSQL("u.umoptions") + ` || ')')], NULL
FROM pg_user_mappings u`},

	{classRewrite, 0, tidemark.AfterRows, `
SELECT r.oid, 'rule', format('%I ON %I.%I', r.rulename, n.nspname, c.relname), c.oid, 0::oid,
       array_remove(ARRAY[rtrim(pg_get_ruledef(r.oid), ';'), CASE WHEN r.ev_enabled <> 'O' THEN format('ALTER TABLE %I.%I %s RULE %I', n.nspname, c.relname,
             CASE r.ev_enabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, r.rulename) END], NULL), NULL
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.rulename <> '_RETURN' AND r.oid >= 16384 AND c.relpersistence <> 't' AND ` + userSchema},

	{classTrigger, 0, tidemark.AfterRows, `
SELECT t.oid, 'trigger', format('%I ON %I.%I', t.tgname, n.nspname, c.relname), c.oid, 0::oid,
       array_remove(ARRAY[pg_get_triggerdef(t.oid), CASE WHEN t.tgenabled <> 'O' THEN format('ALTER TABLE %I.%I %s TRIGGER %I', n.nspname, c.relname,
             CASE t.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, t.tgname) END], NULL), NULL
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND c.relpersistence <> 't' AND ` + userSchema},

	// The server creates a partition's copy of a trigger; only its state can differ.
	{classTrigger, 0, tidemark.AfterRows, `
SELECT t.oid, 'trigger', format('%I ON %I.%I', t.tgname, n.nspname, c.relname), c.oid, 0::oid,
       ARRAY[format('ALTER TABLE %I.%I %s TRIGGER %I', n.nspname, c.relname,
             CASE t.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' WHEN 'A' THEN 'ENABLE ALWAYS' ELSE 'ENABLE' END, t.tgname)], NULL
FROM pg_trigger t JOIN pg_trigger pt ON pt.oid = t.tgparentid JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE t.tgenabled <> pt.tgenabled AND (NOT t.tgisinternal OR NOT pt.tgisinternal) AND ` + userSchema},

	{classPolicy, 0, tidemark.AfterRows, `
SELECT p.oid, 'policy', format('%I ON %I.%I', p.polname, n.nspname, c.relname), c.oid, 0::oid,
       ARRAY[format('CREATE POLICY %I ON %I.%I%s%s TO %s%s%s', p.polname, n.nspname, c.relname, CASE WHEN NOT p.polpermissive THEN ' AS RESTRICTIVE' END,
             CASE p.polcmd WHEN 'r' THEN ' FOR SELECT' WHEN 'a' THEN ' FOR INSERT' WHEN 'w' THEN ' FOR UPDATE' WHEN 'd' THEN ' FOR DELETE' END,
             CASE WHEN p.polroles = '{0}' THEN 'PUBLIC' ELSE (SELECT string_agg(quote_ident(rolname), ', ' ORDER BY rolname) FROM pg_roles WHERE oid = ANY(p.polroles)) END,
             ' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', ' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')')], NULL
FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace`},

	{classStatExt, 0, tidemark.AfterTable, `
SELECT s.oid, 'extended statistics', format('%I.%I', n.nspname, s.stxname), s.stxrelid, s.stxowner,
       array_remove(ARRAY[pg_get_statisticsobjdef(s.oid), CASE WHEN s.stxstattarget >= 0 THEN
             format('ALTER STATISTICS %I.%I SET STATISTICS %s', n.nspname, s.stxname, s.stxstattarget) END], NULL), NULL
FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE ` + userSchema},

	{classEventTrig, 0, tidemark.AfterRows, `
SELECT e.oid, 'event trigger', quote_ident(e.evtname), 0::oid, e.evtowner,
       array_remove(ARRAY[format('CREATE EVENT TRIGGER %I ON %I%s EXECUTE FUNCTION %s()', e.evtname, e.evtevent,
             ' WHEN TAG IN (' || (SELECT string_agg(quote_literal(t), ', ') FROM unnest(e.evttags) t) || ')', e.evtfoid::regproc),
             CASE WHEN e.evtenabled <> 'O' THEN format('ALTER EVENT TRIGGER %I %s', e.evtname,
             CASE e.evtenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END) END], NULL), NULL
FROM pg_event_trigger e WHERE ` + notOurs("e.evtname")},

	// Publications of our own streams (see Slot) are not copied.
	{classPub, 0, tidemark.AfterRows, `
SELECT p.oid, 'publication', quote_ident(p.pubname), 0::oid, p.pubowner,
       ARRAY[format('CREATE PUBLICATION %I%s WITH (publish = %L, publish_via_partition_root = %s%s)', p.pubname, CASE WHEN p.puballtables THEN ' FOR ALL TABLES' END,
             concat_ws(', ', CASE WHEN p.pubinsert THEN 'insert' END, CASE WHEN p.pubupdate THEN 'update' END, CASE WHEN p.pubdelete THEN 'delete' END, CASE WHEN p.pubtruncate THEN 'truncate' END),
             CASE WHEN p.pubviaroot THEN 'true' ELSE 'false' END, CASE to_jsonb(p)->>'pubgencols' WHEN 's' THEN ', publish_generated_columns = stored' END)], NULL
FROM pg_publication p WHERE p.pubname !~ '^tidemark_'`},

	{classPubRel, 15, tidemark.AfterRows, `
SELECT r.oid, 'publication table', format('%I %I.%I', p.pubname, n.nspname, c.relname), c.oid, 0::oid,
       ARRAY[format('ALTER PUBLICATION %I ADD TABLE ONLY %I.%I%s%s', p.pubname, n.nspname, c.relname,
             ' (' || (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY u.n) FROM unnest(r.prattrs::int2[]) WITH ORDINALITY u(num, n)
                      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.num) || ')',
             ' WHERE (' || pg_get_expr(r.prqual, r.prrelid) || ')')], NULL
FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid AND p.pubname !~ '^tidemark_' JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace`},

	{classPubRel, -15, tidemark.AfterRows, `
SELECT r.oid, 'publication table', format('%I %I.%I', p.pubname, n.nspname, c.relname), c.oid, 0::oid,
       ARRAY[format('ALTER PUBLICATION %I ADD TABLE ONLY %I.%I', p.pubname, n.nspname, c.relname)], NULL
FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid AND p.pubname !~ '^tidemark_' JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace`},

	{classPubSchema, 15, tidemark.AfterRows, `
SELECT s.oid, 'publication schema', format('%I %I', p.pubname, n.nspname), 0::oid, 0::oid,
       ARRAY[format('ALTER PUBLICATION %I ADD TABLES IN SCHEMA %I', p.pubname, n.nspname)], NULL
FROM pg_publication_namespace s JOIN pg_publication p ON p.oid = s.pnpubid AND p.pubname !~ '^tidemark_' JOIN pg_namespace n ON n.oid = s.pnnspid`},
}

var aggregatesSQL = `
SELECT p.oid, 'aggregate', format('%I.%I(%s)', n.nspname, p.proname, coalesce(nullif(pg_get_function_identity_arguments(p.oid), ''), '*')), 0::oid, p.proowner,
       ARRAY[format('CREATE AGGREGATE %I.%I(%s) (%s)', n.nspname, p.proname, coalesce(nullif(pg_get_function_arguments(p.oid), ''), '*'), concat_ws(', ',
       'SFUNC = ' || a.aggtransfn, 'STYPE = ' || format_type(a.aggtranstype, NULL), CASE WHEN a.aggtransspace <> 0 THEN 'SSPACE = ' || a.aggtransspace END,
       CASE WHEN a.aggfinalfn <> 0 THEN 'FINALFUNC = ' || a.aggfinalfn END, CASE WHEN a.aggfinalextra THEN 'FINALFUNC_EXTRA' END,
       CASE WHEN a.aggfinalfn <> 0 THEN 'FINALFUNC_MODIFY = ' || CASE a.aggfinalmodify WHEN 'r' THEN 'READ_ONLY' WHEN 's' THEN 'SHAREABLE' ELSE 'READ_WRITE' END END,
       CASE WHEN a.aggcombinefn <> 0 THEN 'COMBINEFUNC = ' || a.aggcombinefn END, CASE WHEN a.aggserialfn <> 0 THEN 'SERIALFUNC = ' || a.aggserialfn END,
       CASE WHEN a.aggdeserialfn <> 0 THEN 'DESERIALFUNC = ' || a.aggdeserialfn END, 'INITCOND = ' || quote_literal(a.agginitval),
       CASE WHEN a.aggmtransfn <> 0 THEN concat_ws(', ', 'MSFUNC = ' || a.aggmtransfn, 'MINVFUNC = ' || a.aggminvtransfn, 'MSTYPE = ' || format_type(a.aggmtranstype, NULL),
            CASE WHEN a.aggmtransspace <> 0 THEN 'MSSPACE = ' || a.aggmtransspace END,
            CASE WHEN a.aggmfinalfn <> 0 THEN 'MFINALFUNC = ' || a.aggmfinalfn END, CASE WHEN a.aggmfinalextra THEN 'MFINALFUNC_EXTRA' END,
            CASE WHEN a.aggmfinalfn <> 0 THEN 'MFINALFUNC_MODIFY = ' || CASE a.aggmfinalmodify WHEN 'r' THEN 'READ_ONLY' WHEN 's' THEN 'SHAREABLE' ELSE 'READ_WRITE' END END,
            'MINITCOND = ' || quote_literal(a.aggminitval)) END,
       (SELECT format('SORTOP = OPERATOR(%I.%s)', son.nspname, so.oprname) FROM pg_operator so JOIN pg_namespace son ON son.oid = so.oprnamespace WHERE so.oid = a.aggsortop),
       CASE p.proparallel WHEN 's' THEN 'PARALLEL = SAFE' WHEN 'r' THEN 'PARALLEL = RESTRICTED' END, CASE WHEN a.aggkind = 'h' THEN 'HYPOTHETICAL' END))], NULL
FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE ` + userSchema + ` AND ` + notMember(classProc, "p.oid")

// readClasses creates the nodes of the objects that one query can write.
func (c *creator) readClasses(ctx context.Context) error {
	type row struct {
		OID        uint32
		Kind, Name string
		Rel, Owner uint32
		SQL, Stub  []string
	}
	here := slices.DeleteFunc(slices.Clone(classes), func(cl class) bool { return cl.since > c.db.Major || cl.since < 0 && c.db.Major >= -cl.since })
	for _, cl := range here {
		found, err := rows[row](ctx, c.catalogue, cl.sql)
		if err != nil {
			return err
		}
		for _, f := range found {
			a := address{uint32(cl.oid), f.OID}
			if _, member := c.graph.member[a]; member {
				continue
			}
			n := c.graph.add(a, &node{kind: f.Kind, name: f.Name, phase: cl.phase, rel: c.relations[f.Rel], owner: f.Owner, sql: f.SQL})
			if f.Stub != nil {
				n.set().make = f.Stub
			}
			switch cl.oid {
			case classStatExt:
				c.graph.spoken[a] = "STATISTICS " + f.Name
			case classUserMap, classPubRel, classPubSchema:
				c.graph.spoken[a] = ""
			}
			if n.kind == "shell type" {
				c.graph.spoken[a] = "TYPE " + f.Name
			}
			if cl.phase == tidemark.AfterTable && n.rel == nil {
				n.phase = tidemark.AfterRows
			}
		}
	}
	return nil
}

// readOpclassMembers adds operators and functions to operator classes and families.
func (c *creator) readOpclassMembers(ctx context.Context) error {
	type member struct {
		Class, ID, Owner uint32
		Text             string
	}
	found, err := rows[member](ctx, c.catalogue, `
		SELECT d.refclassid, d.refobjid, a.oid, format('OPERATOR %s %s%s', a.amopstrategy, a.op,
		       CASE WHEN a.amoppurpose = 'o' THEN format(' FOR ORDER BY %I.%I', sn.nspname, sf.opfname) END)
		FROM (SELECT o.*, format('%I.%s (%s, %s)', n.nspname, p.oprname, format_type(o.amoplefttype, NULL), format_type(o.amoprighttype, NULL)) AS op
		      FROM pg_amop o JOIN pg_operator p ON p.oid = o.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace WHERE o.oid >= 16384) a
		JOIN pg_depend d ON d.classid = 2602 AND d.objid = a.oid AND d.refclassid IN (2616, 2753) AND d.deptype IN ('i', 'a')
		LEFT JOIN pg_opfamily sf ON sf.oid = a.amopsortfamily LEFT JOIN pg_namespace sn ON sn.oid = sf.opfnamespace
		UNION ALL
		SELECT d.refclassid, d.refobjid, p.oid, format('FUNCTION %s (%s, %s) %s', p.amprocnum, format_type(p.amproclefttype, NULL),
		       format_type(p.amprocrighttype, NULL), p.amproc::regprocedure)
		FROM pg_amproc p JOIN pg_depend d ON d.classid = 2603 AND d.objid = p.oid AND d.refclassid IN (2616, 2753) AND d.deptype IN ('i', 'a')
		WHERE p.oid >= 16384
		ORDER BY 1, 2, 4`)
	members := map[*node][]string{}
	g := &c.graph
	for _, m := range found {
		a := address{m.Class, m.ID}
		class := uint32(classAmproc)
		if strings.HasPrefix(m.Text, "OPERATOR") {
			class = classAmop
		}
		g.alias[address{class, m.Owner}] = a
		if n := g.byID[a]; n != nil {
			members[n] = append(members[n], m.Text)
		}
	}
	for _, n := range g.nodes {
		m := members[n]
		switch n.kind {
		case "operator class":
			// Storage, then members; a class without storage names its own type as storage.
			if n.sql[1] != "" {
				m = append([]string{n.sql[1]}, m...)
			} else if len(m) == 0 {
				m = []string{"STORAGE " + n.sql[2]}
			}
			n.sql = []string{n.sql[0] + strings.Join(m, ", ")}
		case "operator family":
			if len(m) > 0 {
				n.sql = append(n.sql, "ALTER OPERATOR FAMILY "+n.name+" ADD "+strings.Join(m, ", "))
			}
		}
	}
	return err
}
