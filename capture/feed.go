package capture

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Chunker is a Source whose tables can be read in chunks while it is followed.
type Chunker interface {
	// Publish adds the changes of one more move's table to a held stream. Those that Chunk does not
	// see afterwards are in the stream.
	Publish(ctx context.Context, stream string, m *tidemark.Move) error
	// Chunk reads rows of a move's table, in the form of the stream, starting with a key,
	// inclusive; nil: with the first row. It stops after so many rows or bytes.
	Chunk(ctx context.Context, stream string, m *tidemark.Move, from []string, rows int, bytes int64) (*change.Chunk, error)
	// Mark returns a log position, above another one, after everything that Chunk has seen.
	Mark(ctx context.Context, above uint64) (change.LogMark, error)
}

// A Feed is a Stream that inserts chunks of tables which are read while it runs.
//
// A chunk is read at some moment between two places of the stream: Record begins, and the chunk is
// emitted after the Mark that was made after the reading. The changes that the stream has for the
// table in between are applied to the rows, in order. Each change sets the columns that it
// contains; so wherever among them the reading was, the rows end up as the table was at the Mark.
// Thus, at every place of the stream, its receiver has some rows of the table, each in its state at
// that place: no value of a unique key is there twice unless the source has it twice.
//
// An update contains too little of a row that is not there yet: it is skipped, and the row comes
// with its own chunk. Only if such an update has moved the row, from keys still to be read to keys
// already read, no chunk would contain it: Moved gets its new key, which has to be read again.
type Feed struct {
	Stream
	// Tables are those being loaded, with the columns of their primary keys, and Moved receives the
	// new keys of rows; both are set before Run.
	Tables map[tidemark.TableID][]string
	Moved  func(ctx context.Context, table tidemark.TableID, key map[string]string) error
	// Silent lists, for each table being loaded, the tables whose deletes, and updates that contain
	// an old row, may change its rows without a trace in the stream. A chunk during which there
	// were any is read again. It is set before Run.
	Silent map[tidemark.TableID][]tidemark.TableID
	// Empty allows Put while no table is loaded. It is set before Run.
	Empty bool

	mu        sync.Mutex
	emit      func(*change.Tx) error
	inside    bool // inside a transaction
	relations map[uint32]*change.Relation
	silent    map[uint32]tidemark.TableID // relations of Silent's
	recent    []uint32                    // XIDs of the last transactions, in a ring
	next      int
	window    *window
	offer     *offer
	// seen, if not 0, is a place before that of the waiting chunk.
	seen atomic.Uint64
}

// A window holds the stream's changes of a table since it was begun.
type window struct {
	table   tidemark.TableID
	changes [][]byte // messages
	names   [][]string
	bytes   int
	spoiled bool // too many for memory
	silent  bool // something may have changed without a trace
}

// An offer is a chunk, or a message about the load, that waits for its place.
type offer struct {
	mark  change.LogMark
	chunk *change.Chunk
	say   *change.Load
	done  chan error
}

// Errors of Put after which a chunk must be read again.
var (
	ErrAgain  = errors.New("the chunk is of no use")
	ErrSilent = errors.New("rows of the table may have changed without a log record")
)

const (
	recentN   = 8192
	maxWindow = 32 << 20
)

// Seen returns what the stream has Seen, limited by a waiting chunk: otherwise progress would go
// past the chunk's place.
func (f *Feed) Seen() uint64 {
	seen := f.Stream.Seen()
	if before := f.seen.Load(); before > 0 {
		return min(seen, before)
	}
	return seen
}

// Run emits the stream's transactions, with the chunks between them.
func (f *Feed) Run(ctx context.Context, emit func(*change.Tx) error) error {
	if len(f.Tables) == 0 && !f.Empty {
		return f.Stream.Run(ctx, emit)
	}
	f.mu.Lock()
	f.emit, f.relations, f.silent = emit, map[uint32]*change.Relation{}, map[uint32]tidemark.TableID{}
	f.mu.Unlock()
	ctx, stop := context.WithCancelCause(ctx)
	var wg crash.Group
	wg.Go(func() { f.idle(ctx, stop) })
	err := f.Stream.Run(ctx, func(tx *change.Tx) error { return f.process(ctx, tx) })
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	stop(nil)
	wg.Wait()
	return err
}

// idle emits chunks while no transaction arrives.
func (f *Feed) idle(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.mu.Lock()
		var err error
		if f.offer != nil && !f.inside && f.Stream.Seen() >= f.offer.mark.From {
			err = f.emitChunk()
		}
		f.mu.Unlock()
		if err != nil {
			stop(err)
			return
		}
	}
}

