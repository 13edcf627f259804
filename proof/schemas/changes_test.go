package schemas

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A comparison is what diff --definitions prints as JSON.
type comparison struct {
	Definitions struct {
		Differences []struct{ Object, Manual string }
		SQL         []struct{ SQL string }
	}
}

// changed changes one thing on a target that is equal to its source: diff --definitions finds it
// and nothing else, and what it prints makes both equal again.
func changed(t *testing.T, m *maker, to, src, dst string, fail func(string, testdb.Outcome)) {
	s := testdb.NewSession(dst)
	defer s.Close()
	have := facts(t, to, dst)
	if len(have) == 0 {
		return
	}
	var about fact
	change, before := "", words(t, to, dst)
	for range 10 {
		about = pick(m, have...)
		sql := m.change(to, about)
		if _, err := s.Try(sql); err == nil && words(t, to, dst) != before {
			change = sql
			break
		}
	}
	if change == "" {
		return
	}
	o := testdb.Run(t, "diff", src, dst, "--definitions=only", "--json")
	var c comparison
	leftOut := func(words string) int { return strings.Count(words, " DEFAULT NULL") }
	if o.Code == 0 && leftOut(words(t, to, dst)) < leftOut(before) {
		return // the mark of a default that the copy has left out
	}
	if err := json.Unmarshal([]byte(o.Out), &c); err != nil || o.Code != 1 {
		fail("after "+change+" diff", o)
		return
	}
	manual, named := false, 0
	for _, d := range c.Definitions.Differences {
		manual = manual || d.Manual != ""
		object := short(strings.ReplaceAll(d.Object, `""`, `"`))
		if strings.Contains(object, short(about.table)) || strings.Contains(object, short(about.named)) {
			named++
		}
	}
	if n := len(c.Definitions.Differences); named == 0 || named < n && about.kind != "column" { // a column takes its keys along
		fail(fmt.Sprintf("after %s diff names %v", change, c.Definitions.Differences), o)
	}
	for _, sql := range c.Definitions.SQL {
		_, err := s.Try(sql.SQL)
		if err != nil && keptByRows(sql.SQL, err.Error()) {
			return // a column that is back has no values yet, which a check or a key may demand
		}
		if err != nil {
			o.Out += "\n" + err.Error()
			fail("after "+change+" what diff prints", o)
			return
		}
	}
	if again := testdb.Run(t, "diff", src, dst, "--definitions=only"); again.Code != 0 && !manual {
		again.Out = o.Out + again.Out
		fail("after "+change+" and what diff printed", again)
	}
}

// change returns a statement that changes a thing, or what it belongs to.
func (m *maker) change(engine string, f fact) string {
	across := m.engine != engine
	m = &maker{Rand: m.Rand, engine: engine}
	table, name := m.q(f.table), m.q(f.named)
	alter := "ALTER TABLE " + table + " "
	switch f.kind {
	case "column":
		if m.odds(25) && !(across && engine == "postgres") { // see doc/STATE.md
			return alter + "RENAME COLUMN " + name + " TO renamed"
		}
		switch required := strings.HasSuffix(f.what, " NOT NULL"); {
		case m.odds(50) && !required: // what is required cannot come back beside rows
			return alter + "DROP COLUMN " + name
		case m.odds(50) && (required || engine == "postgres"): // on MySQL, no default and DEFAULT NULL are the same
			return alter + "ALTER COLUMN " + name + " DROP DEFAULT"
		}
		return alter + "ADD COLUMN added int"
	case "foreign key":
		if engine == "postgres" {
			return alter + "DROP CONSTRAINT " + name
		}
		return alter + "DROP FOREIGN KEY " + name
	}
	if engine == "postgres" {
		return pick(m, "DROP INDEX "+name, alter+"DROP CONSTRAINT "+name)
	}
	return alter + "DROP INDEX " + name
}

// keptByRows reports whether rows are why a statement fails that adds a check or a key.
func keptByRows(sql, why string) bool {
	if strings.Contains(sql, " CHECK ") && (strings.Contains(why, "violate") || strings.Contains(why, "(23000): CONSTRAINT ")) {
		return true
	}
	return (strings.Contains(sql, "UNIQUE") || strings.Contains(sql, "PRIMARY KEY")) && (strings.Contains(why, "could not create unique index") || strings.Contains(why, "Duplicate entry"))
}
