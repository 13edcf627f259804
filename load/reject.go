package load

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// With Options.RejectTables a table that cannot be created or filled is rejected, and the others
// continue.

// OfOneTable reports whether an error may concern only one table, so that others can still be
// copied.
func OfOneTable(err error) bool {
	switch tidemark.KindOf(err) {
	case tidemark.Transient, tidemark.Unreachable, tidemark.Denied, tidemark.Lost, tidemark.Full, tidemark.Cancelled, tidemark.NotEmpty, tidemark.BadInput, tidemark.Corrupt:
		return false
	}
	return err != nil && !errors.Is(err, tidemark.ErrSessionLost)
}

func (r *Run) rejects(ctx context.Context, err error) bool {
	return r.opt.RejectTables && ctx.Err() == nil && OfOneTable(err)
}

// rejectMade rejects the table that an object belongs to; an object of no table is just missing.
func (r *Run) rejectMade(o *tidemark.Object, err error) {
	move, ok := r.plan.Owner[o.Table.String()]
	if !ok {
		r.board.addFailed(Failed{Object: *o, Error: err.Error()})
		return
	}
	r.rejectMove(move, *o, err)
}

// rejectMove rejects a table because of a failed object.
func (r *Run) rejectMove(move int, o tidemark.Object, err error) {
	for _, t := range r.board.reject(move, Failed{Object: o, Error: err.Error()}) {
		if r.done != nil {
			r.done(t.r.ID)
		}
	}
	r.Status.rejected(move)
}

// endsTable rejects the table of a failed range, if others can still be copied. It reports whether
// that settles the range.
func (r *Run) endsTable(ctx context.Context, t *task, err error) bool {
	already := r.board.isOut(t.r.Move)
	if !already && !r.rejects(ctx, err) {
		return false
	}
	r.board.rangeDone(t)
	if r.done != nil {
		r.done(t.r.ID)
	}
	if !already {
		m, _ := r.move(t.r.Move)
		o := tidemark.Object{ID: "table " + m.To.String(), Kind: "table", Table: m.To.TableID}
		r.rejectMove(t.r.Move, o, err)
		r.sink.ObjectDone(&o, err, 0)
	}
	return true
}

// reject removes a move's ranges and objects from the board. It returns the tasks that had not
// begun.
func (b *board) reject(move int, why Failed) []*task {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, already := b.rejected[move]; already {
		return nil
	}
	b.rejected[move] = true
	b.failures = append(b.failures, why)
	b.pending = b.held.release(move, b.pending)
	var dropped []*task
	b.pending = slices.DeleteFunc(b.pending, func(t *task) bool {
		if t.r.Move != move {
			return false
		}
		dropped = append(dropped, t)
		return true
	})
	b.rowsLeft -= len(dropped)
	b.left[move] -= len(dropped)
	for w := b.ofMove[move]; w != nil; w = w.also {
		if w.state == waiting {
			b.complete(w, &tidemark.Error{Kind: tidemark.Incomplete, Op: "create", Object: w.ID, Err: errors.New("skipped, because its table was rejected")})
		}
	}
	b.offerOf(move)
	b.cond.Broadcast()
	return dropped
}

// isOut reports whether a move was rejected.
func (b *board) isOut(move int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rejected[move]
}

func (b *board) addFailed(f Failed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, f)
}

func (s *Status) rejected(move int) {
	s.Change(move, func(t *TableStatus) { t.State = TableError })
}

// incomplete returns the error of a run that could not create everything; nil if it could.
func (r *Run) incomplete() error {
	failed := r.Failures()
	tables := len(r.plan.Rejected)
	r.board.mu.Lock()
	tables += len(r.board.rejected)
	r.board.mu.Unlock()
	const hint = "See the failed objects with their SQL in the report."
	switch objects := len(failed) - tables; {
	case len(failed) == 0:
		return nil
	case tables == 0:
		return &tidemark.Error{Kind: tidemark.Incomplete, Op: "copy", Err: errors.New("all rows are copied, but " + plural(objects, "object", "objects") + " could not be created"), Hint: hint}
	case objects == 0:
		return &tidemark.Error{Kind: tidemark.Incomplete, Op: "copy", Err: fmt.Errorf("%s rejected; all else is copied", plural(tables, "table is", "tables are")), Hint: "See the reasons in the report."}
	default:
		return &tidemark.Error{Kind: tidemark.Incomplete, Op: "copy", Err: fmt.Errorf("%s rejected, and %s could not be created; all else is copied", plural(tables, "table is", "tables are"), plural(objects, "object", "objects")), Hint: hint}
	}
}

// rejectUnknown records a table that is rejected before it has a move.
func (b *board) rejectUnknown(why Failed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rejected[-2-len(b.failures)] = true // a number that no move has
	b.failures = append(b.failures, why)
}

// isOut reports whether an object belongs to a table that was rejected.
func (r *Run) isOut(o *tidemark.Object) bool {
	move, ok := r.plan.Owner[o.Table.String()]
	return ok && r.board.isOut(move)
}
