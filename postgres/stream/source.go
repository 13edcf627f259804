package stream

import (
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Source is the side of a stream whose log is followed.
type Source struct {
	*server.Server
	bulk    *bulk.Bulk
	journal string // see Journal
	applied uint64 // see HasApplied
}

// NewSource makes one of a server.
func NewSource(s *server.Server, b *bulk.Bulk) *Source { return &Source{Server: s, bulk: b} }
