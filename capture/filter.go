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

// A Filter drops rows from the transactions of a Source that does not filter its log itself, so
// that a stream has what a filtering source would send: an update that moves a row into the filter
// of its table becomes an insert, one that moves it out a delete, and changes outside the filter
// are dropped.
//
// It compares values as the source's own WHERE does, which a copy of the same moves uses; if that
// is not certain, NewFilter returns an error. It serves one session of a stream, and is not safe
// for concurrent use.
type Filter struct {
	tables    map[tidemark.TableID]*tableFilter
	relations map[uint32]*filtering // of tables that are filtered
	// told means that the log has the whole old row if a column of a filter has changed. Otherwise
	// it has the columns that the relation marks as key, if one of these has changed.
	told    bool
	remedy  string // for rows that lack old values
	old     []change.Value
	new     []change.Value
	scratch []byte
}

// A tableFilter holds the tests that rows of a table have to pass, all of them.
type tableFilter struct {
	columns []string // used by the tests
	tests   []test
	stopped bool // see Only
}

// A filtering is a tableFilter for a relation.
type filtering struct {
	*tableFilter
	table    tidemark.TableID
	at       []int // index in the relation of each column of the tableFilter
	key      []bool
	whole    bool // the replica identity is all columns
	was, are []change.Value
}

// A FilteredRowSource is a Source that does not filter rows, and knows what its log contains of
// them.
type FilteredRowSource interface {
	// TellsRows returns an error of Kind Unsupported, with a hint for the source, if the log lacks
	// the old values of the columns in the moves' filters.
	TellsRows(ctx context.Context, moves []tidemark.Move) error
}

// Columns returns the columns in a table's filter.
func (f *Filter) Columns(table tidemark.TableID) []string {
	if t := f.tables[table]; t != nil {
		return t.columns
	}
	return nil
}

// Only selects the tables whose rows are applied. The others were stopped: their inserts are
// dropped, and updates and deletes that cannot be evaluated pass, since foreign keys may have done
// something to other tables because of them.
func (f *Filter) Only(want func(tidemark.TableID) bool) {
	for id, t := range f.tables {
		t.stopped = !want(id)
	}
}

// Pass removes from a transaction, or a piece of one, what does not pass the filters. Transactions
// come in the order of the stream. Errors of Kind Unsupported name the table.
func (f *Filter) Pass(_ context.Context, tx *change.Tx) error {
	// A filtered message is never longer than before, so this works in place.
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
				break // its decoder reports the error
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

// relate records the definition of a table from here on.
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
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: rel.Table.String(), Err: errors.New("its row filter uses " + name + ", which the log does not have: the column was dropped or renamed"), Hint: "Start over with other rules (--anew), or leave the table out."}
		}
		r.at = append(r.at, at)
		r.key = append(r.key, at >= 0 && rel.Columns[at].Key)
	}
	f.relations[rel.ID] = r
	return nil
}

// sift rewrites a change as the filter requires, and returns its length; 0 means dropped.
func (f *Filter) sift(r *filtering, message []byte) (int, error) {
	if !r.stopped {
		return f.evaluate(r, message)
	}
	if tidemark.ChangeKind(message[0]) == tidemark.InsertChange {
		return 0, nil
	}
	n, err := f.evaluate(r, message)
	if err != nil {
		n = len(message)
	}
	return n, nil
}

func (f *Filter) evaluate(r *filtering, message []byte) (int, error) {
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
	if c.Old == nil { // its filter's columns are unchanged, so it cannot leave
		return 0, r.lacksOld("its rows", f.remedy)
	}
	message[0] = byte(tidemark.DeleteChange)
	return 6 + len(c.Old), nil // its kind, the table, the kind of the row
}

// find returns the values that the filter uses, before and after a change.
func (f *Filter) find(r *filtering, c change.Change) error {
	r.was, r.are = r.was[:0], r.are[:0]
	for i, at := range r.at {
		if at < 0 { // see relate
			return r.lacksOld("column "+r.columns[i], f.remedy)
		}
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
			// The log does not repeat unchanged values.
			if !known && c.Kind == tidemark.UpdateChange && (f.told || c.Old == nil && r.key[i] && !r.whole) {
				was, known = is, true
			}
		}
		if c.Kind != tidemark.InsertChange && (!known || was.Kind == change.UnchangedValue) || is.Kind == change.UnchangedValue {
			return r.lacksOld("column "+r.columns[i], f.remedy)
		}
		r.was, r.are = append(r.was, was), append(r.are, is)
	}
	return nil
}

// enters converts an update that moves a row into the filter to an insert.
func (f *Filter) enters(r *filtering, c change.Change, message []byte) (int, error) {
	row := c.New
	if slices.ContainsFunc(f.new, func(v change.Value) bool { return v.Kind == change.UnchangedValue }) {
		for i, v := range f.new {
			if v.Kind != change.UnchangedValue {
				continue
			}
			if c.Old == nil || c.OldKey || f.old[i].Kind == change.UnchangedValue {
				return 0, &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: r.table.String(), Err: errors.New("an update moved a row into the row filter, and the log does not have all of it: a value stored out of line (TOAST) did not change"), Hint: f.remedy}
			}
			f.new[i] = f.old[i]
		}
		f.scratch = change.AppendTuple(f.scratch[:0], f.new)
		row = f.scratch
	}
	message[0], message[5] = byte(tidemark.InsertChange), 'N'
	return 6 + copy(message[6:], row), nil
}

func (r *filtering) lacksOld(what, remedy string) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: r.table.String(), Err: errors.New("the log does not have what " + what + " of its row filter had before a change"), Hint: remedy}
}

// passes reports whether a row passes all tests; vals are the values that they use.
func (r *filtering) passes(vals []change.Value) (bool, error) {
	for i := range r.tests {
		ok, err := r.tests[i].passes(vals[r.tests[i].column])
		if err != nil {
			return false, &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: r.table.String(), Err: errors.New("column " + r.columns[r.tests[i].column] + " of its row filter: " + err.Error()), Hint: "Start over with other rules (--anew), or leave the table out."}
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}
