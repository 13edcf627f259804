// Package neighbours tests streams in which every type is next to every other type: the log data of
// one column must never be taken for another's.
package neighbours

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A kind is a type and three of its values as SQL literals.
type kind struct {
	sql    string
	values [3]string
}

// common are types that both servers have: all that a TABLE_MAP event distinguishes, and texts of
// each length and several character sets.
var common = []kind{
	{"tinyint", [3]string{"-128", "127", "-1"}},
	{"tinyint unsigned", [3]string{"255", "0", "128"}},
	{"tinyint(1)", [3]string{"1", "0", "1"}},
	{"smallint", [3]string{"-32768", "5", "-2"}},
	{"smallint unsigned", [3]string{"65535", "1", "40000"}},
	{"mediumint", [3]string{"-8388608", "70000", "-3"}},
	{"mediumint unsigned", [3]string{"16777215", "9", "9000000"}},
	{"int", [3]string{"-2147483648", "12", "-4"}},
	{"int unsigned", [3]string{"4294967295", "13", "3000000000"}},
	{"bigint", [3]string{"-9223372036854775808", "14", "-5"}},
	{"bigint unsigned", [3]string{"18446744073709551615", "15", "9223372036854775808"}},
	{"decimal(20,5)", [3]string{"-123456789012345.12345", "0.00001", "-7"}},
	{"decimal(9,0) unsigned", [3]string{"999999999", "0", "17"}},
	{"float", [3]string{"-1.5", "0.25", "1e20"}},
	{"double unsigned", [3]string{"1.25", "0", "3e200"}},
	{"bit(1)", [3]string{"b'1'", "b'0'", "b'1'"}},
	{"bit(13)", [3]string{"b'1010101010101'", "b'0'", "b'11'"}},
	{"year", [3]string{"1901", "2155", "0"}},
	{"date", [3]string{"'2026-02-28'", "'1000-01-01'", "'9999-12-31'"}},
	{"time", [3]string{"'-838:59:59'", "'00:00:01'", "'23:59:59'"}},
	{"time(3)", [3]string{"'-1:02:03.004'", "'11:12:13.999'", "'0:0:0.001'"}},
	{"datetime", [3]string{"'2026-02-28 12:13:14'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"}},
	{"datetime(6)", [3]string{"'2026-02-28 12:13:14.123456'", "'1999-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"}},
	{"timestamp null", [3]string{"'2026-02-28 12:13:14'", "'1971-01-01 00:00:00'", "'2037-12-31 23:59:59'"}},
	{"timestamp(2) null", [3]string{"'2026-02-28 12:13:14.12'", "'1971-01-01 00:00:00.01'", "'2037-12-31 23:59:59.99'"}},
	{"char(5)", [3]string{"'a'", "'b c'", "'ü€'"}},
	{"char(20) charset latin1", [3]string{"'grün'", "''", "'plain'"}},
	{"varchar(30)", [3]string{"'plain ascii'", "'grün €'", "''"}},
	{"varchar(300) charset latin1", [3]string{"'weiß'", "'plain'", "'x'"}},
	{"varchar(20) charset cp1251", [3]string{"'привет'", "'plain'", "'я'"}},
	{"varchar(20) charset sjis", [3]string{"'日本'", "'plain'", "'ア'"}},
	{"binary(4)", [3]string{"x'00ff0001'", "x'41424344'", "x'01000000'"}},
	{"varbinary(30)", [3]string{"x'00ff00'", "'plain'", "''"}},
	{"varbinary(300)", [3]string{"x'fe'", "'plain'", "x'00'"}},
	{"tinyblob", [3]string{"x'ff00'", "'plain'", "''"}},
	{"longblob", [3]string{"x'fffe00'", "'plain'", "''"}},
	{"tinytext", [3]string{"'tiny ü'", "'plain'", "''"}},
	{"text charset latin1", [3]string{"'text ß'", "'plain'", "''"}},
	{"mediumtext", [3]string{"'medium €'", "'plain'", "''"}},
	{"longtext charset utf16", [3]string{"'wide €'", "'plain'", "''"}},
	{"json", [3]string{`'{"a": [1, "ü"]}'`, "'3'", `'"plain"'`}},
	{"enum('a','grün','c')", [3]string{"'grün'", "'a'", "'c'"}},
	{"enum('x','weiß') charset latin1", [3]string{"'weiß'", "'x'", "'x'"}},
	{"set('p','q','grün')", [3]string{"'p,grün'", "''", "'q'"}},
	{"set('k','ß') charset latin1", [3]string{"'k,ß'", "'ß'", "''"}},
	{"geometry", [3]string{"point(1,2)", "st_geomfromtext('linestring(0 0,1 1)')", "point(-1,0.5)"}},
	{"point", [3]string{"point(3,4)", "point(0,0)", "point(5,6)"}},
	{"polygon", [3]string{"st_geomfromtext('polygon((0 0,1 0,1 1,0 0))')", "st_geomfromtext('polygon((0 0,2 0,2 2,0 0))')", "NULL"}},
}

