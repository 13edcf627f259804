package schema

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A relation is a row of pg_class that is not an index: a table of any form, view, sequence or
// composite type. Text fields hold quoted and qualified SQL.
type relation struct {
	named
	*traits
	extent

	columns  []*column   // by number
	parents  []*relation // parents by inheritance, in order; for a partition the partitioned table
	children []*relation
	checks   []*constraint
	keys     []*constraint // primary, unique, exclusion
	fks      []*constraint
	indexes  []*index
	owned    []*sequence // serial sequences
	node     *node
}

// traits are what many relations have in common, so that they share them.
type traits struct {
	Kind        string // relkind: r p v m f c S
	Owner       uint32
	OfType      string // type of a typed table
	Partition   bool
	Bound       string // of a partition: FOR VALUES ...
	PartKey     string // of a partitioned table: RANGE (logdate)
	ReplIdent   string // relreplident: d n f i
	RowSecurity bool
	ForceRLS    bool
	storage
	Populated bool
	foreign
	Definition string // view: SELECT ...
}

func (r *relation) id() tidemark.TableID { return tidemark.TableID{Schema: r.Schema, Name: r.Name} }

// column returns a column by its number; nil if there is none.
func (r *relation) column(num int16) *column {
	i, ok := slices.BinarySearchFunc(r.columns, num, func(c *column, num int16) int { return cmp.Compare(c.Num, num) })
	if !ok {
		return nil
	}
	return r.columns[i]
}

// root returns the top of a partition tree.
func (r *relation) root() *relation {
	for r.Partition && len(r.parents) > 0 {
		r = r.parents[0]
	}
	return r
}

// storage describes how a relation's rows are stored.
type storage struct {
	Persistence string // relpersistence: p, u
	Options     string // of WITH (...)
	AM          string // access method, unless it is heap
	Tablespace  string
}

// extent is the size of a relation.
type extent struct {
	Tuples float64 // reltuples
	Pages  int64   // relpages
	Bytes  int64
}

// foreign is the location of a foreign table's rows.
type foreign struct {
	Server     string
	FdwOptions string
}

// A column is a row of pg_attribute.
type column struct {
	Rel  uint32
	Type uint32
	Name string
	SQL  string // quoted
	Mod  int32
	Num  int16
	*settings

	def      *attrdef
	notNull  *constraint // PostgreSQL 18
	sequence *sequence   // of an identity column
}

// shape is a column without the table that it is of, its default and its sequence.
func (col *column) shape() (s columnShape) {
	return columnShape{col.Name, col.Type, col.Mod, col.Num, col.settings}
}

type columnShape struct {
	name string
	typ  uint32
	mod  int32
	num  int16
	*settings
}

// settings are what many columns have in common, so that they share them.
type settings struct {
	Native      string // format_type
	NotNull     bool
	Local       bool
	Identity    string // attidentity: a always, d by default
	Generated   string // attgenerated: s stored, v virtual
	Collation   string // unless it is the type's own
	Storage     string // unless it is the type's own: PLAIN ...
	Compression string // pglz, lz4
	Statistics  int    // -1 for the default
	Options     string // n_distinct=...
	FdwOptions  string
	Coll        uint32 // attcollation
}

// An attrdef is a row of pg_attrdef: a default or generation expression.
type attrdef struct {
	OID  uint32
	Rel  uint32
	Num  int16
	Expr string
	node *node
}

// optionsSQL converts an array of options to the text between the parentheses of WITH.
func optionsSQL(array, prefix string) string {
	return fmt.Sprintf(`(SELECT string_agg(%s || quote_ident(option_name) || '=' || quote_literal(option_value), ', ') FROM pg_options_to_table(%s))`,
		server.QuoteLiteral(prefix), array)
}

// fdwOptionsSQL converts an array of options to the text of OPTIONS on foreign objects, without
// secrets.
func fdwOptionsSQL(array string) string {
	return fmt.Sprintf(`(SELECT string_agg(format('%%I %%L', option_name, option_value), ', ')
		FROM pg_options_to_table(%s) WHERE option_name !~* '%s')`, array, secretOption)
}

// secretOption matches names of options that are never copied.
const secretOption = `pass|secret|token|private|credential|(^|_)pwd$|(^|[^a-z])key$`

