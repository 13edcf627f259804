package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Script is a dump file, read once from front to back.
type Script interface {
	// Next returns the next piece; io.EOF after the last. Errors in the file are of Kind BadInput
	// and name the offset and the line.
	Next(ctx context.Context) (*tidemark.Piece, error)
	// Convert converts a piece of rows to batches, the last with Last set. It may be called for the
	// same piece again, and for several pieces at once.
	Convert(ctx context.Context, p *tidemark.Piece, r tidemark.Read, emit func(*tidemark.Batch) error) error
	// Narrow returns m with only the columns that the rows of a piece have; m itself if they have
	// all.
	Narrow(p *tidemark.Piece, m *tidemark.Move) *tidemark.Move
	// SQL returns a piece as the statement that creates m's rows on a server of the script's own
	// kind; nil if it is not one. Kind Unsupported: there it would do something that it does not do
	// in the script.
	SQL(p *tidemark.Piece, m *tidemark.Move) (*tidemark.Statement, error)
	// Done releases a piece's memory.
	Done(p *tidemark.Piece)
}

// A Settler decides how the contents of a script are handled.
type Settler interface {
	// Table decides how a table that the script defines, or fills without defining it, is loaded;
	// with a nil Move its rows are skipped. BeforeRows objects exist when it returns.
	Table(ctx context.Context, p *tidemark.Piece) (Settled, error)
	// Ahead reports whether tables that come after a piece which is not one of rows may be created
	// before it has its turn; of a table, whether it may be created before those in front of it.
	Ahead(p *tidemark.Piece) bool
	// Foresee prepares for tables whose turn is next, and returns how many of them, from the first,
	// Table can settle now without touching anything that exists. It holds until forget is called.
	Foresee(ctx context.Context, tables []*tidemark.Piece) (n int, forget func())
	// Creating is called with tables of the target before they are created.
	Creating(ctx context.Context, tables []tidemark.TableID) error
	// Rows is called before a piece of rows is handed to a lane: it creates what must be in force
	// for them.
	Rows(ctx context.Context, p *tidemark.Piece) error
	// Speaks reports whether the target runs the script's own SQL.
	Speaks() bool
	// Execute runs SQL of the script, now or once all rows are loaded.
	Execute(ctx context.Context, p *tidemark.Piece) error
	// End is called after the last piece and returns what remains to be created once all rows are
	// loaded, such as foreign keys.
	End(ctx context.Context) ([]tidemark.Object, error)
}

// Settled is a Settler's answer for a table.
type Settled struct {
	Move    *tidemark.Move
	Format  tidemark.Format
	Before  []tidemark.Object
	Objects []tidemark.Object
}

// pending is how many pieces wait for a lane when another one comes, at most: some of a few
// megabytes, or as many small ones as are read ahead, of which each lane takes many a second.
func pending(bytes int64) int {
	if bytes < aheadBytes/maxAhead {
		return maxAhead
	}
	return 6
}

// NewImport prepares to load a script. Its ranges are the script's pieces, so marks work as in any
// copy: done lists the pieces that are on the target.
func NewImport(script Script, tgt Target, settle Settler, sink Sink, opt Options, done map[int]int64, built map[string]bool) *Run {
	plan := &Plan{Owner: map[string]int{}}
	im := &importing{script: script, settle: settle, done: done, built: built, pieces: map[int]*tidemark.Piece{}, moves: map[tidemark.TableID]int{}, narrower: map[string]int{}, raw: map[int]*tidemark.Statement{}}
	r := NewRun(im, tgt, plan, sink, opt, nil, built)
	im.run = r
	r.feed, r.done, r.statement = im.feed, im.settled, im.statement
	r.board.open, r.board.guess, r.board.bundles.most = true, true, 0
	return r
}

// An importing feeds a Run from a script; for the Run's readers it is the Source.
type importing struct {
	script Script
	settle Settler
	run    *Run
	done   map[int]int64
	built  map[string]bool
	moves  map[tidemark.TableID]int // -1: skipped

	ahead    readingAhead
	narrower map[string]int // moves of rows with fewer columns

	mu     sync.Mutex
	pieces map[int]*tidemark.Piece     // in flight, by range
	raw    map[int]*tidemark.Statement // those that run as SQL
}

// feed is the scanner stage.
func (im *importing) feed(ctx context.Context, c *flow.Clock) error {
	c.Enter(flow.Working)
	for {
		p, err := im.next(ctx, c)
		if errors.Is(err, io.EOF) {
			if err = im.end(ctx); err == nil {
				return nil
			}
		}
		if err == nil {
			err = ofScript(im.importPiece(ctx, c, p), fmt.Sprintf("%s, line %d", p.Table, p.Line))
		}
		if err != nil {
			if ctx.Err() == nil {
				im.run.board.stop(err)
			}
			return err
		}
	}
}

