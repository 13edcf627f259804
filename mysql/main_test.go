package mysql

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func open(t *testing.T, rawURL string, opt server.Options) *Engine {
	t.Helper()
	e, err := Open(t.Context(), rawURL, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
