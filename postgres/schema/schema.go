package schema

import (
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Schema describes the objects of a server's databases, and renders new ones.
type Schema struct {
	*server.Server

	pieces pieces
}

// pieces are the names of relations that the calls of Render for a database in pieces have given,
// by schema, each with its table.
type pieces struct {
	mu    sync.Mutex
	names map[string]map[string]tidemark.TableID
}

// has reports whether a table that is not among these has a name.
func (p *pieces) has(schema, name string, but map[tidemark.TableID]*tidemark.Move) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	owner, is := p.names[schema][name]
	return is && but[owner] == nil
}

// keep remembers the names that a call has given to a table.
func (p *pieces) keep(taken map[string]map[string]bool, owner tidemark.TableID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == nil {
		p.names = map[string]map[string]tidemark.TableID{}
	}
	for schema, names := range taken {
		if p.names[schema] == nil {
			p.names[schema] = map[string]tidemark.TableID{}
		}
		for name := range names {
			p.names[schema][name] = owner
		}
	}
}
