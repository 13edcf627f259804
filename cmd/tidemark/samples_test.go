package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestPostgresToPostgres copies each sample within a version or to another one; pg_dump output of
// both sides is equal, and so are all rows.
func TestPostgresToPostgres(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{"pagila", "chinook", "northwind", "world", "types-zoo"} {
		for _, way := range waysOf(t, sample, 3) {
			v := [][2]int{{15, 15}, {15, 18}, {18, 18}}[way]
			t.Run(sample+"/"+major(v[0])+"to"+major(v[1]), func(t *testing.T) {
				src := filled(t, testdb.Postgres(t, v[0]), sample+"/pg.sql"+packed(sample))
				dst := testdb.Postgres(t, v[1]).NewDatabase(t, "dst")
				must(t, "copy", src, dst)
				must(t, "diff", src, dst)
				if v[0] != v[1] {
					return // the versions print some things differently
				}
				a, b := testdb.PgDump(t, src), testdb.PgDump(t, dst)
				if a != b {
					t.Fatalf("pg_dump differs:\n%s", testdb.FirstDifference(a, b))
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

// mysqlServers are the servers of the MySQL family by a short name.
func mysqlServers(t *testing.T) map[string]*testdb.Server {
	return map[string]*testdb.Server{"mariadb": testdb.MariaDB(t), "mysql": testdb.MySQL(t)}
}

// waysOf returns all n ways to copy the sample with all types, and one drawn at random for any
// other.
func waysOf(t *testing.T, sample string, n int) []int {
	t.Helper()
	if sample == "types-zoo" {
		return testdb.Draw(t, n, n)
	}
	return testdb.Draw(t, n, 1)
}

// TestMySQLFamily copies each sample between MariaDB and MySQL, in one randomly drawn direction of
// the four; the sample with all types is copied in all of them.
func TestMySQLFamily(t *testing.T) {
	t.Parallel()
	servers := []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)}
	for _, sample := range []string{"sakila", "chinook", "northwind", "world", "menagerie", "types-zoo"} {
		for _, way := range waysOf(t, sample, 4) {
			a, b := servers[way/2], servers[way%2]
			t.Run(sample+"/"+a.Engine+"to"+b.Engine, func(t *testing.T) {
				src := filled(t, a, sample+"/mysql.sql"+packed(sample))
				dst := b.NewDatabase(t, "dst")
				args := []string{src, dst}
				if sample == "types-zoo" && a.Engine == "mariadb" && b.Engine == "mysql" { // MySQL's JSON cannot hold 1e400
					args = append(args, "--exclude", "*.t_json")
				}
				must(t, append([]string{"copy"}, args...)...)
				must(t, append([]string{"diff"}, args...)...)
			})
		}
	}
}

// TestMySQLToPostgres copies each sample to PostgreSQL. The zoo's invalid dates become NULL, as
// requested.
func TestMySQLToPostgres(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{"sakila", "chinook", "northwind", "world", "menagerie", "types-zoo"} {
		for _, way := range waysOf(t, sample, 2) {
			a := []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)}[way]
			t.Run(sample+"/"+a.Engine, func(t *testing.T) {
				src := filled(t, a, sample+"/mysql.sql"+packed(sample))
				dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
				args := []string{src, dst, "--zero-dates", "null"}
				if sample == "types-zoo" { // PostgreSQL cannot store NUL in text, nor an ENUM value that is no member
					args = append(args, "--exclude", "*.t_str", "--config", taskFile(t, "tables: {'*.t_enum': {where: 'id <> 7'}}"))
				}
				must(t, append([]string{"copy"}, args...)...)
				must(t, append([]string{"diff"}, args...)...)
			})
		}
	}
}

// zooInMySQL adapts the zoo to MySQL: no two names that differ only in case, no JSON number beyond
// a double, and numbers of a thousand digits as text. Its table without columns is excluded
// separately.
const zooInMySQL = `
rename: {columns: {UPPER: other}}
tables:
  "*.t_json": {where: "id not in (3, 4)"}
  "*.t_numeric": {types: {n: text}}
`

// TestPostgresToMySQL copies each sample to one of the MySQL family, and the sample with all types
// to both.
func TestPostgresToMySQL(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{"pagila", "chinook", "northwind", "world", "types-zoo"} {
		for _, way := range waysOf(t, sample, 2) {
			b := []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)}[way]
			t.Run(sample+"/"+b.Engine, func(t *testing.T) {
				src := filled(t, testdb.Postgres(t, 15), sample+"/pg.sql"+packed(sample))
				dst := b.NewDatabase(t, "dst")
				args := []string{src, dst, "--unrepresentable", "null"}
				if sample == "types-zoo" {
					args = append(args, "--exclude", "*.zero_cols", "--config", taskFile(t, zooInMySQL))
				}
				must(t, append([]string{"copy"}, args...)...)
				must(t, append([]string{"diff"}, args...)...)
			})
		}
	}
}

// taskFile writes a task file and returns its path.
func taskFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "task.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
