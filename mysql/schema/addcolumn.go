package schema

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// AddColumn gives the statements that add a column of m.To to the table on this server, behind another one, or at the end
// if after is "". db is what the source says of itself.
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
