package engines_test

import (
	"testing"

	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/engines/enginetest"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Every engine does what a copy needs, by the same tests.
func TestConformance(t *testing.T) {
	t.Run("csv", func(t *testing.T) {
		enginetest.Run(t, func(t *testing.T) func() engines.Database {
			url := "csv://" + t.TempDir()
			return func() engines.Database { return open(t, url) }
		})
	})
	for _, x := range []struct {
		name   string
		server func() *testdb.Server
	}{
		{"postgres", func() *testdb.Server { return testdb.Postgres(t, 15) }},
		{"mysql", func() *testdb.Server { return testdb.MySQL(t) }},
		{"mariadb", func() *testdb.Server { return testdb.MariaDB(t) }},
		{"db2", func() *testdb.Server { return testdb.Derby(t, 16) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			server := x.server()
			enginetest.Run(t, func(t *testing.T) func() engines.Database {
				url := server.NewDatabase(t, "conform")
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
