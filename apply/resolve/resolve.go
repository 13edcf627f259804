// Package resolve has the decisions about a stream on its target that both engines share: what
// happens to conflicting changes (Run, over a Session), how far a stream is applied when an apply
// begins (Begin), and the errors of both (ErrFenced, Misfit). It does no I/O; engines supply the
// SQL.
package resolve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A Session is a transaction of the target in which a group is applied change by change.
type Session interface {
	// Truncate executes a TruncateChange.
	Truncate(ctx context.Context, c change.Change, bounds map[uint32]*change.Bound) error
	// Try makes a change after a savepoint, to which it rolls back if the target refuses the
	// change. A nil Refusal: the change is made. keyOnly means that its row is found by its key
	// alone. An error ends the group.
	Try(ctx context.Context, b *change.Bound, c change.Change, keyOnly bool) (*Refusal, error)
	// There reports whether the row of a change exists, whatever its values.
	There(ctx context.Context, b *change.Bound, c change.Change) (bool, error)
	// Note records an exception.
	Note(ctx context.Context, x change.Exception) error
}

// A Refusal is why a change was not made.
type Refusal struct {
	Cause     error  // ends the group, unless the change is skipped
	Text      error  // Cause, for people
	SQL       string // the statement with its values
	OfRow     bool   // the row is the cause, not the table or the server
	Duplicate bool   // a row with its key exists
	Checked   bool   // more of the row than its key was compared
	Keyed     bool   // rows are found by the target's own key
}

type run struct {
	g          *change.Group
	s          Session
	off        map[tidemark.TableID]bool // they get no more changes
	exceptions int
}

// Run applies a conflicting group change by change. If a change is refused, or does not find its
// row, its table's action decides. Force makes the target fit if possible: an insert of an existing
// row becomes an update, an update of a missing one an insert, and other changes on the target are
// ignored. Each such change is recorded. Run returns how many there were.
//
// Errors that do not concern a row (a missing table, a privilege) are errors here too, unless they
// are among the group's OKStates.
func Run(ctx context.Context, g *change.Group, s Session) (exceptions int, err error) {
	r := &run{g: g, s: s, off: map[tidemark.TableID]bool{}}
	err = g.EachChange(func(tx *change.Tx, c change.Change, bounds map[uint32]*change.Bound) error {
		return r.change(ctx, tx, c, bounds)
	})
	return r.exceptions, err
}

// change applies one change, or skips it.
func (r *run) change(ctx context.Context, tx *change.Tx, c change.Change, bounds map[uint32]*change.Bound) error {
	switch c.Kind {
	case tidemark.RelationChange, tidemark.MessageChange:
		return nil
	case tidemark.TruncateChange:
		return r.s.Truncate(ctx, c, bounds)
	}
	b := bounds[c.Table]
	if b == nil {
		return nil
	}
	if r.off[b.Table.TableID] {
		return r.skip(c)
	}
	if err := b.CheckComplete(c); err != nil {
		return err
	}
	f, err := r.s.Try(ctx, b, c, false)
	if err != nil || f == nil {
		return err
	}
	if !f.OfRow && !r.g.Passes(f.Text) {
		return f.Cause
	}
	m := missed(f.Cause)
	if m != nil && f.Checked {
		if m.Changed, err = r.s.There(ctx, b, c); err != nil {
			return err
		}
	}
	x := r.g.Exception(tx, b, c.Kind, f.SQL, f.Text, f.Duplicate)
	action, err := r.g.Judge(b, c, f.Cause, x)
	if err != nil {
		return err
	}
	if action == tidemark.DisableOnConflict {
		r.off[b.Table.TableID] = true
		if err := r.skip(c); err != nil {
			return err
		}
	}
	if action == tidemark.ForceConflict {
		if x.Applied, err = r.force(ctx, b, c, f, m); err != nil {
			return err
		}
	}
	r.exceptions++
	return r.s.Note(ctx, x)
}

// skip notes a change that is not made because its table gets no more.
func (r *run) skip(c change.Change) error {
	if r.g.Skipped == nil {
		return nil
	}
	return r.g.Skipped(c)
}

// missed returns the Misfit of a change that found no row; nil if cause is something else.
func missed(cause error) *change.Misfit {
	var m *change.Misfit
	if errors.As(cause, &m) && m.Met == 0 {
		return m
	}
	return nil
}

// force makes the target fit a change, and reports whether it could.
func (r *run) force(ctx context.Context, b *change.Bound, c change.Change, f *Refusal, m *change.Misfit) (bool, error) {
	unchanged := func(v change.Value) bool { return v.Kind == change.UnchangedValue }
	switch {
	case m != nil && m.Changed: // it is still found by its key
	case c.Kind == tidemark.InsertChange && f.Duplicate && f.Keyed:
		// An update whose old row equals the new one: it is found by the target's own key.
		c = change.Change{Kind: tidemark.UpdateChange, Table: c.Table, Old: c.New, New: c.New}
	case c.Kind == tidemark.UpdateChange && m != nil && !slices.ContainsFunc(c.New.Values(nil), unchanged):
		c = change.Change{Kind: tidemark.InsertChange, Table: c.Table, New: c.New}
	default:
		return false, nil
	}
	f, err := r.s.Try(ctx, b, c, true)
	if err == nil && f != nil && !f.OfRow {
		err = f.Cause
	}
	return err == nil && f == nil, err
}

// Begin returns how far a stream is applied according to its agents' rows, with the epoch of the
// apply that begins at now.
func Begin(agents []change.Progress, now time.Time) (p change.Progress) {
	var done []uint64
	for _, a := range agents {
		p.Epoch, p.Low = max(p.Epoch, a.Epoch), max(p.Low, a.Low)
		done = append(done, a.Done...)
	}
	p.Epoch = change.NextEpoch(p.Epoch, now)
	slices.Sort(done)
	for _, place := range slices.Compact(done) {
		if place > p.Low {
			p.Done = append(p.Done, place)
		}
	}
	return p
}

// ErrFenced means that the progress row has another epoch.
var ErrFenced error = &tidemark.Error{Op: "apply", Kind: tidemark.Lost, Err: errors.New("another apply of this stream has taken over"), Hint: "End one of the two."}

// Misfit returns the error of a change that matched met rows of a table (object) instead of one.
func Misfit(object string, kind tidemark.ChangeKind, met int64) error {
	return &tidemark.Error{Op: "apply", Object: object, Kind: tidemark.BadRow, Err: &change.Misfit{Kind: kind, Met: met}, Hint: change.OtherRows}
}
