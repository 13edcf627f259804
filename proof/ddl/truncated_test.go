package ddl_test

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTruncatedByItself: while a stream runs, a partition is truncated by itself, which no log has,
// after a TRUNCATE of the whole table, which is in the log.
func TestTruncatedByItself(t *testing.T) {
	for name, way := range map[string]struct{ args, do []string }{
		"one":     {nil, []string{"TRUNCATE p2", "INSERT INTO p VALUES (13, 3)"}},
		"each":    {nil, []string{"TRUNCATE p1, p2", "INSERT INTO p VALUES (13, 3)"}},
		"granted": {nil, []string{"TRUNCATE p2", "INSERT INTO p VALUES (13, 3)", "GRANT SELECT ON p2 TO PUBLIC"}},
		"logged":  {[]string{"--follow-ddl"}, []string{"TRUNCATE p2", "INSERT INTO p VALUES (13, 3)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStreamWith(t, postgres, postgres, way.args, parted, "CREATE TABLE other (id int PRIMARY KEY, n int)")
			s.while(func(until func(func() bool)) {
				s.do("INSERT INTO p VALUES (2, 2)")
				until(func() bool { return s.differs("p") == "" })
				s.do("TRUNCATE p", "INSERT INTO p VALUES (1, 5), (12, 5)", "ALTER TABLE other ALTER n SET DEFAULT 5")
				until(func() bool { // without --follow-ddl it has looked at the catalogue by then
					return s.differs("p") == "" && testdb.Query(t, s.to, "SELECT column_default FROM information_schema.columns WHERE table_name = 'other' AND column_name = 'n'") == "5"
				})
				s.do(way.do...)
				until(func() bool { return s.states()["p"].State == "stopped" })
			})
			if st := s.whole("p"); !strings.Contains(st.Reason, "was truncated") {
				t.Errorf("it is %+v", st)
			}
		})
	}
}
