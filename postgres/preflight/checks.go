package preflight

import "github.com/tidemarkdb/tidemark/postgres/server"

// Checks find problems with a server before anything moves.
type Checks struct{ *server.Server }
