package main

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestPostgresToPostgres copies each sample between versions; pg_dump of both
// sides is equal, and so are all rows.
func TestPostgresToPostgres(t *testing.T) {
	for _, sample := range []string{"pagila", "chinook", "northwind", "world", "types-zoo"} {
		for _, v := range [][2]int{{15, 15}, {15, 18}, {18, 18}} {
			t.Run(sample+"/"+major(v[0])+"to"+major(v[1]), func(t *testing.T) {
				src := filled(t, testdb.Postgres(t, v[0]), sample+"/pg.sql"+packed(sample))
				dst := testdb.Postgres(t, v[1]).NewDatabase(t, "dst")
				must(t, "copy", src, dst)
				must(t, "diff", src, dst)
				if v[0] != v[1] {
					return // the versions print some things in their own ways
				}
				a, b := testdb.PgDump(t, src), testdb.PgDump(t, dst)
				if a != b {
					t.Fatalf("pg_dump differs:\n%s", firstDifference(a, b))
				}
			})
		}
	}
}

func packed(sample string) string {
	if sample == "types-zoo" || sample == "menagerie" {
		return ""
	}
	return ".zst"
}

func major(n int) string { return map[int]string{15: "15", 16: "16", 17: "17", 18: "18"}[n] }

// firstDifference gives the lines around the first one that differs.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			from := max(0, i-5)
			return "source:\n" + strings.Join(x[from:min(len(x), i+6)], "\n") + "\ntarget:\n" + strings.Join(y[from:min(len(y), i+6)], "\n")
		}
	}
	return "target is longer:\n" + strings.Join(y[len(x):min(len(y), len(x)+10)], "\n")
}

// mysqlServers are the servers of the MySQL family by a short name.
func mysqlServers(t *testing.T) map[string]*testdb.Server {
	return map[string]*testdb.Server{"mariadb": testdb.MariaDB(t), "mysql": testdb.MySQL(t)}
}

// TestMySQLFamily copies each sample between MariaDB and MySQL, in all four directions.
func TestMySQLFamily(t *testing.T) {
	servers := mysqlServers(t)
	for _, sample := range []string{"sakila", "chinook", "northwind", "world", "menagerie", "types-zoo"} {
		for from, a := range servers {
			for to, b := range servers {
				t.Run(sample+"/"+from+"to"+to, func(t *testing.T) {
					src := filled(t, a, sample+"/mysql.sql"+packed(sample))
					dst := b.NewDatabase(t, "dst")
					must(t, "copy", src, dst)
					must(t, "diff", src, dst)
				})
			}
		}
	}
}

// TestMySQLToPostgres copies each sample to PostgreSQL. Of the zoo's dates those
// that are none become NULL, as asked.
func TestMySQLToPostgres(t *testing.T) {
	for from, a := range mysqlServers(t) {
		for _, sample := range []string{"sakila", "chinook", "northwind", "world", "menagerie", "types-zoo"} {
			t.Run(sample+"/"+from, func(t *testing.T) {
				src := filled(t, a, sample+"/mysql.sql"+packed(sample))
				dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
				args := []string{src, dst, "--zero-dates", "null"}
				if sample == "types-zoo" { // PostgreSQL's text holds no NUL, which the zoo's t_str has
					args = append(args, "--exclude", "*.t_str")
				}
				must(t, append([]string{"copy"}, args...)...)
				must(t, append([]string{"diff"}, args...)...)
			})
		}
	}
}

// TestPostgresToMySQL copies each sample to both of the MySQL family.
func TestPostgresToMySQL(t *testing.T) {
	for to, b := range mysqlServers(t) {
		for _, sample := range []string{"pagila", "chinook", "northwind", "world", "types-zoo"} {
			t.Run(sample+"/"+to, func(t *testing.T) {
				src := filled(t, testdb.Postgres(t, 15), sample+"/pg.sql"+packed(sample))
				dst := b.NewDatabase(t, "dst")
				args := []string{src, dst, "--unrepresentable", "null"}
				must(t, append([]string{"copy"}, args...)...)
				must(t, append([]string{"diff"}, args...)...)
			})
		}
	}
}