const relationsSQL = `
SELECT c.oid, n.nspname, c.relname, format('%%I.%%I', n.nspname, c.relname), c.relkind::text, c.relowner,
       CASE WHEN c.reloftype <> 0 THEN c.reloftype::regtype::text ELSE '' END,
       c.relispartition, coalesce(pg_get_expr(c.relpartbound, c.oid), ''),
       CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) ELSE '' END,
       c.relreplident::text, c.relrowsecurity, c.relforcerowsecurity, c.relpersistence::text,
       concat_ws(', ', CASE WHEN c.reloptions IS NOT NULL THEN %s END, CASE WHEN tc.reloptions IS NOT NULL THEN %s END),
       CASE WHEN am.amname <> 'heap' THEN quote_ident(am.amname) ELSE '' END, coalesce(ts.spcname, ''), c.reltuples::float8, c.relpages::bigint,
       CASE WHEN c.relkind IN ('r', 'm') THEN (SELECT heap + CASE WHEN heap > 0 AND c.reltoastrelid <> 0 THEN coalesce(pg_relation_size(c.reltoastrelid), 0) ELSE 0 END
            FROM (SELECT coalesce(pg_relation_size(c.oid), 0) AS heap) size) ELSE 0 END,
       c.relispopulated, coalesce(quote_ident(fs.srvname), ''), coalesce(CASE WHEN ft.ftoptions IS NOT NULL THEN %s END, ''),
       CASE WHEN c.relkind IN ('v', 'm') THEN rtrim(pg_get_viewdef(c.oid), ';') ELSE '' END
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_class tc ON tc.oid = c.reltoastrelid AND c.reltoastrelid <> 0
LEFT JOIN pg_am am ON am.oid = c.relam AND c.relkind IN ('r', 'p', 'm')
LEFT JOIN pg_tablespace ts ON ts.oid = c.reltablespace
LEFT JOIN pg_foreign_table ft ON ft.ftrelid = c.oid
LEFT JOIN pg_foreign_server fs ON fs.oid = ft.ftserver
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c', 'S') AND c.relpersistence <> 't' AND ` + userSchema + ` AND %s
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"`

func (c *catalogue) readRelations(ctx context.Context) error {
	query := fmt.Sprintf(relationsSQL, optionsSQL("c.reloptions", ""), optionsSQL("tc.reloptions", "toast."), fdwOptionsSQL("ft.ftoptions"), notMember(classClass, "c.oid"))
	var r relation
	var t traits
	names, common := map[string]string{}, map[traits]*traits{}
	return c.each(ctx, query, []any{&r.OID, &r.Schema, &r.Name, &r.SQL, &t.Kind, &t.Owner, &t.OfType, &t.Partition, &t.Bound, &t.PartKey, &t.ReplIdent,
		&t.RowSecurity, &t.ForceRLS, &t.Persistence, &t.Options, &t.AM, &t.Tablespace, &r.Tuples, &r.Pages, &r.Bytes, &t.Populated, &t.Server, &t.FdwOptions,
		&t.Definition}, func() error {
		own := r
		own.Schema, own.traits = share(names, r.Schema), shared(common, t)
		own.Name = own.named.inSQL()
		c.relations[r.OID] = &own
		c.ordered = append(c.ordered, &own)
		if t.Tablespace != "" {
			c.find(tidemark.Note, r.SQL, "its tablespace "+t.Tablespace+" is not copied: it is created in the target's default tablespace", "")
		}
		return nil
	})
}

const columnsSQL = `
SELECT a.attrelid, a.attnum, a.attname, quote_ident(a.attname), a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod),
       a.attnotnull, a.attidentity::text, a.attgenerated::text, a.attislocal,
       CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN format('%%I.%%I', cn.nspname, co.collname) ELSE '' END,
       CASE WHEN a.attstorage <> t.typstorage THEN
            CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'x' THEN 'EXTENDED' ELSE 'MAIN' END ELSE '' END,
       %s, coalesce(a.attstattarget, -1)::int,
       CASE WHEN a.attoptions IS NULL THEN '' ELSE %s END, CASE WHEN a.attfdwoptions IS NULL THEN '' ELSE coalesce(%s, '') END, a.attcollation
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c') AND c.relpersistence <> 't' AND ` + userSchema + `
ORDER BY a.attrelid, a.attnum`

func (c *catalogue) readColumns(ctx context.Context) error {
	query := fmt.Sprintf(columnsSQL,
		c.since(14, "CASE a.attcompression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' ELSE '' END", "''"),
		optionsSQL("a.attoptions", ""), fdwOptionsSQL("a.attfdwoptions"))
	// The largest result of all: scanned by hand, since reflection would take twice as long.
	var a column
	var s settings
	a.settings = &s
	names, common := map[string]string{}, map[settings]*settings{}
	return c.each(ctx, query, []any{&a.Rel, &a.Num, &a.Name, &a.SQL, &a.Type, &a.Mod, &a.Native, &a.NotNull, &a.Identity,
		&a.Generated, &a.Local, &a.Collation, &a.Storage, &a.Compression, &a.Statistics, &a.Options, &a.FdwOptions, &a.Coll}, func() error {
		r := c.relations[a.Rel]
		if r == nil {
			return nil
		}
		col := a
		col.Name = share(names, a.Name)
		if col.SQL = col.Name; a.SQL != a.Name {
			col.SQL = share(names, a.SQL)
		}
		col.settings = shared(common, s)
		r.columns = append(r.columns, &col)
		return nil
	})
}