// ofScript turns a server's error about the script's SQL that has no better kind, such as an
// unknown word or a function that it lacks, into bad input.
func ofScript(err error, object string) error {
	var server interface{ SQLState() string }
	kind := tidemark.KindOf(err)
	vague := (kind == tidemark.Invalid || kind == tidemark.Unsupported) && tidemark.HintOf(err) == "" || kind == tidemark.Refused
	if kind != tidemark.Bug && !vague || !errors.As(err, &server) {
		return err
	}
	return &tidemark.Error{Op: "import", Object: object, Kind: tidemark.BadInput, Err: err,
		Hint: "Repair that statement, exclude its table, or load the file into a server of the version it was made with."}
}

func (im *importing) importPiece(ctx context.Context, c *flow.Clock, p *tidemark.Piece) error {
	c.Count(1, p.Bytes, 0)
	switch p.Kind {
	case tidemark.Define:
		_, err := im.table(ctx, c, p)
		return err
	case tidemark.Rows:
		return im.rows(ctx, c, p)
	case tidemark.ExecuteAt:
		if p.ID > 0 && im.settle.Speaks() {
			return im.inOrder(ctx, c, p)
		}
		if err := im.run.board.drained(ctx, c); err != nil { // it may read rows that came before it
			return err
		}
	}
	defer c.Enter(c.Enter(flow.IO))
	return im.settle.Execute(ctx, p)
}

// table settles a table and adds its move.
func (im *importing) table(ctx context.Context, c *flow.Clock, p *tidemark.Piece) (int, error) {
	defer c.Enter(c.Enter(flow.IO))
	s, err := im.answer(ctx, p)
	if err != nil && im.run.rejects(ctx, err) {
		return im.reject(p, tidemark.Object{ID: "table " + p.Table.String(), Kind: "table", Table: p.Table}, err)
	}
	if err != nil {
		return -1, err
	}
	if s.Move == nil {
		im.moves[p.Table] = -1
		return -1, nil
	}
	if err := im.settle.Creating(ctx, []tidemark.TableID{s.Move.To.TableID}); err != nil {
		return -1, err
	}
	// The lanes are busy with earlier tables, so the scanner creates this one.
	if err := im.run.before(ctx, c, im.run.opt.ScriptLane(), s.Before, im.built); err != nil {
		if im.run.rejects(ctx, err) {
			return im.reject(p, tidemark.Object{ID: "table " + s.Move.To.String(), Kind: "table", Table: s.Move.To.TableID}, err)
		}
		return -1, err
	}
	move := im.run.addMove(s, im.built)
	im.moves[p.Table] = move
	return move, nil
}

// answer is the Settler's for a table, unless it has already given it.
func (im *importing) answer(ctx context.Context, p *tidemark.Piece) (Settled, error) {
	if s, ok := im.ahead.tables[p]; ok {
		delete(im.ahead.tables, p)
		return s.Settled, s.err
	}
	return im.settle.Table(ctx, p)
}

// reject skips the rows of a table that cannot be created.
func (im *importing) reject(p *tidemark.Piece, o tidemark.Object, err error) (int, error) {
	im.moves[p.Table] = -1
	im.run.board.rejectUnknown(Failed{Object: o, Error: err.Error()})
	return -1, nil
}

// inOrder runs a statement on its own, since it may read what was loaded before it, or later
// statements may read its result.
func (im *importing) inOrder(ctx context.Context, c *flow.Clock, p *tidemark.Piece) error {
	if err := im.run.board.drained(ctx, c); err != nil {
		return err
	}
	if err := im.rows(ctx, c, p); err != nil {
		return err
	}
	return im.run.board.drained(ctx, c)
}

// rows hands a piece to the lanes, unless the target has it already.
func (im *importing) rows(ctx context.Context, c *flow.Clock, p *tidemark.Piece) error {
	move, known := im.moves[p.Table]
	if !known {
		var err error
		if move, err = im.table(ctx, c, p); err != nil {
			return err
		}
	}
	if move < 0 || im.run.board.isOut(move) {
		im.script.Done(p)
		return nil
	}
	if err := im.settle.Rows(ctx, p); err != nil {
		return err
	}
	move = im.narrow(p, move)
	r := &tidemark.Range{ID: p.ID, Move: move, Bytes: p.Bytes}
	im.run.Status.addRange(r)
	if rows, ok := im.done[p.ID]; ok {
		im.run.Status.resumed(r, rows)
		im.script.Done(p)
		return nil
	}
	numbered := im.numbered(move)
	if numbered {
		if err := im.run.board.drained(ctx, c); err != nil {
			return err
		}
	}
	im.mu.Lock()
	im.pieces[p.ID] = p
	im.mu.Unlock()
	full, err := im.run.board.addRange(ctx, c, r, pending(p.Bytes))
	if full >= 0 {
		im.run.tableFull(full)
	}
	if err != nil || !numbered {
		return err
	}
	return im.run.board.drained(ctx, c)
}

