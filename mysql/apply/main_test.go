package apply

import (
	"context"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// An Engine is the part of the engine that applying needs.
type Engine struct {
	*server.Server
	*schema.Schema
	*bulk.Bulk
	*Target
}

func Open(ctx context.Context, rawURL string, opt server.Options) (*Engine, error) {
	s, err := server.Open(ctx, rawURL, opt)
	if err != nil {
		return nil, err
	}
	e := &Engine{Server: s, Schema: &schema.Schema{Server: s}}
	e.Bulk = bulk.New(e.Schema)
	e.Target = &Target{Bulk: e.Bulk, distant: distantFrom, bulkFrom: 1}
	return e, nil
}

func (e *Engine) Close() error {
	e.Bulk.Close()
	e.Target.Close()
	return e.Server.Close()
}

// distantFrom is the round trip from which the servers of a test are distant.
var distantFrom time.Duration = time.Hour

// nearAndFar runs a test on both servers, with a COMMIT that waits for the answers and with one
// that goes ahead.
func nearAndFar(t *testing.T, test func(t *testing.T, srv *testdb.Server)) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		t.Run("near", func(t *testing.T) { test(t, srv) })
		t.Run("far", func(t *testing.T) {
			distantFrom = 1
			defer func() { distantFrom = time.Hour }()
			test(t, srv)
		})
	})
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
