package sqlfile

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// alter gives the table as an ALTER TABLE leaves it; l stands after the table's
// name. False if a clause is not understood. The table itself is not changed,
// because pieces that went before may still be converted with it.
func alter(t *tidemark.Table, l *lexer, ses *Session) (*tidemark.Table, bool) {
	copied := *t
	copied.Columns = slices.Clone(t.Columns)
	for i := range copied.Columns {
		if id := copied.Columns[i].Identity; id != nil {
			own := *id
			copied.Columns[i].Identity = &own
		}
	}
	copied.Indexes = slices.Clone(t.Indexes)
	copied.ForeignKeys = slices.Clone(t.ForeignKeys)
	copied.Checks = slices.Clone(t.Checks)
	inner := *l
	inner.d = ses.utf8(l.d[l.i:])
	inner.i = 0
	p := &ddl{lexer: &inner, t: &copied, keys: len(t.ForeignKeys), checks: len(t.Checks)}
	for {
		if !p.clause() || !p.skipRest() {
			return nil, false
		}
		if !p.accept(",") {
			break
		}
	}
	p.settle()
	return p.t, p.next().kind == tEnd
}

// clause reads one change of an ALTER TABLE.
func (p *ddl) clause() bool {
	t := p.next()
	switch {
	case p.is(t, "ADD"):
		p.accept("COLUMN")
		p.acceptAll("IF", "NOT", "EXISTS")
		if p.is(p.peek(), "PARTITION") {
			return true
		}
		return p.definition()
	case p.is(t, "MODIFY"):
		p.accept("COLUMN")
		at := p.i
		name, _ := p.name()
		p.i = at
		return p.replace(name)
	case p.is(t, "CHANGE"):
		p.accept("COLUMN")
		name, _ := p.name()
		return p.replace(name)
	case p.is(t, "DROP"), p.is(t, "RENAME"), p.is(t, "CONVERT"):
		return false
	case t.kind == tWord:
		p.option(t)
		return true
	}
	return false
}

// replace reads a new definition of a column.
func (p *ddl) replace(name string) bool {
	i := slices.IndexFunc(p.t.Columns, func(c tidemark.Column) bool { return strings.EqualFold(c.Name, name) })
	return i >= 0 && p.column(i)
}
