package ddl_test

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

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
