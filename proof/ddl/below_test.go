package ddl_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// familyBelow are a table that others reference with keys that act, directly (c, u) and through
// another (g), and with one that does not (n).
var familyBelow = []string{"CREATE TABLE p (id int PRIMARY KEY, x int)",
	"CREATE TABLE c (id int PRIMARY KEY, pid int, CONSTRAINT c_p FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
	"CREATE TABLE g (id int PRIMARY KEY, cid int, CONSTRAINT g_c FOREIGN KEY (cid) REFERENCES c (id) ON DELETE SET NULL)",
	"CREATE TABLE u (id int PRIMARY KEY, pid int, CONSTRAINT u_p FOREIGN KEY (pid) REFERENCES p (id) ON UPDATE CASCADE)",
	"CREATE TABLE n (id int PRIMARY KEY, pid int, CONSTRAINT n_p FOREIGN KEY (pid) REFERENCES p (id))",
	"INSERT INTO p VALUES (1, 1), (2, 2), (3, 3), (4, 4), (9, 9)", "INSERT INTO c VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO g VALUES (1, 1), (2, 2), (3, 3)",
	"INSERT INTO u VALUES (4, 4)", "INSERT INTO n VALUES (9, 9)"}

// TestBelowAStoppedTable: the log of MySQL and MariaDB lacks what foreign keys do to rows, and the
// target's keys do nothing while the table that they reference is stopped. The tables below it are
// then stopped too, and all are equal once it is loaded again.
func TestBelowAStoppedTable(t *testing.T) {
	// How the table stops, and what the source does with its rows, perhaps in the same transaction.
	ways := map[string][2]string{
		"by hand, a delete":                 {"stop", "DELETE FROM p WHERE id = 1"},
		"by hand, a new key":                {"stop", "UPDATE p SET id = 44 WHERE id = 4"},
		"by a conflict, then a delete":      {"UPDATE p SET x = 7 WHERE id = 9", "DELETE FROM p WHERE id = 1"},
		"by a conflict, a delete with it":   {"", "BEGIN; UPDATE p SET x = 7 WHERE id = 9; DELETE FROM p WHERE id = 1; COMMIT"},
		"by a conflict, many deletes later": {"", "BEGIN; UPDATE p SET x = 7 WHERE id = 9; COMMIT; DELETE FROM p WHERE id = 2; DELETE FROM p WHERE id = 1"},
	}
	drawPairsFrom(t, []server{mysql, mariadb}, 2, func(t *testing.T, src, tgt server) {
		for way, does := range ways {
			t.Run(way, func(t *testing.T) {
				s := newStreamWith(t, src, tgt, []string{"--conflict", "disable"}, familyBelow...)
				if does[0] == "stop" {
					testdb.Must(t, "sub", "stop", "p", "--name", s.name)
				} else {
					sql := "DELETE FROM p WHERE id = 9"
					if tgt.isPostgres() {
						sql = "SET session_replication_role = replica; " + sql
					} else {
						sql = "SET foreign_key_checks = 0; " + sql
					}
					testdb.Query(t, s.to, sql)
					if does[0] != "" {
						s.do(does[0])
					}
				}
				s.do("UPDATE p SET x = 8 WHERE id = 3")
				if does[0] != "" {
					s.flow()
					for _, table := range []string{"c", "g", "u", "n"} {
						if st := s.whole(table); st.State != "active" {
							t.Errorf("before anything of p is deleted, %s is %+v", table, st)
						}
					}
				}
				s.do(does[1], "INSERT INTO c VALUES (5, 3)")
				s.flow()
				if st := s.states()["p"]; st.State != "stopped" {
					t.Fatalf("p is %+v", st)
				}
				for _, table := range []string{"c", "g", "u", "n"} {
					st := s.whole(table)
					below := table != "n"
					if below && does[0] == "" && st.State == "active" {
						continue // the delete was quicker, and the table is equal
					}
					if (st.State == "stopped") != below || below && (!strings.Contains(st.Reason, "p, which is stopped, were deleted") || !strings.Contains(st.Hint, "sub reload")) {
						t.Errorf("%s is %+v", table, st)
					}
				}
				testdb.Must(t, "sub", "reload", "p", "--name", s.name)
				s.flow()
				s.do("DELETE FROM p WHERE id = 3")
				s.flow()
				if s.states()["p"].State == "stopped" { // a load is refused beside active tables below
					testdb.Must(t, "sub", "reload", "p", "--name", s.name)
					s.flow()
				}
				for _, table := range []string{"p", "c", "g", "u", "n"} {
					if st := s.whole(table); st.State != "active" {
						t.Errorf("at the end, %s is %+v", table, st)
					}
				}
			})
		}
	})
}

// TestBelowAStoppedTableWithAFilter deletes rows of a stopped table that has a row filter: what one
// of them did below is noticed, and nothing stops for one outside the filter.
func TestBelowAStoppedTableWithAFilter(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(rules, []byte(`{"rules": [
  {"rule-type": "selection", "rule-id": "1", "rule-name": "all", "rule-action": "include", "object-locator": {"schema-name": "%", "table-name": "%"}},
  {"rule-type": "selection", "rule-id": "2", "rule-name": "two", "rule-action": "include", "object-locator": {"schema-name": "%", "table-name": "p"},
   "filters": [{"filter-type": "source", "column-name": "x", "filter-conditions": [{"filter-operator": "gte", "value": "2"}]}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	drawPairsFrom(t, []server{mysql, mariadb}, 1, func(t *testing.T, src, tgt server) {
		s := newStreamWith(t, src, tgt, []string{"--table-mappings", rules}, slices.Concat(familyBelow, []string{"DELETE FROM c WHERE id = 1"})...)
		testdb.Must(t, "sub", "stop", "p", "--name", s.name)
		s.do("DELETE FROM p WHERE id = 1")
		s.flow()
		if st := s.whole("c"); st.State != "active" {
			t.Errorf("a row outside the filter was deleted, and c is %+v", st)
		}
		s.do("DELETE FROM p WHERE id = 2")
		s.flow()
		for _, table := range []string{"c", "g", "u"} {
			if st := s.whole(table); st.State != "stopped" {
				t.Errorf("%s is %+v", table, st)
			}
		}
	})
}
