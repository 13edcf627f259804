package schema

import "github.com/tidemarkdb/tidemark"

// AddColumn returns the statements that add a column of m.To to the table on this server if it is
// missing. db describes the source. A new column always becomes the last one here.
func (s *Schema) AddColumn(db *tidemark.Database, m *tidemark.Move, name, _ string) []string {
	r := s.renderer(db, nil)
	mk := r.maker(m)
	c := *m.To.Column(name)
	if !r.same && c.NotNull && c.Default == nil && c.Identity == nil && c.Generated == "" {
		c.Default = implicit(c.Type)
	}
	mk.column(&c)
	var out []string
	for _, o := range r.objects { // the column's own type, if it has one
		out = append(out, o.SQL...)
	}
	for _, line := range mk.lines {
		out = append(out, "ALTER TABLE "+mk.sql+" ADD COLUMN IF NOT EXISTS "+line)
	}
	return append(out, mk.after...)
}

// implicit returns the value that existing rows get in a new NOT NULL column without a default on
// MySQL and MariaDB; nil where they refuse that, or where it is no value here. It stays the default
// of the column: rows from before the column may still be on their way.
func implicit(t tidemark.Type) *tidemark.Default {
	text := ""
	switch t.Kind {
	case tidemark.Bool:
		text = "f"
	case tidemark.Int, tidemark.Decimal, tidemark.Float:
		text = "0"
	case tidemark.Time:
		text = "00:00:00"
	case tidemark.Enum:
		if len(t.Labels) == 0 {
			return nil
		}
		text = t.Labels[0]
	case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Set:
	default:
		return nil
	}
	return &tidemark.Default{Kind: tidemark.Literal, Text: text}
}
