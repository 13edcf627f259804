package schema

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Servers older than the source lack features. Each is recorded, as a limit, on the node that uses
// it, where the catalogue is read. node.older converts the limits to tidemark.Object.Older, from
// which Render chooses once it knows the target. The text of a view or of a function is not
// examined: the target refuses it, and the run lists it with its SQL.

// A limit is a feature of a node that servers before a major version lack.
type limit struct {
	since    int
	severity tidemark.Severity
	text     string // "" if nothing is lost
	out      bool   // the node cannot be created; otherwise its build omits what is lacking
}

// A remark is a statement after all others of a node; since is the major version that introduced
// it, 0 if all versions have it.
type remark struct {
	sql   string
	since int
}

// limit adds a limit to a node of fixed SQL; instead returns its SQL before version since.
func (n *node) limit(since int, s tidemark.Severity, text string, instead func() []string) {
	n.limitTo(limit{since: since, severity: s, text: text})
	was := n.build
	n.build = func(to int) []string {
		switch {
		case to < since:
			return instead()
		case was != nil:
			return was(to)
		}
		return slices.Clone(n.sql)
	}
}

// limitTo adds limits.
func (n *node) limitTo(limits ...limit) {
	if len(limits) > 0 {
		n.set().limits = append(n.set().limits, limits...)
	}
}

// lacking reports whether a node cannot be created on a server of major version to.
func (n *node) lacking(to int) bool {
	return slices.ContainsFunc(n.rare().limits, func(l limit) bool { return l.out && to < l.since })
}

// older returns how a unit is created on servers older than its own.
func (n *node) older(major int) []tidemark.Older {
	limits := slices.Clone(n.rare().limits)
	for _, p := range n.rare().parts {
		for _, l := range p.rare().limits {
			if l.out {
				l.out, l.text = false, p.id()+" is left out: "+l.text
			}
			limits = append(limits, l)
		}
	}
	for _, r := range n.rare().tail {
		if r.since > server.OldestMajor {
			limits = append(limits, limit{since: r.since, text: "a constraint's comment is left out, since it has none before PostgreSQL " + strconv.Itoa(r.since)})
		}
	}
	slices.SortStableFunc(limits, func(a, b limit) int { return cmp.Compare(b.since, a.since) })
	var out []tidemark.Older
	for i, l := range limits {
		if l.since > major || i+1 < len(limits) && limits[i+1].since == l.since {
			continue // the last limit of its version combines them
		}
		o := tidemark.Older{Below: l.since}
		var texts []string
		for _, l := range limits[:i+1] {
			if l.text != "" && l.since <= major {
				texts = append(texts, l.text)
			}
			o.Severity = max(o.Severity, l.severity)
		}
		o.Text = strings.Join(texts, "; ")
		if !n.lacking(l.since - 1) {
			o.SQL = n.statements(l.since - 1)
		}
		out = append(out, o)
	}
	return out
}

var notValid = []limit{{since: 18, severity: tidemark.Warning, out: true, text: "not-null constraints can be NOT VALID since PostgreSQL 18"}}

func enforcement(k *constraint) []limit {
	if strings.HasSuffix(k.Definition, " NOT ENFORCED") {
		return []limit{{since: 18, severity: tidemark.Warning, out: true, text: "constraints that are not enforced came with PostgreSQL 18"}}
	}
	return nil
}

// setColumns matches ON DELETE SET NULL (a, b).
var setColumns = regexp.MustCompile(` ON DELETE SET (NULL|DEFAULT) \(`)

func foreignKeyLimits(r *relation, k *constraint) []limit {
	out := enforcement(k)
	if k.Period {
		out = append(out, limit{since: 18, severity: tidemark.Warning, out: true, text: "foreign keys with PERIOD came with PostgreSQL 18"})
	}
	if setColumns.MatchString(k.Definition) {
		out = append(out, limit{since: 15, severity: tidemark.Warning, out: true, text: "ON DELETE SET of some columns came with PostgreSQL 15"})
	}
	if r.Kind == "p" && !k.Validated && len(out) == 0 {
		out = append(out, limit{since: 18, severity: tidemark.Warning, out: true, text: "a partitioned table's foreign key can be NOT VALID since PostgreSQL 18"})
	}
	return out
}

const nullsNotDistinct = " NULLS NOT DISTINCT"

// limitIndex records newer features of an index: NULLS NOT DISTINCT, without which it can be
// created, and periods, without which it cannot.
func limitIndex(x *index) {
	if k := x.constraint; k != nil && k.Period {
		x.node.limitTo(limit{since: 18, severity: tidemark.Warning, out: true, text: "WITHOUT OVERLAPS came with PostgreSQL 18"})
	}
	n := cmp.Or(x.build, x.node)
	for i, sql := range n.sql {
		if x.Unique && strings.Contains(sql, nullsNotDistinct) {
			n.limit(15, tidemark.Warning, "two nulls in it count as different: NULLS NOT DISTINCT came with PostgreSQL 15", func() []string {
				out := slices.Clone(n.sql) // includes what was added since
				out[i] = strings.Replace(sql, nullsNotDistinct, "", 1)
				return out
			})
			return
		}
	}
}

