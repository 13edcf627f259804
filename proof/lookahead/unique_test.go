package lookahead

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// If a unique key's collation treats different texts as equal, plan, check and copy name each
// column; a column is named exactly where the source refuses a second value that PostgreSQL
// accepts.
func TestUniqueKeysIgnoreLess(t *testing.T) {
	t.Parallel()
	for _, server := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		src, tgt := server.NewDatabase(t, "ci"), testdb.Postgres(t, 17).NewDatabase(t, "ci")
		testdb.Query(t, src, "CREATE TABLE u (id int PRIMARY KEY, a varchar(20) COLLATE utf8mb4_general_ci, b varchar(20), c varchar(20) COLLATE utf8mb4_bin, d varchar(20) COLLATE utf8mb4_unicode_ci, e varbinary(20), n int, "+
			"UNIQUE (a), UNIQUE (b), UNIQUE (c), KEY (d), UNIQUE (n, e)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci")
		testdb.Query(t, src, "CREATE TABLE p (k varchar(20) COLLATE utf8mb4_unicode_520_ci PRIMARY KEY)")
		var want []string
		testdb.Query(t, src, "INSERT INTO u (id, a, b, c, d, e, n) VALUES (1, 'e', 'e', 'e', 'e', 'e', 1); INSERT INTO p VALUES ('e')")
		for i, column := range []string{"a", "b", "c", "d", "e"} {
			if _, err := testdb.TryQuery(src, "INSERT INTO u (id, n, "+column+") VALUES ("+string(rune('5'+i))+", 1, 'É')"); err != nil {
				want = append(want, "public.u."+column)
			}
		}
		testdb.Query(t, src, "DELETE FROM u WHERE id > 1")
		for _, call := range [][]string{{"copy", src, tgt, "--plan"}, {"check", src, tgt, "-v"}, {"copy", src, tgt, "-v"}} {
			run := testdb.Run(t, append(call, "--target-schema", "public")...)
			out := run.Out + run.ErrOut
			if run.Code != 0 {
				t.Errorf("%s of %s: exit %d", call[0], server.Engine, run.Code)
			}
			for _, column := range []string{"a", "b", "c", "d", "e"} {
				name := "public.u." + column
				if said, real := strings.Contains(out, "column "+name+": "), slices.Contains(want, name); said != real {
					t.Errorf("%s of %s: column %s is named: %v, differs: %v\n%s", call[0], server.Engine, column, said, real, out)
				}
			}
			if !strings.Contains(out, "column public.p.k: is in a unique key that ignores case and accents") {
				t.Errorf("%s of %s: the primary key is not named\n%s", call[0], server.Engine, out)
			}
		}
		if len(want) != 2 {
			t.Errorf("%s refuses %v", server.Engine, want)
		}
	}
}

// Between MySQL and MariaDB a collation may change: each affected column of a unique key is named.
func TestUniqueKeysCompareOtherwise(t *testing.T) {
	t.Parallel()
	src, tgt := testdb.MariaDB(t).NewDatabase(t, "ci"), testdb.MySQL(t).NewDatabase(t, "ci")
	testdb.Query(t, src, "CREATE TABLE u (id int PRIMARY KEY, a varchar(20) COLLATE utf8mb4_unicode_nopad_ci, b varchar(20), c varchar(20) COLLATE utf8mb4_bin, d varchar(20) COLLATE utf8mb4_general_nopad_ci, e varbinary(20), f varchar(20), "+
		"UNIQUE (a), UNIQUE (b, c), KEY (d), UNIQUE (e)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_nopad_ci")
	testdb.Query(t, src, "INSERT INTO u (id, b, c) VALUES (1, 'x', '1'), (2, 'x ', '1')") // equal values to MySQL
	out := testdb.Must(t, "copy", src, tgt, "--plan")
	for column, named := range map[string]bool{"id": false, "a": true, "b": true, "c": false, "d": false, "e": false, "f": false} {
		if said := strings.Contains(out, ".u."+column+": a unique key compares it by "); said != named {
			t.Errorf("column %s is named: %v\n%s", column, said, out)
		}
	}
	if out := testdb.Run(t, "copy", src, tgt); out.Code == 0 || !strings.Contains(out.ErrOut+out.Out, "1062") {
		t.Errorf("exit %d: MySQL tells the values apart\n%s%s", out.Code, out.Out, out.ErrOut)
	}
}
