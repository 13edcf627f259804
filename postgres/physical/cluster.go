package physical

import "github.com/tidemarkdb/tidemark/postgres/server"

// A Cluster is a server seen as files and as a log of changes to their pages.
type Cluster struct{ *server.Server }
