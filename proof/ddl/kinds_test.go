package ddl_test

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A kind is one way to change definitions.
type kind struct {
	name  string
	src   server
	setup string   // in addition to t (id int primary key, n int)
	do    []string // on the source, each one or more transactions, including rows
	// What happens to t, by target engine, "" for any other: "" if the change is followed,
	// otherwise part of the reason for the stop.
	to map[string]string
	// doubt is the reason for the stop if the stream lags behind, if that differs.
	doubt string
	// lacks names a column that a target's table lacks at the end.
	lacks map[string]string
	// table is used instead of t.
	table string
	// differs is set if definitions are not equal though every change is followed.
	differs bool
	family  bool // of MySQL and MariaDB; the short form includes the pair of one engine
}

const goes = ""

// parted creates a table p of two partitions, with a row in each.
const parted = "CREATE TABLE p (id int PRIMARY KEY, n int) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); " +
	"CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20); INSERT INTO p VALUES (1, 1), (11, 11)"

// stops returns the same reason for all engines.
func stops(reason string) map[string]string { return map[string]string{"": reason} }

var kinds = []kind{
	{name: "add column", src: postgres, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)"}},
	{name: "add column with a default", src: postgres, do: []string{"ALTER TABLE t ADD x int DEFAULT 7", "INSERT INTO t (id) VALUES (2)"}},
	{name: "add column with an expression", src: postgres, do: []string{"ALTER TABLE t ADD x int DEFAULT (random() * 1000)::int", "INSERT INTO t (id) VALUES (2)"}, to: stops("has no column x")},
	{name: "add column, then rename it", src: postgres, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t RENAME x TO y", "INSERT INTO t VALUES (3, 3, 3)"}, to: stops("x")},
	{name: "rename column", src: postgres, do: []string{"ALTER TABLE t RENAME n TO m", "INSERT INTO t VALUES (2, 2)"}, to: stops("its column n was renamed to m")},
	{name: "exchange names", src: postgres, setup: "ALTER TABLE t ADD m int", do: []string{"BEGIN; ALTER TABLE t RENAME n TO x; ALTER TABLE t RENAME m TO n; ALTER TABLE t RENAME x TO m; COMMIT", "INSERT INTO t VALUES (2, 2, 3)"}, to: stops("was renamed to")},
	{name: "drop column", src: postgres, do: []string{"ALTER TABLE t DROP n", "INSERT INTO t VALUES (2)"}, to: stops("no longer has the column n")},
	{name: "drop and add again", src: postgres, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n", "ALTER TABLE t ADD n int", "INSERT INTO t VALUES (3, 3)"}, to: stops("n")},
	{name: "drop and add again with another type", src: postgres, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n", "ALTER TABLE t ADD n text", "INSERT INTO t VALUES (3, '3')"}, to: stops("n")},
	{name: "drop and add in one transaction", src: postgres, do: []string{"BEGIN; INSERT INTO t VALUES (2, 2); ALTER TABLE t DROP n; ALTER TABLE t ADD n int; INSERT INTO t VALUES (3, 3); COMMIT"}, to: stops("n")},
	{name: "add, drop, add", src: postgres, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t DROP x", "ALTER TABLE t ADD x int", "INSERT INTO t VALUES (3, 3, 3)"}, to: stops("dropped and added")},
	{name: "change type", src: postgres, do: []string{"ALTER TABLE t ALTER n TYPE bigint", "INSERT INTO t VALUES (2, 5000000000)"}, to: stops("its column n is of another type than before")},
	{name: "add generated", src: postgres, do: []string{"ALTER TABLE t ADD g int GENERATED ALWAYS AS (n * 2) STORED", "INSERT INTO t (id, n) VALUES (2, 2)"}, lacks: map[string]string{"mysql": "g", "mariadb": "g"}},
	{name: "drop expression", src: postgres, setup: "ALTER TABLE t ADD g int GENERATED ALWAYS AS (n * 2) STORED", do: []string{"ALTER TABLE t ALTER g DROP EXPRESSION", "INSERT INTO t (id, n, g) VALUES (2, 2, 7)"}, to: stops("g")},
	{name: "defaults", src: postgres, do: []string{"ALTER TABLE t ALTER n SET DEFAULT 5", "INSERT INTO t (id) VALUES (2)", "ALTER TABLE t ALTER n DROP DEFAULT", "INSERT INTO t (id) VALUES (3)"}},
	{name: "set not null", src: postgres, do: []string{"UPDATE t SET n = 1", "ALTER TABLE t ALTER n SET NOT NULL", "INSERT INTO t VALUES (2, 2)"}},
	{name: "drop not null", src: postgres, setup: "ALTER TABLE t ADD m int NOT NULL DEFAULT 1", do: []string{"ALTER TABLE t ALTER m DROP NOT NULL", "INSERT INTO t VALUES (2, 2, NULL)"},
		to: map[string]string{"mysql": "m", "mariadb": "m"}},
	{name: "add label", src: postgres, setup: "CREATE TYPE mood AS ENUM ('sad', 'glad'); ALTER TABLE t ADD m mood DEFAULT 'sad'", do: []string{"ALTER TYPE mood ADD VALUE 'so-so' BEFORE 'glad'", "INSERT INTO t VALUES (2, 2, 'so-so')"},
		to: map[string]string{"mysql": "new label so-so", "mariadb": "new label so-so"}},
	{name: "rename label", src: postgres, setup: "CREATE TYPE mood AS ENUM ('sad', 'glad'); ALTER TABLE t ADD m mood DEFAULT 'sad'", do: []string{"INSERT INTO t VALUES (2, 2, 'sad')", "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", "INSERT INTO t VALUES (3, 3, 'blue')"},
		to: map[string]string{"mysql": "was renamed to blue", "mariadb": "was renamed to blue"}},
	{name: "rename label, no row behind it", src: postgres, setup: "CREATE TYPE mood AS ENUM ('sad', 'glad'); ALTER TABLE t ADD m mood DEFAULT 'sad'", do: []string{"INSERT INTO t VALUES (2, 2, 'sad')", "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'"},
		to: map[string]string{"mysql": "was renamed to blue", "mariadb": "was renamed to blue"}},
	{name: "new partition", src: postgres, setup: parted, table: "p", do: []string{"CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30)", "INSERT INTO p VALUES (25, 1)"}},
	{name: "new partition with partitions", src: postgres, setup: parted, table: "p", do: []string{"CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30) PARTITION BY RANGE (id); CREATE TABLE p3a PARTITION OF p3 FOR VALUES FROM (20) TO (25)", "INSERT INTO p VALUES (22, 1)"}},
	{name: "attach an empty table", src: postgres, setup: parted, table: "p", do: []string{"CREATE TABLE p3 (LIKE p INCLUDING ALL)", "ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30)", "INSERT INTO p VALUES (25, 1)"}, to: stops("was attached")},
	{name: "attach rows", src: postgres, setup: parted, table: "p", do: []string{"BEGIN; CREATE TABLE p3 (LIKE p INCLUDING ALL); INSERT INTO p3 VALUES (21, 1); ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30); COMMIT", "INSERT INTO p VALUES (25, 1)"}, to: stops("was attached")},
	{name: "attach rows, nothing behind", src: postgres, setup: parted, table: "p", do: []string{"CREATE TABLE p3 (LIKE p INCLUDING ALL); INSERT INTO p3 VALUES (21, 1)", "ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30)"}, to: stops("was attached")},
	{name: "detach", src: postgres, setup: parted, table: "p", do: []string{"INSERT INTO p VALUES (3, 3)", "ALTER TABLE p DETACH PARTITION p2"}, to: stops("p2 was detached or dropped")},
	{name: "drop partition", src: postgres, setup: parted, table: "p", do: []string{"DROP TABLE p2", "INSERT INTO p VALUES (3, 3)"}, to: stops("p2 was detached or dropped")},
	{name: "detach and attach", src: postgres, setup: parted, table: "p", do: []string{"ALTER TABLE p DETACH PARTITION p2; DELETE FROM p2; ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)"}, to: stops("attached again")},
	{name: "truncate partition", src: postgres, setup: parted, table: "p", do: []string{"TRUNCATE p2", "INSERT INTO p VALUES (12, 3)"}, to: stops("p2 was truncated")},
	{name: "truncate partition, then grant", src: postgres, setup: parted, table: "p", do: []string{"TRUNCATE p2", "INSERT INTO p VALUES (12, 3)", "GRANT SELECT ON p2 TO PUBLIC"}, to: stops("p2 was truncated")},
	{name: "truncate each partition", src: postgres, setup: parted, table: "p", do: []string{"TRUNCATE p1, p2", "INSERT INTO p VALUES (12, 3)"}, to: stops("was truncated")},
	{name: "truncate all, then a partition", src: postgres, setup: parted, table: "p", do: []string{"TRUNCATE p", "INSERT INTO p VALUES (2, 3), (12, 3)", "TRUNCATE p2", "INSERT INTO p VALUES (13, 3)"}, to: stops("p2 was truncated")},
	{name: "truncate all, then add a column", src: postgres, setup: parted, table: "p", do: []string{"TRUNCATE p", "ALTER TABLE p ADD x int", "INSERT INTO p VALUES (12, 3, 4)"}},
	{name: "truncate all, to be undone", src: postgres, setup: parted, table: "p", do: []string{"DO 'BEGIN TRUNCATE p; EXCEPTION WHEN others THEN NULL; END'", "INSERT INTO p VALUES (12, 3)"}},
	{name: "truncate all, then grant", src: postgres, setup: parted, table: "p", do: []string{"TRUNCATE p", "GRANT SELECT ON p2 TO PUBLIC", "INSERT INTO p VALUES (12, 3)"}, doubt: "p2 was truncated"},
	{name: "rewrite partition, then grant", src: postgres, setup: parted, table: "p", do: []string{"INSERT INTO p VALUES (12, 3)", "VACUUM FULL p2", "GRANT SELECT ON p2 TO PUBLIC", "INSERT INTO p VALUES (13, 3)"}},
	{name: "truncate all partitions", src: postgres, setup: parted, table: "p", do: []string{"TRUNCATE p", "INSERT INTO p VALUES (12, 3)"}},
	{name: "rewrite partition", src: postgres, setup: parted, table: "p", do: []string{"INSERT INTO p VALUES (12, 3)", "VACUUM FULL p2", "INSERT INTO p VALUES (13, 3)"}},
	{name: "drop table", src: postgres, do: []string{"INSERT INTO t VALUES (2, 2)", "DROP TABLE t"}, to: stops("no longer on the source")},
	{name: "replace table", src: postgres, do: []string{"INSERT INTO t VALUES (2, 2)", "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (3, 3)"}},
	{name: "exchange tables", src: postgres, setup: "CREATE TABLE u (id int PRIMARY KEY, n int)", do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t RENAME TO w; ALTER TABLE u RENAME TO t", "INSERT INTO t VALUES (3, 3)"}},
	{name: "rename table", src: postgres, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (3, 3)"}, to: stops("no longer on the source")},
	{name: "indexes and constraints", src: postgres, do: []string{"CREATE UNIQUE INDEX ON t (n)", "INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD CHECK (n < 100)", "INSERT INTO t VALUES (3, 3)", "ALTER TABLE t SET (fillfactor = 90)", "INSERT INTO t VALUES (4, 4)"}},
	{name: "column that came and went", src: postgres, do: []string{"ALTER TABLE t ADD x int", "ALTER TABLE t DROP x", "INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD y int", "INSERT INTO t VALUES (3, 3, 3)"}, doubt: "dropped and added"},
	{name: "add column", src: mysql, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)"}},
	{name: "add column with a default", src: mysql, do: []string{"ALTER TABLE t ADD x int DEFAULT 7", "INSERT INTO t (id) VALUES (2)"}},
	{name: "add column, then rename it", src: mysql, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t RENAME COLUMN x TO y", "INSERT INTO t VALUES (3, 3, 3)"}, to: toPostgres("x"), doubt: "renamed"},
	{name: "rename column", src: mysql, do: []string{"ALTER TABLE t CHANGE n m int", "INSERT INTO t VALUES (2, 2)"}, to: toPostgres("its column n was renamed to m")},
	{name: "exchange names", src: mysql, setup: "ALTER TABLE t ADD m int", do: []string{"ALTER TABLE t CHANGE n m int, CHANGE m n int", "INSERT INTO t VALUES (2, 2, 3)"}, to: map[string]string{"": "target rejects", "postgres": "was renamed to"}},
	{name: "drop column", src: mysql, do: []string{"ALTER TABLE t DROP n", "INSERT INTO t VALUES (2)"}, to: toPostgres("no longer has the column n")},
	{name: "drop and add again", src: mysql, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n", "ALTER TABLE t ADD n int", "INSERT INTO t VALUES (3, 3)"}, to: toPostgres("n")},
	{name: "drop and add again without a row before", src: mysql, do: []string{"ALTER TABLE t DROP n", "ALTER TABLE t ADD n int", "INSERT INTO t VALUES (3, 3)"}, to: toPostgres("n")},
	{name: "drop and add in one statement", src: mysql, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n, ADD n varchar(9)", "INSERT INTO t VALUES (3, 'q')"}, to: toPostgres("n")},
	{name: "add, drop, add", src: mysql, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t DROP x", "ALTER TABLE t ADD x int", "INSERT INTO t VALUES (3, 3, 3)"}, to: toPostgres("dropped and added")},
	{name: "change type", src: mysql, do: []string{"ALTER TABLE t MODIFY n bigint", "INSERT INTO t VALUES (2, 5000000000)"}, to: toPostgres("its column n is of another type than before")},
	{name: "column that came and went", src: mysql, do: []string{"ALTER TABLE t ADD x int", "ALTER TABLE t DROP x", "INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD y int", "INSERT INTO t VALUES (3, 3, 3)"}},
	{name: "move column", src: mysql, setup: "ALTER TABLE t ADD m int", do: []string{"ALTER TABLE t MODIFY m int FIRST", "INSERT INTO t VALUES (5, 2, 3)"}},
	{name: "add column after", src: mysql, do: []string{"ALTER TABLE t ADD x int AFTER id", "INSERT INTO t VALUES (2, 5, 3)"}},
	{name: "add column", src: mariadb, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)"}},
	{name: "add column with a default", src: mariadb, do: []string{"ALTER TABLE t ADD x int DEFAULT 7", "INSERT INTO t (id) VALUES (2)"}},
	{name: "add column, then rename it", src: mariadb, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t RENAME COLUMN x TO y", "INSERT INTO t VALUES (3, 3, 3)"}, to: toPostgres("x"), doubt: "renamed"},
	{name: "rename column", src: mariadb, do: []string{"ALTER TABLE t CHANGE n m int", "INSERT INTO t VALUES (2, 2)"}, to: toPostgres("its column n was renamed to m")},
	{name: "exchange names", src: mariadb, setup: "ALTER TABLE t ADD m int", do: []string{"ALTER TABLE t CHANGE n m int, CHANGE m n int", "INSERT INTO t VALUES (2, 2, 3)"}, to: map[string]string{"": "target rejects", "postgres": "was renamed to"}},
	{name: "drop column", src: mariadb, do: []string{"ALTER TABLE t DROP n", "INSERT INTO t VALUES (2)"}, to: toPostgres("no longer has the column n")},
	{name: "drop and add again", src: mariadb, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n", "ALTER TABLE t ADD n int", "INSERT INTO t VALUES (3, 3)"}, to: toPostgres("n")},
	{name: "drop and add again without a row before", src: mariadb, do: []string{"ALTER TABLE t DROP n", "ALTER TABLE t ADD n int", "INSERT INTO t VALUES (3, 3)"}, to: toPostgres("n")},
	{name: "drop and add in one statement", src: mariadb, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n, ADD n varchar(9)", "INSERT INTO t VALUES (3, 'q')"}, to: toPostgres("n")},
	{name: "add, drop, add", src: mariadb, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t DROP x", "ALTER TABLE t ADD x int", "INSERT INTO t VALUES (3, 3, 3)"}, to: toPostgres("dropped and added")},
	{name: "change type", src: mariadb, do: []string{"ALTER TABLE t MODIFY n bigint", "INSERT INTO t VALUES (2, 5000000000)"}, to: toPostgres("its column n is of another type than before")},
	{name: "column that came and went", src: mariadb, do: []string{"ALTER TABLE t ADD x int", "ALTER TABLE t DROP x", "INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD y int", "INSERT INTO t VALUES (3, 3, 3)"}},
	{name: "move column", src: mariadb, setup: "ALTER TABLE t ADD m int", do: []string{"ALTER TABLE t MODIFY m int FIRST", "INSERT INTO t VALUES (5, 2, 3)"}},
	{name: "add column after", src: mariadb, do: []string{"ALTER TABLE t ADD x int AFTER id", "INSERT INTO t VALUES (2, 5, 3)"}},
	{name: "add partition", src: mysql, setup: "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))", do: []string{"ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN (20))", "INSERT INTO t VALUES (15, 1)", "ALTER TABLE `t` REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))", "INSERT INTO t VALUES (25, 1)"}},
	{name: "drop partition", src: mysql, setup: "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))", do: []string{"INSERT INTO t VALUES (15, 1)", "ALTER TABLE t DROP PARTITION p1", "INSERT INTO t VALUES (2, 1)"}, to: toPostgres("partition p1 was dropped")},
	{name: "add partition", src: mariadb, setup: "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))", do: []string{"ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN (20))", "INSERT INTO t VALUES (15, 1)", "ALTER TABLE `t` REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))", "INSERT INTO t VALUES (25, 1)"}},
	{name: "drop partition", src: mariadb, setup: "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))", do: []string{"INSERT INTO t VALUES (15, 1)", "ALTER TABLE t DROP PARTITION p1", "INSERT INTO t VALUES (2, 1)"}, to: toPostgres("partition p1 was dropped")},
}

// TestKinds changes definitions, once while the stream is idle and once while it lags behind. The
// short form draws some of the ways.
func TestKinds(t *testing.T) {
	type way struct {
		kind
		tgt    server
		reason string
		behind bool
	}
	var ways []way
	for _, k := range kinds {
		for _, tgt := range []server{postgres, mysql, mariadb} {
			reason, ok := k.to[tgt.name]
			if !ok {
				reason = k.to[""]
			}
			ways = append(ways, way{k, tgt, reason, false})
			if k.doubt != "" && (k.src.isPostgres() || reason != goes) {
				reason = k.doubt
			}
			ways = append(ways, way{k, tgt, reason, true})
		}
	}
	for _, i := range testdb.Draw(t, len(ways), 32) {
		w := ways[i]
		t.Run(strings.ReplaceAll(w.name, " ", "-")+"/"+w.src.name+"-"+w.tgt.name+map[bool]string{true: "/behind", false: "/ahead"}[w.behind], func(t *testing.T) {
			t.Parallel()
			w.check(t, w.tgt, w.reason, w.behind)
		})
	}
}

func (k kind) check(t *testing.T, tgt server, reason string, behind bool) {
	table := k.table
	if table == "" {
		table = "t"
	}
	s := newStream(t, k.src, tgt, "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE other (id int PRIMARY KEY)", k.setup, "INSERT INTO t (id) VALUES (1)")
	s.lacks = k.lacks[tgt.name]
	for _, sql := range k.do {
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
	case reason == goes && st.State != "active":
		t.Errorf("it is %+v", st)
	case reason == goes && !k.differs:
		s.redefined(table)
	case reason != goes && (st.State != "stopped" || !strings.Contains(st.Reason, reason)):
		t.Errorf("it is %+v, not stopped for %q", st, reason)
	}
}