// numbered reports whether the target numbers the rows of a move: then they are loaded on their own
// and in the file's order. Otherwise they would take numbers that other rows bring along, or not
// get those by which other tables of the file know them.
func (im *importing) numbered(move int) bool {
	m, _ := im.run.move(move)
	for _, c := range m.From.Columns {
		if c.Identity != nil && !slices.Contains(m.Source, c.Name) {
			return true
		}
	}
	return false
}

// narrow returns the move for rows that lack some columns of their table.
func (im *importing) narrow(p *tidemark.Piece, move int) int {
	whole, format := im.run.move(move)
	m := im.script.Narrow(p, whole)
	if m == whole {
		return move
	}
	key := fmt.Sprintf("%q %q", p.Table, p.Columns)
	if at, ok := im.narrower[key]; ok {
		return at
	}
	im.narrower[key] = im.run.addMove(Settled{Move: m, Format: format}, nil)
	return im.narrower[key]
}

// addMove adds a move while rows are moving.
func (r *Run) addMove(s Settled, built map[string]bool) int {
	r.movesMu.Lock()
	r.moves, r.formats = append(r.moves, s.Move), append(r.formats, s.Format)
	r.movesMu.Unlock()
	r.Status.addMove(len(r.moves) - 1)
	move, before, full := r.board.addMove(s.Move.To.String(), undone(s.Objects, built))
	if full {
		r.tableFull(before)
	}
	return move
}

// end marks the end of the input.
func (im *importing) end(ctx context.Context) error {
	objects, err := im.settle.End(ctx)
	if err != nil {
		return err
	}
	for _, move := range im.run.board.fed(undone(objects, im.built)) {
		im.run.tableFull(move)
	}
	return nil
}

func undone(objects []tidemark.Object, built map[string]bool) []*tidemark.Object {
	var later []*tidemark.Object
	for i := range objects {
		if o := &objects[i]; !built[o.ID] {
			later = append(later, o)
		}
	}
	return later
}

func (r *Run) tableFull(move int) {
	r.Status.full(move)
	r.sink.TableFull(move)
}

// Read converts the piece of a range, as a Source would read it.
//
// An expression that only a server can evaluate may be found in the middle of a piece's rows. If
// some rows were already emitted, that attempt is abandoned. Then the piece runs as SQL: see
// statement.
func (im *importing) Read(ctx context.Context, _ int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	im.mu.Lock()
	p, raw := im.pieces[r.Range.ID], im.raw[r.Range.ID]
	im.mu.Unlock()
	if p == nil {
		return &tidemark.Error{Kind: tidemark.Bug, Op: "import", Object: r.Move.To.String(), Err: fmt.Errorf("piece %d is missing", r.Range.ID)}
	}
	if raw == nil && im.settle.Speaks() && (p.AsSQL || p.Kind == tidemark.ExecuteAt) {
		var err error
		if raw, err = im.asSQL(p, r.Move); err != nil {
			return err
		}
	}
	if raw != nil {
		return emitNothing(r, emit)
	}
	sent := false
	err := im.script.Convert(ctx, p, r, func(b *tidemark.Batch) error {
		sent = true
		return emit(b)
	})
	if tidemark.KindOf(err) != tidemark.Unsupported || !im.settle.Speaks() {
		return err
	}
	switch raw, rerr := im.asSQL(p, r.Move); {
	case rerr != nil:
		return rerr
	case raw == nil:
		return err
	case sent:
		return &tidemark.Error{Op: "import", Object: r.Move.To.String(), Kind: tidemark.Transient, Err: err}
	}
	return emitNothing(r, emit)
}

// asSQL records that a piece runs as SQL.
func (im *importing) asSQL(p *tidemark.Piece, m *tidemark.Move) (*tidemark.Statement, error) {
	st, err := im.script.SQL(p, m)
	if st != nil && err == nil {
		im.mu.Lock()
		im.raw[p.ID] = st
		im.mu.Unlock()
	}
	return st, err
}

// emitNothing emits the empty batch that represents a statement.
func emitNothing(r tidemark.Read, emit func(*tidemark.Batch) error) error {
	b := tidemark.NewBatch(r.Range, r.Format)
	b.Last = true
	return emit(b)
}

// statement returns the SQL that creates the rows of a range; nil if batches do.
func (im *importing) statement(id int) *tidemark.Statement {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.raw[id]
}

// settled releases a piece's memory once its range is on the target.
func (im *importing) settled(id int) {
	im.mu.Lock()
	p := im.pieces[id]
	delete(im.pieces, id)
	delete(im.raw, id)
	im.mu.Unlock()
	if p != nil {
		im.script.Done(p)
	}
}
