package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestDefaults: defaults that the catalogue of MySQL or MariaDB shows as others, or cut off, give
// new rows the same values on the target.
func TestDefaults(t *testing.T) {
	const table = "CREATE TABLE t (id int PRIMARY KEY, zero varbinary(40) DEFAULT 0x00ff, emoji varchar(10) CHARACTER SET utf8mb4 DEFAULT '😀?', " +
		"inner_zero varbinary(10) NOT NULL DEFAULT 0x610062, padded binary(4) DEFAULT 'ab', plain varchar(10) DEFAULT 'why?', " +
		"expr varchar(20) CHARACTER SET utf8mb4 DEFAULT (concat('😀', 'ä')), `ünï` int CHECK (`ünï` > 0))"

	values := map[bool]string{
		true:  "SELECT encode(zero, 'hex'), encode(emoji::text::bytea, 'hex'), encode(inner_zero, 'hex'), encode(padded, 'hex'), plain FROM t ORDER BY id",
		false: "SELECT LOWER(HEX(zero)), LOWER(HEX(CONVERT(emoji USING utf8mb4))), LOWER(HEX(inner_zero)), LOWER(HEX(padded)), plain FROM t ORDER BY id",
	}
	for _, from := range []string{"mysql", "mariadb"} {
		src := testdb.ServerOf(t, from).NewDatabase(t, "src")
		testdb.Query(t, src, table+"; INSERT INTO t (id) VALUES (1); CREATE TABLE norow (c varchar(9) CHARACTER SET utf8mb4 NOT NULL DEFAULT '😀?', u char(2) CHARACTER SET utf32 NOT NULL DEFAULT '?')")
		for _, to := range []string{"mysql", "mariadb", "postgres"} {
			dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
			o := testdb.Run(t, "copy", src, dst)
			if o.Code != 0 {
				t.Errorf("%s to %s: exit %d\n%s%s", from, to, o.Code, o.Out, o.ErrOut)
				continue
			}
			testdb.Query(t, dst, "INSERT INTO t (id) VALUES (2); INSERT INTO norow (c) VALUES (DEFAULT)")
			if got := testdb.Query(t, dst, "SELECT c, u FROM norow"); got != "😀?\t?" && got != "😀?\t? " {
				t.Errorf("%s to %s: a table without rows: %q", from, to, got)
			}
			got, want := testdb.Query(t, dst, values[to == "postgres"]), "00ff\tf09f98803f\t610062\t61620000\twhy?"
			if got != want+"\n"+want {
				t.Errorf("%s to %s: %q", from, to, got)
			}
			if to == "postgres" {
				continue
			}
			if got := testdb.Query(t, dst, "SELECT HEX(expr) FROM t"); got != "F09F9880C3A4\nF09F9880C3A4" {
				t.Errorf("%s to %s: the expression gives %q", from, to, got)
			}
			if got, err := testdb.NewSession(dst).Try("INSERT INTO t (id, `ünï`) VALUES (3, -1)"); err == nil {
				t.Errorf("%s to %s: the check is not there: %s", from, to, got)
			}
		}
	}
}

// TestBytesDefaultsOfDumps: a default of bytes that is an expression in a dump file, and a literal
// in the server's catalogue, is as planned.
func TestBytesDefaultsOfDumps(t *testing.T) {
	src := testdb.MySQL(t).NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, b blob DEFAULT ('x'), v varbinary(20) DEFAULT ('é'), p binary(3) DEFAULT ('x'), "+
		"none blob DEFAULT (''), h blob DEFAULT (0x61), hp binary(3) DEFAULT (x'61'), z int(5) unsigned zerofill DEFAULT 7, y int(3) zerofill DEFAULT 0, f decimal(6,2) zerofill DEFAULT 0.5); CREATE TABLE u (id int PRIMARY KEY, c char(3) DEFAULT ('x')) CHARSET binary; INSERT INTO t (id) VALUES (1)")
	dump := testdb.MySQLDump(t, src)
	for _, to := range []string{"mysql", "mariadb", "postgres"} {
		dst, ok := movedDefaults(t, src, dump, to)
		if !ok {
			continue
		}
		values := "SELECT HEX(b), HEX(v), HEX(p), HEX(none), HEX(h), HEX(hp) FROM t"
		if to == "postgres" {
			values = "SELECT upper(encode(b, 'hex')), upper(encode(v, 'hex')), upper(encode(p, 'hex')), encode(none, 'hex'), encode(h, 'hex'), encode(hp, 'hex') FROM t"
		}
		const want = "78\tC3A9\t780000\t\t61\t610000"
		if got := testdb.Query(t, dst, values); got != want+"\n"+want {
			t.Errorf("%s: %q", to, got)
		}
	}
}

