package sqlfile

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// alter returns the table after an ALTER TABLE; l is positioned after the table's name. False if a
// clause is not understood. The table itself is not changed, because earlier pieces may still be
// converted with it.
func alter(t *tidemark.Table, l *sqltext.Reader, ses *Session) (*tidemark.Table, bool) {
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
	p := &ddl{Reader: ses.reader(ses.utf8(l.Text[l.At:])), t: &copied, keys: len(t.ForeignKeys), checks: len(t.Checks)}
	for {
		if !p.clause() || !p.skipRest() {
			return nil, false
		}
		if !p.Accept(",") {
			break
		}
	}
	p.resolveColumns()
	return p.t, p.Next().Kind == sqltext.End
}

// clause reads one change of an ALTER TABLE.
func (p *ddl) clause() bool {
	t := p.Next()
	switch {
	case t.Is("ADD"):
		p.Accept("COLUMN")
		p.Accept("IF", "NOT", "EXISTS")
		if p.Peek().Is("PARTITION") {
			return true
		}
		return p.definition()
	case t.Is("MODIFY"):
		p.Accept("COLUMN")
		at := p.At
		name, _ := p.name()
		p.At = at
		return p.replace(name)
	case t.Is("CHANGE"):
		p.Accept("COLUMN")
		name, _ := p.name()
		return p.replace(name)
	case t.Is("DROP"), t.Is("RENAME"), t.Is("CONVERT"):
		return false
	case t.Kind == sqltext.Word:
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
