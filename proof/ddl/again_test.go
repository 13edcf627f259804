package ddl_test

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestKilledInAStatement kills the stream while the target runs a statement of the source's, which
// the target then completes: the next run, which has it again, leaves the table as the source's.
func TestKilledInAStatement(t *testing.T) {
	var ways []kind
	for _, k := range []kind{
		{name: "rename", do: []string{"ALTER TABLE t RENAME COLUMN n TO m", "INSERT INTO t VALUES (3, 3)"}},
		{name: "drop", do: []string{"ALTER TABLE t DROP n", "INSERT INTO t VALUES (3)"}},
		{name: "drop and add", do: []string{"ALTER TABLE t DROP n, ADD n varchar(9) DEFAULT 'q'", "INSERT INTO t VALUES (3, 'r')"}},
		{name: "drop, then add", do: []string{"ALTER TABLE t DROP n", "ALTER TABLE t ADD n varchar(9) DEFAULT 'q'", "INSERT INTO t VALUES (3, 'r')"}},
		{name: "type", do: []string{"ALTER TABLE t MODIFY n varchar(9)", "INSERT INTO t VALUES (3, 'r')"}},
		{name: "drop partition", setup: byRange, do: []string{"ALTER TABLE t DROP PARTITION p1", "INSERT INTO t VALUES (3, 3)"}},
		{name: "truncate partition", setup: byRange, do: []string{"ALTER TABLE t TRUNCATE PARTITION p1", "INSERT INTO t VALUES (13, 3)"}},
	} {
		for _, k.src = range []server{mysql, mariadb} {
			ways = append(ways, k)
		}
	}
	for _, i := range testdb.Draw(t, len(ways), 2) {
		k := ways[i]
		t.Run(strings.ReplaceAll(k.name, " ", "-")+"/"+k.src.name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, k.src, k.src, "CREATE TABLE t (id int PRIMARY KEY, n int)", k.setup, "INSERT INTO t VALUES (1, 1), (12, 2)")
			gate := testdb.NewSession(s.to)
			defer gate.Close()
			if _, err := gate.Try("BEGIN; SELECT count(*) FROM t"); err != nil {
				t.Fatal(err)
			}
			s.do("INSERT INTO t VALUES (2, 2), (14, 4)")
			s.do(k.do...)
			p := testdb.Command(t, s.args...)
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			const waits = "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND state LIKE '%metadata lock%'"
			await(t, s.to, waits, "1")
			_ = p.Process.Kill()
			_ = p.Wait() // it was killed
			gate.Close()
			await(t, s.to, waits, "0")
			for range 2 {
				s.flow()
				if st := s.whole("t"); st.State != "active" {
					t.Errorf("it is %+v", st)
				}
			}
			s.redefined("t")
		})
	}
}

// TestStatementsOnAnotherTarget has the source drop or truncate a partition where the target's
// table has none, or none of the name: its rows would stay there, so the table stops.
func TestStatementsOnAnotherTarget(t *testing.T) {
	for name, other := range map[string]string{"without partitions": "ALTER TABLE t REMOVE PARTITIONING", "with others": "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION q0 VALUES LESS THAN (10), PARTITION q1 VALUES LESS THAN (50))"} {
		for _, do := range []string{"DROP", "TRUNCATE"} {
			t.Run(name+"/"+do, func(t *testing.T) {
				t.Parallel()
				s := newStream(t, mariadb, mysql, "CREATE TABLE t (id int PRIMARY KEY, n int)", byRange, "INSERT INTO t VALUES (1, 1), (12, 2)")
				testdb.Query(t, s.to, other)
				s.do("ALTER TABLE t "+do+" PARTITION p1", "INSERT INTO t VALUES (2, 2)")
				for range 2 {
					s.flow()
					if st := s.whole("t"); st.State != "stopped" || !strings.Contains(st.Reason, "p1") {
						t.Errorf("it is %+v", st)
					}
				}
				testdb.Query(t, s.to, "DELETE FROM t WHERE id > 9")
				s.remedied([]string{"t"})
			})
		}
	}
}

// TestTypesOfRules has the source change types of columns to which rules give others: these stay,
// or the table stops.
func TestTypesOfRules(t *testing.T) {
	t.Parallel()
	s := newStreamWith(t, mysql, mariadb, []string{"--config", testdb.Written(t, "rules.yaml", "tables: {\"*\": {types: {n: bigint}}}\n")}, "CREATE TABLE t (id int PRIMARY KEY, n int, m int)", "CREATE TABLE u (id int PRIMARY KEY, n int, m int)", "INSERT INTO t VALUES (1, 1, 1)")
	s.do("ALTER TABLE t MODIFY n mediumint, MODIFY m varchar(20)", "INSERT INTO t VALUES (2, 2, '2')", "ALTER TABLE u MODIFY m bigint", "ALTER TABLE u RENAME COLUMN m TO k, ADD m int", "INSERT INTO u VALUES (2, 2, 2, 2)")
	s.flow()
	if st := s.whole("t"); st.State != "stopped" && testdb.Query(t, s.to, "SELECT data_type FROM information_schema.columns WHERE table_schema = database() AND table_name = 't' AND column_name = 'n'") != "bigint" {
		t.Errorf("it is %+v, and its column is not as the rules say", st)
	}
	if st := s.whole("u"); st.State != "active" {
		t.Errorf("u is %+v", st)
	}
}