// limitTable records newer features of a table's columns.
func (c *creator) limitTable(r *relation) {
	add := func(since int, s tidemark.Severity, text string) {
		r.node.limitTo(limit{since: since, severity: s, text: text})
	}
	var named []string // columns
	for _, col := range r.columns {
		if col.Compression != "" {
			add(14, tidemark.Note, "column "+col.SQL+" loses its COMPRESSION, which came with PostgreSQL 14")
		}
		if r.Kind == "m" {
			continue
		}
		if col.Generated == "v" {
			add(18, tidemark.Note, "column "+col.SQL+" is stored: virtual ones came with PostgreSQL 18")
		}
		if k := col.notNull; k != nil && k.Local && !r.Partition && (notNullName(r, col) != "" || k.NoInherit) {
			named = append(named, col.SQL)
		} else if k != nil {
			add(18, tidemark.Note, "") // older servers have another syntax for it
		}
		if s := col.sequence; s != nil && s.rel.Persistence != r.Persistence {
			add(15, tidemark.Note, "")
		}
		if was, is := col.Native, typeOn(col.Native, 14); was != is {
			add(15, tidemark.Note, "column "+col.SQL+" is "+is+": "+was+" came with PostgreSQL 15")
		}
		if c.multirange(col.Type) {
			r.node.limitTo(limit{since: 14, severity: tidemark.Blocker, out: true,
				text: "column " + col.SQL + " is of " + col.Native + ": multiranges came with PostgreSQL 14"})
		}
		if r.Kind == "p" && col.Identity != "" {
			add(17, tidemark.Note, "column "+col.SQL+" numbers only rows that are put into the table itself, not into its partitions: before PostgreSQL 17 these have no identity")
		}
	}
	if named != nil {
		add(18, tidemark.Note, "columns not null lose the constraint's name and its NO INHERIT, which came with PostgreSQL 18: "+strings.Join(named, ", "))
	}
	if r.Kind == "p" && r.AM != "" {
		add(17, tidemark.Note, "new partitions are not made with "+r.AM+": partitioned tables have an access method since PostgreSQL 17")
	}
}

// multirange reports whether a type is a multirange, or an array or a domain of one.
func (c *creator) multirange(oid uint32) bool {
	for t := c.types[oid]; t != nil; t = c.types[oid] {
		switch {
		case t.Class == "m":
			return true
		case t.Elem != 0:
			oid = t.Elem
		default:
			return false
		}
	}
	return 4532 <= oid && oid <= 4536 || oid == 4451 // built-in
}

func virtualOn(to int) string {
	if to < 18 {
		return "STORED"
	}
	return "VIRTUAL"
}

// oddScale matches the numerics that PostgreSQL 15 introduced and those that look like them.
var oddScale = regexp.MustCompile(`\bnumeric\((\d+),(-?\d+)\)`)

// typeOn returns a type for major version to: a numeric with a scale beyond its precision, or below
// 0, becomes one that holds the same values.
func typeOn(native string, to int) string {
	if to >= 15 || !strings.Contains(native, "numeric(") {
		return native
	}
	return oddScale.ReplaceAllStringFunc(native, func(s string) string {
		m := oddScale.FindStringSubmatch(s)
		precision, _ := strconv.Atoi(m[1]) // digits, as matched
		scale, _ := strconv.Atoi(m[2])
		switch {
		case scale < 0:
			return "numeric(" + strconv.Itoa(precision-scale) + ",0)"
		case scale > precision:
			return "numeric(" + m[2] + "," + m[2] + ")"
		}
		return s
	})
}

var securityInvoker = regexp.MustCompile(`(, )?security_invoker='[^']*'`)

func viewOptionsOn(options string, to int) string {
	if to >= 15 {
		return options
	}
	return strings.TrimPrefix(securityInvoker.ReplaceAllString(options, ""), ", ")
}

