package ddl_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// loggedStops holds the reasons that stop a table between PostgreSQL servers although the log has
// definitions, by kind; all other changes are followed.
var loggedStops = map[string]string{
	"add column with an expression":   "add expression x",
	"drop and add in one transaction": "already changed its rows",
	"attach rows":                     "with rows that are not on the target",
	"attach rows, nothing behind":     "with rows that are not on the target",
	"detach and attach":               "with rows that are not on the target",
	"truncate partition":              "p2 was truncated",
	"truncate partition, then grant":  "p2 was truncated",
	"truncate each partition":         "was truncated",
	"truncate all, then a partition":  "p2 was truncated",
	"truncate all, then grant/behind": "p2 was truncated", // in doubt
	"drop table":                      "no longer on the source",
	"rename table":                    "", // followed by the log, or because the old name is gone
}

// TestLogged covers all kinds of changes on a PostgreSQL source whose log has definitions
// (--follow-ddl): another PostgreSQL follows them, in order with the rows, and pg_dump output of
// both sides is equal. The short form draws some.
func TestLogged(t *testing.T) {
	of := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.src.name != "postgres" })
	for _, i := range testdb.Draw(t, 2*len(of), 20) {
		k, behind := of[i/2], i%2 == 1
		t.Run(strings.ReplaceAll(k.name, " ", "-")+map[bool]string{true: "/behind", false: "/ahead"}[behind], func(t *testing.T) {
			t.Parallel()
			s := newStreamWith(t, k.src, postgres, []string{"--follow-ddl"}, "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE other (id int PRIMARY KEY)", k.setup, "INSERT INTO t (id) VALUES (1)")
			reason, stops := loggedStops[k.name]
			if !stops && behind {
				reason, stops = loggedStops[k.name+"/behind"]
			}
			s.logged(t, k.table, reason, stops, k.do, behind)
		})
	}
}

// logged changes the source, and checks the target.
func (s *stream) logged(t *testing.T, table, reason string, stops bool, do []string, behind bool) {
	t.Helper()
	if table == "" {
		table = "t"
	}
	for _, sql := range do {
		if s.do(sql); !behind {
			s.flow()
		}
	}
	s.do("INSERT INTO other VALUES (1)")
	s.flow()
	st := s.whole(table)
	if o := s.whole("other"); o.State != "active" {
		t.Errorf("another table is %+v", o)
	}
	switch {
	case !stops && st.State != "active":
		t.Fatalf("it is %+v", st)
	case stops && (st.State != "stopped" || !strings.Contains(st.Reason, reason)):
		t.Fatalf("it is %+v, not stopped for %q", st, reason)
	}
	if stops {
		return
	}
	want, have := schema(t, s.from, table), schema(t, s.to, table)
	if want != have { // NOT NULL after rows of its own transaction waits for a check, for which a run may be too short
		s.flow()
		have = schema(t, s.to, table)
	}
	if want != have {
		t.Errorf("pg_dump of the source's %s is\n%s\nand of the target's\n%s", table, want, have)
	}
}

// schema returns pg_dump's output for a table, its partitions, and types; indexes and checks are
// not followed.
func schema(t testing.TB, url, table string) string {
	t.Helper()
	out, err := exec.Command("pg_dump", "--schema-only", "--no-owner", "--table", "public."+table+"*", url).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var lines []string
	in := false
	for line := range strings.SplitSeq(string(out), "\n") {
		if strings.HasPrefix(line, "CREATE TABLE") || strings.HasPrefix(line, "ALTER TABLE ONLY") && strings.Contains(line, "ATTACH") {
			in = true
		}
		if in && !strings.Contains(line, " CONSTRAINT ") && !strings.HasPrefix(line, "WITH (") {
			lines = append(lines, strings.TrimRight(line, ",;"))
		}
		in = in && !strings.HasSuffix(line, ";")
	}
	labels := testdb.Query(t, url, "SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum")
	return strings.Join(lines, "\n") + "\n" + labels
}
