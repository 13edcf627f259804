package schema

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A constraint is a row of pg_constraint.
type constraint struct {
	OID    uint32
	Name   string
	SQL    string // quoted name
	Rel    uint32
	Domain uint32
	Index  uint32
	Parent uint32 // the parent, for a constraint that came with a partitioned table's
	RefRel uint32
	*terms

	rel  *relation
	node *node
}

// terms are what many constraints have in common, so that they share them.
type terms struct {
	Kind       string // contype: c check, f foreign key, n not null, p primary, u unique, x exclusion
	Validated  bool
	NoInherit  bool
	Local      bool
	Deferrable bool
	Deferred   bool
	Key        columnList
	RefKey     columnList
	OnUpdate   string
	OnDelete   string
	Period     bool   // WITHOUT OVERLAPS
	Definition string // pg_get_constraintdef; not of a key that takes an index over
	Expr       string // of a check: the condition alone
}

// A columnList has the numbers of columns, as "1 2".
type columnList string

// nums returns the numbers.
func (l columnList) nums() []int16 { return numbers[int16](string(l)) }

// numbers reads numbers separated by spaces.
func numbers[T int16 | uint32](text string) []T {
	words := strings.Fields(text)
	out := make([]T, len(words))
	for i, w := range words {
		n, _ := strconv.ParseInt(w, 10, 64) // the server has written it
		out[i] = T(n)
	}
	return out
}

const constraintsSQL = `
SELECT k.oid, k.conname, quote_ident(k.conname), k.contype::text, k.conrelid, k.contypid, k.conindid, k.conparentid, k.confrelid,
       k.convalidated, k.connoinherit, k.conislocal, k.condeferrable, k.condeferred,
       coalesce(array_to_string(k.conkey, ' '), ''), coalesce(array_to_string(k.confkey, ' '), ''), k.confupdtype::text, k.confdeltype::text, %[1]s,
       CASE WHEN k.contype IN ('c', 'f', 'x') OR k.contype IN ('p', 'u') AND (r.relkind = 'p' OR %[1]s) THEN pg_get_constraintdef(k.oid) ELSE '' END,
       CASE WHEN k.contype = 'c' AND k.conrelid <> 0 THEN pg_get_expr(k.conbin, k.conrelid) ELSE '' END
FROM pg_constraint k
JOIN pg_namespace n ON n.oid = k.connamespace
LEFT JOIN pg_class r ON r.oid = k.conrelid
WHERE k.contype <> 't' AND ` + userSchema + `
ORDER BY k.conrelid, k.conname COLLATE "C"`

func (c *catalogue) readConstraints(ctx context.Context) error {
	query := fmt.Sprintf(constraintsSQL, c.since(18, "k.conperiod", "false"))
	var row constraint
	var t terms
	common := map[terms]*terms{}
	return c.each(ctx, query, []any{&row.OID, &row.Name, &row.SQL, &t.Kind, &row.Rel, &row.Domain, &row.Index, &row.Parent, &row.RefRel,
		&t.Validated, &t.NoInherit, &t.Local, &t.Deferrable, &t.Deferred, &t.Key, &t.RefKey, &t.OnUpdate, &t.OnDelete, &t.Period,
		&t.Definition, &t.Expr}, func() error {
		own := row
		own.terms = shared(common, t)
		if own.SQL == own.Name {
			own.SQL = own.Name
		}
		c.addConstraint(&own)
		return nil
	})
}

// addConstraint adds a constraint to what it belongs to.
func (c *catalogue) addConstraint(k *constraint) {
	if k.Domain != 0 {
		if t := c.types[k.Domain]; t != nil {
			t.checks = append(t.checks, k)
		}
		return
	}
	if k.rel = c.relations[k.Rel]; k.rel == nil {
		return // of an extension, or temporary
	}
	switch k.Kind {
	case "c":
		k.rel.checks = append(k.rel.checks, k)
	case "f":
		if k.Parent == 0 {
			k.rel.fks = append(k.rel.fks, k)
		} else {
			c.origins.silent[address{classConstraint, k.OID}] = true // comes with its parent
		}
	case "n":
		if key := k.Key.nums(); len(key) == 1 && k.rel.column(key[0]) != nil {
			k.rel.column(key[0]).notNull = k
		}
		c.origins.alias[address{classConstraint, k.OID}] = address{classClass, k.Rel}
	default:
		k.rel.keys = append(k.rel.keys, k)
	}
}

