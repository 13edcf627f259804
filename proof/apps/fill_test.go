package apps

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// rowsEach is how many rows fill tries to insert into each table.
const rowsEach = 12

// fill inserts rows into all tables of a database, as far as its own constraints let it: parents
// first, and values at the edges of each type. Round tells rows of several calls apart. It returns
// the tables that took at least one, and what each last said of those that it refused. Tables to
// keep get none.
func fill(t *testing.T, url string, round int, keep []string) (filled []string, refused map[string]error) {
	t.Helper()
	refused = map[string]error{}
	s := testdb.NewSession(url)
	defer s.Close()
	columns, keys := shape(t, url)
	refs := references(keys)
	tables := parentsFirst(columns, refs)
	for _, table := range tables {
		if kept(keep, table) {
			continue
		}
		for i := range rowsEach {
			sql, ok := row(s, url, table, columns[table], refs[table], round*100+i)
			if !ok {
				break
			}
			if _, err := s.Try(sql); err != nil {
				refused[table] = fmt.Errorf("%.300s: %w", sql, err)
			} else if !slices.Contains(filled, table) {
				filled = append(filled, table)
			}
		}
	}
	return filled, refused
}

// kept reports whether a table is to get no rows.
func kept(keep []string, table string) bool {
	return slices.Contains(keep, table) || slices.Contains(keep, "*")
}

// references returns the table and the column that a column of a table refers to, by both names.
func references(keys map[string]map[string]string) map[string]map[string][2]string {
	refs := map[string]map[string][2]string{}
	for table, list := range keys {
		refs[table] = map[string][2]string{}
		for key := range list {
			if here, there, ok := foreign(key); ok && !strings.Contains(here, ",") {
				parent, column, _ := strings.Cut(there, "(")
				refs[table][here] = [2]string{parent, strings.TrimSuffix(column, ")")}
			}
		}
	}
	return refs
}

func parentsFirst(columns map[string][]column, refs map[string]map[string][2]string) (out []string) {
	var add func(table string, above []string)
	add = func(table string, above []string) {
		if slices.Contains(out, table) || slices.Contains(above, table) || columns[table] == nil {
			return
		}
		for _, to := range refs[table] {
			add(to[0], append(above, table))
		}
		out = append(out, table)
	}
	var names []string
	for table := range columns {
		names = append(names, table)
	}
	slices.Sort(names)
	for _, table := range names {
		add(table, nil)
	}
	return out
}

// row returns the INSERT of a table's row n.
func row(s *testdb.Session, url, table string, columns []column, refs map[string][2]string, n int) (string, bool) {
	var names, values []string
	for i, c := range columns {
		if c.numbered || c.computed {
			continue
		}
		v, ok := c.value(n, i)
		if to, refers := refs[c.name]; refers {
			ids, err := s.Try("SELECT " + quote(url, to[1]) + " FROM " + quote(url, to[0]) + " ORDER BY 1 LIMIT 50")
			if all := strings.Split(ids, "\n"); err == nil && ids != "" {
				v, ok = "'"+strings.ReplaceAll(all[n%len(all)], "'", "''")+"'", true
			} else if !c.notNull {
				v, ok = "NULL", true
			}
		}
		if !ok && c.notNull && !c.hasDefault {
			return "", false
		}
		if ok && (c.notNull || n%5 != 3) {
			names, values = append(names, quote(url, c.name)), append(values, v)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return "INSERT INTO " + quote(url, table) + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")", true
}

func quote(url, name string) string {
	if family(url) == "postgres" {
		return `"` + name + `"`
	}
	return "`" + name + "`"
}

// texts are cut to what a column takes; they follow the number of the row, which keeps them unique.
var texts = []string{"", " it's \"quoted\" \\ back\\nslash", "tab\tand\nline\r\n", "Größe ñandú", "%s {json: true} <b>&amp;</b>", "trailing  "}

var wide = []string{"日本語 кириллица", "emoji 😀🏴", "a\u0301 combining", "\u202eright to left"}

// value returns a literal for the column's row n; i tells columns of a row apart.
func (c column) value(n, i int) (string, bool) {
	k := (n + i) % 7
	switch c.family {
	case "int":
		if c.max <= 127 { // small numbers are mostly flags
			return strconv.Itoa((n + i) % 2), true
		}
		if k == 6 && !c.unique {
			return strconv.FormatUint(c.max, 10), true
		}
		return strconv.FormatUint(uint64(n*10+i)%c.max, 10), true // the other side's type may be larger
	case "bool":
		return []string{"false", "true"}[k%2], true
	case "float":
		return []string{"0", "1.5", "-2.25", "1e10", "0.1", "123456.789", "-0.001"}[k], true
	case "decimal":
		whole := strconv.Itoa(n % 9)
		if c.scale > 0 {
			whole += "." + strings.Repeat("7", min(c.scale, 4))
		} else if c.length > 4 {
			whole = strconv.Itoa(n*10 + i)
		}
		return whole, true
	case "text":
		all := texts
		if c.wide {
			all = append(slices.Clone(texts), wide...)
		}
		text := []rune(strconv.Itoa(n) + all[(n+i)%len(all)])
		if c.length > 0 && len(text) > c.length {
			text = text[:c.length]
		}
		if strings.HasPrefix(c.declared, "char") {
			return c.quoted(strings.TrimRight(string(text), " ")), true
		}
		return c.quoted(string(text)), true
	case "bytes":
		b := fmt.Sprintf("%02x%02x00ff0a0d5c27%02x", n/256, n%256, i)
		if c.length > 0 && len(b) > 2*c.length {
			b = b[:2*c.length]
		}
		if c.fixed {
			b += strings.Repeat("0", 2*c.length-len(b))
		}
		if c.postgres {
			return `'\x` + b + `'`, true
		}
		return "x'" + b + "'", true
	case "time":
		return []string{"'2026-02-28 23:59:59'", "'1999-12-31 00:00:00'", "'2038-01-19 03:14:07'", "'1970-01-02 00:00:01'", "'2024-02-29 12:00:00'", "'2001-09-09 01:46:40'", "'2026-07-01 08:30:15'"}[k], true
	case "date":
		return []string{"'2026-02-28'", "'1900-01-01'", "'9999-12-31'", "'2024-02-29'", "'1970-01-01'", "'2000-01-01'", "'2026-12-31'"}[k], true
	case "clock":
		return []string{"'00:00:00'", "'23:59:59'", "'12:30:01'", "'01:02:03'", "'08:00:00'", "'17:45:00'", "'06:07:08'"}[k], true
	case "json":
		return c.quoted(fmt.Sprintf(`{"n": %d, "text": "it's", "list": [1, 2.5, null, true]}`, n)), true
	case "uuid":
		return fmt.Sprintf("'00000000-0000-4000-8000-%012d'", n*100+i), true
	case "inet":
		return fmt.Sprintf("'10.%d.%d.%d'", n/250, n%250, i%250), true
	case "label":
		return c.quoted(c.labels[(n+i)%len(c.labels)]), true
	}
	return "", false
}

// quoted returns a string literal.
func (c column) quoted(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if !c.postgres {
		s = strings.ReplaceAll(s, `\`, `\\`)
	}
	return "'" + s + "'"
}
