package engines

import (
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/postgres"
)

// Postgres and MySQL are what Open gives.
type (
	Postgres       = pg
	MySQL          = my
	PostgresStream = postgres.Stream
	MySQLStream    = mysql.Stream
)

// What verbs ask an open database, or the stream that it gives, for at run time.
var (
	_ = []capture.Journaler{pg{}, my{}}
	_ = []capture.FilteredRowSource{pg{}, my{}}
	_ = []capture.OldRowSource{pg{}, my{}}
	_ = []apply.Flusher{pg{}}
	_ = []apply.Resolver{pg{}, my{}}
	_ = []capture.TableFilter{(*mysql.Stream)(nil)}
	_ = []capture.OldRowStream{(*mysql.Stream)(nil)}
	_ = []capture.ChangedOnlyStream{(*postgres.Stream)(nil), (*mysql.Stream)(nil)}
	_ = []capture.LinkedRowStream{(*mysql.Stream)(nil)}
	_ = []capture.Skipper{(*mysql.Stream)(nil)}
	_ = []capture.RawDateStream{(*mysql.Stream)(nil)}
	_ = []capture.Spooler{(*postgres.Stream)(nil)}
)