// An index is a row of pg_index.
type index struct {
	named
	Rel        uint32
	Parent     uint32 // index of the partitioned table to which this one is attached
	Definition string // pg_get_indexdef; "" for a key's, as the server does by default: see create
	*shape
	Bytes int64    // those of its table if that is small
	Stats []string // "3 SET STATISTICS 100"

	rel        *relation
	constraint *constraint
	children   []*index
	node       *node // the constraint's, if there is one
	build      *node // CREATE INDEX, if a constraint uses it
}

// shape is what many indexes have in common, so that they share it.
type shape struct {
	form
	Key        []int16  // attnum, 0 for an expression
	Options    []int16  // per key column
	Exprs      []string // per key column; nil if all are plain columns
	Classes    []uint32 // operator classes per key column
	Collations []uint32 // per key column
}

// form is a shape without lists.
type form struct {
	Kind       string // relkind: i, or I on a partitioned table
	Unique     bool
	Valid      bool
	Clustered  bool
	ReplIdent  bool
	Method     string
	Where      string
	KeyN       int // number of columns in Key that are not merely included
	Tablespace bool
}

const indexesSQL = `
SELECT i.indexrelid, n.nspname, c.relname, format('%%I.%%I', n.nspname, c.relname), i.indrelid, c.relkind::text,
       CASE WHEN k.oid IS NOT NULL AND i.indexprs IS NULL AND i.indpred IS NULL AND am.amname = 'btree' AND c.reloptions IS NULL AND i.indnatts = i.indnkeyatts
            AND i.indcollation::text !~ '[1-9]' AND i.indoption::text !~ '[1-9]' AND %s THEN '' ELSE pg_get_indexdef(i.indexrelid) END, i.indisunique, i.indisvalid, i.indisclustered, i.indisreplident,
       am.amname, coalesce(pg_get_expr(i.indpred, i.indrelid), ''), i.indkey::text, i.indnkeyatts::int, i.indoption::text,
       CASE WHEN i.indexprs IS NOT NULL THEN
            ARRAY(SELECT pg_get_indexdef(i.indexrelid, g, false) FROM generate_series(1, i.indnkeyatts) g) END,
       i.indclass::text, i.indcollation::text, coalesce(p.inhparent, 0::oid), c.reltablespace <> 0, s.stats
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_class t ON t.oid = i.indrelid AND t.relkind IN ('r', 'p', 'm') AND t.relpersistence <> 't'
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_am am ON am.oid = c.relam
LEFT JOIN pg_inherits p ON p.inhrelid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u') AND t.relkind = 'r'
LEFT JOIN (SELECT attrelid, array_agg(format('%%s SET STATISTICS %%s', attnum, attstattarget) ORDER BY attnum) AS stats
           FROM pg_attribute WHERE attstattarget >= 0 AND attnum > 0 AND attrelid >= 16384 GROUP BY 1) s ON s.attrelid = i.indexrelid
WHERE ` + userSchema + `
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"`

// readWords reads how collations and non-default operator classes are written in an index.
func (c *catalogue) readWords(ctx context.Context) error {
	type word struct {
		OID  uint32
		Text string
	}
	found, err := rows[word](ctx, c, `
		SELECT o.oid, format(' %I.%I', n.nspname, o.opcname) FROM pg_opclass o JOIN pg_namespace n ON n.oid = o.opcnamespace WHERE NOT o.opcdefault
		UNION ALL SELECT c.oid, format(' COLLATE %I.%I', n.nspname, c.collname) FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace`)
	c.words = make(map[uint32]string, len(found))
	for _, w := range found {
		c.words[w.OID] = w.Text
	}
	return err
}

