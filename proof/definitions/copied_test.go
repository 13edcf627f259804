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
