package queue_test

import (
	"testing"

	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/queue/queuetest"
)

func TestMemory(t *testing.T) {
	queuetest.Run(t, queuetest.Maker{
		New: func(tb testing.TB, limit int64) func() queue.Store {
			s := queue.NewMemory(limit)
			return func() queue.Store { return s }
		},
		Giant: 20 << 20, RAM: 100 << 20, Checks: 50,
	})
}
