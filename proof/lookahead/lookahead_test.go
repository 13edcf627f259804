// Package lookahead tests what a copy finds before it writes.
package lookahead

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A refusal is a table that the target refuses; --plan, check and copy all report it before
// anything is written.
type refusal struct {
	name           string
	source, target func(testing.TB) *testdb.Server
	make, there    string // SQL of source and target
	want           string
	code           int
}

func postgres(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 17) }

func refusals() []refusal {
	texts := strings.Repeat(", %s text", 400)
	for i := 0; strings.Contains(texts, "%s"); i++ {
		texts = strings.Replace(texts, "%s", "c"+strings.Repeat("x", i/26)+string(rune('a'+i%26)), 1)
	}
	short := strings.ReplaceAll(texts, " text", " varchar(60)")
	short = short[:strings.LastIndex(short[:1800], ",")] // MySQL keeps 40 bytes of each in the page, MariaDB all 240
	return []refusal{
		{"folded columns", postgres, testdb.MySQL, `CREATE TABLE bad ("Id" int, id int); INSERT INTO bad VALUES (1, 2)`, "", "one name", 13},
		{"folded columns", postgres, testdb.MariaDB, `CREATE TABLE bad ("É" int, "é" int)`, "", "one name", 13},
		{"wide", postgres, testdb.MySQL, "CREATE TABLE bad (id int PRIMARY KEY" + texts + ")", "", "8126", 12},
		{"wide", postgres, testdb.MariaDB, "CREATE TABLE bad (id int PRIMARY KEY" + texts + ")", "", "8126", 12},
		{"wide", testdb.MySQL, testdb.MariaDB, "CREATE TABLE bad (id int PRIMARY KEY" + short + ") CHARSET utf8mb4", "", "8126", 12},
		{"needed", testdb.MariaDB, postgres, "CREATE TABLE bad (id int)", "CREATE TABLE bad (id int, must int NOT NULL, may int, had int NOT NULL DEFAULT 1)", "column must ", 2},
		{"needed", postgres, testdb.MySQL, "CREATE TABLE bad (id int)", "CREATE TABLE bad (id int, must int NOT NULL, n int AUTO_INCREMENT PRIMARY KEY, at timestamp NOT NULL DEFAULT now(), g int AS (id + 1) STORED NOT NULL)", "column must ", 2},
		{"needed", testdb.MySQL, testdb.MariaDB, "CREATE TABLE bad (id int)", "CREATE TABLE bad (id int, must varchar(9) NOT NULL)", "column must ", 2},
	}
}

func TestFoundBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range refusals() {
		src, tgt := c.source(t).NewDatabase(t, "ahead"), c.target(t).NewDatabase(t, "ahead")
		t.Run(c.name+" "+c.target(t).Engine, func(t *testing.T) {
			t.Parallel()
			testdb.Query(t, src, c.make)
			testdb.Query(t, src, "CREATE TABLE good (id int PRIMARY KEY)")
			testdb.Query(t, src, "INSERT INTO good VALUES (1)")
			if c.there != "" {
				testdb.Query(t, tgt, c.there)
			}
			before := tables(t, tgt)
			args := []string{"--target-schema", schema(tgt)}
			for _, call := range [][]string{{"copy", src, tgt, "--plan"}, {"check", src, tgt}, {"copy", src, tgt}} {
				out := testdb.Run(t, append(call, args...)...)
				code := c.code
				if call[0] == "check" {
					code = 1
				}
				if said := out.Out + out.ErrOut; out.Code != code || !strings.Contains(said, c.want) {
					t.Errorf("%s: code %d, want %d and %q:\n%s", call[0], out.Code, code, c.want, said)
				}
				if now := tables(t, tgt); now != before {
					t.Errorf("%s: the target has %q, had %q", call[0], now, before)
				}
			}
		})
	}
}

// schema returns where tables of a database go.
func schema(url string) string {
	if strings.HasPrefix(url, "postgres") {
		return "public"
	}
	name := url[strings.LastIndex(url, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	return name
}

// tables lists the tables of a database, except our own.
func tables(t *testing.T, url string) string {
	t.Helper()
	return testdb.Query(t, url, "SELECT table_name FROM information_schema.tables WHERE table_schema = '"+schema(url)+"' AND table_name NOT LIKE 'tidemark%' ORDER BY 1")
}

// An invalid date in a NOT NULL column whose default is invalid too: NULL is written, and the plan
// reports it.
func TestZeroDatesAsNull(t *testing.T) {
	t.Parallel()
	for _, server := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		src, tgt := server.NewDatabase(t, "zero"), testdb.Postgres(t, 17).NewDatabase(t, "zero")
		testdb.Query(t, src, "SET sql_mode = ''; CREATE TABLE z (id int PRIMARY KEY, a date NOT NULL DEFAULT '0000-00-00', b datetime NOT NULL DEFAULT '0000-00-00 00:00:00', c date NOT NULL DEFAULT '2020-01-02', d timestamp NOT NULL DEFAULT '0000-00-00 00:00:00', "+
			"e date NOT NULL DEFAULT '0000-00-00'); ALTER TABLE z DROP PRIMARY KEY, ADD PRIMARY KEY (id, e); INSERT INTO z (id, e) VALUES (1, '2020-03-04'); INSERT INTO z VALUES (2, '2021-01-01', '2021-01-01', '2021-01-01', '2021-01-01', '2021-01-01')")
		plan := testdb.Must(t, "copy", src, tgt, "--zero-dates", "null", "--target-schema", "public", "--plan")
		for _, column := range []string{"a", "b", "d"} {
			if !strings.Contains(plan, "public.z."+column) {
				t.Errorf("the plan says nothing of column %s:\n%s", column, plan)
			}
		}
		testdb.Must(t, "copy", src, tgt, "--zero-dates", "null", "--target-schema", "public")
		if got := testdb.Query(t, tgt, "SELECT string_agg(concat_ws('/', id, a IS NULL, b IS NULL, c, d IS NULL, e), ' ' ORDER BY id) FROM z"); strings.TrimSpace(got) != "1/t/t/2020-01-02/t/2020-03-04 2/f/f/2021-01-01/f/2021-01-01" {
			t.Errorf("the target has %s", got)
		}
		if got := testdb.Query(t, tgt, "SELECT string_agg(attname, ',' ORDER BY attname) FROM pg_attribute WHERE attrelid = 'z'::regclass AND attnum > 0 AND attnotnull"); strings.TrimSpace(got) != "c,e,id" {
			t.Errorf("NOT NULL are %s", got)
		}
		if out := testdb.Run(t, "diff", src, tgt, "--zero-dates", "null", "--target-schema", "public", "--definitions"); out.Code != 0 {
			t.Errorf("diff: %d\n%s%s", out.Code, out.Out, out.ErrOut)
		}
	}
}
