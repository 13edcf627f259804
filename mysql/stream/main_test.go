package stream

import (
	"context"
	"testing"

	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/preflight"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// An Engine is the part of the engine that streams need.
type Engine struct {
	*server.Server
	*schema.Schema
	*bulk.Bulk
	*Source
	*preflight.Checks
}

func Open(ctx context.Context, rawURL string, opt server.Options) (*Engine, error) {
	s, err := server.Open(ctx, rawURL, opt)
	if err != nil {
		return nil, err
	}
	e := &Engine{Server: s, Schema: &schema.Schema{Server: s}}
	e.Bulk = bulk.New(e.Schema)
	e.Checks = &preflight.Checks{Server: s, Streams: func(context.Context) (map[string]change.Progress, error) { return nil, nil }}
	e.Source = New(e.Bulk, e.Checks)
	return e, nil
}

func (e *Engine) Close() error {
	e.Bulk.Close()
	e.Source.Close()
	return e.Server.Close()
}

func open(t *testing.T, rawURL string, opt server.Options) *Engine {
	t.Helper()
	e, err := Open(t.Context(), rawURL, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
