package stream

import (
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Source is a database whose log is followed.
type Source struct {
	*server.Server
	bulk    *bulk.Bulk
	journal string        // see Journal
	applied uint64        // see HasApplied
	sender  atomic.Uint32 // the process that sends us the log
}

// NewSource creates a Source of a server.
func NewSource(s *server.Server, b *bulk.Bulk) *Source {
	x := &Source{Server: s, bulk: b}
	b.Others[tidemark.LogSide] = func() map[uint32]int { return map[uint32]int{x.sender.Load(): 0} }
	return x
}
