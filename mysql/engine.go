package mysql

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark/internal/roundtrip"
	"github.com/tidemarkdb/tidemark/mysql/apply"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/preflight"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysql/stream"
)

// An Engine is one MySQL or MariaDB server: a source, a target, or both. Its methods, which are
// those of its parts, may be used concurrently; a lane serves one call at a time.
type Engine struct {
	*server.Server
	*schema.Schema
	*bulk.Bulk
	*stream.Source
	*apply.Target
	*preflight.Checks
}

// Open connects to the server of a URL, see server.Open.
func Open(ctx context.Context, rawURL string, opt server.Options) (*Engine, error) {
	s, err := server.Open(ctx, rawURL, opt)
	if err != nil {
		return nil, err
	}
	e := &Engine{Server: s, Schema: &schema.Schema{Server: s}}
	e.Bulk = bulk.New(e.Schema)
	e.Target = apply.New(e.Bulk)
	e.Checks = &preflight.Checks{Server: s, Streams: e.Applied}
	e.Source = stream.New(e.Bulk, e.Checks)
	return e, nil
}

// Close closes all sessions; a running Write or Read fails.
func (e *Engine) Close() error {
	e.Bulk.Close()
	e.Source.Close()
	e.Target.Close()
	return e.Server.Close()
}

// RoundTrip returns the shortest round trip of a few pings.
func (e *Engine) RoundTrip(ctx context.Context) (time.Duration, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return 0, err
	}
	defer back()
	shortest, err := roundtrip.Shortest(s.Client.Ping)
	return shortest, e.Fail("ask", "", err)
}

// Release closes the session in which a lane runs statements. See load.Releaser.
func (e *Engine) Release(lane int) { bulk.CloseLane(e.Bulk, lane) }
