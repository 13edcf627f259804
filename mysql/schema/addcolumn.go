package schema

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// AddColumn returns the statements that add a column of m.To to the table on this server, after the
// column named after, or at the end if after is "". db describes the source.
func (e *Schema) AddColumn(db *tidemark.Database, m *tidemark.Move, name, after string) []string {
	r := newRenderer(db, []tidemark.Move{*m}, e.dialect(), e.DB)
	b := &builder{r: r, m: m, object: "table " + m.To.String(), leading: map[string]bool{}, names: map[string]bool{}}
	b.makeColumns()
	c := b.column(name)
	if c == nil {
		return nil
	}
	sql := "ALTER TABLE " + server.Quote(m.To.Schema) + "." + server.Quote(m.To.Name) + " ADD COLUMN " + b.columnSQL(c)
	switch {
	case m.To.Columns[0].Name == name:
		sql += " FIRST"
	case after != "":
		sql += " AFTER " + server.Quote(after)
	}
	return []string{sql}
}
