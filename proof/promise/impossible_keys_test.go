package promise

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestKeysThatTheSourceCannotHold: the target has rows whose keys no value of the source's column
// equals. repair asks the source for each of them before it deletes it.
func TestKeysThatTheSourceCannotHold(t *testing.T) {
	type key struct{ name, source, target, both, alien string }
	anywhere := []key{ // from PostgreSQL to MySQL and MariaDB
		{"i", "int", "bigint", "7", "3000000000"},
		{"s", "smallint", "int", "7", "-70000"},
		{"u", "uuid", "varchar(40)", "'00000000-0000-4000-8000-000000000001'", "'no uuid'"},
		{"n", "numeric(5,2)", "decimal(20,2)", "3.25", "123456789.01"},
		{"p", "positive", "int", "7", "-7"},
		{"n0", "numeric(5,2)", "decimal(20,5)", "3.25", "3.25001"},
		{"e", "mood", "varchar(20)", "'glad'", "'furious'"},
		{"tm", "time", "time", "'12:00:00'", "'-25:00:00'"},
		{"v", "varchar(3)", "varchar(20)", "'abc'", "'abcd'"},
		{"c", "char(3)", "varchar(20)", "'abc'", "'abcd'"},
		{"l", "bigint", "decimal(30,0)", "7", "123456789012345678901234567890"},
	}
	back := []key{ // from MySQL and MariaDB to PostgreSQL
		{"i", "int unsigned", "bigint", "7", "-5"},
		{"l", "varchar(20) character set latin1", "text", "'größe'", "'日本語'"},
		{"cp", "varchar(20) character set cp1251", "text", "'кот'", "'größe'"},
		{"sj", "varchar(20) character set sjis", "text", "'日本'", "'größe'"},
		{"u3", "varchar(20) character set utf8mb3", "text", "'a'", "'😀'"},
		{"u", "varchar(20) character set utf8mb3", "text", "'größe'", "'grosse'"},
		{"as", "varchar(20) character set ascii", "text", "'a'", "'größe'"},
		{"d", "date", "date", "'2024-02-29'", "'infinity'"},
		{"bc", "date", "date", "'2024-02-29'", "'0044-03-15 BC'"},
		{"dt", "datetime(6)", "timestamp", "'2024-02-29 12:00:00.5'", "'infinity'"},
		{"ts", "timestamp", "timestamptz", "'2024-02-29 12:00:00+00'", "'12000-01-01 00:00:00+00'"},
		{"e", "enum('glad','sad')", "text", "'glad'", "'furious'"},
		{"tm", "time", "time", "'12:00:00'", "'24:00:00'"},
		{"y", "year", "int", "2024", "99999"},
		{"n", "decimal(5,2)", "numeric", "3.25", "'NaN'"},
		{"n0", "decimal(5,2)", "numeric", "3.25", "3.25001"},
		{"vb", "varbinary(4)", "bytea", "'abc'", "'abcdefgh'"},
	}
	for _, x := range []struct {
		from, to string
		keys     []key
	}{{"postgres", "mysql", anywhere}, {"postgres", "mariadb", anywhere}, {"mysql", "postgres", back}, {"mariadb", "postgres", back}} {
		src, dst := testdb.ServerOf(t, x.from).NewDatabase(t, "src"), testdb.ServerOf(t, x.to).NewDatabase(t, "dst")
		if x.from == "postgres" {
			testdb.Query(t, src, "CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
		}
		quoted := func(url, sql string) string {
			if strings.HasPrefix(url, "postgres") {
				return sql
			}
			return "SET SESSION sql_mode = '', time_zone = '+00:00'; " + sql
		}
		for _, k := range x.keys {
			for _, end := range []struct{ url, kind string }{{src, k.source}, {dst, k.target}} {
				both := k.both
				if strings.Contains(end.kind, "timestamp") && !strings.HasPrefix(end.url, "postgres") {
					both = strings.TrimSuffix(both, "+00'") + "'"
				}
				testdb.Query(t, end.url, quoted(end.url, fmt.Sprintf("CREATE TABLE k_%[1]s (k %[2]s PRIMARY KEY, v int); INSERT INTO k_%[1]s VALUES (%[3]s, 1)", k.name, end.kind, both)))
			}
			testdb.Query(t, dst, quoted(dst, fmt.Sprintf("INSERT INTO k_%s VALUES (%s, 2)", k.name, k.alien)))
		}
		for _, verb := range [][]string{{"diff"}, {"diff", "--live"}, {"repair", "--execute"}} {
			o := testdb.Run(t, append(verb, src, dst, "--include", "*.k_*")...)
			if verb[0] == "diff" && o.Code != 1 || verb[0] == "repair" && (o.Code != 0 || !strings.Contains(o.Out, fmt.Sprintf("deleted %d\n", len(x.keys)))) {
				t.Errorf("%s to %s, %s: exit %d\n%s%s", x.from, x.to, verb, o.Code, o.Out, o.ErrOut)
			}
		}
		for _, k := range x.keys {
			if left := testdb.Query(t, dst, "SELECT count(*) FROM k_"+k.name); left != "1" {
				t.Errorf("%s to %s, key %s: %s rows are left", x.from, x.to, k.name, left)
			}
		}
	}
}