// shared returns the value that was seen first of those that are equal.
func shared[T comparable](seen map[T]*T, v T) *T {
	if was := seen[v]; was != nil {
		return was
	}
	own := v
	seen[v] = &own
	return &own
}

// share returns the text that was seen first of those that are equal.
func share(seen map[string]string, text string) string {
	if was, ok := seen[text]; ok {
		return was
	}
	seen[text] = text
	return text
}

func (c *catalogue) readInheritance(ctx context.Context) error {
	type link struct{ Child, Parent uint32 }
	found, err := rows[link](ctx, c, `SELECT inhrelid, inhparent FROM pg_inherits ORDER BY inhrelid, inhseqno`)
	for _, l := range found {
		if child, parent := c.relations[l.Child], c.relations[l.Parent]; child != nil && parent != nil {
			child.parents = append(child.parents, parent)
			parent.children = append(parent.children, child)
		} else if child != nil {
			c.find(tidemark.Warning, child.SQL, "it inherits from an extension's table, and becomes an independent table", "")
		}
	}
	return err
}

func (c *catalogue) readDefaults(ctx context.Context) error {
	found, err := rows[attrdef](ctx, c, `SELECT d.oid, d.adrelid, d.adnum, pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
		JOIN pg_class c ON c.oid = d.adrelid AND c.relpersistence <> 't' WHERE d.oid >= 16384`)
	for _, d := range found {
		if r := c.relations[d.Rel]; r != nil && r.column(d.Num) != nil {
			r.column(d.Num).def = d
		}
	}
	return err
}

// A sequence is a row of pg_sequence, with its state.
type sequence struct {
	OID       uint32
	Type      string
	Start     int64
	Increment int64
	Min, Max  int64
	Cache     int64
	Cycle     bool
	OwnerRel  uint32
	OwnerNum  int16
	Internal  bool // created by an identity column
	Last      int64
	Called    bool
	Known     bool // Last and Called could be read

	rel   *relation
	owner *relation
}

// next returns the value that nextval would return, 0 if that is unknown.
func (s *sequence) next() uint64 {
	n := s.Last
	if s.Called {
		n += s.Increment
	}
	if !s.Known || n < 0 {
		return 0
	}
	return uint64(n)
}

const sequencesSQL = `
SELECT s.seqrelid, format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle,
       coalesce(d.refobjid, 0::oid), coalesce(d.refobjsubid, 0)::int2, coalesce(d.deptype = 'i', false),
       coalesce(CASE WHEN p.may THEN pg_sequence_last_value(s.seqrelid) END, s.seqstart),
       CASE WHEN p.may THEN pg_sequence_last_value(s.seqrelid) END IS NOT NULL, p.may
FROM pg_sequence s
JOIN pg_class c ON c.oid = s.seqrelid AND c.relpersistence <> 't'
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (SELECT has_sequence_privilege(s.seqrelid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE') AS may) p
LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.seqrelid AND d.objsubid = 0
     AND d.refclassid = 'pg_class'::regclass AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
WHERE ` + userSchema

func (c *catalogue) readSequences(ctx context.Context) error {
	found, err := rows[sequence](ctx, c, sequencesSQL)
	if err != nil {
		return err
	}
	for _, s := range found {
		if s.rel = c.relations[s.OID]; s.rel == nil {
			continue // of an extension
		}
		c.sequences[s.OID], c.byName[s.rel.SQL] = s, s
		if !s.Known {
			c.find(tidemark.Warning, "sequence "+s.rel.SQL, "its value cannot be read, and will be its start value on the target",
				"GRANT SELECT ON SEQUENCE "+s.rel.SQL+" to the user of the source.")
		} else if !s.Called {
			c.fresh = append(c.fresh, s)
		}
		if s.owner = c.relations[s.OwnerRel]; s.owner == nil {
			continue
		}
		if s.Internal {
			s.owner.column(s.OwnerNum).sequence = s
		} else {
			s.owner.owned = append(s.owner.owned, s)
		}
	}
	return nil
}

// readFreshSequences reads the state of sequences that have not returned a value yet, since setval
// may have set any position.
func (c *catalogue) readFreshSequences(ctx context.Context) error {
	for fresh := c.fresh; len(fresh) > 0; {
		n := min(len(fresh), 100)
		parts := make([]string, n)
		for i, s := range fresh[:n] {
			parts[i] = fmt.Sprintf("SELECT %d, last_value, is_called FROM %s", i, s.rel.SQL)
		}
		r, err := c.conn.Query(ctx, strings.Join(parts, " UNION ALL "), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		var i int
		var last int64
		var called bool
		if _, err := pgx.ForEachRow(r, []any{&i, &last, &called}, func() error {
			fresh[i].Last, fresh[i].Called = last, called
			return nil
		}); err != nil {
			return err
		}
		fresh = fresh[n:]
	}
	return nil
}
