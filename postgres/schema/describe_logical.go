package schema

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// addTables converts the wanted tables to the logical vocabulary. A partitioned table is wanted or
// not together with all its partitions.
func (c *catalogue) addTables() {
	for _, r := range c.ordered {
		switch r.Kind {
		case "r", "p", "v", "m", "f":
			if c.want(r.root().id()) {
				c.db.Tables = append(c.db.Tables, c.logicalTable(r))
			}
		}
	}
	if c.lobs && c.want(LargeObjects) {
		c.db.Tables = append(c.db.Tables, &tidemark.Table{TableID: LargeObjects, Form: tidemark.LargeObjects, Rows: -1, Columns: []tidemark.Column{
			{Name: "loid", NotNull: true, Type: tidemark.Type{Kind: tidemark.Int, Bits: 32, Unsigned: true, Native: "oid", Portable: true}},
			{Name: "pageno", Type: tidemark.Type{Kind: tidemark.Int, Bits: 32, Native: "integer", Portable: true}},
			{Name: "data", Type: tidemark.Type{Kind: tidemark.Blob, Native: "bytea", Portable: true}}}})
	}
}

func (c *catalogue) logicalTable(r *relation) *tidemark.Table {
	t := &tidemark.Table{TableID: r.id(), Bytes: r.Bytes, Rows: r.rows(), Comment: c.texts[address{classClass, r.OID}][0]}
	switch {
	case r.Kind == "v" || r.Kind == "m":
		t.Form = tidemark.View
	case r.Kind == "f":
		t.Form = tidemark.Foreign
	case r.Partition && len(r.parents) > 0:
		t.Form, t.PartitionOf = tidemark.Partition, r.root().id()
	case r.Kind == "p":
		t.Form = tidemark.Partitioned
	}
	if r.Persistence == "u" {
		t.Storage = "unlogged"
	}
	if r.Kind == "p" {
		t.Native = r.PartKey
		t.Partitions = r.leaves(nil)
		t.Rows, t.Bytes = 0, 0
		for _, p := range t.Partitions {
			t.Bytes += p.Bytes
			if p.Rows < 0 || t.Rows < 0 {
				t.Rows = -1
			} else {
				t.Rows += p.Rows
			}
		}
	}
	t.Columns = c.logicalColumns(r)
	for _, x := range r.indexes {
		i := c.logicalIndex(r, x)
		if k := x.constraint; k != nil && k.Kind == "p" {
			t.Key = &i
		} else {
			t.Indexes = append(t.Indexes, i)
		}
	}
	for _, k := range r.fks {
		if ref := c.relations[k.RefRel]; ref != nil {
			t.ForeignKeys = append(t.ForeignKeys, tidemark.ForeignKey{Name: k.Name, Columns: r.names(k.Key.nums()), Ref: ref.id(), RefColumns: ref.names(k.RefKey.nums()),
				OnUpdate: action[k.OnUpdate], OnDelete: action[k.OnDelete], Deferrable: k.Deferrable, Deferred: k.Deferred})
		}
	}
	for _, k := range r.checks {
		if k.Expr != "" {
			t.Checks = append(t.Checks, tidemark.Check{Name: k.Name, Expr: k.Expr, Unchecked: unchecked(k)})
		}
	}
	return t
}

