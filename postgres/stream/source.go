package stream

import (
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Source is a database whose log is followed.
type Source struct {
	*server.Server
	bulk    *bulk.Bulk
	journal string // see Journal
	applied uint64 // see HasApplied
}

// NewSource creates a Source of a server.
func NewSource(s *server.Server, b *bulk.Bulk) *Source { return &Source{Server: s, bulk: b} }
