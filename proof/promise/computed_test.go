package promise

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const computedTable = "CREATE TABLE t (id int PRIMARY KEY, n varchar(50), low varchar(50) GENERATED ALWAYS AS (lower(n)) STORED, " +
	"has int GENERATED ALWAYS AS (CASE WHEN n = 'AB' THEN 1 ELSE 0 END) STORED, len int GENERATED ALWAYS AS (char_length(n)) STORED)"

// TestComputedColumnsAreCompared: a column that both servers compute, each by its own rules, may
// differ though all that is copied is equal. check names it before, diff finds it after, and repair
// has nothing to write.
func TestComputedColumnsAreCompared(t *testing.T) {
	for _, from := range []string{"mysql", "mariadb"} {
		src := testdb.ServerOf(t, from).NewDatabase(t, "src")
		testdb.Query(t, src, computedTable+"; INSERT INTO t (id, n) VALUES (1, 'ÉCOLE'), (2, 'AB'), (3, 'ab'), (4, NULL)")
		server := testdb.ServerOf(t, "postgres")
		plain := server.NewDatabase(t, "dst")
		u, err := url.Parse(server.NewDatabase(t, "dst"))
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(u.Path, "/") + "_c"
		testdb.Query(t, u.String(), "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
		defer testdb.Query(t, u.String(), "DROP DATABASE "+name+" WITH (FORCE)")
		ascii := *u
		ascii.Path = "/" + name
		for _, c := range []struct {
			dst         string
			warned      []string
			differences []string
		}{
			{plain, []string{".t.has: its expression compares text, which ignores case"}, []string{"id=3: has 1 -> 0"}},
			{ascii.String(), []string{".t.has: its expression compares text", "its LC_CTYPE is C"}, []string{"id=3: has 1 -> 0", `id=1: low "école" -> "École"`}},
		} {
			checked := testdb.Must(t, "check", src, c.dst)
			for _, want := range c.warned {
				if !strings.Contains(checked, want) {
					t.Errorf("check does not say %q:\n%s", want, checked)
				}
			}
			testdb.Must(t, "copy", src, c.dst)
			o := testdb.Run(t, "diff", src, c.dst)
			if o.Code != 1 {
				t.Errorf("diff: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			for _, want := range c.differences {
				if !strings.Contains(o.Out, want) {
					t.Errorf("diff does not say %q:\n%s", want, o.Out)
				}
			}
			if got := strings.Count(o.Out, "  different  "); got != len(c.differences) {
				t.Errorf("diff finds %d rows:\n%s", got, o.Out)
			}
			testdb.Must(t, "repair", src, c.dst, "--execute")
			testdb.Must(t, "diff", "--live", src, c.dst)
		}
	}
}

// TestComputedColumnsAreEqual: columns that are computed alike are equal, whatever a rule makes of
// their names, and so are tables in which the server keeps when a row came and went.
func TestComputedColumnsAreEqual(t *testing.T) {
	rules := testdb.Written(t, "rules.yaml", "rename: {columns: {t.len: length, t.n: label}}\n")
	for _, from := range []string{"mysql", "mariadb", "postgres"} {
		src := testdb.ServerOf(t, from).NewDatabase(t, "src")
		testdb.Query(t, src, computedTable+"; INSERT INTO t (id, n) VALUES (1, 'école'), (2, 'AB'), (4, NULL)")
		if from == "mariadb" {
			testdb.Query(t, src, "CREATE TABLE v (id int PRIMARY KEY, u int, UNIQUE KEY u (u), KEY k (id, u), s timestamp(6) GENERATED ALWAYS AS ROW START, e timestamp(6) GENERATED ALWAYS AS ROW END, twice int AS (id * 2) VIRTUAL, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING; INSERT INTO v (id) VALUES (1)")
		}
		for _, to := range []string{"mysql", "mariadb", "postgres"} {
			for _, options := range [][]string{nil, {"--config", rules}} {
				dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
				for _, verb := range []string{"copy", "diff"} {
					testdb.Must(t, append([]string{verb, src, dst}, options...)...)
				}
				if options != nil {
					testdb.Query(t, dst, "UPDATE t SET label = 'longer' WHERE id = 1")
					if o := testdb.Run(t, append([]string{"diff", src, dst}, options...)...); o.Code != 1 || !strings.Contains(o.Out, "len 5 -> 6") {
						t.Errorf("%s to %s: exit %d\n%s%s", from, to, o.Code, o.Out, o.ErrOut)
					}
				}
			}
		}
	}
}

// TestStoredColumnsOfMariaDB: MariaDB stores nothing whose value a setting decides (the blanks of a
// CHAR, the digits of a time, the sign of a difference), and has no NULL for a computed column;
// MySQL's tables have such.
func TestStoredColumnsOfMariaDB(t *testing.T) {
	const fill = "INSERT INTO t (id, c, p, z) VALUES (1, 'DE', '2024-02-29 23:59:59.6', '2024-01-01 00:00:00'), (2, '', '2024-02-29 10:00:00.4', NULL), (3, NULL, NULL, NULL)"
	src := testdb.ServerOf(t, "mysql").NewDatabase(t, "src")
	testdb.Query(t, src, `CREATE TABLE t (id int PRIMARY KEY, c char(4), p datetime(6), z timestamp NULL, u int unsigned NOT NULL DEFAULT 7, free int AS (u - id) STORED,
		low varchar(9) GENERATED ALWAYS AS (lower(c)) STORED, len int AS (char_length(c)) VIRTUAL, many char(9) AS (concat(c, '-', trim(c), id)) STORED,
		are int AS (c IN ('DE', 'FR')) STORED, again timestamp AS (z) STORED NULL, less datetime AS (p) STORED, as_text varchar(9) AS (date_format(p, '%Y')) STORED,
		UNIQUE KEY low (low), KEY len (len), KEY many (many)); `+fill)
	for _, copies := range []string{src, testdb.MySQLDump(t, src)} {
		dst := testdb.ServerOf(t, "mariadb").NewDatabase(t, "dst")
		if checked := testdb.Must(t, "check", copies, dst, "-v"); !strings.Contains(checked, "less: is virtual here") || !strings.Contains(checked, "free: is virtual here") || strings.Contains(checked, "low: is virtual") {
			t.Errorf("check says:\n%s", checked)
		}
		testdb.Must(t, "copy", copies, dst)
		testdb.Must(t, "diff", src, dst, "--definitions=only")
		rows := "SELECT id, free, low, len, many, are, again, as_text FROM t ORDER BY id"
		if got, want := testdb.Query(t, dst, rows), testdb.Query(t, src, rows); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if _, err := testdb.TryQuery(dst, "INSERT INTO t (id, c) VALUES (4, 'de')"); err == nil {
			t.Error("a unique key on a computed column takes a value twice")
		}
		if got := testdb.Query(t, dst, "SELECT count(*) FROM information_schema.statistics WHERE table_schema = database() AND index_name IN ('low', 'len', 'many')"); got != "3" {
			t.Errorf("%s of 3 keys", got)
		}
	}
}
