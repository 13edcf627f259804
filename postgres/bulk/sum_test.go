package bulk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
)

// summed returns the recipe, row count and sum of a table.
func summed(t *testing.T, e *Engine, tab *tidemark.Table) string {
	t.Helper()
	m := &tidemark.Move{From: tab}
	for _, c := range tab.Columns {
		m.Source = append(m.Source, c.Name)
	}
	rows, sum, err := e.Sum(t.Context(), 0, m, &tidemark.Range{Kind: tidemark.Whole})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(e.SumRecipe(m), " ", rows, " ", sum)
}

// Pairs of values that are easily mistaken for equal.
var alike = []struct{ typ, a, b string }{
	{"boolean", "true", "false"},
	{"boolean", "false", "NULL"},
	{"smallint", "1", "-1"},
	{"integer", "0", "NULL"},
	{"bigint", "0", "4294967297"}, // both halves fold to 0
	{"bigint", "-1", "0"},
	{"bigint", "5", "-9223372036854775803"},
	{"numeric(9,2)", "5", "-5"},
	{"numeric(9,2)", "0", "'NaN'"},
	{"numeric(9,2)", "1", "10000"},
	{"numeric", "1.0", "1.00"},
	{"numeric", "5", "-5"},
	{"numeric", "'NaN'", "'Infinity'"},
	{"real", "0", "'-0'"},
	{"double precision", "0", "'-0'"},
	{"double precision", "'NaN'", "'Infinity'"},
	{"text", "''", "NULL"},
	{"text", "'a'", "'a '"},
	{"text", "'NULL'", "NULL"},
	{"varchar(9)", "'a'", "'A'"},
	{"char(9)", "'a'", "'b'"},
	{"bpchar", "'a'", "'a '"},
	{`"char"`, "'a'", "'b'"},
	{"name", "'a'", "'b'"},
	{"bytea", "''", `'\x00'`},
	{"date", "'infinity'", "'-infinity'"},
	{"time", "'00:00'", "'24:00'"},
	{"timetz", "'12:00+00'", "'13:00+01'"},
	{"timestamp", "'2000-01-01'", "'2000-01-01 01:11:34.967297'"}, // 2^32+1 microseconds
	{"timestamptz(3)", "'2000-01-01'", "'infinity'"},
	{"interval", "'1 day'", "'24 hours'"},
	{"interval", "'1 month'", "'30 days'"},
	{"uuid", "'00000000-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"},
	{"json", `'{"a":1}'`, `'{"a": 1}'`},
	{"jsonb", `'1.0'`, `'1.00'`},
	{"xml", "'<a/>'", "'<a></a>'"},
	{"bit(3)", "'001'", "'100'"},
	{"varbit", "'0'", "'00'"},
	{"inet", "'10.0.0.1'", "'10.0.0.1/8'"},
	{"cidr", "'10.0.0.0/8'", "'10.0.0.0/9'"},
	{"macaddr", "'08:00:2b:01:02:03'", "'08:00:2b:01:02:04'"},
	{"money", "'1'", "'-1'"},
	{"point", "'(0,1)'", "'(1,0)'"},
	{"tsvector", "'a:1'", "'a:2'"},
	{"int[]", "'{1,2}'", "'[0:1]={1,2}'"},
	{"int[]", "'{}'", "NULL"},
	{"text[]", "'{NULL}'", `'{"NULL"}'`},
	{"float8[]", "'{0}'", "'{-0}'"},
	{"numeric[]", "'{1.0}'", "'{1.00}'"},
	{"int4range", "'[1,3)'", "'empty'"},
	{"mood", "'sad'", "'ok'"},
	{"pair", "'(1,)'", `'(1,"")'`},
	{"label", "'a'", "'A'"},
	{"text COLLATE nocase", "'a'", "'A'"},
}

// A sum differs for values that differ in anything that COPY shows, and is equal for equal rows, on
// the same and on another version, in any order of the rows.
func TestSumsTellValuesApart(t *testing.T) {
	types := `CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, b text);
		CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE DOMAIN label AS text COLLATE nocase;`
	var sql strings.Builder
	sql.WriteString(types)
	for i, x := range alike {
		fmt.Fprintf(&sql, "CREATE TABLE a%[1]d (id int, v %[2]s); INSERT INTO a%[1]d VALUES (1, %[3]s), (2, %[4]s), (3, %[4]s);", i, x.typ, x.a, x.b)
		fmt.Fprintf(&sql, "CREATE TABLE b%[1]d (id int, v %[2]s); INSERT INTO b%[1]d VALUES (3, %[4]s), (2, %[3]s), (1, %[3]s);", i, x.typ, x.a, x.b)
		fmt.Fprintf(&sql, "CREATE TABLE c%[1]d (id int, v %[2]s); INSERT INTO c%[1]d VALUES (2, %[3]s), (1, %[4]s), (3, %[4]s);", i, x.typ, x.a, x.b)
	}
	var urls []string
	for _, version := range []int{15, 18} {
		url := testdb.Postgres(t, version).NewDatabase(t, "sums")
		testdb.Load(t, url, strings.NewReader(sql.String()))
		urls = append(urls, url)
	}
	old, young := frozen(t, urls[0], 1), frozen(t, urls[1], 1)
	for i, x := range alike {
		name := fmt.Sprintf("%s %s and %s", x.typ, x.a, x.b)
		a := summed(t, old, pgtest.Table(t, urls[0], fmt.Sprint("a", i)))
		if b := summed(t, old, pgtest.Table(t, urls[0], fmt.Sprint("b", i))); a == b {
			t.Errorf("%s: another value has the same sum: %s", name, a)
		}
		if c := summed(t, old, pgtest.Table(t, urls[0], fmt.Sprint("c", i))); a == c {
			t.Errorf("%s: two rows have exchanged their values, and the sum is the same: %s", name, a)
		}
		if other := summed(t, young, pgtest.Table(t, urls[1], fmt.Sprint("a", i))); other != a {
			t.Errorf("%s: %s on PostgreSQL 15, %s on 18", name, a, other)
		}
	}
}

// A sum covers the range's rows only, and after a failed one the lane can still read.
func TestSumOfARange(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "sums")
	testdb.Load(t, url, strings.NewReader(`CREATE TABLE t (id int, v text); INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 1000) i;
		CREATE VIEW bad AS SELECT 1 / (id - 17) AS v FROM t`))
	e := frozen(t, url, 1)
	m := &tidemark.Move{From: pgtest.Table(t, url, "t"), Source: []string{"id", "v"}}
	var rows int64
	for _, r := range []tidemark.Range{{Kind: tidemark.Blocks, ToBlock: 10}, {Kind: tidemark.Blocks, FromBlock: 10, ToBlock: -1}} {
		n, _, err := e.Sum(t.Context(), 0, m, &r)
		if err != nil || n == 0 {
			t.Fatalf("%d rows, %v", n, err)
		}
		rows += n
		if _, _, err = e.Sum(t.Context(), 0, &tidemark.Move{From: pgtest.Table(t, url, "bad"), Source: []string{"v"}}, &tidemark.Range{Kind: tidemark.Whole}); err == nil {
			t.Fatal("a division by zero has a sum")
		}
	}
	if rows != 1000 {
		t.Errorf("%d rows", rows)
	}
	m.Lob = tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: 10}
	if recipe := e.SumRecipe(m); recipe != "" {
		t.Errorf("values that are cut have the recipe %q", recipe)
	}
}
