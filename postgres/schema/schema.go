package schema

import "github.com/tidemarkdb/tidemark/postgres/server"

// A Schema is what a server's databases are made of: it describes what there is, and renders what is to be.
type Schema struct{ *server.Server }
