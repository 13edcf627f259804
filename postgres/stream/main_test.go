package stream

import (
	"context"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// An Engine is the part of the real one that these tests need.
type Engine struct {
	*server.Server
	*schema.Schema
	*bulk.Bulk
	*Source
}

// open opens an Engine that is closed when the test ends.
func open(t testing.TB, url string) *Engine {
	t.Helper()
	s, err := server.Open(context.Background(), url, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := bulk.NewBulk(s)
	e := &Engine{s, &schema.Schema{Server: s}, b, NewSource(s, b)}
	t.Cleanup(e.Close)
	return e
}

func (e *Engine) Close() {
	e.Bulk.Close()
	e.Server.Close()
}
