package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestRulesOnTablesOfOtherEngines: a rule makes text of columns where their storage engine, key,
// partitions or character set did not expect it. check says what becomes of the table, and the copy
// does it.
func TestRulesOnTablesOfOtherEngines(t *testing.T) {
	const tables = "CREATE TABLE memory (id int PRIMARY KEY, x varchar(9), y int) ENGINE=MEMORY; " +
		"CREATE TABLE myisam (id int PRIMARY KEY, x varchar(9) NOT NULL, y varchar(90), UNIQUE KEY u (x), KEY k (y, x)) ENGINE=MyISAM; " +
		"CREATE TABLE parted (x int NOT NULL, y int, PRIMARY KEY (x)) PARTITION BY HASH (x) PARTITIONS 3; " +
		"CREATE TABLE bytes (id int PRIMARY KEY, x varchar(9) CHARACTER SET utf8mb4, y varbinary(9), CONSTRAINT quoted CHECK (y <> 'it''s')) CHARSET=binary; " +
		"CREATE TABLE hollow (id int PRIMARY KEY, x int, y char(0) DEFAULT ''); " +
		"INSERT INTO memory VALUES (1, 'a', 1); INSERT INTO myisam VALUES (1, 'a', 'b'); INSERT INTO parted VALUES (1, 1), (2, 2); INSERT INTO bytes VALUES (1, 'ä', 'b'); INSERT INTO hollow VALUES (1, 1, '')"
	rules := testdb.Written(t, "rules.yaml", "tables:\n  memory: {types: {x: text}}\n  myisam: {types: {x: text, y: text}}\n  parted: {types: {x: text}}\n  bytes: {types: {x: text}}\n  hollow: {types: {x: text}}\n")
	for _, from := range []string{"mysql", "mariadb"} {
		src := testdb.ServerOf(t, from).NewDatabase(t, "src")
		testdb.Query(t, src, tables)
		if from == "mysql" { // what only this server takes for a default
			testdb.Query(t, src, "CREATE TABLE odd (id int PRIMARY KEY, x int NOT NULL DEFAULT (NULL), y char(0) DEFAULT (7), z varbinary(0) DEFAULT (concat('a', 'b')))")
		}
		for _, source := range []string{src, "file:" + testdb.MySQLDump(t, src)} {
			for _, to := range []string{"mysql", "mariadb"} {
				dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
				name := from + ": " + strings.SplitN(source, ":", 2)[0] + " to " + to
				testdb.Must(t, "check", source, dst, "--config", rules)
				testdb.Must(t, "copy", source, dst, "--config", rules)
				if got := testdb.Query(t, dst, "SELECT x FROM memory UNION ALL SELECT concat(x, y) FROM myisam UNION ALL SELECT concat(x, y) FROM parted UNION ALL SELECT x FROM bytes UNION ALL SELECT x FROM hollow"); got != "a\nab\n11\n22\nä\n1" {
					t.Errorf("%s: the values are %q", name, got)
				}
				if got := testdb.Query(t, dst, "SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('memory', 'bytes') AND COLUMN_NAME = 'x'"); got != "longtext\nlongtext" {
					t.Errorf("%s: the columns are %s", name, got)
				}
			}
		}
	}
	// A key from a column to itself, which PostgreSQL and MariaDB take.
	src := testdb.ServerOf(t, "postgres").NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE own (id int PRIMARY KEY REFERENCES own (id)); INSERT INTO own VALUES (1)")
	for _, to := range []string{"mysql", "mariadb"} {
		testdb.Must(t, "copy", src, testdb.ServerOf(t, to).NewDatabase(t, "dst"))
	}
}
