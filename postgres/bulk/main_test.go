package bulk

import (
	"context"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

func TestMain(m *testing.M) { testdb.Main(m) }

type Options = server.Options

// An Engine is the part of the real one that these tests need.
type Engine struct {
	*server.Server
	*schema.Schema
	*Bulk
}

func Open(ctx context.Context, url string, opt Options) (*Engine, error) {
	s, err := server.Open(ctx, url, opt)
	if err != nil {
		return nil, err
	}
	return &Engine{s, &schema.Schema{Server: s}, NewBulk(s)}, nil
}

func (e *Engine) Close() error {
	e.Bulk.Close()
	e.Server.Close()
	return nil
}
