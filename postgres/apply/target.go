package apply

import (
	"sync"

	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Target is the side of a stream that its changes are applied to.
type Target struct {
	*server.Server
	bulk *bulk.Bulk

	mu       sync.Mutex
	appliers map[int]*applier
	sentinel sentinel
	fromMany int // see fromMany; 0: that
}

// NewTarget makes one of a server.
func NewTarget(s *server.Server, b *bulk.Bulk) *Target { return &Target{Server: s, bulk: b} }

// Close ends its sessions.
func (t *Target) Close() {
	t.mu.Lock()
	for _, a := range t.appliers {
		server.CloseConn(a.conn)
	}
	t.mu.Unlock()
	t.sentinel.mu.Lock()
	server.CloseConn(t.sentinel.conn)
	t.sentinel.conn = nil
	t.sentinel.mu.Unlock()
}