var ofMariaDB = []kind{
	{"uuid", [3]string{"'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-4fff-bfff-ffffffffffff'"}},
	{"inet6", [3]string{"'2001:db8::ff00:42:8329'", "'::1'", "'::ffff:1.2.3.4'"}},
	{"inet4", [3]string{"'1.2.3.4'", "'255.255.255.255'", "'0.0.0.0'"}},
	{"varchar(200) compressed", [3]string{"'packed ü packed ü packed ü packed ü packed ü'", "'plain'", "''"}},
	{"blob compressed", [3]string{"repeat(x'00ff',60)", "'plain'", "''"}},
	{"mediumtext compressed charset latin1", [3]string{"repeat('weiß',60)", "'plain'", "''"}},
}

// generated are columns that the target computes; base is a column that each table has.
var generated = []string{"bigint as (base * 2) virtual", "varchar(40) as (concat('g', base)) stored"}

func TestNeighboursOfMariaDB(t *testing.T) {
	t.Parallel()
	src := testdb.OwnMariaDB(t)
	neighbours(t, src, testdb.MariaDB(t), append(common[:len(common):len(common)], ofMariaDB...), []string{"FULL", "MINIMAL", "NO_LOG"})
}

func TestNeighboursOfMySQL(t *testing.T) {
	t.Parallel()
	neighbours(t, testdb.OwnMySQL(t), testdb.MySQL(t), common, []string{"FULL", "MINIMAL"})
}

// neighbours streams tables with each form of metadata. In table d, types i and i+d are neighbours,
// so that the tables together cover all pairs.
func neighbours(t *testing.T, source, target *testdb.Server, kinds []kind, forms []string) {
	steps := make([]int, len(kinds))
	for i := range steps {
		steps[i] = i
	}
	if !testdb.Long() {
		rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		steps = append(steps[:5], 0, 1, len(kinds)-1)
	}
	for _, form := range forms {
		testdb.Query(t, source.URL(""), "SET GLOBAL binlog_row_metadata = "+form)
		src, tgt := source.NewDatabase(t, form), target.NewDatabase(t, form)
		var tables []table
		for n, step := range steps {
			x := newTable(fmt.Sprintf("t%d_%d", n, step), kinds, step)
			if source.Engine == "mariadb" { // the formats of TIME, DATETIME and TIMESTAMP before MySQL 5.6
				testdb.Query(t, src, fmt.Sprintf("SET GLOBAL mysql56_temporal_format = %d", n%2))
			}
			testdb.Query(t, src, x.create)
			tables = append(tables, x)
		}
		stream := []string{"replicate", src, tgt, "--name", "n" + strings.ToLower(form), "--until", "now"}
		testdb.Must(t, stream...)
		for _, x := range tables {
			testdb.Query(t, src, strings.Join(x.changes, ";\n"))
		}
		testdb.Must(t, stream...)
		for _, x := range tables {
			want, got := testdb.Query(t, src, x.read), testdb.Query(t, tgt, x.read)
			compare(t, form, x, want, got)
		}
	}
}

