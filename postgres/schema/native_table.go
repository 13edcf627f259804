package schema

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// addNative creates the nodes of everything that depends on relations; readClasses has created the
// others.
func (c *creator) addNative(context.Context) error {
	for _, r := range c.ordered {
		switch r.Kind {
		case "r", "p", "f":
			c.addTable(r)
		case "v":
			c.addView(r)
		case "m":
			c.addMatview(r)
		case "S":
			c.addSequence(c.sequences[r.OID])
		}
	}
	c.addDomains()
	for _, r := range c.ordered {
		if r.node == nil {
			continue
		}
		for _, p := range r.parents {
			c.graph.need(r.node, p.node)
		}
		c.addKeys(r)
		c.addForeignKeys(r)
		c.addMarks(r)
		c.addAnalyze(r)
	}
	return nil
}

func (c *creator) addTable(r *relation) {
	g := &c.graph
	kind := "table"
	if r.Kind == "f" {
		kind = "foreign table"
	}
	r.node = g.add(address{classClass, r.OID}, &node{kind: kind, name: r.SQL, rel: r, owner: r.Owner})
	r.node.build = func(to int) []string { return tableSQL(r, to) }
	c.limitTable(r)
	for _, col := range r.columns {
		if d := col.def; d != nil {
			d.node = g.add(address{classAttrdef, d.OID}, &node{kind: "default", name: r.SQL + "." + col.SQL, rel: r,
				host: r.node, fixed: col.Generated != "", sql: []string{setDefault(r, col)}})
		}
		if k := col.notNull; k != nil {
			g.spoken[address{classConstraint, k.OID}], g.newer[address{classConstraint, k.OID}] = "CONSTRAINT "+k.SQL+" ON "+r.SQL, 18
			if !k.Validated {
				g.need(g.add(address{}, &node{kind: "check", name: k.SQL + " ON " + r.SQL, rel: r, phase: tidemark.AfterRows, seldom: &seldom{limits: notValid},
					sql: []string{fmt.Sprintf("ALTER TABLE ONLY %s ADD CONSTRAINT %s NOT NULL %s%s NOT VALID", r.SQL, k.SQL, col.SQL, noInherit(k))}}), r.node)
			}
		}
		if col.sequence != nil {
			g.alias[address{classClass, col.sequence.OID}] = address{classClass, r.OID}
		}
	}
	for _, k := range r.checks {
		a := address{classConstraint, k.OID}
		k.node = g.add(a, &node{kind: "check", name: k.SQL + " ON " + r.SQL, rel: r, host: r.node,
			sql: []string{"ALTER TABLE " + r.SQL + " ADD CONSTRAINT " + k.SQL + " " + k.Definition}})
		k.node.limitTo(enforcement(k)...)
		if !k.Local && !r.Partition {
			g.silent[a], k.node.fixed = true, true
		} else if !k.Validated {
			// Existing rows may violate it, so it is added after they are copied.
			k.node.split, k.node.phase = true, tidemark.AfterRows
			g.need(k.node, r.node)
		}
	}
	if r.RowSecurity || r.ForceRLS {
		c.addRowSecurity(r)
	}
}

func noInherit(k *constraint) string {
	if k.NoInherit {
		return " NO INHERIT"
	}
	return ""
}

func setDefault(r *relation, col *column) string {
	return "ALTER TABLE ONLY " + r.SQL + " ALTER COLUMN " + col.SQL + " SET DEFAULT " + col.def.Expr
}

// addRowSecurity enables row security after the rows: once enabled, COPY FROM is refused to the
// users that it applies to.
func (c *creator) addRowSecurity(r *relation) {
	n := &node{kind: "row security", name: r.SQL, rel: r, phase: tidemark.AfterRows}
	if r.RowSecurity {
		n.sql = append(n.sql, "ALTER TABLE "+r.SQL+" ENABLE ROW LEVEL SECURITY")
	}
	if r.ForceRLS {
		n.sql = append(n.sql, "ALTER TABLE ONLY "+r.SQL+" FORCE ROW LEVEL SECURITY")
	}
	c.graph.need(c.graph.add(address{}, n), r.node)
}

