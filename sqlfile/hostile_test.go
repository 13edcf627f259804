package sqlfile

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// hostilePlaces are the places of a dump file where SQL occurs.
var hostilePlaces = []string{
	"%", "CREATE TABLE t (a int DEFAULT %);\n", "CREATE TABLE t (a int DEFAULT (%));\n", "CREATE TABLE t (a int GENERATED ALWAYS AS (%));\n", "CREATE TABLE t (a int CHECK (%));\n",
	"CREATE TABLE t (a int, KEY ((%)));\n", "CREATE TABLE t (a enum(%));\n", "CREATE TABLE t (a int COMMENT %);\n", "CREATE TABLE t (a int) PARTITION BY HASH (%);\n", "CREATE TABLE t (a int, %);\n",
	"CREATE TABLE t (a int);\nALTER TABLE t ADD b int DEFAULT %;\n", "CREATE TABLE t (a int);\nINSERT INTO t VALUES (%);\n", "INSERT INTO t (%) VALUES (1);\n", "CREATE VIEW v AS SELECT %;\n", "SET NAMES %;\n", "DELIMITER //\n%//\n",
	"-- PostgreSQL database dump\nCREATE TABLE t (a int DEFAULT %);\n", "--\n-- PostgreSQL database dump\n--\nCOPY t (a) FROM stdin;\n%\n\\.\n",
}

// No text makes its reader run longer than its length justifies, nor overflow its stack.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	for _, place := range hostilePlaces {
		testdb.Linear(t, 1<<18, func(sql string) {
			read(strings.NewReader(strings.ReplaceAll(place, "%", sql)), Options{MaxOther: 1 << 24})
		})
	}
}

// Nor do many small definitions.
func TestManyDefinitions(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"columns": "a int", "keys": "KEY (a)", "named keys": "KEY k (a)", "foreign keys": "FOREIGN KEY (a) REFERENCES b (c)", "checks": "CHECK (1)", "periods": "PERIOD FOR a (b, c)"} {
		testdb.LinearIn(t, name, 1<<15, func(n int) {
			ParseCreateTable([]byte("CREATE TABLE t (a int"+strings.Repeat(", "+text, n)+")"), &Session{Charset: "utf8mb4"})
		})
	}
}
