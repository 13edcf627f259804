package ddl_test

import (
	"regexp"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// byRange gives t two partitions.
const byRange = "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"

// toPostgres is the reason that stops a table on PostgreSQL, though the change is followed between
// MySQL and MariaDB.
func toPostgres(reason string) map[string]string { return map[string]string{"postgres": reason} }

// family are kinds of MySQL and MariaDB; changes followed between these yield equal definitions. An
// empty setup has only t (id int primary key, n int).
var family = []kind{
	{name: "set default", do: []string{"ALTER TABLE t ALTER n SET DEFAULT 5", "INSERT INTO t (id) VALUES (2)", "ALTER TABLE t ALTER COLUMN n DROP DEFAULT", "INSERT INTO t VALUES (3, 3)", "ALTER TABLE t MODIFY n int DEFAULT 7 COMMENT 'a, b'"}},
	{name: "set not null", do: []string{"UPDATE t SET n = 1", "INSERT INTO t VALUES (2, NULL)", "UPDATE t SET n = 2", "ALTER TABLE t MODIFY n int NOT NULL", "INSERT INTO t VALUES (3, 3)"}},
	{name: "drop not null", setup: "ALTER TABLE t ADD m int NOT NULL DEFAULT 1", do: []string{"ALTER TABLE t CHANGE m m int DEFAULT 4", "INSERT INTO t VALUES (2, 2, NULL)"}, to: toPostgres("takes NULL now")},
	{name: "add generated", do: []string{"ALTER TABLE t ADD g int GENERATED ALWAYS AS (n * 2) STORED AFTER id, ADD COLUMN (h int AS (n + 1) VIRTUAL, k int)", "INSERT INTO t (id, n, k) VALUES (2, 2, 3)"}, lacks: map[string]string{"postgres": "g,h"}},
	{name: "drop generated", setup: "ALTER TABLE t ADD g int GENERATED ALWAYS AS (n * 2) STORED", do: []string{"ALTER TABLE t DROP COLUMN g", "INSERT INTO t (id, n) VALUES (2, 2)"}},
	{name: "make generated", setup: "ALTER TABLE t ADD g int", do: []string{"INSERT INTO t VALUES (2, 2, 9)", "ALTER TABLE t MODIFY g int GENERATED ALWAYS AS (n * 2) STORED", "INSERT INTO t (id, n) VALUES (3, 3)"}, to: toPostgres("g")},
	{name: "drop expression", setup: "ALTER TABLE t ADD g int GENERATED ALWAYS AS (n * 2) STORED", do: []string{"INSERT INTO t (id, n) VALUES (2, 2)", "ALTER TABLE t MODIFY g int", "INSERT INTO t VALUES (3, 3, 100)"}, to: toPostgres("g")},
	{name: "set expression", setup: "ALTER TABLE t ADD g int GENERATED ALWAYS AS (n * 2) STORED", do: []string{"INSERT INTO t (id, n) VALUES (2, 2)", "ALTER TABLE t MODIFY g int GENERATED ALWAYS AS (n * 3) STORED", "INSERT INTO t (id, n) VALUES (3, 3)"}, to: toPostgres("g")},
	{name: "labels at the end", setup: "ALTER TABLE t ADD m enum('sad','glad') DEFAULT 'sad'", do: []string{"ALTER TABLE t MODIFY m enum('sad','glad','so, so') DEFAULT 'sad'", "INSERT INTO t VALUES (2, 2, 'so, so')", "UPDATE t SET m = 'glad' WHERE id = 1"}, to: toPostgres("new label so, so")},
	{name: "labels between", setup: "ALTER TABLE t ADD m enum('sad','glad') DEFAULT 'sad', ADD s set('a','c')", do: []string{"UPDATE t SET s = 'c'", "ALTER TABLE t MODIFY m enum('none','sad','so-so','glad') DEFAULT 'none', MODIFY s set('a','b','c')", "INSERT INTO t VALUES (2, 2, 'so-so', 'b,c')"}, to: toPostgres("new label")},
	{name: "labels that go", setup: "ALTER TABLE t ADD m enum('sad','glad','mad') DEFAULT 'sad'", do: []string{"INSERT INTO t VALUES (2, 2, 'mad')", "UPDATE t SET m = 'glad'", "ALTER TABLE t MODIFY m enum('glad','sad')", "INSERT INTO t VALUES (3, 2, 'sad')"}, to: toPostgres("no longer has the label mad")},
	{name: "labels that go with rows", setup: "ALTER TABLE t ADD m enum('sad','glad','mad') DEFAULT 'sad'", do: []string{"INSERT INTO t VALUES (2, 2, 'mad')", "SET sql_mode = ''; ALTER TABLE t MODIFY m enum('glad','sad')", "INSERT INTO t VALUES (3, 2, 'sad')"},
		to: map[string]string{"": "target rejects", "postgres": "no longer has the label mad"}},
	{name: "null that goes with rows", setup: "INSERT INTO t VALUES (7, NULL)", do: []string{"SET sql_mode = ''; ALTER TABLE t MODIFY n int NOT NULL", "INSERT INTO t VALUES (3, 2)"}, to: map[string]string{"": "target rejects", "postgres": "NULL"}},
	{name: "implied values", do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD a int NOT NULL, ADD b varchar(9) NOT NULL, ADD c enum('x','y') NOT NULL, ADD d decimal(5,2) NOT NULL, ADD e text NOT NULL, ADD f double NOT NULL, ADD g set('a','b') NOT NULL, ADD h time NOT NULL, ADD i tinyint(1) NOT NULL, ADD j char(3) NOT NULL",
		"INSERT INTO t VALUES (3, 3, 3, 'b', 'y', 1.5, 'e', 2.5, 'b', '01:02:03', 1, 'j')", "UPDATE t SET a = 5 WHERE id = 2"}},
	{name: "places", do: []string{"ALTER TABLE t ADD x int FIRST, ADD y varchar(9) DEFAULT 'a, b' AFTER id, ADD z int NOT NULL", "INSERT INTO t VALUES (1, 2, 'a', 3, 4)", "ALTER TABLE t MODIFY z int NOT NULL FIRST", "INSERT INTO t VALUES (1, 2, 3, 'a', 4)"}},
	{name: "quoted names and modes", do: []string{"SET sql_mode = 'ANSI_QUOTES'; ALTER TABLE \"t\" /* a, b */ ADD \"a,b\" int DEFAULT 3 AFTER \"id\"", "INSERT INTO t VALUES (2, 2, 2)"}},
	{name: "coalesce", setup: "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4", do: []string{"ALTER TABLE t COALESCE PARTITION 2", "INSERT INTO t VALUES (15, 1)", "ALTER TABLE t ADD PARTITION PARTITIONS 3", "INSERT INTO t VALUES (16, 1)"}},
	{name: "partition by", setup: byRange, do: []string{"ALTER TABLE t PARTITION BY RANGE (id) (PARTITION q0 VALUES LESS THAN (50), PARTITION q1 VALUES LESS THAN (90))", "INSERT INTO t VALUES (80, 1)"}},
	{name: "partition what was not", do: []string{byRange, "INSERT INTO t VALUES (15, 1)", "ALTER TABLE t ADD x int PARTITION BY HASH (id) PARTITIONS 3", "INSERT INTO t VALUES (80, 1, 1)"}},
	{name: "remove partitioning", setup: byRange, do: []string{"ALTER TABLE t REMOVE PARTITIONING", "INSERT INTO t VALUES (80, 1)"}},
	{name: "reorganize", setup: byRange, do: []string{"ALTER TABLE t REORGANIZE PARTITION p0, p1 INTO (PARTITION a VALUES LESS THAN (5), PARTITION b VALUES LESS THAN (70))", "INSERT INTO t VALUES (60, 1)"}},
	{name: "truncate partition", setup: byRange, do: []string{"INSERT INTO t VALUES (15, 1)", "ALTER TABLE t TRUNCATE PARTITION p1"}, to: toPostgres("partition p1 was truncated")},
	{name: "rename the key", do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t CHANGE id k bigint NOT NULL", "INSERT INTO t VALUES (3, 3)", "UPDATE t SET k = k + 3, n = k"}, to: toPostgres("renamed")},
	{name: "drop the key", do: []string{"INSERT INTO t VALUES (2, 2), (3, 3)", "ALTER TABLE t DROP id", "INSERT INTO t VALUES (3), (4)", "UPDATE t SET n = 5 WHERE n = 2"}, to: toPostgres("column")},
	{name: "capitals of a name", do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t RENAME COLUMN n TO N", "INSERT INTO t VALUES (3, 3)"}, to: toPostgres("column")},
	{name: "rename twice", do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t RENAME COLUMN n TO m", "INSERT INTO t (id, m) VALUES (3, 3)", "ALTER TABLE t RENAME COLUMN m TO `a-b`, ADD n varchar(9)", "UPDATE t SET `a-b` = 7, n = 'x' WHERE id < 3"}, to: toPostgres("renamed")},
	{name: "rename and change type", setup: "ALTER TABLE t ADD m int", do: []string{"INSERT INTO t VALUES (2, 2, 4)", "ALTER TABLE t CHANGE n x decimal(12,3), MODIFY m bigint", "INSERT INTO t VALUES (3, 3.125, 5000000000)"}, to: toPostgres("renamed")},
	{name: "drop, add, drop", do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n", "INSERT INTO t VALUES (3)", "ALTER TABLE t ADD n varchar(9) DEFAULT 'q'", "INSERT INTO t VALUES (4, 'r')", "UPDATE t SET n = 's' WHERE id < 3", "ALTER TABLE t DROP n, ADD x int", "UPDATE t SET x = id"}, to: toPostgres("n")},
	{name: "drop and move", setup: "ALTER TABLE t ADD a int, ADD b int, ADD KEY u (b, a), ADD KEY (n)", do: []string{"INSERT INTO t VALUES (2, 2, 3, 4)", "ALTER TABLE t DROP b, DROP n, MODIFY a bigint FIRST, ADD c int AFTER a", "INSERT INTO t VALUES (1, 2, 9)", "UPDATE t SET a = 5 WHERE id = 2"}, to: toPostgres("column")},
	{name: "types", setup: "ALTER TABLE t ADD a smallint, ADD b decimal(8,3), ADD c varchar(9), ADD d enum('x','y'), ADD e datetime, ADD f float, ADD g varbinary(4), ADD h tinyint unsigned, ADD i char(5), ADD s set('a','b'), ADD j time, ADD k timestamp NULL", do: []string{
		"INSERT INTO t VALUES (2, 2, -7, 2.455, 'c ', 'y', '2024-02-29 23:59:59', 1.5, 'ab', 255, 'i ', 'a,b', '-12:00:01', '2024-02-29 23:59:59')",
		"ALTER TABLE t MODIFY a varchar(20), MODIFY b decimal(8,1), MODIFY c longtext, MODIFY d varchar(3), MODIFY e datetime(6), MODIFY f double, MODIFY g longblob, MODIFY h decimal(5,2), MODIFY i varchar(9), MODIFY s text, MODIFY j time(3), MODIFY k timestamp(6) NULL",
		"INSERT INTO t VALUES (3, 2, '-7.', 2.5, 'cc', 'z', '2024-02-29 23:59:59.123456', 1.1, 'abcdef', 255.25, 'iiiiiii', 'c', '12:00:01.5', '2024-02-29 23:59:59.5')"}, to: toPostgres("another type")},
	{name: "type by time zone", setup: "ALTER TABLE t ADD m datetime", do: []string{"INSERT INTO t VALUES (2, 2, '2024-02-29 23:59:59')", "SET time_zone = '+05:00'; ALTER TABLE t MODIFY m timestamp NULL", "INSERT INTO t VALUES (3, 3, '2024-02-29 23:59:59')"}, to: stops("m is of another type")},
	{name: "text to number", setup: "ALTER TABLE t ADD m varchar(9)", do: []string{"INSERT INTO t VALUES (2, 2, '7')", "ALTER TABLE t MODIFY m int", "INSERT INTO t VALUES (3, 3, 8)"}, to: stops("m is of another type")},
	{name: "values that no longer fit", do: []string{"INSERT INTO t VALUES (2, 20000)", "SET sql_mode = ''; ALTER TABLE t MODIFY n tinyint", "INSERT INTO t VALUES (3, 3)"}, to: map[string]string{"": "target rejects", "postgres": "another type"}},
	{name: "truncate partitions", setup: byRange, do: []string{"INSERT INTO t VALUES (5, 5), (15, 1)", "ALTER TABLE t TRUNCATE PARTITION p1", "INSERT INTO t VALUES (16, 1)", "ALTER TABLE t TRUNCATE PARTITION ALL", "INSERT INTO t VALUES (17, 1), (7, 7)"}, to: toPostgres("was truncated")},
	{name: "drop partitions", setup: "ALTER TABLE t PARTITION BY LIST (id) (PARTITION a VALUES IN (1, 2), PARTITION `b c` VALUES IN (3, 4), PARTITION d VALUES IN (5, 6))", do: []string{"INSERT INTO t VALUES (3, 5), (5, 1)", "ALTER TABLE t DROP PARTITION a, `b c`", "ALTER TABLE t ADD PARTITION (PARTITION a VALUES IN (1, 3))", "INSERT INTO t VALUES (3, 6)"}, to: toPostgres("was dropped")},
	{name: "exchange partition", setup: byRange + "; CREATE TABLE u (id int PRIMARY KEY, n int)", table: "u", do: []string{"INSERT INTO t VALUES (15, 1)", "ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE u"}, to: stops("was exchanged")},
	{name: "drop table", do: []string{"INSERT INTO t VALUES (2, 2)", "DROP TABLE t"}, to: stops("no longer on the source")},
	{name: "replace table", do: []string{"INSERT INTO t VALUES (2, 2)", "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, n int)"}},
	{name: "rename table", do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (3, 3)"}, to: stops("no longer on the source")},
	{name: "indexes and constraints", do: []string{"CREATE UNIQUE INDEX i ON t (n)", "INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD CONSTRAINT c CHECK (n < 100), ADD INDEX j (n, id), COMMENT = 'drop, add', ENGINE = InnoDB", "INSERT INTO t VALUES (3, 3)", "ALTER TABLE t RENAME INDEX j TO k, DROP INDEX i, FORCE"}, differs: true},
}

func init() {
	for i, k := range family {
		k.family = true
		for n := range 2 {
			k.src = []server{mysql, mariadb}[(i+n)%2]
			kinds = append(kinds, k)
		}
	}
	kinds = append(kinds, kind{name: "convert partition", src: mariadb, setup: byRange, do: []string{"INSERT INTO t VALUES (15, 1)", "ALTER TABLE t CONVERT PARTITION p1 TO TABLE u"}, to: stops("partition p1 was dropped")},
		kind{name: "create or replace", src: mariadb, do: []string{"INSERT INTO t VALUES (15, 1)", "CREATE OR REPLACE TABLE t (id int PRIMARY KEY, n int)"}})
}

var counters = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// definition returns a server's definition of a table: all of it, or what MySQL and MariaDB express
// alike.
func definition(t testing.TB, url, table string, whole bool) string {
	if whole {
		return counters.ReplaceAllString(testdb.Query(t, url, "SHOW CREATE TABLE "+table), "")
	}
	return testdb.Query(t, url, "SELECT column_name, data_type, is_nullable, IF(data_type IN ('enum','set'), column_type, ''), TRIM('''' FROM COALESCE(NULLIF(column_default, 'NULL'), '')), COALESCE(generation_expression, '') <> '' "+
		"FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '"+table+"' ORDER BY ordinal_position") + "\n" +
		testdb.Query(t, url, "SELECT partition_name, partition_method, partition_description FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = '"+table+"' ORDER BY partition_name")
}

// redefined checks that a table whose changes are followed has the source's definition.
func (s *stream) redefined(table string) {
	s.t.Helper()
	if s.src.isPostgres() || s.tgt.isPostgres() {
		return
	}
	whole := s.src.name == s.tgt.name
	want, have := definition(s.t, s.from, table, whole), definition(s.t, s.to, table, whole)
	if want != have {
		s.t.Errorf("the source has\n%s\nthe target has\n%s", want, have)
	}
}
