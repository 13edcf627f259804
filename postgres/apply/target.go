package apply

import (
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Target is a database to which the changes of a stream are applied.
type Target struct {
	*server.Server
	bulk *bulk.Bulk

	mu       sync.Mutex
	appliers map[int]*applier
	sentinel sentinel
	fromMany int           // see fromMany; 0: that default
	distant  time.Duration // see distant; 0: that default
}

// NewTarget creates a Target of a server.
func NewTarget(s *server.Server, b *bulk.Bulk) *Target {
	t := &Target{Server: s, bulk: b}
	b.Others[tidemark.ApplySide] = t.sessions
	return t
}

// sessions returns the agents by the process of their session.
func (t *Target) sessions() map[uint32]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[uint32]int{}
	for agent, a := range t.appliers {
		if pid := a.l.PID(); pid != 0 {
			out[pid] = agent
		}
	}
	return out
}

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
