package schema

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Servers keep the text of a column's type in three-byte UTF-8: SHOW CREATE and information_schema
// show a character beyond that, such as an emoji, as a question mark. The table itself has the
// label, and a value of the column's type by its number is read as it is: on MariaDB from a
// variable, on MySQL from a temporary table. In labels of a binary column, MariaDB shows a question
// mark for each byte of it; MySQL shows hex.

// readLabels reads labels of ENUM and SET columns that have a question mark, and corrects what was
// described.
func (d *describer) readLabels(ctx context.Context) error {
	changed := map[tidemark.TableID]map[string][]string{}
	for _, id := range d.bases {
		t := d.tables[id]
		for i := 0; t != nil && i < len(t.Columns); i++ {
			c := &t.Columns[i]
			if !mysqltype.MayHideLabel(&c.Type) {
				continue
			}
			s, err := d.asking(ctx)
			if err != nil {
				return err
			}
			labels, err := d.labelsOf(ctx, s, id, c)
			switch {
			case err != nil && s.Dead:
				return err
			case err != nil:
				d.find(tidemark.Warning, "column "+t.String()+"."+c.Name, "one of its labels has a ?, which may stand for an emoji: the server's catalogue does not tell, and asking failed: "+err.Error(),
					"GRANT CREATE TEMPORARY TABLES ON "+server.Quote(id.Schema)+".* TO "+d.e.Grantee()+".")
			case !slices.Equal(labels, c.Type.Labels):
				if changed[id] == nil {
					changed[id] = map[string][]string{}
				}
				changed[id][c.Name] = labels
				relabel(c, labels)
			}
		}
	}
	rewriteTables(d, changed, withLabels)
	return nil
}

// asking returns a session for what the catalogue does not tell, which run closes: few databases
// need one.
func (d *describer) asking(ctx context.Context) (*server.Session, error) {
	if d.session == nil {
		s, err := d.e.NewSession(ctx)
		if err != nil {
			return nil, err
		}
		d.session = s
	}
	return d.session, nil
}

// rewriteTables corrects the CREATE TABLE of tables by what was read of their columns.
func rewriteTables[T any](d *describer, read map[tidemark.TableID]map[string]T, rewritten func(create string, of map[string]T) string) {
	for i := range d.db.Objects {
		if o := &d.db.Objects[i]; o.Kind == "table" && len(o.SQL) == 1 && read[o.Table] != nil {
			o.SQL = []string{rewritten(o.SQL[0], read[o.Table])}
		}
	}
}

// withColumns returns a CREATE TABLE whose columns were changed.
func withColumns(create string, change func(column *tableItem)) string {
	c, ok := parseCreateTable(create)
	if !ok {
		return create
	}
	keep := make([]bool, len(c.items))
	for i := range c.items {
		keep[i] = true
		if c.items[i].kind == sqltext.Column {
			change(&c.items[i])
		}
	}
	return c.create(targetOf(create), keep)
}

// labelsOf reads a column's labels as values.
func (d *describer) labelsOf(ctx context.Context, s *server.Session, id tidemark.TableID, c *tidemark.Column) (out []string, err error) {
	numbers := make([]string, len(c.Type.Labels))
	for i := range numbers {
		numbers[i] = fmt.Sprint(i + 1)
		if c.Type.Kind == tidemark.Set {
			numbers[i] = fmt.Sprint(uint64(1) << i)
		}
	}
	table, column := server.QuoteTable(id), server.Quote(c.Name)
	to := "utf8mb4"
	if mysqltype.ByteLabels(&c.Type) {
		to = "binary"
	}
	ask := "SELECT @tidemark_labels"
	if d.e.MariaDB {
		var b strings.Builder
		fmt.Fprintf(&b, "BEGIN NOT ATOMIC DECLARE x TYPE OF %s.%s; SET @tidemark_labels = ''; ", table, column)
		for _, n := range numbers {
			fmt.Fprintf(&b, "SET x = %s; SET @tidemark_labels = CONCAT(@tidemark_labels, HEX(CONVERT(x USING %s)), ','); ", n, to)
		}
		err = s.Exec(ctx, b.String()+"END")
	} else {
		own := server.QuoteTable(tidemark.TableID{Schema: id.Schema, Name: "tidemark_labels"})
		ask = "SELECT GROUP_CONCAT(HEX(CONVERT(" + column + " USING " + to + ")), ',' ORDER BY tidemark_n SEPARATOR '') FROM " + own
		for _, sql := range []string{"SET SESSION group_concat_max_len = 1048576", "DROP TEMPORARY TABLE IF EXISTS " + own,
			"CREATE TEMPORARY TABLE " + own + " (tidemark_n int NOT NULL AUTO_INCREMENT PRIMARY KEY) AS SELECT " + column + " FROM " + table + " WHERE FALSE",
			"INSERT INTO " + own + " (" + column + ") VALUES (" + strings.Join(numbers, "), (") + ")"} {
			if err = s.Exec(ctx, sql); err != nil {
				return nil, err
			}
		}
	}
	if err != nil {
		return nil, err
	}
	r, err := s.Query(ctx, ask)
	if err != nil {
		return nil, err
	}
	for _, h := range strings.Split(strings.TrimSuffix(rowReader{r, 0}.text(0), ","), ",") {
		b, err := hex.DecodeString(h)
		if err != nil {
			return nil, err
		}
		out = append(out, string(b))
	}
	if len(out) != len(numbers) {
		return nil, fmt.Errorf("%d labels instead of %d", len(out), len(numbers))
	}
	return out, nil
}

// relabel gives a column its labels, also in its default.
func relabel(c *tidemark.Column, labels []string) {
	old := c.Type.Labels
	c.Type.Labels = labels
	c.Type.Native = strings.ToLower(c.Type.Kind.String()) + "(" + literals(labels) + ")"
	if c.Default != nil && c.Default.Kind == tidemark.Literal {
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: renamedLabels(c.Default.Text, old, labels)}
	}
}

// renamedLabels returns a value, one label or some with commas, in new labels.
func renamedLabels(value string, old, labels []string) string {
	parts := strings.Split(value, ",")
	for i, p := range parts {
		if at := slices.Index(old, p); at >= 0 {
			parts[i] = labels[at]
		}
	}
	return strings.Join(parts, ",")
}

// literal returns a string in SQL; bytes that are no characters, which labels of binary columns may
// have, as hex.
func literal(s string) string {
	if !utf8.ValidString(s) {
		return "x'" + hex.EncodeToString([]byte(s)) + "'"
	}
	return server.Literal(s)
}

func literals(labels []string) string {
	out := make([]string, len(labels))
	for i, l := range labels {
		out[i] = literal(l)
	}
	return strings.Join(out, ",")
}

// withLabels returns a CREATE TABLE in which columns have these labels.
func withLabels(create string, of map[string][]string) string {
	return withColumns(create, func(it *tableItem) {
		labels := of[it.name]
		if labels == nil {
			return
		}
		it.tokens = slices.Clone(it.tokens)
		var old []string
		in := false
		for j, t := range it.tokens {
			in = in && !t.Punct(')') || t.Punct('(') && old == nil
			switch {
			case t.Kind != sqltext.String:
			case in && len(old) < len(labels):
				it.tokens[j].Text = literal(labels[len(old)])
				old = append(old, sqltext.Unquote(t.Text, true))
			case sqltext.At(it.tokens, j-2).Is("default"):
				it.tokens[j].Text = literal(renamedLabels(sqltext.Unquote(t.Text, true), old, labels))
			}
		}
	})
}
