package promise

import (
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
		dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
		if o := testdb.Run(t, "copy", dump, dst); o.Code != 0 {
			t.Errorf("%s: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
			continue
		}
		if o := testdb.Run(t, "diff", src, dst, "--definitions"); o.Code != 0 {
			t.Errorf("%s: diff: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
		}
		testdb.Query(t, dst, "INSERT INTO t (id) VALUES (2)")
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
