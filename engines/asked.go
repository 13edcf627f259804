package engines

import (
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	mystream "github.com/tidemarkdb/tidemark/mysql/stream"
	pgstream "github.com/tidemarkdb/tidemark/postgres/stream"
)

// Postgres and MySQL are the types that Open returns.
type (
	Postgres       = pg
	MySQL          = my
	PostgresStream = pgstream.Stream
	MySQLStream    = mystream.Stream
)

// Interfaces that verbs expect at run time of an open database, or of the stream that it returns.
var (
	_ = []capture.Journaler{pg{}, my{}}
	_ = []capture.FilteredRowSource{pg{}, my{}}
	_ = []capture.OldRowSource{pg{}, my{}}
	_ = []apply.Flusher{pg{}}
	_ = []apply.Sender{pg{}}
	_ = []apply.Resolver{pg{}, my{}}
	_ = []capture.TableFilter{(*MySQLStream)(nil)}
	_ = []capture.OldRowStream{(*MySQLStream)(nil)}
	_ = []capture.ChangedOnlyStream{(*PostgresStream)(nil), (*MySQLStream)(nil)}
	_ = []capture.LinkedRowStream{(*MySQLStream)(nil)}
	_ = []capture.Skipper{(*MySQLStream)(nil)}
	_ = []capture.RawDateStream{(*MySQLStream)(nil)}
	_ = []capture.Spooler{(*PostgresStream)(nil)}
)
