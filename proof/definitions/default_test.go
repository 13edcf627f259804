package definitions_test

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestDefaultsSetByHand sets defaults that the copy has left out, as it says, and others in other
// words of the target: they are no differences, another default is one.
func TestDefaultsSetByHand(t *testing.T) {
	columns := map[string]string{
		"mysql":    "a double DEFAULT (rand()), b varchar(40) DEFAULT (format_bytes(1)), c datetime(3) DEFAULT CURRENT_TIMESTAMP(3), d int DEFAULT 7",
		"mariadb":  "a bigint DEFAULT nextval(s), b int, c datetime DEFAULT CURRENT_TIMESTAMP, d int DEFAULT 7",
		"postgres": "a double precision DEFAULT random(), b date DEFAULT '0044-03-15 BC', c timestamp DEFAULT now(), d int DEFAULT 7",
	}
	byHand := map[string]string{
		"postgres": "ALTER TABLE t ALTER a SET DEFAULT random(), ALTER c SET DEFAULT now()",
		"mysql":    "ALTER TABLE t ALTER a SET DEFAULT (rand() + 1)",
		"mariadb":  "ALTER TABLE t ALTER a SET DEFAULT (rand() + 1)",
	}
	pairs := [][2]string{{"mysql", "postgres"}, {"mysql", "mariadb"}, {"mariadb", "postgres"}, {"mariadb", "mysql"}, {"postgres", "mysql"}, {"postgres", "mariadb"}}
	for _, i := range testdb.Draw(t, len(pairs), 2) {
		from, to := pairs[i][0], pairs[i][1]
		t.Run(from+"-"+to, func(t *testing.T) {
			t.Parallel()
			src, dst := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
			if from == "mariadb" {
				testdb.Query(t, src, "CREATE SEQUENCE s")
			}
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, "+columns[from]+")")
			testdb.Query(t, src, "INSERT INTO t (id, a, b, d) VALUES (1, 2, NULL, 4)")
			testdb.Must(t, "copy", src, dst)
			equal := func(what string) {
				t.Helper()
				if o := testdb.Run(t, "diff", src, dst, "--definitions"); o.Code != 0 || strings.Contains(o.Out, "only on the target") {
					t.Errorf("%s: %d\n%s%s", what, o.Code, o.Out, o.ErrOut)
				}
			}
			equal("copied")
			testdb.Query(t, dst, byHand[to])
			if from != "mariadb" {
				testdb.Query(t, dst, "ALTER TABLE t ALTER b SET DEFAULT '2021-01-01'")
			}
			equal("set by hand")
			testdb.Query(t, dst, "ALTER TABLE t ALTER d SET DEFAULT 8")
			if o := testdb.Run(t, "diff", src, dst, "--definitions"); o.Code != 1 || strings.Contains(o.Out, "default of a") {
				t.Errorf("another default: %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
		})
	}
}

// TestUUIDsByDefault: what gives a row a UUID of its own does so on every target, as text and as
// bytes.
func TestUUIDsByDefault(t *testing.T) {
	for _, to := range []string{"postgres", "mariadb", "mysql"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			src, dst := testdb.ServerOf(t, "mysql").NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
			testdb.Query(t, src, "CREATE TABLE t (n int PRIMARY KEY, a binary(16) NOT NULL DEFAULT (uuid_to_bin(uuid())), b binary(16) DEFAULT (uuid_to_bin(uuid(), true)), c char(36) DEFAULT (uuid()), d varbinary(36) DEFAULT (uuid()))")
			testdb.Query(t, src, "INSERT INTO t (n) VALUES (1)")
			testdb.Must(t, "copy", src, dst)
			testdb.Query(t, dst, "INSERT INTO t (n) VALUES (2)")
			testdb.Query(t, dst, "INSERT INTO t (n) VALUES (3)")
			lengths := testdb.Query(t, dst, "SELECT count(DISTINCT a), count(DISTINCT b), count(DISTINCT c), count(DISTINCT d), min(length(a)), min(length(b)), min(length(c)), min(length(d)) FROM t")
			if got := strings.Join(strings.FieldsFunc(lengths, func(r rune) bool { return r < '0' || r > '9' }), " "); got != "3 3 3 3 16 16 36 36" {
				t.Error(got)
			}
			if o := testdb.Run(t, "diff", src, dst, "--definitions"); !strings.Contains(o.Out, ", all equal") || strings.Contains(o.Out, "these differ") {
				t.Errorf("%d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
		})
	}
}

// TestEmojiByDefault: MariaDB's catalogue shows a question mark for each, and for a real one, too.
func TestEmojiByDefault(t *testing.T) {
	for _, from := range []string{"postgres", "mysql", "mariadb"} {
		for _, to := range []string{"postgres", "mysql", "mariadb"} {
			t.Run(from+" "+to, func(t *testing.T) {
				t.Parallel()
				src, dst := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
				more := ""
				if from != "postgres" {
					more = `, d json DEFAULT ('{"?": "😀"}'), e tinytext DEFAULT ('😀'), f enum('😀', '?') DEFAULT '😀'`
				}
				text := "'a😀?'"
				if from == "mysql" {
					text = "('a😀?')"
				}
				testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, a text DEFAULT "+text+", b varchar(9) DEFAULT '?😀', c varchar(9) DEFAULT '?'"+more+")")
				testdb.Must(t, "check", src, dst)
				testdb.Must(t, "copy", src, dst)
				testdb.Must(t, "diff", src, dst, "--definitions=only")
				for _, db := range []string{src, dst} {
					testdb.Query(t, db, "INSERT INTO t (id) VALUES (1)")
				}
				if want, have := testdb.Query(t, src, "SELECT * FROM t"), testdb.Query(t, dst, "SELECT * FROM t"); want != have {
					t.Errorf("the defaults are %s, on the target %s", want, have)
				}
			})
		}
	}
}