type table struct {
	name, create, read string
	columns            []string
	changes            []string
}

// newTable returns the table of a step, in which each type i is next to the type i+step.
func newTable(name string, kinds []kind, step int) table {
	x := table{name: name, columns: []string{"id", "base"}}
	defs := []string{"id int", "base int not null default 7"}
	var values [3][]string
	var read []string
	add := func(k kind) {
		c := fmt.Sprintf("c%d", len(x.columns))
		def, set, _ := strings.Cut(k.sql, " charset ")
		if set != "" {
			set = " character set " + set
		}
		if body, is := strings.CutSuffix(def, " compressed"); is { // MariaDB requires it after the character set
			def, set = body, set+" compressed"
			if strings.HasPrefix(body, "varchar") || strings.HasSuffix(body, "blob") {
				set = " compressed"
			}
		}
		defs = append(defs, c+" "+def+set)
		for i := range values {
			values[i] = append(values[i], k.values[i])
		}
		x.columns = append(x.columns, c)
		read = append(read, "hex("+c+")") // of numbers too: integers, and the rest by their text
		switch {
		case strings.HasPrefix(def, "decimal"), strings.HasPrefix(def, "float"), strings.HasPrefix(def, "double"):
			read[len(read)-1] = "concat(" + c + ")"
		}
	}
	for _, i := range order(len(kinds), step) {
		add(kinds[i])
	}
	for i, g := range generated {
		at := 2 + (i+1)*len(defs)/3
		defs = append(defs[:at], append([]string{fmt.Sprintf("g%d %s", i, g)}, defs[at:]...)...)
		read = append(read, fmt.Sprintf("hex(g%d)", i))
		x.columns = append(x.columns, fmt.Sprintf("g%d", i))
	}
	x.create = "CREATE TABLE " + name + " (" + strings.Join(defs, ", ") + ", PRIMARY KEY (id)) ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4"
	x.read = "SELECT id, base, " + strings.Join(read, ", ") + " FROM " + name + " ORDER BY id"
	names := strings.Join(namesOf(len(values[0])), ", ")
	for i := range values {
		x.changes = append(x.changes, fmt.Sprintf("INSERT INTO %s (id, %s) VALUES (%d, %s)", name, names, i, strings.Join(values[i], ", ")))
	}
	x.changes = append(x.changes, fmt.Sprintf("INSERT INTO %s (id) VALUES (9)", name))
	var sets []string
	for i, c := range namesOf(len(values[0])) {
		sets = append(sets, c+" = "+values[2][i])
	}
	x.changes = append(x.changes,
		fmt.Sprintf("UPDATE %s SET id = 10, base = 8, %s WHERE id = 0", name, strings.Join(sets, ", ")),
		fmt.Sprintf("DELETE FROM %s WHERE id = 2", name))
	return x
}

// order returns 0 to n-1 so that each i is next to i+step somewhere, in as many cycles as that
// takes.
func order(n, step int) (out []int) {
	seen := make([]bool, n)
	for begin := range n {
		if seen[begin] {
			continue
		}
		out = append(out, begin)
		for at := (begin + step) % n; at != begin; at = (at + step) % n {
			out, seen[at] = append(out, at), true
		}
		out = append(out, begin)
	}
	return out
}

func namesOf(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("c%d", i+2)
	}
	return out
}

func compare(t *testing.T, form string, x table, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(w) != len(g) || len(w) != 3 {
		t.Errorf("%s, %s: %d rows at the source, %d on the target, of 3", form, x.name, len(w), len(g))
		return
	}
	for i := range w {
		a, b := strings.Split(w[i], "\t"), strings.Split(g[i], "\t")
		for j := range a {
			if a[j] != b[j] {
				t.Errorf("%s, %s: column %s is %s at the source and %s on the target\n%s", form, x.name, x.columns[j], a[j], b[j], x.create)
				return
			}
		}
	}
}