// limitsSQL lists, per version that has the columns, the objects that use its new features: class,
// object, major version, whether it can be created without, text.
var limitsSQL = []struct {
	since int
	sql   string
}{
	{14, `SELECT 1255::oid, oid, 14, false, 'bodies that are parsed (RETURN, BEGIN ATOMIC) came with PostgreSQL 14' FROM pg_proc WHERE prosqlbody IS NOT NULL AND oid >= 16384
		UNION ALL SELECT 1255, oid, 14, false, 'procedures have OUT arguments since PostgreSQL 14' FROM pg_proc WHERE prokind = 'p' AND 'o' = ANY(proargmodes) AND oid >= 16384
		UNION ALL SELECT 1247, rngtypid, 14, true, 'it has no multirange: these came with PostgreSQL 14' FROM pg_range WHERE rngtypid >= 16384
		UNION ALL SELECT 3381, oid, 14, false, 'statistics on expressions came with PostgreSQL 14' FROM pg_statistic_ext WHERE stxexprs IS NOT NULL`},
	{15, `SELECT 6106::oid, oid, 15, false, 'lists of columns and WHERE came with PostgreSQL 15' FROM pg_publication_rel WHERE prattrs IS NOT NULL OR prqual IS NOT NULL
		UNION ALL SELECT 6237, oid, 15, false, 'TABLES IN SCHEMA came with PostgreSQL 15' FROM pg_publication_namespace`},
	{16, `SELECT 3456::oid, oid, 16, false, 'rules of a collation came with PostgreSQL 16' FROM pg_collation WHERE collicurules IS NOT NULL AND oid >= 16384`},
	{17, `SELECT 3456::oid, oid, 17, false, 'the provider builtin came with PostgreSQL 17' FROM pg_collation WHERE collprovider = 'b' AND oid >= 16384
		UNION ALL SELECT 3466, oid, 17, false, 'the event login came with PostgreSQL 17' FROM pg_event_trigger WHERE evtevent = 'login'
		UNION ALL SELECT 826, oid, 18, false, 'default privileges of large objects came with PostgreSQL 18' FROM pg_default_acl WHERE defaclobjtype = 'L'`},
	{18, `SELECT 6104::oid, oid, 18, true, 'generated columns are not published: this came with PostgreSQL 18' FROM pg_publication WHERE pubgencols = 's'`},
}

// readLimits records newer features of objects written by one query.
func (c *creator) readLimits(ctx context.Context) error {
	type found struct {
		Class, ID uint32
		Since     int
		Without   bool
		Text      string
	}
	for _, l := range limitsSQL {
		if l.since > c.db.Major {
			break
		}
		list, err := rows[found](ctx, c.catalogue, l.sql)
		if err != nil {
			return err
		}
		for _, f := range list {
			n := c.graph.byID[address{f.Class, f.ID}]
			switch {
			case n == nil: // of an extension
			case f.Without:
				n.limit(f.Since, tidemark.Note, f.Text, func() []string { return without(n.sql) })
			default:
				n.limitTo(limit{since: f.Since, severity: tidemark.Warning, out: true, text: f.Text})
			}
		}
	}
	for _, n := range c.graph.nodes {
		switch n.kind {
		case "type", "domain":
			if len(n.sql) == 0 || typeOn(n.sql[0], 14) == n.sql[0] {
				break
			}
			const text = "its numeric types are replaced by ones that hold as many digits: scales below 0 or beyond the precision came with PostgreSQL 15"
			if n.build != nil { // which handles it
				n.limitTo(limit{since: 15, text: text})
			} else {
				n.limit(15, tidemark.Note, text, func() []string { return []string{typeOn(n.sql[0], 14)} })
			}
		case "grant", "default privileges", "owner":
			if slices.ContainsFunc(n.sql, maintain.MatchString) {
				n.limit(17, tidemark.Warning, "the privilege MAINTAIN came with PostgreSQL 17", func() []string { return withoutMaintain(n.sql) })
			}
		}
	}
	return nil
}

// without removes the option that a version introduced; it is the last one.
func without(sql []string) []string {
	out := slices.Clone(sql)
	for _, option := range []string{", multirange_type_name = ", ", publish_generated_columns = "} {
		if at := strings.LastIndex(out[0], option); at >= 0 {
			out[0] = out[0][:at] + ")"
		}
	}
	return out
}

// maintain matches our GRANT, REVOKE and ALTER DEFAULT PRIVILEGES that name the MAINTAIN privilege.
var maintain = regexp.MustCompile(`(?s)^((?:ALTER DEFAULT PRIVILEGES .*? )?(?:GRANT|REVOKE)) ([A-Z, ]*\bMAINTAIN\b[A-Z, ]*?) (ON .*)$`)

func withoutMaintain(sql []string) []string {
	out := []string{}
	for _, s := range sql {
		m := maintain.FindStringSubmatch(s)
		if m == nil {
			out = append(out, s)
			continue
		}
		list := slices.DeleteFunc(strings.Split(m[2], ", "), func(p string) bool { return p == "MAINTAIN" })
		if len(list) > 0 {
			out = append(out, m[1]+" "+strings.Join(list, ", ")+" "+m[3])
		}
	}
	return out
}