// process examines a transaction, or a piece of one, and hands it on.
func (f *Feed) process(ctx context.Context, tx *change.Tx) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.offer != nil && !f.inside && tx.Place >= f.offer.mark.From {
		if err := f.emitChunk(); err != nil {
			return err
		}
	}
	if len(f.Tables) > 0 {
		if err := f.recordChanges(ctx, tx); err != nil {
			return err
		}
	}
	f.inside = tx.More
	if !tx.More && tx.XID != 0 {
		if len(f.recent) < recentN {
			f.recent = append(f.recent, 0)
		}
		f.recent[f.next%recentN] = tx.XID
		f.next++
	}
	return f.emit(tx)
}

// recordChanges records the transaction's changes of tables that are being loaded.
func (f *Feed) recordChanges(ctx context.Context, tx *change.Tx) error {
	for rest := tx.Changes; len(rest) > 0; {
		c, next, err := change.Next(rest)
		if err != nil {
			return err
		}
		message := rest[4 : len(rest)-len(next)]
		rest = next
		switch c.Kind {
		case tidemark.RelationChange:
			r, err := change.ParseRelation(c.Body)
			if err != nil {
				return err
			}
			delete(f.relations, r.ID)
			if f.Tables[r.Table] != nil {
				f.relations[r.ID] = &r
			}
			for _, all := range f.Silent {
				if slices.Contains(all, r.Table) {
					f.silent[r.ID] = r.Table
				}
			}
		case tidemark.TruncateChange:
			t, err := change.ParseTruncation(c.Body)
			if err != nil {
				return err
			}
			for _, id := range t.Tables {
				if r := f.relations[id]; r != nil {
					f.note(r, message)
				}
			}
		case tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
			if from, ok := f.silent[c.Table]; ok && c.Old != nil && f.window != nil && slices.Contains(f.Silent[f.window.table], from) {
				f.window.silent = true
			}
			r := f.relations[c.Table]
			if r == nil {
				continue
			}
			f.note(r, message)
			if key := f.movedKey(r, c); key != nil {
				if err := f.Moved(ctx, r.Table, key); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// note keeps a change for the window.
func (f *Feed) note(r *change.Relation, message []byte) {
	w := f.window
	if w == nil || w.table != r.Table || w.spoiled {
		return
	}
	if w.bytes += len(message); w.bytes > maxWindow {
		w.spoiled, w.changes = true, nil
		return
	}
	w.changes, w.names = append(w.changes, slices.Clone(message)), append(w.names, names(r))
}

func names(r *change.Relation) []string {
	out := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		out[i] = c.Name
	}
	return out
}

// movedKey returns the new key of a row that was moved by an update which does not contain all of
// it.
func (f *Feed) movedKey(r *change.Relation, c change.Change) map[string]string {
	if c.Kind != tidemark.UpdateChange || c.Old == nil {
		return nil
	}
	vals, olds := c.New.Values(nil), c.Old.Values(nil)
	partial, moved, key := false, false, map[string]string{}
	for i, v := range vals {
		partial = partial || v.Kind == change.UnchangedValue
		if i >= len(r.Columns) || i >= len(olds) || !r.Columns[i].Key || r.Identity == 'f' && !slices.Contains(f.Tables[r.Table], r.Columns[i].Name) {
			continue
		}
		if v.Kind == change.UnchangedValue {
			v = olds[i]
		}
		moved = moved || string(v.Data) != string(olds[i].Data)
		key[r.Columns[i].Name] = string(v.Data)
	}
	if !partial || !moved {
		return nil
	}
	return key
}

// Record begins to keep the stream's changes of a table. It returns the transactions that the
// stream emitted last.
func (f *Feed) Record(ctx context.Context, table tidemark.TableID) ([]uint32, error) {
	for {
		f.mu.Lock()
		if !f.inside && f.emit != nil {
			break
		}
		f.mu.Unlock()
		if err := flow.Sleep(ctx, 2*time.Millisecond); err != nil {
			return nil, err
		}
	}
	defer f.mu.Unlock()
	f.window = &window{table: table}
	return slices.Clone(f.recent), nil
}

// Put emits a chunk at a place that mark finds, for which the stream has emitted nothing yet, and
// waits until that is done. With say, that message is emitted instead, and the table is emptied if
// its load begins: chunk then defines its columns, and is nil at the end. With neither it is a
// transaction that changes nothing, for others to add to. ErrAgain: the stream's changes meanwhile
// cannot be applied to the chunk; ErrSilent: see Silent.
func (f *Feed) Put(ctx context.Context, chunk *change.Chunk, say *change.Load, mark func() (change.LogMark, error)) (place uint64, err error) {
	o := &offer{chunk: chunk, say: say, done: make(chan error, 1)}
	f.mu.Lock() // so that the stream cannot go past the place
	f.seen.Store(max(f.Stream.Seen(), 1))
	if o.mark, err = mark(); err == nil {
		f.offer = o
	} else {
		f.seen.Store(0)
	}
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case err := <-o.done:
		return o.mark.Place, err
	}
}

// emitChunk emits the waiting chunk. The lock is held.
func (f *Feed) emitChunk() error {
	o, w := f.offer, f.window
	f.offer, f.window = nil, nil
	defer f.seen.Store(0)
	var rows []change.Tuple
	if o.say == nil && o.chunk != nil {
		if w != nil && w.silent {
			o.done <- ErrSilent
			return nil
		}
		var ok bool
		if rows, ok = w.over(o.chunk); !ok {
			o.done <- ErrAgain
			return nil
		}
	}
	pieces, err := o.pieces(rows)
	if err != nil {
		return err
	}
	for _, tx := range pieces {
		if err := f.emit(tx); err != nil {
			return err
		}
	}
	o.done <- nil
	return nil
}

// pieces returns a transaction with the message, or with a chunk's rows.
func (o *offer) pieces(rows []change.Tuple) (out []*change.Tx, err error) {
	now := time.Now()
	begin := func() *change.Tx {
		return &change.Tx{Place: o.mark.Place, Time: now, Origin: ""}
	}
	tx := begin()
	if o.say != nil {
		say := *o.say
		say.From = o.mark.From
		text, err := json.Marshal(say)
		if err != nil {
			return nil, err
		}
		m := change.LogicalMessage{Transactional: true, LSN: o.mark.Place, Prefix: change.LoadPrefix, Data: text}
		tx.Changes = change.Append(tx.Changes, m.Append(nil))
	}
	var rel change.Relation
	if o.chunk != nil {
		rel = o.chunk.Relation
		tx.Changes = change.Append(tx.Changes, rel.Append(nil))
	}
	if o.say != nil && !o.say.Ends {
		tx.Changes = change.Append(tx.Changes, change.Truncation{Tables: []uint32{rel.ID}}.Append(nil))
	}
	var m []byte
	for _, row := range rows {
		if row == nil {
			continue
		}
		if len(tx.Changes) >= tidemark.PieceSize {
			tx.More = true
			out = append(out, tx)
			tx = begin()
		}
		m = change.AppendInsert(m[:0], rel.ID, row)
		tx.Changes = change.Append(tx.Changes, m)
		tx.Rows++
	}
	tx.End = o.mark.Place + 1
	return append(out, tx), nil
}

// over applies the stream's changes to a chunk's rows; deleted rows become nil. It leaves out
// inserts: the receiver of the stream has their whole rows. It returns false if the table was
// altered meanwhile, or there were too many changes.
func (w *window) over(chunk *change.Chunk) ([]change.Tuple, bool) {
	if w == nil || w.spoiled {
		return nil, false
	}
	rows := chunk.Rows
	if len(w.changes) == 0 {
		return rows, true
	}
	columns, at := names(&chunk.Relation), make(map[string]int, len(rows))
	for i, row := range rows {
		at[keyText(chunk.Key, row)] = i
	}
	for i, message := range w.changes {
		if !slices.Equal(w.names[i], columns) {
			return nil, false
		}
		c, err := change.Parse(message)
		if err != nil {
			return nil, false
		}
		switch {
		case c.Kind == tidemark.TruncateChange:
			clear(rows)
		case c.Kind == tidemark.DeleteChange:
			drop(rows, at, keyText(chunk.Key, c.Old))
		case c.Kind == tidemark.InsertChange:
			drop(rows, at, keyText(chunk.Key, c.New))
		default:
			is := c.New
			if c.Old != nil {
				is = overlay(c.Old, c.New) // a key that is stored out of line may not be sent again
			}
			key := keyText(chunk.Key, is)
			if c.Old != nil && keyText(chunk.Key, c.Old) != key {
				drop(rows, at, keyText(chunk.Key, c.Old))
				drop(rows, at, key)
			} else if k, ok := at[key]; ok && rows[k] != nil {
				rows[k] = overlay(rows[k], c.New)
			}
		}
	}
	return rows, true
}

func drop(rows []change.Tuple, at map[string]int, key string) {
	if k, ok := at[key]; ok {
		rows[k] = nil
	}
}

// keyText returns a row's key as one text.
func keyText(key []int, row change.Tuple) string {
	vals := row.Values(nil)
	var out []byte
	for _, i := range key {
		if i < len(vals) {
			out = append(append(out, vals[i].Kind), vals[i].Data...)
			out = append(out, 0)
		}
	}
	return string(out)
}

// overlay sets the values of a row that an update contains.
func overlay(row, told change.Tuple) change.Tuple {
	vals, news := row.Values(nil), told.Values(nil)
	for i := range vals {
		if i < len(news) && news[i].Kind != change.UnchangedValue {
			vals[i] = news[i]
		}
	}
	return change.AppendTuple(nil, vals)
}