// tableSQL returns the statements of a table as pg_dump would write them: partitions as separate
// tables that are then attached, inherited columns omitted.
func tableSQL(r *relation, to int) []string {
	var parts []string
	for _, col := range r.columns {
		if r.OfType != "" {
			if s := constraintsOf(r, col, to); s != "" {
				parts = append(parts, col.SQL+" WITH OPTIONS"+s)
			}
		} else if col.Local || r.Partition {
			parts = append(parts, columnSQL(r, col, to))
		}
	}
	for _, k := range r.checks {
		if !k.node.split && (k.Local || r.Partition) && !k.node.lacking(to) {
			parts = append(parts, "CONSTRAINT "+k.SQL+" "+k.Definition)
		}
	}
	out := []string{createTable(r, parts, to)}
	if r.Partition && len(r.parents) > 0 {
		out = append(out, "ALTER TABLE ONLY "+r.parents[0].SQL+" ATTACH PARTITION "+r.SQL+" "+r.Bound)
	}
	for _, col := range r.columns {
		if r.OfType == "" && !col.Local && !r.Partition {
			out = append(out, inheritedSQL(r, col, to)...)
		}
		out = append(out, columnSettings(r, col, to)...)
	}
	switch r.ReplIdent {
	case "f":
		out = append(out, "ALTER TABLE ONLY "+r.SQL+" REPLICA IDENTITY FULL")
	case "n":
		if r.Kind != "f" {
			out = append(out, "ALTER TABLE ONLY "+r.SQL+" REPLICA IDENTITY NOTHING")
		}
	}
	for _, s := range r.owned {
		out = append(out, "ALTER SEQUENCE "+s.rel.SQL+" OWNED BY "+r.SQL+"."+r.column(s.OwnerNum).SQL)
	}
	return out
}

func createTable(r *relation, parts []string, to int) string {
	var b strings.Builder
	b.WriteString("CREATE ")
	if r.Persistence == "u" {
		b.WriteString("UNLOGGED ")
	}
	if r.Kind == "f" {
		b.WriteString("FOREIGN ")
	}
	b.WriteString("TABLE " + r.SQL)
	if r.OfType != "" {
		b.WriteString(" OF " + r.OfType)
	}
	if r.OfType == "" || len(parts) > 0 {
		b.WriteString(" (")
		for i, p := range parts {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n    " + p)
		}
		b.WriteString("\n)")
	}
	if len(r.parents) > 0 && !r.Partition {
		names := make([]string, len(r.parents))
		for i, p := range r.parents {
			names[i] = p.SQL
		}
		b.WriteString(" INHERITS (" + strings.Join(names, ", ") + ")")
	}
	if r.PartKey != "" {
		b.WriteString(" PARTITION BY " + r.PartKey)
	}
	if r.Kind == "f" {
		b.WriteString(" SERVER " + r.Server)
		if r.FdwOptions != "" {
			b.WriteString(" OPTIONS (" + r.FdwOptions + ")")
		}
	}
	if r.AM != "" && (r.Kind != "p" || to >= 17) {
		b.WriteString(" USING " + r.AM)
	}
	if r.Options != "" {
		b.WriteString(" WITH (" + r.Options + ")")
	}
	return b.String()
}

func columnSQL(r *relation, col *column, to int) string {
	s := col.SQL + " " + typeOn(col.Native, to)
	if col.FdwOptions != "" {
		s += " OPTIONS (" + col.FdwOptions + ")"
	}
	if col.Collation != "" {
		s += " COLLATE " + col.Collation
	}
	return s + constraintsOf(r, col, to)
}

// constraintsOf returns a column's default, generation, not null and identity.
func constraintsOf(r *relation, col *column, to int) string {
	var s string
	if d := col.def; d != nil && !d.node.split && !r.inheritsGeneration(col) {
		switch col.Generated {
		case "s":
			s += " GENERATED ALWAYS AS (" + d.Expr + ") STORED"
		case "v":
			s += " GENERATED ALWAYS AS (" + d.Expr + ") " + virtualOn(to)
		default:
			s += " DEFAULT " + d.Expr
		}
	}
	if k := col.notNull; k != nil && k.Validated && (k.Local || r.Partition) {
		if to < 18 {
			s += " NOT NULL"
		} else {
			s += notNullName(r, col) + " NOT NULL" + noInherit(k)
		}
	} else if k == nil && col.NotNull && (r.Partition || !r.inherits(col)) {
		s += " NOT NULL"
	}
	return s + identitySQL(col)
}

// inherits reports whether a parent already declares the column not null.
func (r *relation) inherits(col *column) bool {
	for _, p := range r.parents {
		for _, pc := range p.columns {
			if pc.Name == col.Name && pc.NotNull {
				return true
			}
		}
	}
	return false
}

// inheritsGeneration reports whether a parent computes the column in the same way: before 16 a
// child must not repeat the expression, and inherits it.
func (r *relation) inheritsGeneration(col *column) bool {
	if r.Partition || col.Generated == "" {
		return false
	}
	for _, p := range r.parents {
		for _, pc := range p.columns {
			if pc.Name == col.Name && pc.Generated == col.Generated && pc.def != nil && pc.def.Expr == col.def.Expr {
				return true
			}
		}
	}
	return false
}

