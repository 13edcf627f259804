package ddl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestReturned takes a table from the source, lets the stream see that, and brings it back, as
// another one or with rows that it got meanwhile. The stream loads it again if it may load tables
// by itself; if not, the status says what does.
func TestReturned(t *testing.T) {
	sources := []server{postgres, mysql, mariadb}
	ways := [][2][]string{
		{{"DROP TABLE t"}, {"CREATE TABLE t (id int PRIMARY KEY, n int, x varchar(9))", "INSERT INTO t VALUES (7, 7, 'x')"}},
		{{"ALTER TABLE t RENAME TO away"}, {"INSERT INTO away VALUES (7, 7)", "ALTER TABLE away RENAME TO t"}},
	}
	consents := [][]string{nil, {"--on-ddl", "reload"}, {"--new-tables", "follow"}}
	for _, i := range testdb.Draw(t, len(sources)*len(ways)*len(consents), 3) {
		src, way, more := sources[i%3], ways[i/3%2], consents[i/6]
		t.Run(src.name+"/"+strings.Fields(way[0][0])[0]+"/"+strings.Join(append(more, "")[:min(1, len(more))], ""), func(t *testing.T) {
			t.Parallel()
			s := newStreamWith(t, src, postgres, append(more, "--exclude", "*away"), "CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)", "CREATE TABLE other (id int PRIMARY KEY)")
			s.do(way[0]...)
			s.flow()
			if st := s.states()["t"]; st.State != "stopped" {
				t.Fatalf("it is %+v", st)
			}
			s.do(way[1]...)
			s.flow()
			if st := s.whole("t"); more != nil && st.State != "active" || more == nil && (st.State != "stopped" || !strings.Contains(st.Hint, "It is on the source again")) {
				t.Errorf("it is %+v", st)
			}
			s.remedied([]string{"t"})
		})
	}
}

// TestExchangedWithAStopped exchanges the names of two tables, of which the stream has stopped one.
func TestExchangedWithAStopped(t *testing.T) {
	for _, src := range []server{postgres, mariadb} {
		t.Run(src.name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, src, mysql, "CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE u (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (2, 2)")
			testdb.Must(t, "sub", "stop", "u", "--name", s.name)
			s.do("INSERT INTO u VALUES (3, 3)")
			if src.isPostgres() {
				s.do("BEGIN; ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; ALTER TABLE x RENAME TO u; COMMIT")
			} else {
				s.do("RENAME TABLE t TO x, u TO t, x TO u")
			}
			s.do("INSERT INTO t VALUES (4, 4)")
			s.flow()
			if st := s.whole("t"); st.State != "active" {
				t.Errorf("t is %+v", st)
			}
			if st := s.states()["u"]; st.State != "stopped" {
				t.Errorf("u is %+v", st)
			}
		})
	}
}

// TestLoadBesideARefusedOne loads two tables again, of which the target refuses the rows of the
// first: it stops, the other one is loaded, and the stream reaches its end.
func TestLoadBesideARefusedOne(t *testing.T) {
	t.Parallel()
	s := newStream(t, mariadb, postgres, "CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE u (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (2, 2)")
	testdb.Query(t, s.to, "ALTER TABLE t ADD k int NOT NULL DEFAULT 0; ALTER TABLE t ALTER k DROP DEFAULT")
	for _, table := range []string{"t", "u"} {
		testdb.Must(t, "sub", "reload", table, "--name", s.name)
	}
	s.while(func(until func(func() bool)) {
		until(func() bool { return s.states()["t"].State == "stopped" && s.states()["u"].State == "active" })
	})
	s.flow()
	s.whole("u")
}

// TestLoadMeetsAUniqueKey loads a table again that has a unique key on the target alone, which the
// rows do not satisfy: it stops, and nothing else.
func TestLoadMeetsAUniqueKey(t *testing.T) {
	for _, tgt := range []server{postgres, mariadb} {
		t.Run(tgt.name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, postgres, tgt, "CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE u (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)")
			testdb.Query(t, s.to, "CREATE UNIQUE INDEX n ON t (n)")
			s.do("INSERT INTO u VALUES (1, 1)")
			testdb.Must(t, "sub", "stop", "t", "--name", s.name)
			s.do("INSERT INTO t VALUES (2, 1)")
			testdb.Must(t, "sub", "reload", "t", "--name", s.name)
			s.flow()
			if st := s.whole("t"); st.State != "stopped" {
				t.Errorf("t is %+v", st)
			}
			s.whole("u")
			testdb.Query(t, s.to, map[string]string{"postgres": "DROP INDEX n", "mariadb": "DROP INDEX n ON t"}[tgt.name])
			s.remedied([]string{"t", "u"})
		})
	}
}

// TestFormsThatReturn gives a table back a form that it had before, with rows in each: what the
// stream decided about the first form does not hold for the last.
func TestFormsThatReturn(t *testing.T) {
	ways := []struct {
		name string
		do   []string
	}{
		{"renamed", []string{"ALTER TABLE t RENAME COLUMN n TO q", "DELETE FROM t WHERE id = 1", "ALTER TABLE t RENAME COLUMN q TO n", "INSERT INTO t VALUES (1, 7)"}},
		{"added twice", []string{"ALTER TABLE t ADD z int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t DROP COLUMN z", "INSERT INTO t VALUES (3, 3)", "ALTER TABLE t ADD z int", "INSERT INTO t VALUES (4, 4, 4)"}},
		{"dropped", []string{"ALTER TABLE t DROP COLUMN n", "INSERT INTO t VALUES (2)", "ALTER TABLE t ADD n int", "INSERT INTO t VALUES (3, 3)"}},
		{"of another type", []string{"TYPE bigint", "DELETE FROM t WHERE id = 1", "TYPE int", "INSERT INTO t VALUES (1, 7)"}},
	}
	sources, targets := []server{postgres, mysql, mariadb}, []server{postgres, mysql, mariadb}
	for _, i := range testdb.Draw(t, len(ways)*len(sources)*len(targets)*2, 4) {
		way, src, tgt, live := ways[i%4], sources[i/4%3], targets[i/12%3], i/36 == 1
		t.Run(fmt.Sprintf("%s/%s-%s/live=%v", way.name, src.name, tgt.name, live), func(t *testing.T) {
			t.Parallel()
			s := newStream(t, src, tgt, "CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)", "CREATE TABLE other (id int PRIMARY KEY)")
			s.do("UPDATE t SET n = 2")
			change := func() {
				for at, sql := range way.do {
					sql = strings.Replace(sql, "TYPE", map[bool]string{true: "ALTER TABLE t ALTER n TYPE", false: "ALTER TABLE t MODIFY n"}[src.isPostgres()], 1)
					s.do(sql)
					if live && at%2 == 1 {
						time.Sleep(700 * time.Millisecond) // perhaps it sees the table as it is in between
					}
				}
			}
			if live {
				s.while(func(func(func() bool)) { change() })
			} else {
				change()
			}
			s.flow()
			s.whole("t")
			s.remedied([]string{"t"})
		})
	}
}
