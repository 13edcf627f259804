// Package definitions checks the report of tidemark diff --definitions against the servers' own
// descriptions of both databases: pg_dump and SHOW CREATE.
package definitions

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// samples are the sample databases of each dialect.
var samples = map[string][]string{
	"postgres": {"types-zoo/pg.sql", "pagila/pg.sql.zst", "northwind/pg.sql.zst", "world/pg.sql.zst"},
	"mysql":    {"types-zoo/mysql.sql", "sakila/mysql.sql.zst", "world/mysql.sql.zst", "northwind/mysql.sql.zst"},
}

// TestCopied copies each sample between all pairs of servers: definitions are equal afterwards, and
// no statement is proposed.
func TestCopied(t *testing.T) {
	servers := map[string]*testdb.Server{"postgres": testdb.Postgres(t, 15), "mysql": testdb.MySQL(t), "mariadb": testdb.MariaDB(t), "postgres18": testdb.Postgres(t, 18)}
	for from, s := range servers {
		family := strings.TrimSuffix(from, "18")
		if family == "mariadb" {
			family = "mysql"
		}
		for i, sample := range samples[family] {
			if i > 1 && !testdb.Long() {
				break
			}
			src := s.NewDatabase(t, "src")
			in := testdb.Sample
			if from == "mysql" {
				in = testdb.SampleMySQL8
			}
			testdb.Load(t, src, in(t, sample))
			for to, target := range servers {
				if sample == "types-zoo/pg.sql" && !strings.HasPrefix(to, "postgres") {
					continue // MySQL refuses part of it
				}
				if sample == "types-zoo/mysql.sql" && (strings.HasPrefix(to, "postgres") || from == "mariadb" && to == "mysql") {
					continue // a name exceeds PostgreSQL's limit, or MySQL renames a column's check
				}
				t.Run(from+" "+to+" "+sample, func(t *testing.T) {
					dst := target.NewDatabase(t, "dst")
					args := []string{"copy", src, dst, "--zero-dates", "null", "--unrepresentable", "null", "--reject-limit", "1000"}
					if o := testdb.Run(t, args...); o.Code != 0 && o.Code != 1 {
						t.Fatalf("copy: exit %d\n%s", o.Code, o.ErrOut)
					}
					o := testdb.Run(t, "diff", src, dst, "--definitions=only")
					if o.Code != 0 {
						t.Errorf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
					}
				})
			}
		}
	}
}

// TestNothingCopied: an empty target lacks the tables, but not the schema, which exists.
func TestNothingCopied(t *testing.T) {
	src, dst := testdb.MariaDB(t).NewDatabase(t, "src"), testdb.Postgres(t, 15).NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE one (id INT PRIMARY KEY)")
	o := testdb.Run(t, "diff", src, dst, "--definitions=only")
	if o.Code != 1 || !strings.Contains(o.Out, "missing   table public.one") || strings.Contains(o.Out, "schema public") {
		t.Errorf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
}

// TestCheckOfAColumnThatGoes: where a check of the target mentions a column that the source lacks,
// what diff prints makes the check anew, so that it is there once the column is gone.
func TestCheckOfAColumnThatGoes(t *testing.T) {
	for _, to := range []string{"mariadb", "mysql"} {
		src, dst := testdb.Postgres(t, 15).NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
		testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, v varchar(9), CONSTRAINT ck CHECK (v <> 'no'), CONSTRAINT other CHECK (id > 0))")
		if o := testdb.Run(t, "copy", src, dst); o.Code != 0 {
			t.Fatalf("%s: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
		}
		changes := []string{"ALTER TABLE t ADD COLUMN extra int, DROP CONSTRAINT ck, ADD CONSTRAINT ck CHECK (extra > 0 OR v <> 'yes')"}
		if to == "mariadb" { // MySQL renames no column that a check mentions
			changes = append(changes, "ALTER TABLE t RENAME COLUMN v TO renamed")
		}
		for _, change := range changes {
			testdb.Query(t, dst, change)
			o := testdb.Run(t, "diff", src, dst, "--definitions=only")
			var sql []string
			for line := range strings.SplitSeq(o.Out, "\n") {
				if line != "" && !strings.HasPrefix(line, "--") {
					sql = append(sql, line)
				}
			}
			if o.Code != 1 || len(sql) == 0 {
				t.Fatalf("%s: after %s: exit %d\n%s%s", to, change, o.Code, o.Out, o.ErrOut)
			}
			testdb.Query(t, dst, strings.Join(sql, "\n"))
			if again := testdb.Run(t, "diff", src, dst, "--definitions=only"); again.Code != 0 {
				t.Errorf("%s: after %s and\n%s: exit %d\n%s", to, change, o.Out, again.Code, again.Out)
			}
			if _, err := testdb.NewSession(dst).Try("INSERT INTO t (id, v) VALUES (1, 'no')"); err == nil {
				t.Errorf("%s: after %s and\n%s: the check is not there", to, change, o.Out)
			}
		}
	}
}