// movedDefaults copies src, or its dump, to a new database on a server, where a row is then made of
// defaults.
func movedDefaults(t *testing.T, src, from, to string) (dst string, ok bool) {
	t.Helper()
	dst = testdb.ServerOf(t, to).NewDatabase(t, "dst")
	if o := testdb.Run(t, "copy", from, dst); o.Code != 0 {
		t.Errorf("%s: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
		return "", false
	}
	if o := testdb.Run(t, "diff", src, dst, "--definitions"); o.Code != 0 {
		t.Errorf("%s: diff: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
	}
	testdb.Query(t, dst, "INSERT INTO t (id) VALUES (2)")
	return dst, true
}

// TestConstantDefaults: a default that is but a constant of another type in parentheses is as
// planned on a server that keeps its value alone, or that converts no such values.
func TestConstantDefaults(t *testing.T) {
	src := testdb.MySQL(t).NewDatabase(t, "src")
	columns := []string{"b2 binary(2) DEFAULT (7)", "vb varbinary(4) DEFAULT (-(7))", "bl blob DEFAULT (7)", "bh binary(3) DEFAULT (b'1100001')", "ch char(5) DEFAULT (7)", "vd varchar(9) DEFAULT (01.50)",
		"vf varchar(9) DEFAULT (1e3)", "vt varchar(9) DEFAULT (true)", "vx varchar(9) DEFAULT (0x4142)", "vl varchar(9) DEFAULT (_latin1 x'e9')", "tt tinytext DEFAULT (7)", "nu int DEFAULT (NULL)", "ih int DEFAULT (0x41)",
		"ib int DEFAULT (b'101')", "ir int DEFAULT (1.5)", "it tinyint(1) DEFAULT (true)", "bi bigint unsigned DEFAULT (18446744073709551615)", "de decimal(5,2) DEFAULT (1.005)", "du double DEFAULT (.25)", "bt bit(3) DEFAULT (5)",
		"da date DEFAULT ('2024-1-2')", "dn date DEFAULT (20240102)", "dt datetime DEFAULT ('2024-1-2')", "d2 datetime DEFAULT (20240102030405)", "ts timestamp NULL DEFAULT ('2024-1-2 3:4:5')", "td datetime DEFAULT (date'2024-01-02')",
		"ti time DEFAULT (101010)", "ye year DEFAULT (24)", "en enum('a','b') DEFAULT (2)", "se set('a','b') DEFAULT (3)", "su varchar(5) DEFAULT (2 + 3)"}
	testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, "+strings.Join(columns, ", ")+"); INSERT INTO t (id) VALUES (1)")
	var bytes, plain []string
	for _, c := range columns {
		name, _, _ := strings.Cut(c, " ")
		if name != "b2" && name != "vb" && name != "bl" && name != "bh" && name != "bt" && name != "ti" && name != "it" && name != "ts" {
			plain = append(plain, name)
		}
		bytes = append(bytes, "HEX("+name+")")
	}
	want, text := testdb.Query(t, src, "SELECT "+strings.Join(bytes, ", ")+" FROM t"), testdb.Query(t, src, "SELECT "+strings.Join(plain, ", ")+" FROM t")
	for _, from := range []string{src, testdb.MySQLDump(t, src)} {
		for _, to := range []string{"mysql", "mariadb", "postgres"} {
			dst, ok := movedDefaults(t, src, from, to)
			if !ok {
				continue
			}
			list, want := bytes, want
			if to == "postgres" {
				list, want = plain, text
			}
			if got := testdb.Query(t, dst, "SELECT "+strings.Join(list, ", ")+" FROM t WHERE id = 2"); got != want {
				t.Errorf("%s: a new row has %q, on the source %q", to, got, want)
			}
		}
	}
}

// TestChecksOnOddNames: checks and generated columns over columns whose names MySQL's catalogue
// shows with escapes are found, and copied.
func TestChecksOnOddNames(t *testing.T) {
	const table = "CREATE TABLE t (id int PRIMARY KEY, `a\nb` int, `c\\d` int, `q'u` int, g int GENERATED ALWAYS AS (`a\nb` + 1) STORED, CHECK (`a\nb` > 0), CHECK (`c\\d` > 0 AND `q'u` > 0))"
	for _, pair := range [][2]string{{"mysql", "mariadb"}, {"mysql", "postgres"}, {"mariadb", "mysql"}} {
		src, dst := testdb.ServerOf(t, pair[0]).NewDatabase(t, "src"), testdb.ServerOf(t, pair[1]).NewDatabase(t, "dst")
		testdb.Query(t, src, table+"; INSERT INTO t (id) VALUES (1)")
		if pair[1] != "postgres" { // MySQL writes _latin1'it\'s', whose quote MariaDB loses
			testdb.Query(t, src, "CREATE TABLE u (c varchar(9) CHARACTER SET latin1, d varchar(9) AS (concat(c, 'it''s')), CHECK (c IN ('a', 'it''s')))")
		}
		if o := testdb.Run(t, "copy", src, dst); o.Code != 0 || strings.Contains(o.Out+o.ErrOut, "left out") {
			t.Errorf("%v: exit %d\n%s%s", pair, o.Code, o.Out, o.ErrOut)
		}
		if o := testdb.Run(t, "diff", src, dst, "--definitions"); o.Code != 0 {
			t.Errorf("%v: diff: exit %d\n%s%s", pair, o.Code, o.Out, o.ErrOut)
		}
		q := map[bool]string{true: `"`, false: "`"}[pair[1] == "postgres"]
		for _, c := range []string{"a\nb", `c\d`, "q'u"} {
			if got, err := testdb.NewSession(dst).Try("INSERT INTO t (id, " + q + c + q + ") VALUES (3, -1)"); err == nil {
				t.Errorf("%v: no check of %q is there: %s", pair, c, got)
			}
		}
	}
}

// TestDroppedDefaults: a nullable column whose default was dropped has none on the target either:
// on MySQL an INSERT must name it. CREATE TABLE makes DEFAULT NULL of what SHOW CREATE TABLE says
// of it, and so does MODIFY.
func TestDroppedDefaults(t *testing.T) {
	for _, from := range []string{"mysql", "mariadb"} {
		src := testdb.ServerOf(t, from).NewDatabase(t, "src")
		testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, a varchar(9), e enum('x'), m text, kept int, at timestamp NULL, KEY (a)); ALTER TABLE t ALTER a DROP DEFAULT, ALTER e DROP DEFAULT, ALTER at DROP DEFAULT")
		if from == "mariadb" {
			testdb.Query(t, src, "ALTER TABLE t ALTER m DROP DEFAULT; CREATE TABLE v (id int PRIMARY KEY, a int) WITH SYSTEM VERSIONING; SET STATEMENT system_versioning_alter_history = KEEP FOR ALTER TABLE v ALTER a DROP DEFAULT")
		}
		for _, to := range []string{"mysql", "mariadb"} {
			dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
			testdb.Must(t, "copy", src, dst)
			testdb.Must(t, "diff", src, dst, "--definitions=only")
			if from != to { // MariaDB takes an INSERT that does not name it
				continue
			}
			for _, insert := range []string{"(id, e, m, at) VALUES (1, NULL, NULL, NULL)", "(id, a, m, at) VALUES (1, NULL, NULL, NULL)", "(id, a, e, m) VALUES (1, NULL, NULL, NULL)", "(id, a, e, at) VALUES (1, NULL, NULL, NULL)"} {
				_, there := testdb.TryQuery(src, "BEGIN; INSERT INTO t "+insert+"; ROLLBACK")
				_, here := testdb.TryQuery(dst, "BEGIN; INSERT INTO t "+insert+"; ROLLBACK")
				if (there == nil) != (here == nil) {
					t.Errorf("%s to %s: INSERT INTO t %s: %v, on the source: %v", from, to, insert, here, there)
				}
			}
			testdb.Query(t, dst, "ALTER TABLE t ALTER a SET DEFAULT NULL, MODIFY e enum('x', 'y')")
			o := testdb.Run(t, "diff", src, dst, "--definitions=only")
			if o.Code != 1 {
				t.Errorf("%s: diff: exit %d\n%s", from, o.Code, o.Out)
			}
			testdb.Query(t, dst, o.Out)
			testdb.Must(t, "diff", src, dst, "--definitions=only")
		}
	}
}
