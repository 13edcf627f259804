package engines

import (
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/diff"
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

// streamOf and repairer make interfaces of what an engine returns: nil if there was an error, which
// a nil pointer in them would not be.
func streamOf[S capture.Stream](s S, err error) (capture.Stream, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func repairer[R diff.Repairer](r R, err error) (diff.Repairer, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Interfaces that verbs expect at run time of an open database, or of the stream that it returns.
var (
	_ = []capture.Journaler{pg{}, my{}}
	_ = []capture.FilteredRowSource{pg{}, my{}}
	_ = []capture.OldRowSource{pg{}, my{}}
	_ = []capture.TxFinder{my{}}
	_ = []apply.Flusher{pg{}}
	_ = []apply.Sender{pg{}}
	_ = []apply.Resolver{pg{}, my{}}
	_ = []capture.TableFilter{(*MySQLStream)(nil)}
	_ = []capture.OldRowStream{(*MySQLStream)(nil)}
	_ = []capture.ChangedOnlyStream{(*PostgresStream)(nil), (*MySQLStream)(nil)}
	_ = []capture.LinkedRowStream{(*MySQLStream)(nil)}
	_ = []capture.Skipper{(*MySQLStream)(nil)}
	_ = []capture.RawDateStream{(*MySQLStream)(nil)}
	_ = []capture.NamedTxStream{(*MySQLStream)(nil)}
	_ = []capture.Spooler{(*PostgresStream)(nil)}
)
