package schema

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// AddColumn returns the statements that add a column of m.To to the table on this server if it is
// missing. db describes the source. A new column always becomes the last one here.
func (s *Schema) AddColumn(db *tidemark.Database, m *tidemark.Move, name, _ string) []string {
	r := &renderer{db: db, opt: s.Options, same: db.Engine == "postgres", major: s.Major, taken: map[string]map[string]server.Holder{}, names: &s.names}
	mk := &maker{r: r, m: m, t: m.To, sql: server.QuoteTable(m.To.TableID), dropped: map[string]bool{}, types: map[string]string{}}
	mk.column(m.To.Column(name))
	var out []string
	for _, o := range r.objects { // the column's own type, if it has one
		out = append(out, o.SQL...)
	}
	for _, line := range mk.lines {
		out = append(out, "ALTER TABLE "+mk.sql+" ADD COLUMN IF NOT EXISTS "+line)
	}
	return append(out, mk.after...)
}