func (c *catalogue) readIndexes(ctx context.Context) error {
	if err := c.readWords(ctx); err != nil {
		return err
	}
	var row index
	var f form
	var key, options, classes, collations string
	var exprs []string
	type alike struct {
		form
		lists string
	}
	names, common := map[string]string{}, map[alike]*shape{}
	byOID := map[uint32]*index{}
	err := c.each(ctx, fmt.Sprintf(indexesSQL, c.since(15, "NOT i.indnullsnotdistinct", "true")), []any{&row.OID, &row.Schema, &row.Name, &row.SQL, &row.Rel, &f.Kind, &row.Definition, &f.Unique, &f.Valid, &f.Clustered,
		&f.ReplIdent, &f.Method, &f.Where, &key, &f.KeyN, &options, &exprs, &classes, &collations, &row.Parent, &f.Tablespace, &row.Stats}, func() error {
		x := row
		x.Schema, x.Name = share(names, row.Schema), row.named.inSQL()
		lists := alike{f, key + "/" + options + "/" + classes + "/" + collations}
		if x.shape = common[lists]; x.shape == nil || exprs != nil {
			x.shape = &shape{f, numbers[int16](key), numbers[int16](options), exprs, numbers[uint32](classes), numbers[uint32](collations)}
			if exprs == nil {
				common[lists] = x.shape
			}
		}
		exprs, row.Stats = nil, nil
		c.addIndex(&x, byOID)
		return nil
	})
	if err != nil {
		return err
	}
	for _, x := range c.indexes {
		if p := byOID[x.Parent]; p != nil {
			p.children = append(p.children, x)
		}
	}
	for _, r := range c.ordered {
		for _, k := range r.keys {
			if x := byOID[k.Index]; x != nil {
				x.constraint = k
			} else {
				c.find(tidemark.Warning, "constraint "+k.Name+" on "+r.SQL, "its index is invalid on the source, and so it is left out", "")
				c.origins.silent[address{classConstraint, k.OID}] = true
			}
		}
	}
	return nil
}

// create returns the statement that creates the index, as pg_get_indexdef does. That takes the
// server longer than all else about an index, and keys are alike.
func (x *index) create() string {
	if x.Definition != "" {
		return x.Definition
	}
	schema := x.Schema
	if x.SQL[0] == '"' {
		schema = `"` + strings.ReplaceAll(schema, `"`, `""`) + `"`
	}
	columns := make([]string, len(x.Key))
	for i, num := range x.Key {
		columns[i] = x.rel.column(num).SQL
	}
	return "CREATE UNIQUE INDEX " + strings.TrimPrefix(x.SQL, schema+".") + " ON " + x.rel.SQL + " USING btree (" + strings.Join(columns, ", ") + ")"
}

// addIndex adds an index to its relation and to byOID, unless it is invalid.
func (c *catalogue) addIndex(x *index, byOID map[uint32]*index) {
	if x.rel = c.relations[x.Rel]; x.rel == nil {
		return // of an extension
	}
	if !x.Valid && x.Kind == "i" {
		c.find(tidemark.Note, "index "+x.SQL, "it is invalid on the source (a CREATE INDEX CONCURRENTLY that failed), and is left out", "")
		c.origins.silent[address{classClass, x.OID}] = true
		return
	}
	if x.Tablespace {
		c.find(tidemark.Note, "index "+x.SQL, "its tablespace is not copied: it is created in the target's default tablespace", "")
	}
	byOID[x.OID], x.Bytes = x, x.rel.Bytes
	x.rel.indexes = append(x.rel.indexes, x)
	c.indexes = append(c.indexes, x)
}

// ownSize is how many bytes a table has whose indexes' sizes are asked for: the server opens each
// file for its size.
const ownSize = smallKey / 2

// readIndexSizes reads the sizes of indexes, unless their tables are small.
func (c *catalogue) readIndexSizes(ctx context.Context) error {
	large := map[uint32]*index{}
	var ids []uint32
	for _, x := range c.indexes {
		if x.Kind == "i" && x.rel.Bytes > ownSize {
			large[x.OID], ids = x, append(ids, x.OID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	type size struct {
		OID   uint32
		Bytes int64
	}
	found, err := server.Rows[size](ctx, c.conn, "SELECT i, coalesce(pg_relation_size(i), 0) FROM unnest($1::oid[]) i", ids)
	for _, f := range found {
		large[f.OID].Bytes = f.Bytes
	}
	return err
}