var action = map[string]string{"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}

// rows returns the server's estimate, -1 if the table was never vacuumed or analysed. Before
// version 14 such a table has 0 pages and 0 tuples.
func (e extent) rows() int64 {
	if e.Tuples < 0 || e.Tuples == 0 && e.Pages == 0 && e.Bytes > 0 {
		return -1
	}
	return int64(e.Tuples)
}

func (r *relation) leaves(out []tidemark.Part) []tidemark.Part {
	for _, child := range r.children {
		switch child.Kind {
		case "p":
			out = child.leaves(out)
		case "r":
			out = append(out, tidemark.Part{Table: child.id(), Rows: child.rows(), Bytes: child.Bytes})
		}
	}
	return out
}

func (r *relation) names(nums []int16) []string {
	out := make([]string, 0, len(nums))
	for _, n := range nums {
		if col := r.column(n); col != nil {
			out = append(out, col.Name)
		}
	}
	return out
}

// logicalColumns returns the columns of a relation. Those of hundreds of thousands of tables may be
// equal: tables share them if these have nothing of their own.
func (c *catalogue) logicalColumns(r *relation) []tidemark.Column {
	var sum uint64
	own := len(c.texts[address{classClass, r.OID}]) > 0
	for _, col := range r.columns {
		own = own || col.def != nil || col.sequence != nil
		sum = sum*31 + maphash.Comparable(c.seed, col.shape())
	}
	if was := c.alike[sum]; !own && was.r != nil && slices.EqualFunc(was.r.columns, r.columns, func(a, b *column) bool { return a.shape() == b.shape() }) {
		return was.columns
	}
	out := make([]tidemark.Column, 0, len(r.columns))
	for _, col := range r.columns {
		out = append(out, c.logicalColumn(r, col))
	}
	if !own {
		c.alike[sum] = columns{r, out}
	}
	return out
}

// columns are those of a relation, in logical form.
type columns struct {
	r       *relation
	columns []tidemark.Column
}

func (c *catalogue) logicalColumn(r *relation, col *column) tidemark.Column {
	out := tidemark.Column{Name: col.Name, Type: c.logical(col.Type, col.Mod, col.Native), NotNull: col.NotNull, Number: int32(col.Num),
		Comment: c.texts[address{classClass, r.OID}][int32(col.Num)]}
	out.Type.Collation = col.Collation
	if t := c.types[col.Type]; t != nil && t.Class == "d" {
		out.NotNull = out.NotNull || t.NotNull
	}
	if d := col.def; d != nil {
		if col.Generated != "" {
			out.Generated, out.Virtual = d.Expr, col.Generated == "v"
			return out
		}
		var next string
		if out.Default, next = classify(d.Expr, out.Type); next != "" {
			s := c.sequenceNamed(next, r.Schema)
			own := s != nil && s.owner == r && s.OwnerNum == col.Num && out.Type.Kind == tidemark.Decimal && out.Type.Scale == 0 // bigint unsigned of a copy
			if own || s != nil && out.Type.Kind == tidemark.Int {
				if out.Identity = s.identity(); s.owner != r || s.OwnerNum != col.Num {
					out.Identity.Sequence = s.rel.id().String()
				}
			} else {
				out.Default = &tidemark.Default{Kind: tidemark.Expression, Text: d.Expr}
			}
		}
	}
	if col.sequence != nil {
		out.Identity = col.sequence.identity()
		out.Identity.Always = col.Identity == "a"
	}
	return out
}

// sequenceNamed finds a sequence by its name in a default, which the search path completes when it
// is used: most likely by the table's schema.
func (c *catalogue) sequenceNamed(name, schema string) *sequence {
	for _, try := range []string{name, server.QuoteIdent(schema) + "." + name, "public." + name} {
		if s := c.byName[try]; s != nil {
			return s
		}
	}
	return nil
}

func (s *sequence) identity() *tidemark.Identity {
	return &tidemark.Identity{Start: s.Start, Increment: s.Increment, Next: s.next()}
}

func (c *catalogue) logicalIndex(r *relation, x *index) tidemark.Index {
	i := tidemark.Index{Name: x.Name, Unique: x.Unique, Constraint: x.constraint != nil && x.constraint.Kind == "u", Method: x.Method, Where: x.Where,
		NullsEqual: x.Unique && strings.Contains(x.Definition, ") NULLS NOT DISTINCT"),
		Comment:    c.texts[address{classClass, x.OID}][0]}
	for n, num := range x.Key {
		if n >= x.KeyN {
			i.Include = append(i.Include, r.names([]int16{num})...)
			continue
		}
		var p tidemark.IndexPart
		if col := r.column(num); num != 0 && col != nil {
			p.Column = col.Name
		} else if n < len(x.Exprs) {
			p.Expr = x.Exprs[n]
		}
		if words := c.indexWords(x, n, r.column(num)); words != "" { // the vocabulary has no terms for them
			p.Expr = strings.TrimSpace(p.Expr + quoteColumn(p.Column) + words)
			p.Column = ""
		}
		p.Desc = n < len(x.Options) && x.Options[n]&1 != 0
		i.Parts = append(i.Parts, p)
	}
	return i
}

// indexWords returns the collation and operator class of an index's column, unless they are the
// column's own and the default. An expression has its collation in its text.
func (c *catalogue) indexWords(x *index, n int, col *column) string {
	var s string
	if n < len(x.Collations) && x.Collations[n] != 0 && col != nil && x.Collations[n] != col.Coll {
		s = c.words[x.Collations[n]]
	}
	if n < len(x.Classes) {
		s += c.words[x.Classes[n]]
	}
	return s
}

func quoteColumn(name string) string {
	if name == "" {
		return ""
	}
	return server.QuoteIdent(name)
}

// unchecked returns why rows may violate a check; "" if they may not.
func unchecked(k *constraint) string {
	switch {
	case strings.HasSuffix(k.Definition, " "+tidemark.NotEnforced):
		return tidemark.NotEnforced
	case !k.Validated:
		return tidemark.NotValid
	}
	return ""
}
