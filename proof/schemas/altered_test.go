package schemas

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// altered changes a complete target's tables as their owner might, and copies again. Check decides
// about all that definitions decide; what is left is for rows to decide.
func altered(t *testing.T, m *maker, to, copies, dst string, fail func(string, testdb.Outcome)) {
	s := testdb.NewSession(dst)
	defer s.Close()
	before := counts(t, to, dst)
	var done []string
	for range 1 + m.IntN(3) {
		have := facts(t, to, dst)
		if len(have) == 0 {
			break
		}
		sql := m.alteration(to, pick(m, have...))
		if _, err := s.Try(sql); err == nil {
			done = append(done, sql)
		}
	}
	if len(done) == 0 {
		return
	}
	what := " with --prep truncate after " + strings.Join(done, "; ")
	if checked := testdb.Run(t, "check", copies, dst, "--prep", "truncate"); checked.Code != 0 {
		if checked.Code != 1 {
			fail("check"+what, checked)
		}
		return
	}
	copied := testdb.Run(t, "copy", copies, dst, "-v", "--prep", "truncate")
	switch copied.Code {
	case 0:
		if after := counts(t, to, dst); after != before {
			copied.Out += "\n" + before + "\n-----\n" + after
			fail("the rows of copy"+what, copied)
		}
	case 14: // a value that the target's column cannot hold
	default:
		fail("check is 0, and copy"+what, copied)
	}
}

// counts lists the tables with their number of rows.
func counts(t *testing.T, engine, url string) string {
	var out []string
	q := maker{engine: engine}
	for _, table := range facts(t, engine, url).tables() {
		out = append(out, table+": "+testdb.Query(t, url, "SELECT count(*) FROM "+q.q(table)))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// alteration returns a statement that alters the table of a fact.
func (m *maker) alteration(engine string, f fact) string {
	m = &maker{Rand: m.Rand, engine: engine}
	table, name := m.q(f.table), m.q(f.named)
	alter := "ALTER TABLE " + table + " "
	if f.kind != "column" {
		return m.change(engine, f)
	}
	kind := pick(m, "varchar(10)", "text", "bigint", "int", "numeric(10,2)", "timestamp", "date", "double precision")
	retype := alter + "MODIFY " + name + " " + kind
	if engine == "postgres" {
		retype = fmt.Sprintf("%sALTER COLUMN %s TYPE %s USING NULL", alter, name, kind)
	}
	add := pick(m, "added int", "added int NOT NULL", "added int NOT NULL DEFAULT 7", "added varchar(20) UNIQUE", "added int GENERATED ALWAYS AS (1 + 1) STORED")
	switch m.IntN(8) {
	case 0:
		return alter + "RENAME COLUMN " + name + " TO renamed"
	case 1:
		return alter + "DROP COLUMN " + name
	case 2:
		return alter + "ADD COLUMN " + add
	case 3:
		return alter + "ADD CONSTRAINT added CHECK (" + name + " IS NOT NULL)"
	case 4:
		return "CREATE UNIQUE INDEX added ON " + table + " (" + name + ")"
	case 5:
		return "DROP TABLE " + table + " CASCADE"
	}
	return retype
}