// notNullName returns the name clause of a not-null constraint, "" if the server chose the name.
func notNullName(r *relation, col *column) string {
	if col.notNull.Name == r.Name+"_"+col.Name+"_not_null" {
		return ""
	}
	return " CONSTRAINT " + col.notNull.SQL
}

func identitySQL(col *column) string {
	if col.sequence == nil {
		return "" // of a partition: it comes with the partitioned table's
	}
	how := "BY DEFAULT"
	if col.Identity == "a" {
		how = "ALWAYS"
	}
	return " GENERATED " + how + " AS IDENTITY (SEQUENCE NAME " + col.sequence.rel.SQL + " " + sequenceOptions(col.sequence) + ")"
}

// inheritedSQL returns the statements for what differs between an inherited column and its
// parent's.
func inheritedSQL(r *relation, col *column, to int) []string {
	var out []string
	alter := "ALTER TABLE ONLY " + r.SQL + " ALTER COLUMN " + col.SQL
	var parentDefault bool
	parentNotNull := r.inherits(col)
	for _, p := range r.parents {
		for _, pc := range p.columns {
			if pc.Name == col.Name {
				parentDefault = parentDefault || pc.def != nil && pc.Generated == ""
			}
		}
	}
	if d := col.def; d != nil && col.Generated == "" && !d.node.split {
		out = append(out, alter+" SET DEFAULT "+d.Expr)
	} else if d == nil && parentDefault {
		out = append(out, alter+" DROP DEFAULT")
	}
	k := col.notNull
	switch {
	case k != nil && k.Local && k.Validated && notNullName(r, col) != "" && to >= 18:
		out = append(out, fmt.Sprintf("ALTER TABLE ONLY %s ADD CONSTRAINT %s NOT NULL %s%s", r.SQL, k.SQL, col.SQL, noInherit(k)))
	case k != nil && k.Local && k.Validated, k == nil && col.NotNull && !parentNotNull:
		out = append(out, alter+" SET NOT NULL")
	case k == nil && !col.NotNull && parentNotNull:
		out = append(out, alter+" DROP NOT NULL") // possible before 18
	}
	return out
}

func columnSettings(r *relation, col *column, to int) []string {
	var out []string
	alter := "ALTER TABLE ONLY " + r.SQL + " ALTER COLUMN " + col.SQL
	if col.Statistics >= 0 {
		out = append(out, fmt.Sprintf("%s SET STATISTICS %d", alter, col.Statistics))
	}
	if col.Storage != "" {
		out = append(out, alter+" SET STORAGE "+col.Storage)
	}
	if col.Compression != "" && to >= 14 {
		out = append(out, alter+" SET COMPRESSION "+col.Compression)
	}
	if col.Options != "" {
		out = append(out, alter+" SET ("+col.Options+")")
	}
	if s := col.sequence; s != nil && s.rel.Persistence != r.Persistence && to >= 15 {
		logged := "LOGGED"
		if s.rel.Persistence == "u" {
			logged = "UNLOGGED"
		}
		out = append(out, "ALTER SEQUENCE "+s.rel.SQL+" SET "+logged)
	}
	return out
}

// addSequence creates a sequence and, after the rows, its value. An identity column's sequence is
// created by its table.
func (c *creator) addSequence(s *sequence) {
	g := &c.graph
	if s == nil {
		return
	}
	belongs := s.rel
	if s.owner != nil {
		belongs = s.owner
	}
	a := address{classClass, s.OID}
	n := &node{kind: "sequence", name: s.rel.SQL, rel: belongs, owner: s.rel.Owner}
	if s.Internal {
		g.spoken[a] = "SEQUENCE " + s.rel.SQL
	} else {
		unlogged := ""
		if s.rel.Persistence == "u" {
			unlogged = "UNLOGGED "
		}
		as := ""
		if s.Type != "bigint" {
			as = " AS " + s.Type
		}
		create := func(unlogged string) []string {
			return []string{"CREATE " + unlogged + "SEQUENCE " + s.rel.SQL + as + " " + sequenceOptions(s)}
		}
		n.sql = create(unlogged)
		if unlogged != "" {
			n.limit(15, tidemark.Note, "it is logged, since sequences can be unlogged since PostgreSQL 15", func() []string { return create("") })
		}
		s.rel.node = g.add(a, n)
		if s.owner != nil {
			c.graph.owns = append(c.graph.owns, s)
		}
	}
	if s.Known && (s.Called || s.Last != s.Start) {
		v := g.add(address{}, &node{kind: "sequence value", name: s.rel.SQL, rel: belongs, phase: tidemark.AfterRows,
			sql: []string{s.setSQL()}})
		c.graph.values = append(c.graph.values, valueOf{v, s})
	}
}

