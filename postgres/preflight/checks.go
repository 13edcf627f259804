package preflight

import "github.com/tidemarkdb/tidemark/postgres/server"

// Checks find, before anything moves, what would go wrong or slow with a server.
type Checks struct{ *server.Server }
