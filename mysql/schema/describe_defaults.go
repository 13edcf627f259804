package schema

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// information_schema shows some defaults as they are not: MySQL ends bytes at the first that is
// zero, MariaDB shows bytes that are no character as question marks, and both characters of four
// bytes. SHOW CREATE TABLE is right, but for CHAR and VARCHAR on MariaDB, whose values the protocol
// tells.

// readDefaults reads defaults anew of which the catalogue may not tell the truth, and corrects what
// was described.
func (d *describer) readDefaults(ctx context.Context) error {
	read := map[tidemark.TableID]map[string]string{} // its literals
	for _, id := range d.bases {
		var shown *createTable
		var values map[string][]byte // of MariaDB
		for c := range d.dubious(id) {
			s, err := d.asking(ctx)
			if err != nil {
				return err
			}
			long := c.Type.Kind == tidemark.Text || c.Type.Kind == tidemark.JSON // whose default is kept as SQL
			if d.e.MariaDB && c.Default.Kind == tidemark.Literal && !c.Type.Kind.Bytes() && !long {
				if values == nil {
					if values, err = s.Defaults(ctx, id); err != nil && s.Dead {
						return err
					}
				}
				text := string(values[c.Name])
				if values[c.Name] == nil {
					d.find(tidemark.Warning, "column "+id.String()+"."+c.Name, "its default has a ?, which may stand for an emoji that the server's catalogue does not show", "Compare it after the copy.")
					continue
				}
				c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: canonical(text, &c.Type)}
				if read[id] == nil {
					read[id] = map[string]string{}
				}
				read[id][c.Name] = server.Literal(text)
				continue
			}
			if shown == nil {
				if shown, err = showTable(ctx, s, id); err != nil {
					return err
				}
			}
			shown.redefault(c)
		}
	}
	rewriteTables(d, read, withDefaults)
	return nil
}

// dubious yields the columns of a table whose default may be another than the catalogue shows.
func (d *describer) dubious(id tidemark.TableID) func(func(*tidemark.Column) bool) {
	return func(yield func(*tidemark.Column) bool) {
		t := d.tables[id]
		for i := 0; t != nil && i < len(t.Columns); i++ {
			c := &t.Columns[i]
			if c.Default == nil {
				continue
			}
			hidden := strings.Contains(c.Default.Text, "?")
			switch kind := c.Default.Kind; {
			case kind == tidemark.Literal && c.Type.Kind.Bytes():
				hidden = !d.e.MariaDB || strings.Contains(c.Default.Text, "3f") // ?
			case kind == tidemark.Expression:
				hidden = hidden && d.e.MariaDB
			case kind != tidemark.Literal || mysqltype.SetWidth(c.Type.Charset) != 4:
				hidden = false
			}
			if hidden && !yield(c) {
				return
			}
		}
	}
}

// showTable reads a table's definition in full.
func showTable(ctx context.Context, s *server.Session, id tidemark.TableID) (*createTable, error) {
	if err := s.Exec(ctx, asBytes); err != nil {
		return nil, err
	}
	r, err := s.Query(ctx, "SHOW CREATE TABLE "+server.QuoteTable(id))
	if err != nil {
		return nil, err
	}
	c, _ := parseCreateTable(rowReader{r, 0}.text(1))
	return &c, s.Exec(ctx, asText)
}

// redefault gives a column the default that its definition has.
func (c *createTable) redefault(col *tidemark.Column) {
	for i := range c.items {
		it := &c.items[i]
		if it.kind != sqltext.Column || it.name != col.Name {
			continue
		}
		from, end := it.defaultValue()
		switch text := sqltext.Join(it.tokens[from:end]); {
		case text == "":
		case stringOnly.MatchString(text):
			col.Default = &tidemark.Default{Kind: tidemark.Literal, Text: canonical(sqltext.Unquote(text, true), &col.Type)}
		case bitString.MatchString(text) && col.Type.Kind.Bytes():
			col.Default = &tidemark.Default{Kind: tidemark.Literal, Text: canonical(text, &col.Type)}
		case bitString.MatchString(text):
			col.Default = &tidemark.Default{Kind: tidemark.Literal, Text: string(bytesOf(text))}
		case col.Default.Kind == tidemark.Expression:
			col.Default = expression(text)
		}
	}
}

// defaultValue returns where the tokens of a column's default are.
func (it *tableItem) defaultValue() (from, end int) {
	i := sqltext.Find(it.tokens, "default")
	if i < 0 {
		return 0, 0
	}
	from = sqltext.Skip(it.tokens, i+1)
	return from, defaultEnd(it.tokens, from)
}

// lacksDefault reports whether SHOW CREATE TABLE has no default for a nullable column, which INSERT
// must name then: its default was dropped. CREATE TABLE makes DEFAULT NULL of the same text.
func (it *tableItem) lacksDefault() bool {
	for _, word := range []string{"default", "auto_increment", "generated", "as"} {
		if it.has(word) {
			return false
		}
	}
	if i := sqltext.Find(it.tokens, "not"); i >= 0 && sqltext.At(it.tokens, sqltext.Skip(it.tokens, i+1)).Is("null") {
		return false
	}
	return true
}

// hidesDefault reports whether MySQL never shows that a column of this type has no default.
func (it *tableItem) hidesDefault() bool {
	typ := sqltext.At(it.tokens, sqltext.Skip(it.tokens, sqltext.Skip(it.tokens, 0)+1))
	return slices.ContainsFunc(strings.Fields("tinyblob blob mediumblob longblob tinytext text mediumtext longtext json geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection geomcollection"), typ.Is)
}

// dropDefaults are the specifications of an ALTER TABLE that takes the default from the columns
// that lack it.
func (c *createTable) dropDefaults(mariadb bool) (specs []string) {
	for i := range c.items {
		if it := &c.items[i]; it.kind == sqltext.Column && it.lacksDefault() && (mariadb || !it.hidesDefault()) {
			specs = append(specs, it.dropDefault())
		}
	}
	return specs
}

func (it *tableItem) dropDefault() string {
	return "ALTER COLUMN " + server.Quote(it.name) + " DROP DEFAULT"
}

// withDefaults returns a CREATE TABLE in which columns have these literals for defaults.
func withDefaults(create string, of map[string]string) string {
	return withColumns(create, func(it *tableItem) {
		if from, end := it.defaultValue(); of[it.name] != "" && end > from {
			it.tokens = slices.Concat(it.tokens[:from], []sqltext.Token{{Kind: sqltext.String, Text: of[it.name]}}, it.tokens[end:])
		}
	})
}
