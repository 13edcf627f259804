package postgres

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/apply"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/physical"
	"github.com/tidemarkdb/tidemark/postgres/preflight"
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/stream"
)

// Options of an Engine. The zero value is good.
type Options = server.Options

// An Engine is one PostgreSQL database. Its methods may be called concurrently,
// but each lane by one goroutine at a time.
type Engine struct {
	*server.Server
	*schema.Schema
	*bulk.Bulk
	*stream.Source
	*apply.Target
	*physical.Cluster
	*preflight.Checks
}

// Open connects to the database that url names: see server.Open.
func Open(ctx context.Context, url string, opt Options) (*Engine, error) {
	s, err := server.Open(ctx, url, opt)
	if err != nil {
		return nil, err
	}
	b := bulk.NewBulk(s)
	return &Engine{s, &schema.Schema{Server: s}, b, stream.NewSource(s, b), apply.NewTarget(s, b), &physical.Cluster{Server: s}, &preflight.Checks{Server: s}}, nil
}

// Name returns the engine's name.
func (e *Engine) Name() string { return "postgres" }

// Default returns the schema of tables named without one.
func (e *Engine) Default() string { return "public" }

// Inspect reports what exists under these names, in the same order. It also reads which other names
// are taken beside them, for Render.
func (e *Engine) Inspect(ctx context.Context, tables []tidemark.TableID) ([]tidemark.TableState, error) {
	if err := e.Names(ctx, tables); err != nil {
		return nil, err
	}
	return e.Bulk.Inspect(ctx, tables)
}

// Close ends all sessions, and with them the snapshot.
func (e *Engine) Close() error {
	e.Bulk.Close()
	e.Target.Close()
	e.Server.Close()
	return nil
}
