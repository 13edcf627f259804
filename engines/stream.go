package engines

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/change"
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

// StreamName is what a stream may be called: its slot, which the whole server knows,
// has the same name behind "tidemark_".
var StreamName = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)

var gtids = regexp.MustCompile(`^(\d+-\d+-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:(\w+:)?\d+)$`)

// Place reads a position in the log of an engine: a place, or the GTID of one transaction.
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

func slotOf(stream string) pgstream.Slot {
	return pgstream.Slot{Name: "tidemark_" + stream, Publication: "tidemark_" + stream}
}

func (e pg) Hold(ctx context.Context, stream string, moves []tidemark.Move) error {
	_, err := e.CreateSlot(ctx, slotOf(stream), moves)
	return err
}

func (e pg) View(ctx context.Context, stream string) error { return e.Engine.View(ctx, slotOf(stream)) }

func (e pg) Begins(ctx context.Context, stream string, _ time.Time) (uint64, error) {
	return e.SlotBegins(ctx, slotOf(stream))
}

func (e pg) Unhold(ctx context.Context, stream string) error {
	if err := e.ddlLog(stream).Drop(ctx); err != nil {
		return err
	}
	return e.DropSlot(ctx, slotOf(stream))
}

func (e pg) ddlLog(stream string) pgstream.DDLLog {
	return pgstream.DDLLog{Source: e.Engine.Source, Slot: slotOf(stream)}
}

// LogDDL makes the source's log have changed definitions, for a stream; LogsDDL says whether it does; and TellDDL writes
// those into it that there are.
func (e pg) LogDDL(ctx context.Context, stream string) error { return e.ddlLog(stream).Keep(ctx) }

func (e pg) LogsDDL(ctx context.Context, stream string) (bool, error) {
	return e.ddlLog(stream).Kept(ctx)
}

func (e pg) TellDDL(ctx context.Context, stream string) error { return e.ddlLog(stream).Tell(ctx) }

func (e pg) End(ctx context.Context) (uint64, error) { return e.LogEnd(ctx) }

func (e pg) LogKept(ctx context.Context, stream string, _ uint64) (tidemark.LogKept, error) {
	return e.SlotKeeps(ctx, slotOf(stream))
}

func (e pg) Follow(ctx context.Context, stream string, moves []tidemark.Move, after uint64) (capture.Stream, error) {
	if err := e.CheckPublication(ctx, slotOf(stream), moves); err != nil {
		return nil, err
	}
	if err := e.Continues(ctx, after); err != nil {
		return nil, err
	}
	s, err := e.Engine.Follow(ctx, slotOf(stream), after)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (e pg) Looks(ctx context.Context, stream string, tables []tidemark.TableID) (map[tidemark.TableID]*change.CatalogueLook, error) {
	return e.Engine.Looks(ctx, slotOf(stream), tables)
}

func (e pg) Publish(ctx context.Context, stream string, m *tidemark.Move) error {
	if err := e.AddToSlot(ctx, slotOf(stream), m); err != nil {
		return err
	}
	if logs, err := e.LogsDDL(ctx, stream); err != nil || !logs {
		return err
	}
	return e.TellDDL(ctx, stream)
}

func (e pg) Chunk(ctx context.Context, stream string, m *tidemark.Move, from []string, rows int, bytes int64) (*change.Chunk, error) {
	return e.ReadChunk(ctx, slotOf(stream), m, from, rows, bytes)
}

func (e pg) Mark(ctx context.Context, _ uint64) (change.LogMark, error) { return e.MarkLog(ctx) }

func (e my) Follow(ctx context.Context, stream string, _ []tidemark.Move, after uint64) (capture.Stream, error) {
	s, err := e.Engine.Follow(ctx, stream, after)
	if err != nil {
		return nil, err
	}
	return s, nil
}
