package lookahead

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A doubt is a value for which the target may have no place.
type doubt struct{ column, value string }

var mysqlDoubts = []doubt{
	{"date", "'0000-00-00'"}, {"date", "'2024-00-01'"}, {"date", "'2024-02-31'"}, {"date", "'2024-02-29'"}, {"date", "'2023-04-31'"}, {"date", "'9999-12-31'"}, {"date", "NULL"},
	{"datetime(3)", "'0000-00-00 00:00:00'"}, {"datetime", "'2024-02-00 10:00:00'"}, {"datetime", "'2024-12-31 23:59:59'"}, {"datetime", "'2023-02-29 10:00:00'"},
	{"timestamp NULL", "'0000-00-00 00:00:00'"}, {"timestamp NULL", "'2024-02-29 12:00:00'"}, {"year", "0"},
	{"varchar(20)", `'a\0b'`}, {"varchar(20)", `'a\\0b'`}, {"text CHARACTER SET utf16", "'ab'"}, {"text CHARACTER SET utf16", `'a\0b'`}, {"varbinary(9)", `'a\0b'`}, {"char(5) CHARACTER SET latin1", `'\0'`},
	{"enum('a','b')", "'c'"}, {"enum('a','b')", "'b'"}, {"enum('','b')", "''"}, {"set('a','b')", "''"},
}

var postgresDoubts = []doubt{
	{"double precision", "'NaN'"}, {"double precision", "'-Infinity'"}, {"double precision", "1e300"}, {"real", "'Infinity'"}, {"real", "1e38"},
	{"numeric", "'NaN'"}, {"numeric", "1e35"}, {"numeric", "-99999999999999999999999999999999999"}, {"numeric(10,2)", "'NaN'"}, {"numeric(10,2)", "12345678.90"},
	{"date", "'infinity'"}, {"date", "'0044-03-15 BC'"}, {"date", "'0001-01-01'"}, {"date", "'9999-12-31'"}, {"date", "'10000-01-01'"},
	{"timestamp", "'-infinity'"}, {"timestamp", "'10000-01-01 00:00'"}, {"timestamp", "'0001-01-01 00:00'"}, {"timestamp", "'9999-12-31 23:59:59'"}, {"timestamptz", "'infinity'"}, {"timestamptz", "'2024-02-29 12:00+14'"},
	{"text", "'x'"}, {"time", "'24:00'"}, {"boolean", "true"},
}

// TestDoubts: check --values has something against a copy if a value would stop it, and nothing
// otherwise.
func TestDoubts(t *testing.T) {
	servers := map[string]*testdb.Server{"postgres": testdb.Postgres(t, 15), "mysql": testdb.MySQL(t), "mariadb": testdb.MariaDB(t)}
	type pair struct {
		from, to string
		doubt
	}
	var all []pair
	for _, my := range []string{"mysql", "mariadb"} {
		for _, d := range mysqlDoubts {
			all = append(all, pair{my, "postgres", d})
		}
		for _, d := range postgresDoubts {
			all = append(all, pair{"postgres", my, d})
		}
	}
	stopped := 0
	for _, i := range testdb.Draw(t, len(all), 6) {
		p := all[i]
		src, dst := servers[p.from].NewDatabase(t, "src"), servers[p.to].NewDatabase(t, "dst")
		create := "CREATE TABLE t (id int PRIMARY KEY, v " + p.column + "); INSERT INTO t VALUES (1, NULL); INSERT INTO t VALUES (2, " + p.value + ")"
		if p.from != "postgres" {
			create = "SET sql_mode = 'ALLOW_INVALID_DATES'; " + create
		}
		testdb.Query(t, src, create)
		checked, copied := testdb.Run(t, "check", src, dst, "--values"), testdb.Run(t, "copy", src, dst)
		stops := copied.Code == 14
		if stops {
			stopped++
		}
		if copied.Code != 0 && !stops || (checked.Code == 1) != stops || stops != strings.Contains(checked.Out, "in 1 row,") {
			t.Errorf("%s to %s, %s %s: check %d, copy %d\n%s%s", p.from, p.to, p.column, p.value, checked.Code, copied.Code, checked.Out, copied.ErrOut)
		}
	}
	if testdb.Long() && (stopped < len(all)/4 || stopped > len(all)*3/4) {
		t.Errorf("%d of %d copies were stopped", stopped, len(all))
	}
}
