package engines_test

import (
	"testing"

	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/engines/enginetest"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Every engine does what a copy needs, by the same tests.
func TestConformance(t *testing.T) {
	for _, x := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"csv", func(t *testing.T) string { return "csv://" + t.TempDir() }},
		{"postgres", func(t *testing.T) string { return testdb.Postgres(t, 15).NewDatabase(t, "conform") }},
		{"mysql", func(t *testing.T) string { return testdb.MySQL(t).NewDatabase(t, "conform") }},
		{"mariadb", func(t *testing.T) string { return testdb.MariaDB(t).NewDatabase(t, "conform") }},
		{"db2", func(t *testing.T) string { return testdb.Derby(t, 16).NewDatabase(t, "conform") }},
	} {
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
