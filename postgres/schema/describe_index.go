package schema

import (
	"context"
	"fmt"

	"github.com/tidemarkdb/tidemark"
)

// A constraint is a row of pg_constraint.
type constraint struct {
	OID        uint32
	Name       string
	SQL        string // quoted name
	Kind       string // contype: c check, f foreign key, n not null, p primary, u unique, x exclusion
	Rel        uint32
	Domain     uint32
	Index      uint32
	Parent     uint32 // the parent, for a constraint that came with a partitioned table's
	RefRel     uint32
	Validated  bool
	NoInherit  bool
	Local      bool
	Deferrable bool
	Deferred   bool
	Key        []int16
	RefKey     []int16
	OnUpdate   string
	OnDelete   string
	Period     bool   // WITHOUT OVERLAPS
	Definition string // pg_get_constraintdef
	Expr       string // of a check: the condition alone

	rel  *relation
	node *node
}

const constraintsSQL = `
SELECT k.oid, k.conname, quote_ident(k.conname), k.contype::text, k.conrelid, k.contypid, k.conindid, k.conparentid, k.confrelid,
       k.convalidated, k.connoinherit, k.conislocal, k.condeferrable, k.condeferred,
       coalesce(k.conkey, '{}'), coalesce(k.confkey, '{}'), k.confupdtype::text, k.confdeltype::text, %s,
       CASE WHEN k.contype IN ('c', 'f', 'p', 'u', 'x') THEN pg_get_constraintdef(k.oid) ELSE '' END,
       CASE WHEN k.contype = 'c' AND k.conrelid <> 0 THEN pg_get_expr(k.conbin, k.conrelid) ELSE '' END
FROM pg_constraint k
JOIN pg_namespace n ON n.oid = k.connamespace
WHERE k.contype <> 't' AND ` + userSchema + `
ORDER BY k.conrelid, k.conname COLLATE "C"`

func (c *catalogue) readConstraints(ctx context.Context) error {
	found, err := rows[constraint](ctx, c, fmt.Sprintf(constraintsSQL, c.since(18, "k.conperiod", "false")))
	for _, k := range found {
		if k.Domain != 0 {
			if t := c.types[k.Domain]; t != nil {
				t.checks = append(t.checks, k)
			}
			continue
		}
		if k.rel = c.relations[k.Rel]; k.rel == nil {
			continue // of an extension, or temporary
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
			if len(k.Key) == 1 && k.rel.byNum[k.Key[0]] != nil {
				k.rel.byNum[k.Key[0]].notNull = k
			}
			c.origins.alias[address{classConstraint, k.OID}] = address{classClass, k.Rel}
		default:
			k.rel.keys = append(k.rel.keys, k)
		}
	}
	return err
}

// An index is a row of pg_index.
type index struct {
	named
	Rel        uint32
	Kind       string // relkind: i, or I on a partitioned table
	Definition string // pg_get_indexdef
	Unique     bool
	Valid      bool
	Clustered  bool
	ReplIdent  bool
	Method     string
	Where      string
	indexed
	Bytes      int64
	Parent     uint32 // index of the partitioned table to which this one is attached
	Tablespace bool
	Stats      []string // "3 SET STATISTICS 100"

	rel        *relation
	constraint *constraint
	children   []*index
	node       *node // the constraint's, if there is one
	build      *node // CREATE INDEX, if a constraint uses it
}

// indexed is what an index covers, column by column.
type indexed struct {
	Key        []int16 // attnum, 0 for an expression
	KeyN       int     // number of columns in Key that are not merely included
	Options    []int16
	Exprs      []string // per key column; nil if all are plain columns
	Classes    []uint32 // operator classes per key column
	Collations []uint32 // per key column
}

const indexesSQL = `
SELECT i.indexrelid, n.nspname, c.relname, format('%I.%I', n.nspname, c.relname), i.indrelid, c.relkind::text,
       pg_get_indexdef(i.indexrelid), i.indisunique, i.indisvalid, i.indisclustered, i.indisreplident,
       am.amname, coalesce(pg_get_expr(i.indpred, i.indrelid), ''), i.indkey::int2[], i.indnkeyatts::int, i.indoption::int2[],
       CASE WHEN i.indexprs IS NOT NULL THEN
            ARRAY(SELECT pg_get_indexdef(i.indexrelid, g, false) FROM generate_series(1, i.indnkeyatts) g) END,
       i.indclass::oid[], i.indcollation::oid[], coalesce(pg_relation_size(i.indexrelid), 0), coalesce(p.inhparent, 0::oid), c.reltablespace <> 0, s.stats
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_class t ON t.oid = i.indrelid AND t.relkind IN ('r', 'p', 'm') AND t.relpersistence <> 't'
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_am am ON am.oid = c.relam
LEFT JOIN pg_inherits p ON p.inhrelid = i.indexrelid
LEFT JOIN (SELECT attrelid, array_agg(format('%s SET STATISTICS %s', attnum, attstattarget) ORDER BY attnum) AS stats
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
	found, err := rows[index](ctx, c, indexesSQL)
	if err != nil {
		return err
	}
	byOID := make(map[uint32]*index, len(found))
	for _, x := range found {
		if x.rel = c.relations[x.Rel]; x.rel == nil {
			continue // of an extension
		}
		if !x.Valid && x.Kind == "i" {
			c.find(tidemark.Note, "index "+x.SQL, "it is invalid on the source (a CREATE INDEX CONCURRENTLY that failed), and is left out", "")
			c.origins.silent[address{classClass, x.OID}] = true
			continue
		}
		if x.Tablespace {
			c.find(tidemark.Note, "index "+x.SQL, "its tablespace is not copied: it is created in the target's default tablespace", "")
		}
		byOID[x.OID] = x
		x.rel.indexes = append(x.rel.indexes, x)
		c.indexes = append(c.indexes, x)
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
