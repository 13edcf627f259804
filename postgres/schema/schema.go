package schema

import (
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Schema describes the objects of a server's databases, and renders new ones.
type Schema struct {
	*server.Server

	names server.Names
}
