package engines_test

import (
	"fmt"
	"testing"

	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/engines/enginetest"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Every engine does what copies need, and streams if it has these, by the same tests.
func TestConformance(t *testing.T) {
	type subject struct {
		name string
		url  func(t *testing.T) string
	}
	all := []subject{
		{"csv", func(t *testing.T) string { return "csv://" + t.TempDir() }},
		{"postgres", func(t *testing.T) string { return testdb.Postgres(t, 15).NewDatabase(t, "conform") }},
		{"mysql", func(t *testing.T) string { return testdb.MySQL(t).NewDatabase(t, "conform") }},
		{"mariadb", func(t *testing.T) string { return testdb.MariaDB(t).NewDatabase(t, "conform") }},
		{"db2", func(t *testing.T) string { return testdb.Derby(t, 16).NewDatabase(t, "conform") }},
	}
	if testdb.Long() {
		for _, major := range []int{13, 14, 16, 17, 18} {
			all = append(all, subject{fmt.Sprint("postgres", major), func(t *testing.T) string { return testdb.Postgres(t, major).NewDatabase(t, "conform") }})
		}
	}
	for _, x := range all {
		t.Run(x.name, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) func() engines.Database {
				url := x.url(t)
				return func() engines.Database { return open(t, url) }
			})
		})
	}
}

func open(t *testing.T, url string) engines.Database {
	t.Helper()
	db, err := engines.Open(t.Context(), url, engines.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}
