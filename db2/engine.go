// Package db2 is the engine for Db2 for Linux, UNIX and Windows, over DRDA: tables are described,
// and copied from there and to there. It was tried on Apache Derby, and not yet on a Db2 server.
// Its rooms are server (sessions), schema (definitions) and bulk (rows); drda is the protocol, text
// and advise read what Db2's tools print.
package db2

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/bulk"
	"github.com/tidemarkdb/tidemark/db2/schema"
	"github.com/tidemarkdb/tidemark/db2/server"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// An Engine is one Db2 database. Its methods, which are those of its parts, may be used
// concurrently; a lane serves one call at a time.
type Engine struct {
	*server.Server
	*schema.Schema
	*bulk.Bulk
}

// Open connects to the database of a URL, see server.Open.
func Open(ctx context.Context, url string, warn func(tidemark.Finding)) (*Engine, error) {
	s, err := server.Open(ctx, url, warn)
	if err != nil {
		return nil, err
	}
	e := &Engine{Server: s, Schema: &schema.Schema{Server: s}}
	e.Bulk = bulk.New(e.Schema)
	return e, nil
}

// Close closes all sessions; a running Read fails.
func (e *Engine) Close() error {
	e.Bulk.Close()
	return e.Server.Close()
}

// RoundTrip returns the shortest round trip of a few small statements.
func (e *Engine) RoundTrip(ctx context.Context) (time.Duration, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return 0, err
	}
	defer back()
	shortest, err := roundtrip.Shortest(func() error { return s.Rollback(ctx) })
	return shortest, e.Fail("ask", "", err)
}

// Preflight reports what a copy from or to this server means for it.
func (e *Engine) Preflight(context.Context, string, *tidemark.Database) ([]tidemark.Finding, error) {
	if e.Derby() {
		return nil, nil
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: e.Masked, Text: fmt.Sprintf("Tidemark was not yet run against a real Db2 server (this one is %s): compare the result", e.Version()),
		Hint: "Run tidemark diff after the copy."}}, nil
}

// Access reports nothing: Describe and Preflight find what is missing.
func (e *Engine) Access(context.Context, []tidemark.TableID, []tidemark.TableID, []tidemark.TableID) ([]tidemark.Finding, error) {
	return nil, nil
}