// setSQL sets the value as it is now, unless the target's is ahead: it has rows of its own. A
// column's sequence is that of its name if the table owns it, since a column may own several. Else
// it is found by the column: a table that the target has already may have one of another name.
func (s *sequence) setSQL() string {
	name := server.QuoteLiteral(s.rel.SQL)
	from := "CAST(" + name + " AS regclass) s WHERE"
	if s.owner != nil {
		from = fmt.Sprintf("(SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_depend WHERE objid = n AND refobjid = %[2]s::regclass AND deptype IN ('a', 'i')) THEN n"+
			" ELSE coalesce(pg_catalog.pg_get_serial_sequence(%[2]s, %[3]s)::regclass, n) END FROM pg_catalog.to_regclass(%[1]s) n) x(s) WHERE s IS NOT NULL AND",
			name, server.QuoteLiteral(s.owner.SQL), server.QuoteLiteral(s.owner.column(s.OwnerNum).Name))
	}
	behind, mark := "<", ""
	if s.Increment < 0 {
		behind, mark = ">", " /* descending */"
	}
	if s.Cycle {
		behind = "<>" // which of two is ahead is not known
	}
	return fmt.Sprintf("SELECT pg_catalog.setval(s, %[1]d, %[2]t) FROM %[3]s coalesce(pg_catalog.pg_sequence_last_value(s) %[4]s %[1]d, true)%[5]s", s.Last, s.Called, from, behind, mark)
}

func sequenceOptions(s *sequence) string {
	cycle := ""
	if s.Cycle {
		cycle = " CYCLE"
	}
	return fmt.Sprintf("START WITH %d INCREMENT BY %d MINVALUE %d MAXVALUE %d CACHE %d%s", s.Start, s.Increment, s.Min, s.Max, s.Cache, cycle)
}

func (c *creator) addView(r *relation) {
	create := func(or, def string, to int) string {
		with := ""
		if o := viewOptionsOn(r.Options, to); o != "" {
			with = " WITH (" + o + ")"
		}
		return "CREATE " + or + "VIEW " + r.SQL + with + " AS\n" + def
	}
	n := &node{kind: "view", name: r.SQL, rel: r, owner: r.Owner}
	var nulls []string
	for _, col := range r.columns {
		collate := ""
		if col.Collation != "" {
			collate = " COLLATE " + col.Collation
		}
		nulls = append(nulls, "NULL::"+col.Native+collate+" AS "+col.SQL)
		if d := col.def; d != nil {
			d.node = c.graph.add(address{classAttrdef, d.OID}, &node{kind: "default", name: r.SQL + "." + col.SQL, rel: r, split: true,
				sql: []string{setDefault(r, col)}})
			c.graph.need(d.node, n)
		}
	}
	n.set().make = []string{"CREATE VIEW " + r.SQL + " AS\nSELECT " + strings.Join(nulls, ",\n    ")}
	n.build = func(to int) []string {
		if n.rare().stub != nil {
			return []string{create("OR REPLACE ", r.Definition, to)}
		}
		return []string{create("", r.Definition, to)}
	}
	if viewOptionsOn(r.Options, 14) != r.Options {
		n.limitTo(limit{since: 15, severity: tidemark.Warning,
			text: "it reads its tables with the rights of its owner, not of its user: security_invoker came with PostgreSQL 15"})
	}
	r.node = c.graph.add(address{classClass, r.OID}, n)
}

func (c *creator) addMatview(r *relation) {
	using, with := "", ""
	if r.AM != "" {
		using = " USING " + r.AM
	}
	if r.Options != "" {
		with = " WITH (" + r.Options + ")"
	}
	sql := "CREATE MATERIALIZED VIEW " + r.SQL + using + with + " AS\n" + r.Definition + "\nWITH NO DATA"
	build := func(to int) []string {
		out := []string{sql}
		for _, col := range r.columns {
			out = append(out, columnSettings(r, col, to)...)
		}
		return out
	}
	r.node = c.graph.add(address{classClass, r.OID}, &node{kind: "materialized view", name: r.SQL, rel: r, owner: r.Owner, build: build})
	c.limitTable(r)
	if r.Populated {
		n := c.graph.add(address{}, &node{kind: "refresh", name: r.SQL, rel: r, phase: tidemark.AfterRows,
			sql: []string{"REFRESH MATERIALIZED VIEW " + r.SQL}, bytes: r.Bytes, heavy: true})
		c.graph.need(n, r.node)
		c.graph.refresh[r.node] = n
	}
}
