package schema

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

var (
	// patternWords end an index's column on PostgreSQL: they decide how texts are ordered, and
	// which operators use the index, not which texts are equal.
	patternWords = regexp.MustCompile(`(?: COLLATE pg_catalog\.(?:"[^"]+"|[a-z_0-9]+))?(?: pg_catalog\.(?:text|varchar|bpchar)_pattern_ops)?$`)
	pgColumn     = regexp.MustCompile(`^(?:"((?:[^"]|"")+)"|([a-z_][a-z_0-9$]*))$`)
	notNullPart  = regexp.MustCompile(`^\(*("(?:[^"]|"")+"|[a-z_][a-z_0-9$]*) IS NOT NULL\)*$`)
)

// unquotePG returns the name of a column as PostgreSQL prints it; "" if it is something else.
func unquotePG(text string) string {
	m := pgColumn.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return strings.ReplaceAll(m[1], `""`, `"`) + m[2]
}

// plainIndex returns an index of a PostgreSQL source without what makes no difference here:
// operator classes and collations for patterns, and the predicate of a unique index that only
// leaves out NULLs, which are never equal.
func (b *builder) plainIndex(x *tidemark.Index) *tidemark.Index {
	if b.r.mysql {
		return x
	}
	out := *x
	out.Parts = slices.Clone(x.Parts)
	for i := range out.Parts {
		p := &out.Parts[i]
		if cut := patternWords.FindStringIndex(p.Expr); p.Expr != "" && cut != nil && cut[0] < len(p.Expr) {
			p.Expr = p.Expr[:cut[0]]
			if name := unquotePG(p.Expr); name != "" && b.column(name) != nil {
				p.Column, p.Expr = name, ""
			}
		}
	}
	if !x.Unique || x.NullsEqual || x.Where == "" {
		return &out
	}
	for _, part := range strings.Split(x.Where, " AND ") {
		m := notNullPart.FindStringSubmatch(part)
		if m == nil || !slices.ContainsFunc(out.Parts, func(p tidemark.IndexPart) bool { return p.Column != "" && p.Column == unquotePG(m[1]) }) {
			return &out
		}
	}
	out.Where = ""
	return &out
}

// sharedNumbers reports a column whose sequence on the source numbers other columns too.
func (b *builder) sharedNumbers(c *builtColumn, object string) {
	of := c.col.Identity.Sequence
	if of == "" {
		return
	}
	var others []string
	for i := range b.r.moves {
		m := &b.r.moves[i]
		for j := range m.To.Columns {
			col := &m.To.Columns[j]
			if col != c.col && col.Identity != nil && col.Identity.Sequence == of {
				others = append(others, m.To.String()+"."+col.Name)
			}
		}
	}
	if len(others) > 0 {
		b.r.find(tidemark.Warning, object, "has numbers of its own here; on the source the sequence "+of+" also numbers "+tidemark.Some(others, 3), "")
	}
}

var pgSequence = regexp.MustCompile(`^CREATE (?:UNLOGGED )?SEQUENCE .+ START WITH (-?\d+) INCREMENT BY (-?\d+) MINVALUE (-?\d+) MAXVALUE (-?\d+) CACHE (\d+)( CYCLE)?$`)
var pgSetval = regexp.MustCompile(`^SELECT pg_catalog\.setval\(.*, (-?\d+), (true|false)\)`)

// pgSequences makes the sequences of a PostgreSQL source that number no column which is copied.
// MariaDB has sequences too.
func (r *renderer) pgSequences() {
	if r.db.Engine != "postgres" {
		return
	}
	numbering := map[string]bool{}
	for i := range r.moves {
		for j := range r.moves[i].To.Columns {
			if id := r.moves[i].To.Columns[j].Identity; id != nil {
				numbering[id.Sequence] = true
			}
		}
	}
	values := map[tidemark.TableID]string{}
	for i := range r.db.Objects {
		if o := &r.db.Objects[i]; o.Kind == "sequence value" && len(o.SQL) == 1 {
			values[o.Table] = o.SQL[0]
		}
	}
	for i := range r.db.Objects {
		o := &r.db.Objects[i]
		to, ok := r.into[o.Table.Schema]
		bare := func(s string) string { return strings.ReplaceAll(s, `"`, "") }
		if o.Kind != "sequence" || !ok || numbering[o.Table.String()] || bare(o.ID) != "sequence "+bare(o.Table.String()) { // or it is a column's own
			continue
		}
		m := pgSequence.FindStringSubmatch(o.SQL[0])
		if !r.to.mariadb || m == nil {
			r.find(tidemark.Warning, o.ID, "is not made: "+r.to.name()+" has no such sequences", "Use AUTO_INCREMENT, or a table with a counter.")
			continue
		}
		id := tidemark.TableID{Schema: to, Name: o.Table.Name}
		if why := Impossible(id.Name); why != "" {
			r.find(tidemark.Warning, o.ID, fmt.Sprintf("is not made: it would have the name %s, %s", server.Quote(id.Name), why), "")
			continue
		}
		var n [5]int64
		for j := range n {
			n[j], _ = strconv.ParseInt(m[j+1], 10, 64) // the server has written it
		}
		start, step, least, most, cache := n[0], n[1], max(n[2], math.MinInt64+1), min(n[3], math.MaxInt64-1), n[4]
		cycle := " NOCYCLE"
		if m[6] != "" {
			cycle = " CYCLE"
		}
		made := tidemark.Object{ID: "sequence " + id.String(), Kind: "sequence", Table: id, Depends: []string{"schema " + to},
			SQL: []string{fmt.Sprintf("CREATE SEQUENCE %s START WITH %d MINVALUE %d MAXVALUE %d INCREMENT BY %d CACHE %d%s", server.QuoteTable(id), start, least, most, step, cache, cycle)}}
		r.add(made)
		if v := pgSetval.FindStringSubmatch(values[o.Table]); v != nil {
			at, _ := strconv.ParseInt(v[1], 10, 64)
			used := 0
			if v[2] == "true" {
				if used = 1; at < math.MaxInt64-step && at > math.MinInt64+1-min(step, 0) && at+step >= least && at+step <= most {
					at, used = at+step, 0 // as the server itself says it
				}
			}
			r.add(tidemark.Object{ID: "sequence value " + id.String(), Kind: "sequence value", Phase: tidemark.AfterRows, Table: id, Depends: []string{made.ID},
				SQL: []string{fmt.Sprintf("SELECT SETVAL(%s, %d, %d, 0)", server.QuoteTable(id), at, used)}})
		}
	}
}
