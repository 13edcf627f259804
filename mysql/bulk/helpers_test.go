package bulk

import (
	"context"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// An Engine is the part of the engine that rows need.
type Engine struct {
	*server.Server
	*schema.Schema
	*Bulk
}

func Open(ctx context.Context, rawURL string, opt server.Options) (*Engine, error) {
	s, err := server.Open(ctx, rawURL, opt)
	if err != nil {
		return nil, err
	}
	e := &Engine{Server: s, Schema: &schema.Schema{Server: s}}
	e.Bulk = New(e.Schema)
	return e, nil
}

func (e *Engine) Close() error {
	e.Bulk.Close()
	return e.Server.Close()
}

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

// targetTable creates a table and the Move that fills it from one like it.
func targetTable(t *testing.T, rawURL, name, columns string) *tidemark.Move {
	t.Helper()
	testdb.Query(t, rawURL, "CREATE TABLE "+name+" ("+columns+")")
	return mysqltest.MoveTo(mysqltest.TableFrom(t, rawURL, name), mysqltest.DatabaseOf(rawURL))
}
