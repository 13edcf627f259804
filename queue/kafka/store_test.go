package kafka

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/queue/queuetest"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func open(tb testing.TB, opt Options) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func urlOf(b *testdb.Broker) string { return fmt.Sprintf("kafka://%s:%d", b.Host, b.Port) }

func TestStore(t *testing.T) {
	url := urlOf(testdb.Kafka(t))
	var n atomic.Int64
	queuetest.Run(t, queuetest.Maker{
		New: func(tb testing.TB, limit int64) func() queue.Store {
			name := fmt.Sprintf("q%d", n.Add(1))
			return func() queue.Store { return open(tb, Options{Queue: name, URL: url, Limit: limit}) }
		},
		Giant: 30 << 20, RAM: 128 << 20, Checks: 4,
	})
}
