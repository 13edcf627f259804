package capture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A Filter leaves rows out of the transactions of a Source that does not filter its log
// itself, so that a stream has what it would have of one that does: an update that takes a
// row into the filters of its table becomes an insert, one that takes it out a delete, and
// what happens outside of them is not told.
//
// It compares values as the source's own WHERE does, which a copy of the same moves uses;
// where that cannot be known, NewFilter refuses. It is for one session of a stream, and for
// one goroutine.
type Filter struct {
	tables    map[tidemark.TableID]*tableFilter
	relations map[uint32]*filtering // of tables that are filtered
	// told says that the log has the whole old row where a column of a filter has changed.
	// Otherwise it has those columns that the relation says to be keys, where one of these
	// has changed.
	told    bool
	remedy  string // for rows that are not told
	old     []change.Value
	new     []change.Value
	scratch []byte
}

// A tableFilter is what rows of a table have to pass: all tests.
type tableFilter struct {
	columns []string // that the tests look at
	tests   []test
	stopped bool // nothing of it is told
}

// A filtering is a tableFilter for a relation.
type filtering struct {
	*tableFilter
	table    tidemark.TableID
	at       []int // of each column of the tableFilter in the relation
	key      []bool
	whole    bool // the replica identity is all columns
	was, are []change.Value
}

// A FilteredRowSource is a Source that does not filter rows, and knows what its log tells of them.
type FilteredRowSource interface {
	// TellsRows gives an error of Kind Unsupported, with what has to be done on the source,
	// where the log does not tell what the columns of the moves' filters had before a change.
	TellsRows(ctx context.Context, moves []tidemark.Move) error
}

// Columns gives the columns that a table is filtered by.
func (f *Filter) Columns(table tidemark.TableID) []string {
	if t := f.tables[table]; t != nil {
		return t.columns
	}
	return nil
}

// Only takes all changes away of tables that have a filter and that want does not want:
// they were stopped, and what their rows are like is not looked at any more.
func (f *Filter) Only(want func(tidemark.TableID) bool) {
	for id, t := range f.tables {
		t.stopped = !want(id)
	}
}

// Pass takes out of a transaction, or a piece of one, what the filters do not let through.
// Transactions come in the order of the stream. Errors of Kind Unsupported name the table.
func (f *Filter) Pass(_ context.Context, tx *change.Tx) error {
	// What is left of a message is never longer than it was, so it stays where it is.
	b, end := tx.Changes, 0
	for at := 0; at < len(b); {
		message, rest, err := change.NextMessage(b[at:])
		if err != nil {
			return err
		}
		next := len(b) - len(rest)
		n := len(message)
		switch kind := tidemark.ChangeKind(message[0]); kind {
		case tidemark.RelationChange:
			err = f.relate(message[1:])
		case tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
			if len(message) < 5 {
				break // whoever reads it says so
			}
			if r := f.relations[binary.BigEndian.Uint32(message[1:])]; r != nil {
				if n, err = f.sift(r, message); n == 0 {
					tx.Rows--
				}
			}
		}
		if err != nil {
			return err
		}
		if n > 0 {
			copy(b[end+4:], message[:n])
			binary.BigEndian.PutUint32(b[end:], uint32(n))
			end += 4 + n
		}
		at = next
	}
	tx.Changes = b[:end]
	return nil
}

// relate takes note of what a table is like from here on.
func (f *Filter) relate(body []byte) error {
	rel, err := change.ParseRelation(body)
	if err != nil {
		return err
	}
	delete(f.relations, rel.ID)
	t := f.tables[rel.Table]
	if t == nil {
		return nil
	}
	r := &filtering{tableFilter: t, table: rel.Table, whole: rel.Identity == 'f'}
	for _, name := range t.columns {
		at := slices.IndexFunc(rel.Columns, func(c change.RelationColumn) bool { return c.Name == name })
		if at < 0 && !t.stopped {
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: rel.Table.String(), Err: errors.New("its row filter is by " + name + ", which the log does not have: the column was dropped or renamed"), Hint: "Begin anew with other rules (--anew), or leave the table out."}
		}
		r.at = append(r.at, at)
		r.key = append(r.key, at >= 0 && rel.Columns[at].Key)
	}
	f.relations[rel.ID] = r
	return nil
}

