package testdb_test

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestServers(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *testdb.Server{
		"postgres15": func(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 15) },
		"postgres16": func(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 16) },
		"postgres17": func(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 17) },
		"postgres18": func(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 18) },
		"mariadb":    testdb.MariaDB,
		"mysql":      testdb.MySQL,
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t)
			t.Log(s.Version, s.Dir, s.Pid)
			url := s.NewDatabase(t, "a Test")
			t.Log(url)
			if got := testdb.Query(t, url, "select 1, null, 'x'"); got != "1\tNULL\tx" {
				t.Errorf("got %q", got)
			}
		})
	}
}
