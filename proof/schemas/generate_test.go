package schemas

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A maker writes random definitions for one engine, as its users might: each statement stands
// alone, and those that the server refuses are no part of the schema.
type maker struct {
	*rand.Rand
	engine string // postgres, mysql or mariadb
	dumps  bool   // a dump file is copied, not the server
	again  bool   // into a target that has lost some tables, as well
	sql    []string
	tables []made
	types  []string // types of PostgreSQL of its own
	more   bool     // other objects than tables and views, too

	space              string // a schema of PostgreSQL
	seqs, calls, views []string
}

type made struct {
	name    string
	columns []column
	key     string // the primary key's column, whose type others may reference; "" if none
	keyType string
}

type column struct{ name, kind string }

// pick returns one of several.
func pick[T any](m *maker, list ...T) T { return list[m.IntN(len(list))] }

func (m *maker) odds(percent int) bool { return m.IntN(100) < percent }

func (m *maker) add(format string, args ...any) { m.sql = append(m.sql, fmt.Sprintf(format, args...)) }

// q quotes a name.
func (m *maker) q(name string) string {
	if m.engine == "postgres" {
		return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// hard are names that something may trip over.
var hard = []string{"Id", "ID", "order", "select", "with space", "dot.ted", `quo"te`, "back`tick", "per%cent", "dollar$", "ünïcode", "straße", "emoji😀",
	"apos'trophe", "semi;colon", "dash-ed", "a_b", "UPPER", "tab_of_63_letters_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "tab_of_64_letters_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	"tab_of_64_letters_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxy", "back\\slash", "q?mark", "{brace}", "col:on", "null", "user", "key", "value", "type"}

func (m *maker) name(stem string, i int) string {
	for m.odds(18) {
		if name := pick(m, hard...); !m.more || m.engine == "postgres" || !strings.Contains(name, "😀") {
			return name // MySQL takes an emoji in a program for a ?, as which MariaDB does not
		}
	}
	return fmt.Sprintf("%s%d", stem, i)
}

// schema makes some tables with keys, and what depends on them.
func (m *maker) schema() []string {
	if m.engine == "postgres" && m.odds(40) {
		m.enumType()
	}
	if m.more && m.engine == "postgres" {
		m.before()
	}
	for i := range 1 + m.IntN(4) {
		m.table(i)
	}
	for range m.IntN(3) {
		m.foreignKey()
	}
	if m.odds(30) {
		t := pick(m, m.tables...)
		of := pick(m, t.columns...)
		c, d := m.q(of.name), m.q(pick(m, t.columns...).name)
		if m.engine != "postgres" && m.odds(50) {
			m.add("CREATE VIEW %s AS SELECT %s AS c FROM %s", m.q(m.name("w", 0)), m.call(c, of.kind), m.q(t.name))
		}
		m.add("CREATE VIEW %s AS SELECT %s FROM %s", m.q(m.name("v", 0)), pick(m, c, c, "count(*) AS n, count("+c+") AS "+d, c+" AS a, 'it''s' AS b, 1 + 1 AS "+d), m.q(t.name)+pick(m, "", "", " WHERE "+d+" IS NOT NULL", " AS x ORDER BY 1"))
	}
	for i := range m.tables {
		m.rows(&m.tables[i])
	}
	switch {
	case m.more && m.engine == "postgres":
		m.after()
	case m.more:
		m.programs()
	}
	return m.sql
}

func (m *maker) enumType() {
	name := m.name("kind", 0)
	m.types = append(m.types, m.q(name))
	m.add("CREATE TYPE %s AS ENUM (%s)", m.q(name), m.labels())
}

func (m *maker) labels() string {
	text := pick(m, "'a', 'b'", "'x'", "'A', 'b c', 'it''s'", "'ä', 'ö', 'ß'", "'😀', 'b'", "'', 'a'", "'one,two', 'three'", "'%', '_'")
	if m.dumps {
		// SHOW CREATE TABLE, and with it the file, has a ? there, which no copy can read: it warns.
		text = strings.Replace(text, "😀", "smile", 1)
	}
	return text
}

func (m *maker) table(i int) {
	t := made{name: m.name("t", i)}
	var items []string
	for c := range 1 + m.IntN(7) {
		name := m.name("c", c)
		if m.odds(2) {
			name = "line\nbreak"
		}
		kind, text := m.column(name, &t)
		t.columns = append(t.columns, column{name, kind})
		items = append(items, text)
	}
	first := t.columns[0]
	numbered := strings.Contains(items[0], "AUTO_INCREMENT")
	if m.odds(70) || numbered {
		key := []string{m.q(first.name) + m.prefix(first.kind)}
		if m.odds(25) && len(t.columns) > 1 {
			second := t.columns[1]
			key = append(key, m.q(second.name)+m.prefix(second.kind))
		} else {
			t.key, t.keyType = first.name, first.kind
		}
		items = append(items, "PRIMARY KEY ("+strings.Join(key, ", ")+")")
	}
	for k := range m.IntN(3) {
		if text := m.tableKey(&t, k); text != "" {
			items = append(items, text)
		}
	}
	if m.odds(20) {
		items = append(items, m.check(&t))
	}
	m.add("CREATE TABLE %s (\n  %s\n)%s", m.q(t.name), strings.Join(items, ",\n  "), m.options(&t))
	m.tables = append(m.tables, t)
	for k := range m.IntN(3) {
		m.index(&t, k)
	}
	if m.odds(15) {
		m.comment(&t)
	}
}

func (m *maker) check(t *made) string {
	c := pick(m, t.columns...)
	head := pick(m, "", "CONSTRAINT "+m.q(m.name("chk", m.IntN(3)))+" ")
	name, group := m.q(c.name), groupOf(c.kind)
	number := []string{name + " > 0", name + " BETWEEN 1 AND 10", name + " = 7 AND NOT " + name + " = 8", name + " % 7 = 0"}
	text := []string{name + " IN ('a', 'v', 'it''s')", name + " LIKE 'v%'", "char_length(" + name + ") < 9", name + " <> 'a\nb'", "lower(" + name + ") = 'v'"}
	switch {
	case m.engine == "postgres" && m.odds(50): // it refuses what does not fit
		return head + "CHECK (" + pick(m, append(number, text...)...) + ")"
	case m.engine != "postgres" && m.odds(30):
		return head + "CHECK (" + m.call(name, c.kind) + " IS NOT NULL OR 1 = 1)"
	case group == "number" && m.odds(50): // see doc/STATE.md for what compares values of two kinds
		return head + "CHECK (" + pick(m, number...) + ")"
	case group == "text" && m.odds(50):
		return head + "CHECK (" + pick(m, text...) + ")"
	}
	return head + "CHECK (" + m.q(c.name) + " IS NOT NULL" + pick(m, "", " OR 1 = 1", " OR "+m.q(t.columns[0].name)+" IS NULL") + ")"
}

func (m *maker) foreignKey() {
	var parents []made
	for _, t := range m.tables {
		if t.key != "" {
			parents = append(parents, t)
		}
	}
	if len(parents) == 0 {
		return
	}
	parent, child := pick(m, parents...), pick(m, m.tables...)
	if m.dumps && strings.HasPrefix(parent.keyType, "enum") {
		return // PostgreSQL gets such a key from servers only: see doc/STATE.md
	}
	name := m.name("ref", m.IntN(100))
	kind := parent.keyType
	if kind = strings.TrimSuffix(kind, " AUTO_INCREMENT"); strings.HasSuffix(kind, "serial") {
		kind = map[string]string{"serial": "integer", "bigserial": "bigint"}[kind]
	}
	kind, _, _ = strings.Cut(kind, " GENERATED")
	m.add("ALTER TABLE %s ADD COLUMN %s %s", m.q(child.name), m.q(name), kind)
	actions := pick(m, "", "", " ON DELETE CASCADE", " ON DELETE SET NULL", " ON UPDATE CASCADE", " ON DELETE RESTRICT ON UPDATE NO ACTION")
	head := pick(m, "", "CONSTRAINT "+m.q(m.name("fk", m.IntN(3)))+" ")
	m.add("ALTER TABLE %s ADD %sFOREIGN KEY (%s) REFERENCES %s (%s)%s", m.q(child.name), head, m.q(name), m.q(parent.name), m.q(parent.key), actions)
}

// rows inserts rows: of defaults alone, and of plain values.
func (m *maker) rows(t *made) {
	if m.engine == "postgres" {
		m.add("INSERT INTO %s DEFAULT VALUES", m.q(t.name))
	} else {
		m.add("INSERT INTO %s () VALUES ()", m.q(t.name))
	}
	var names, values []string
	for _, c := range t.columns {
		if v := plain(c.kind); v != "" {
			names, values = append(names, m.q(c.name)), append(values, v)
		}
	}
	if len(names) > 0 {
		m.add("INSERT INTO %s (%s) VALUES (%s)", m.q(t.name), strings.Join(names, ", "), strings.Join(values, ", "))
	}
}

// plain returns a value of a type; "" if the column had better be left out.
func plain(kind string) string {
	head, _, _ := strings.Cut(strings.ToLower(kind), "(")
	head, _, _ = strings.Cut(head, " ")
	switch head {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "decimal", "numeric", "float", "double", "real":
		return "7"
	case "char", "varchar", "text", "tinytext", "mediumtext", "longtext":
		return "'v'"
	case "date":
		return "'2024-02-29'"
	case "datetime", "timestamp", "timestamptz":
		return "'2024-02-29 12:34:56'"
	case "json", "jsonb":
		return `'{"a": 1}'`
	}
	return ""
}