// sift makes of a change what the filter leaves of it, and gives its length; 0 is nothing.
func (f *Filter) sift(r *filtering, message []byte) (int, error) {
	if r.stopped {
		return 0, nil
	}
	c, err := change.Parse(message)
	if err != nil {
		return 0, err
	}
	f.old, f.new = c.Old.Values(f.old[:0]), c.New.Values(f.new[:0])
	if err := f.find(r, c); err != nil {
		return 0, err
	}
	var was, is bool
	if c.Kind != tidemark.InsertChange {
		if was, err = r.passes(r.was); err != nil {
			return 0, err
		}
	}
	if c.Kind != tidemark.DeleteChange {
		if is, err = r.passes(r.are); err != nil {
			return 0, err
		}
	}
	switch {
	case !was && !is:
		return 0, nil
	case c.Kind != tidemark.UpdateChange || was && is:
		return len(message), nil
	case is:
		return f.enters(r, c, message)
	}
	if c.Old == nil { // its filter's columns are the same, so it cannot leave
		return 0, r.untold("its rows", f.remedy)
	}
	message[0] = byte(tidemark.DeleteChange)
	return 6 + len(c.Old), nil // its kind, the table, the kind of the row
}

// find gets the values that the filter looks at, before and after a change.
func (f *Filter) find(r *filtering, c change.Change) error {
	r.was, r.are = r.was[:0], r.are[:0]
	for i, at := range r.at {
		if c.Old != nil && at >= len(f.old) || c.New != nil && at >= len(f.new) {
			return fmt.Errorf("a change of %s has another number of columns than the table", r.table)
		}
		known := c.Old != nil && (!c.OldKey || r.key[i])
		var was, is change.Value
		if known {
			was = f.old[at]
		}
		if c.New != nil {
			if is = f.new[at]; is.Kind == change.UnchangedValue && known {
				is = was
			}
			// The log does not tell again what is the same.
			if !known && c.Kind == tidemark.UpdateChange && (f.told || c.Old == nil && r.key[i] && !r.whole) {
				was, known = is, true
			}
		}
		if c.Kind != tidemark.InsertChange && (!known || was.Kind == change.UnchangedValue) || is.Kind == change.UnchangedValue {
			return r.untold("column "+r.columns[i], f.remedy)
		}
		r.was, r.are = append(r.was, was), append(r.are, is)
	}
	return nil
}

// enters makes an insert of an update that takes a row into the filter.
func (f *Filter) enters(r *filtering, c change.Change, message []byte) (int, error) {
	row := c.New
	if slices.ContainsFunc(f.new, func(v change.Value) bool { return v.Kind == change.UnchangedValue }) {
		for i, v := range f.new {
			if v.Kind != change.UnchangedValue {
				continue
			}
			if c.Old == nil || c.OldKey || f.old[i].Kind == change.UnchangedValue {
				return 0, &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: r.table.String(), Err: errors.New("an update took a row into the row filter, and the log does not have all of it: a value that is stored out of line was not touched"), Hint: f.remedy}
			}
			f.new[i] = f.old[i]
		}
		f.scratch = change.AppendTuple(f.scratch[:0], f.new)
		row = f.scratch
	}
	message[0], message[5] = byte(tidemark.InsertChange), 'N'
	return 6 + copy(message[6:], row), nil
}

func (r *filtering) untold(what, remedy string) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: r.table.String(), Err: errors.New("the log does not tell what " + what + " of its row filter had before a change"), Hint: remedy}
}

// passes says whether a row, of which vals are what the tests look at, passes all.
func (t *filtering) passes(vals []change.Value) (bool, error) {
	for i := range t.tests {
		ok, err := t.tests[i].passes(vals[t.tests[i].column])
		if err != nil {
			return false, &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: t.table.String(), Err: errors.New("column " + t.columns[t.tests[i].column] + " of its row filter: " + err.Error()), Hint: "Begin anew with other rules (--anew), or leave the table out."}
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}
