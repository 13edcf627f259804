package schemas

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const (
	mysqlParents    = "SELECT TABLE_NAME, REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME IS NOT NULL"
	postgresParents = "SELECT c.relname, p.relname FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_class p ON p.oid = f.confrelid WHERE f.contype = 'f' AND c.relnamespace = 'public'::regnamespace"
)

// partly drops some tables of a complete target, with those that refer to them, and copies again:
// the target then is what it was.
func partly(t *testing.T, m *maker, to, copies, dst string, fail func(string, testdb.Outcome)) {
	parents := mysqlParents
	if to == "postgres" {
		parents = postgresParents
	}
	var pairs [][2]string
	for row := range strings.SplitSeq(testdb.Query(t, dst, parents), "\n") {
		if child, parent, ok := strings.Cut(row, "\t"); ok {
			pairs = append(pairs, [2]string{child, parent})
		}
	}
	tables := facts(t, to, dst).tables()
	if len(tables) < 2 {
		return
	}
	drop := []string{pick(m, tables...)}
	for i := 0; i < len(drop); i++ {
		for _, p := range pairs {
			if p[1] == drop[i] && !slices.Contains(drop, p[0]) {
				drop = append(drop, p[0])
			}
		}
	}
	before := words(t, to, dst)
	s := testdb.NewSession(dst)
	defer s.Close()
	q := maker{engine: to}
	slices.Reverse(drop) // those that refer to others first
	for _, table := range drop {
		_, _ = s.Try("DROP TABLE " + q.q(table) + " CASCADE") // it may have gone with another one
	}
	prep := pick(m, "truncate", "truncate", "drop")
	if checked := testdb.Run(t, "check", copies, dst, "--prep", prep); checked.Code != 0 {
		if checked.Code != 1 {
			fail("check with --prep "+prep, checked)
		}
		return
	}
	what := "copy with --prep " + prep + " into what has all but " + strings.Join(drop, ", ")
	copied := testdb.Run(t, "copy", copies, dst, "-v", "--prep", prep)
	if copied.Code != 0 {
		fail(what, copied)
		return
	}
	if after := words(t, to, dst); after != before {
		copied.Out += "\n" + before + "\n-----\n" + after
		fail(what+": the server says", copied)
	}
}
