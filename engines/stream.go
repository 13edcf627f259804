package engines

import (
	"context"
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/mysql/server"
	pgstream "github.com/tidemarkdb/tidemark/postgres/stream"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

var (
	_ = []capture.Source{pg{}, my{}}
	_ = []capture.Chunker{pg{}, my{}}
	_ = []capture.LogKeeper{pg{}, my{}}
	_ = []apply.Target{pg{}, my{}}
)

// StreamName matches valid stream names: a stream's slot, which is global to the server, has the
// same name after "tidemark_".
var StreamName = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)

var gtids = regexp.MustCompile(`^(\d+-\d+-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:(\w+:)?\d+)$`)

// Place parses a position in the log of an engine: a place, or the GTID of one transaction.
func Place(engine, text string) (place uint64, gtid string, err error) {
	switch {
	case engine == "postgres":
		place, err = wal.ParseLSN(text)
	case gtids.MatchString(strings.ToLower(text)):
		return 0, strings.ToLower(text), nil
	default:
		place, err = server.ParsePlace(text)
	}
	if err != nil {
		err = &tidemark.Error{Op: "read", Object: text, Kind: tidemark.Invalid, Err: err, Hint: "PostgreSQL: 16/B374D848; MySQL and MariaDB: binlog.000003:1234, or the GTID of one transaction."}
	}
	return place, "", err
}

func (e pg) Follow(ctx context.Context, stream string, moves []tidemark.Move, after uint64) (capture.Stream, error) {
	if err := e.CheckPublication(ctx, pgstream.SlotOf(stream), moves); err != nil {
		return nil, err
	}
	if err := e.Continues(ctx, after); err != nil {
		return nil, err
	}
	s, err := e.Engine.Follow(ctx, pgstream.SlotOf(stream), after)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (e my) Follow(ctx context.Context, stream string, _ []tidemark.Move, after uint64) (capture.Stream, error) {
	s, err := e.Engine.Follow(ctx, stream, after)
	if err != nil {
		return nil, err
	}
	return s, nil
}
