package postgres

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/stream"
)

// The methods below are the source's side of a stream. They take the stream's name, from which the
// names of its slot and publication are derived (stream.SlotOf).

// Hold creates a stream's slot and publication: from now on the server keeps its log.
func (e *Engine) Hold(ctx context.Context, name string, moves []tidemark.Move) error {
	_, err := e.CreateSlot(ctx, stream.SlotOf(name), moves)
	return err
}

// AlignNextSnapshot makes the next Freeze see the database as of the stream's start.
func (e *Engine) AlignNextSnapshot(ctx context.Context, name string) error {
	return e.Source.AlignNextSnapshot(ctx, stream.SlotOf(name))
}

// Begins returns the log position from which a stream can be followed.
func (e *Engine) Begins(ctx context.Context, name string, _ time.Time) (uint64, error) {
	return e.SlotBegins(ctx, stream.SlotOf(name))
}

// DropHold drops what Hold created.
func (e *Engine) DropHold(ctx context.Context, name string) error {
	if err := e.ddlLog(name).Drop(ctx); err != nil {
		return err
	}
	return e.DropSlot(ctx, stream.SlotOf(name))
}

func (e *Engine) ddlLog(name string) stream.DDLLog {
	return stream.DDLLog{Source: e.Source, Slot: stream.SlotOf(name)}
}

// LogDDL makes the source log changed definitions for a stream. LogsDDL reports whether it does.
// TellDDL writes the existing definitions into the log.
func (e *Engine) LogDDL(ctx context.Context, name string) error { return e.ddlLog(name).Keep(ctx) }

func (e *Engine) LogsDDL(ctx context.Context, name string) (bool, error) {
	return e.ddlLog(name).Kept(ctx)
}

func (e *Engine) TellDDL(ctx context.Context, name string) error { return e.ddlLog(name).Tell(ctx) }

// Emptied reports whether a partition in a new file has lost rows that a stream has not deleted.
func (e *Engine) Emptied(ctx context.Context, name string, l change.Lost) (bool, error) {
	return e.Schema.Emptied(ctx, stream.SlotOf(name).Name, l)
}

// End returns the end of the log.
func (e *Engine) End(ctx context.Context) (uint64, error) { return e.LogEnd(ctx) }

// LogKept reports how much log the server keeps for a stream.
func (e *Engine) LogKept(ctx context.Context, name string, _ uint64) (tidemark.LogKept, error) {
	return e.SlotKeeps(ctx, stream.SlotOf(name))
}

// Looks reads what the catalogue says about tables of a stream.
func (e *Engine) Looks(ctx context.Context, name string, tables []tidemark.TableID) (map[tidemark.TableID]*change.CatalogueLook, error) {
	return e.Source.Looks(ctx, stream.SlotOf(name), tables)
}

// Published reads how a stream's publication has tables. Withdraw removes one.
func (e *Engine) Published(ctx context.Context, name string, tables []tidemark.TableID) (map[tidemark.TableID]change.Published, error) {
	return e.Source.Published(ctx, stream.SlotOf(name), tables)
}

func (e *Engine) Withdraw(ctx context.Context, name string, table tidemark.TableID) error {
	return e.Source.Withdraw(ctx, stream.SlotOf(name), table)
}

// Publish adds a table to a stream.
func (e *Engine) Publish(ctx context.Context, name string, m *tidemark.Move) error {
	if err := e.AddToSlot(ctx, stream.SlotOf(name), m); err != nil {
		return err
	}
	if logs, err := e.LogsDDL(ctx, name); err != nil || !logs {
		return err
	}
	return e.TellDDL(ctx, name)
}

// Chunk reads a chunk of a table while a stream runs.
func (e *Engine) Chunk(ctx context.Context, name string, m *tidemark.Move, from []string, rows int, bytes int64) (*change.Chunk, error) {
	return e.ReadChunk(ctx, stream.SlotOf(name), m, from, rows, bytes)
}

// Mark writes a mark into the log.
func (e *Engine) Mark(ctx context.Context, _ uint64) (change.LogMark, error) { return e.MarkLog(ctx) }

// SourceNeeds reports what a stream of these moves requires of the server whose log it follows, and
// what is missing.
func (e *Engine) SourceNeeds(ctx context.Context, name string, moves []tidemark.Move) ([]tidemark.Need, error) {
	return e.Checks.SourceNeeds(ctx, stream.SlotOf(name), moves)
}
