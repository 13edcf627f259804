package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// oddNames are names of tables and columns that need care. MySQL allows at most 64 characters and
// no space at the end; PostgreSQL 63 bytes.
var oddNames = []string{
	"Capitals", "ALLCAPS", "two words", " leading", "dot.in.name", "back`tick", `double"quote`, "single'quote", "semi;colon", "sla/sh", `back\slash`,
	"percent%sign", "under_score", "dash-ed", "q?mark", "$dollar", "{brace}", "[bracket]", "*star*", "a\tb", "é", "表", "naïve ĳ", "select", "table", "order", "group", "user", "key", "rows", "rank",
	"123", "--comment", "/*c*/", "#hash", "@at", "tidemark", strings.Repeat("n", 63), "null", "default", "copied",
}

// oddTables returns a script for tables with these names, whose columns have them too, in an
// engine's quotes.
func oddTables(quote func(string) string) string {
	var b strings.Builder
	for i, name := range oddNames {
		other := oddNames[(i+1)%len(oddNames)]
		fmt.Fprintf(&b, "CREATE TABLE %s (%s int NOT NULL, %s varchar(50), PRIMARY KEY (%s));\n", quote(name), quote(other), quote("c "+fmt.Sprint(i)), quote(other))
		fmt.Fprintf(&b, "CREATE INDEX %s ON %s (%s, %s);\n", quote(fmt.Sprintf("i %d", i)), quote(name), quote(other), quote("c "+fmt.Sprint(i)))
		fmt.Fprintf(&b, "INSERT INTO %s VALUES (1, 'one'), (2, NULL), (3, '');\n", quote(name))
	}
	return b.String()
}

func pgQuote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
func myQuote(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// noKey has tables without keys, without rows, and without both.
const noKey = `
CREATE TABLE heap (a int, b varchar(20));
INSERT INTO heap VALUES (1, 'x'), (1, 'x'), (NULL, NULL), (NULL, NULL), (2, '');
CREATE TABLE only_unique (a int, b varchar(20), CONSTRAINT u UNIQUE (a, b));
INSERT INTO only_unique VALUES (1, 'x'), (NULL, 'x'), (NULL, 'x'), (NULL, NULL);
CREATE TABLE empty_heap (a int);
CREATE TABLE empty_keyed (a int PRIMARY KEY, b varchar(20) NOT NULL UNIQUE);
`

type pair struct {
	name     string
	src, dst func(*testing.T) *testdb.Server
}

var pairs = []pair{
	{"postgres to postgres", pg15, func(t *testing.T) *testdb.Server { return testdb.Postgres(t, 18) }},
	{"postgres to mariadb", pg15, maria},
	{"postgres to mysql", pg15, mysql8},
	{"mariadb to postgres", maria, pg15},
	{"mysql to postgres", mysql8, pg15},
	{"mariadb to mariadb", maria, maria},
	{"mariadb to mysql", maria, mysql8},
	{"mysql to mariadb", mysql8, maria},
}

// TestOddNames copies tables whose names need quotes in every direction.
func TestOddNames(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		if p.name == "mariadb to mysql" {
			continue // characters quoted for either of them are quoted in the others
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			quote := myQuote
			if p.src(t).Engine == "postgres" {
				quote = pgQuote
			}
			src := sqlOn(t, p.src(t), oddTables(quote)+noKey)
			dst := p.dst(t).NewDatabase(t, "dst")
			must(t, "copy", src, dst, "--lanes", "2")
			o := must(t, "diff", src, dst)
			if want := fmt.Sprintf("%d tables", len(oddNames)+4); !strings.Contains(o.out, want) {
				t.Errorf("diff does not speak of %s:\n%s", want, o.out)
			}
			if p.src(t).Engine != "mariadb" {
				return
			}
			// Marks, rejects and a resume must handle the names too.
			if o := cli(t, "copy", src, dst); o.code != 8 {
				t.Errorf("a second copy: exit %d\n%s", o.code, o.errOut)
			}
			must(t, "copy", src, dst, "--prep", "truncate")
			must(t, "copy", src, dst, "--prep", "drop", "--reject-limit", "1")
			must(t, "diff", src, dst)
		})
	}
}

// TestDumpOfOddNames loads them from a dump file.
func TestDumpOfOddNames(t *testing.T) {
	t.Parallel()
	for name, dst := range map[string]func(*testing.T) *testdb.Server{"mariadb": maria, "postgres": pg15, "mysql": mysql8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := sqlOn(t, maria(t), oddTables(myQuote)+noKey)
			to := dst(t).NewDatabase(t, "dst")
			must(t, "copy", "file:"+dumped(t, maria(t), src), to)
			must(t, "diff", src, to)
		})
	}
}

// TestLongNames uses names of 64 characters, and of 64 bytes in fewer characters.
func TestLongNames(t *testing.T) {
	long, wide := strings.Repeat("x", 64), strings.Repeat("é", 32)
	sql := fmt.Sprintf("CREATE TABLE `%s` (`%s` int PRIMARY KEY, `%s` varchar(9)); INSERT INTO `%s` VALUES (1, 'a');\n", long, long, wide, long) +
		fmt.Sprintf("CREATE TABLE `%s` (`%s` int PRIMARY KEY, `%s` varchar(9)); INSERT INTO `%s` VALUES (1, 'a');\n", wide, long, wide, wide)
	for name, dst := range map[string]func(*testing.T) *testdb.Server{"mariadb": maria, "postgres": pg15, "mysql": mysql8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, to := sqlOn(t, maria(t), sql), dst(t).NewDatabase(t, "dst")
			must(t, "copy", src, to)
			must(t, "diff", src, to)
		})
	}
}

// TestNamesThatCollide uses two names that PostgreSQL cannot distinguish.
func TestNamesThatCollide(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("x", 63)+"a", strings.Repeat("x", 63)+"b"
	src := sqlOn(t, maria(t), fmt.Sprintf("CREATE TABLE `%s` (id int PRIMARY KEY); CREATE TABLE `%s` (id int PRIMARY KEY);", a, b))
	dst := pg15(t).NewDatabase(t, "dst")
	args := []string{"copy", src, dst}
	sameText(t, cli(t, args...), 13, args)
	if n := testdb.Query(t, dst, "SELECT count(*) FROM pg_class WHERE relname LIKE 'xxx%'"); n != "0" {
		t.Errorf("%s relations were made", n)
	}
}

// TestNoColumns copies a table without columns, which still has rows.
func TestNoColumns(t *testing.T) {
	t.Parallel()
	src := sqlOn(t, pg15(t), "CREATE TABLE nothing (); INSERT INTO nothing DEFAULT VALUES; INSERT INTO nothing DEFAULT VALUES; CREATE TABLE hollow ();")
	dst := testdb.Postgres(t, 18).NewDatabase(t, "dst")
	must(t, "copy", src, dst)
	must(t, "diff", src, dst)
	if n := testdb.Query(t, dst, "SELECT (SELECT count(*) FROM nothing), (SELECT count(*) FROM hollow)"); n != "2\t0" {
		t.Errorf("the target has %s rows", n)
	}
}
