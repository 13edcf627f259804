// Package schemas makes random schemas, and holds the program to what it promises about them: where
// check has nothing against a copy, the copy ends with exit code 0; then the target has all of it,
// by the servers' own words, and diff --definitions finds nothing; after one change it finds that.
package schemas

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var engines = []string{"postgres", "mysql", "mariadb"}

// rounds are how many schemas a pair is tried with.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_SCHEMAS")); err == nil {
		return n
	}
	if testdb.Long() {
		return 200
	}
	return 3
}

// TestRandomSchemas tries random schemas with each pair of engines.
func TestRandomSchemas(t *testing.T) {
	seed := uint64(7000) // the short form has schemas that are known, until the long one finds nothing in thousands
	if testdb.Long() || os.Getenv("TIDEMARK_SCHEMAS") != "" {
		seed = testdb.Seed(t)
	}
	for _, to := range engines {
		for _, from := range engines {
			m := maker{engine: from}
			t.Run(from+" "+to, func(t *testing.T) { m.tries(t, seed, to) })
			if m.dumps = from != "postgres"; m.dumps {
				t.Run("dump of "+from+" "+to, func(t *testing.T) { m.tries(t, seed, to) })
			}
		}
	}
}

// TestRandomObjects copies tables with other objects, within a family: the target has what the
// source has, by the server's own text, or it is said.
func TestRandomObjects(t *testing.T) {
	seed := uint64(7000)
	if testdb.Long() || os.Getenv("TIDEMARK_SCHEMAS") != "" {
		seed = testdb.Seed(t)
	}
	t.Run("postgres postgres", func(t *testing.T) { maker{engine: "postgres", more: true}.tries(t, seed, "postgres") })
	for _, from := range engines[1:] {
		for _, to := range engines[1:] {
			m := maker{engine: from, more: true}
			t.Run(from+" "+to, func(t *testing.T) { m.tries(t, seed, to) })
			m.dumps = true
			t.Run("dump of "+from+" "+to, func(t *testing.T) { m.tries(t, seed, to) })
		}
	}
}

func (m maker) tries(t *testing.T, seed uint64, to string) {
	for i := range rounds() {
		m := maker{Rand: rand.New(rand.NewPCG(seed+uint64(i), 0)), engine: m.engine, dumps: m.dumps, more: m.more, again: !m.more && (i%3 == 0 || rounds() > 3)}
		m.try(t, fmt.Sprintf("TIDEMARK_SEED=%d", seed+uint64(i)), to, m.schema())
	}
}

// try makes a schema and copies it.
func (m *maker) try(t *testing.T, seed, to string, sql []string) {
	from := m.engine
	if m.dumps {
		seed += " dump of"
	}
	src, dst := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
	s := testdb.NewSession(src)
	defer s.Close()
	var taken []string
	for _, stmt := range sql {
		if _, err := s.Try(stmt); err == nil {
			taken = append(taken, stmt+";")
		}
	}
	if len(taken) == 0 || !strings.Contains(strings.Join(taken, ""), "CREATE TABLE") {
		return
	}
	fail := func(what string, o testdb.Outcome) {
		t.Helper()
		t.Errorf("%s %s to %s: %s: exit %d\n%s\n%s\n%s", seed, from, to, what, o.Code, strings.Join(taken, "\n"), o.Out, o.ErrOut)
	}
	copies := src // or a dump of it
	if m.dumps {
		copies = testdb.MySQLDump(t, src, "--routines", "--events", "--triggers")
	}
	checked := testdb.Run(t, "check", copies, dst)
	switch checked.Code {
	case 0:
	case 1:
		return
	default:
		fail("check", checked)
		return
	}
	copied := testdb.Run(t, "copy", copies, dst, "-v")
	if strings.Contains(copied.ErrOut, "(error 1167)") {
		return // a key on a CHAR(0), which MariaDB made and does not make from its own text
	}
	if copied.Code != 0 {
		fail("check is 0, and copy", copied)
		return
	}
	if o := testdb.Run(t, "diff", src, dst, "--definitions=only"); o.Code != 0 {
		fail("diff --definitions", o)
	}
	if m.more && from != "postgres" {
		a, b := programsOf(t, src), programsOf(t, dst)
		for name, text := range a {
			if _, is := b[name]; from == to && b[name] != text || !is && !strings.Contains(copied.Out+copied.ErrOut, name[strings.Index(name, " ")+1:]) {
				o := copied
				o.Out += "\n" + text + "\n-----\n" + b[name]
				fail("the server says of "+name, o)
			}
		}
		if from != to {
			return
		}
	}
	if from == to {
		if a, b := words(t, from, src), words(t, to, dst); a != b {
			copied.Out += "\n" + a + "\n-----\n" + b
			fail("the servers say", copied)
		}
		if m.more && from == "postgres" {
			if a, b := lines(t, src), lines(t, dst); a != b {
				copied.Out += "\n" + a + "\n-----\n" + b
				fail("the rows", copied)
			}
		}
		if !m.more {
			m.further(t, to, copies, src, dst, fail)
		}
		return
	}
	want, have := facts(t, from, src), facts(t, to, dst)
	for _, f := range want {
		text := copied.Out + copied.ErrOut
		noKey := f.kind == "unique" && strings.Contains(text, "primary key ") && strings.Contains(text, "."+f.table+": is left out")
		if !have.has(f) && !strings.Contains(text, f.named) && !noKey {
			copied.Out += fmt.Sprintf("\nlacks %s\nhas %v", f, have)
			fail("the target", copied)
		}
	}
	m.further(t, to, copies, src, dst, fail)
}

// lines are the rows of all tables of a PostgreSQL database, as text, in order.
func lines(t *testing.T, url string) string {
	tables := testdb.Query(t, url, "SELECT oid::regclass FROM pg_class WHERE relkind IN ('r', 'p', 'm') AND relispopulated AND relnamespace::regnamespace::text !~ '^(pg_|information_schema|tidemark)' ORDER BY oid::regclass::text COLLATE \"C\"")
	var out []string
	for table := range strings.SplitSeq(tables, "\n") {
		if table != "" {
			out = append(out, table+":", testdb.Query(t, url, "SELECT x::text FROM "+table+" x ORDER BY x::text COLLATE \"C\""))
		}
	}
	return strings.Join(out, "\n")
}

// further continues with a target that is complete.
func (m *maker) further(t *testing.T, to, copies, src, dst string, fail func(string, testdb.Outcome)) {
	if m.again {
		partly(t, &maker{Rand: rand.New(rand.NewPCG(m.Uint64(), 1)), engine: m.engine}, to, copies, dst, fail)
	}
	if m.again {
		ruled(t, &maker{Rand: rand.New(rand.NewPCG(m.Uint64(), 3)), engine: m.engine, dumps: m.dumps}, to, copies, src, fail)
	}
	changed(t, m, to, src, dst, fail)
	if m.again {
		altered(t, &maker{Rand: rand.New(rand.NewPCG(m.Uint64(), 2)), engine: m.engine}, to, copies, dst, fail)
	}
}
