// Package loading holds what a stream's catalogue keeps of each of its tables: how far its load is,
// and the changes of its state.
package loading

import (
	"encoding/json"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
)

// A Load is the progress of a table's load.
type Load struct {
	Manual bool `json:"manual,omitempty"` // the user loads it, and says when that is done
	Begun  bool `json:"begun,omitempty"`  // the target's table was emptied
	// Replaced means that another table of the source has its name: the target gets its definition.
	Replaced bool `json:"replaced,omitempty"`
	// Gone means that the table is stopped since it has left the source.
	Gone bool `json:"gone,omitempty"`
	// Made means that the target's table is made by the stream, and not proved to be as planned
	// yet; Added, that the stream got the table by itself; Lacks, that it is stopped since the
	// target's is not as planned.
	Made  bool                `json:"made,omitempty"`
	Added bool                `json:"added,omitempty"`
	Lacks bool                `json:"lacks,omitempty"`
	Key   []string            `json:"key,omitempty"`   // of the last row that is on the target
	Rows  int64               `json:"rows"`            // that were loaded
	Again []map[string]string `json:"again,omitempty"` // keys of rows that have to be read again, by column
	Marks []change.LogMark    `json:"marks,omitempty"` // of the last chunks
	// Parent is the stopped table for want of whose rows this one was stopped: it is loaded once
	// that is.
	Parent *tidemark.TableID `json:"parent,omitempty"`
	// Known is what the source's catalogue has reported of the table, as far as the target has it.
	Known *change.Definition `json:"known,omitempty"`
	// Published is how the source sent the table's changes when the stream got it.
	Published string `json:"published,omitempty"`
	// Altered is the place of the last statement that was also run on the target's table, and
	// Altering of one that may have been run, when the table had so many partitions.
	Altered  uint64 `json:"altered,omitempty"`
	Altering uint64 `json:"altering,omitempty"`
	Parts    int    `json:"parts,omitempty"`

	// If capture and apply are two processes, fields of the capture:
	Asked       int64 `json:"asked,omitempty"`    // number of the request that the load answers
	Answered    int64 `json:"answered,omitempty"` // and of the last one that was answered
	Over        bool  `json:"over,omitempty"`     // all rows are in the queue, and only that has to be reported
	Unannounced bool  `json:"untold,omitempty"`   // the table was stopped, and apply does not know
	// Place is where in the stream the load begins, once that is known, on both sides. The rest
	// belongs to apply:
	Place uint64 `json:"place,omitempty"`
	End   uint64 `json:"end,omitempty"`   // after this place the table has all its rows
	Heard uint64 `json:"heard,omitempty"` // the last place where a load of the table began, this one or another
}

// Of reads the progress of a table's load.
func Of(t *catalog.StreamTable) (l Load) {
	if t.Load != nil {
		_ = json.Unmarshal(t.Load, &l) // we have written it; at worst the load starts again
	}
	return l
}

// Anew is what is kept when another load begins, or none does.
func (l Load) Anew() Load {
	return Load{Marks: l.Marks, Answered: l.Answered, Heard: l.Heard, Published: l.Published}
}

// Mark records another place that was given to a chunk.
func (l *Load) Mark(m change.LogMark) {
	l.Marks = append(l.Marks, m)
	l.Marks = l.Marks[max(len(l.Marks)-3, 0):]
}

// Note changes the progress of a table's load.
func Note(t *catalog.StreamTable, do func(*Load)) {
	x := Of(t)
	do(&x)
	t.Load = x.Text()
}

// Become gives a table another state: stopped, for a reason, or loading. The reported columns are
// forgotten.
func Become(t *catalog.StreamTable, state, reason, hint string, x Load, now time.Time) {
	t.State, t.Reason, t.Hint, t.Since, t.Shape, t.Load = state, reason, hint, Later(t, now), nil, x.Text()
}

// Text is a load as the catalogue keeps it.
func (l Load) Text() json.RawMessage {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // numbers and texts
	}
	return text
}

// Heeds reports whether a table is loaded where a requested load begins: unless the table was
// stopped since, or requested again. Rows of other loads are skipped, so a table that gets its
// changes is always loaded.
func (l Load) Heeds(t *catalog.StreamTable, asked int64) bool {
	waits := t.State == catalog.TableLoading && l.Place == 0 && !l.Manual
	return t.State == catalog.TableActive || t.State == catalog.TableLoading && (!waits || t.Since.UnixMicro() == asked)
}

// Halt makes a table stopped.
func Halt(t *catalog.StreamTable, reason, hint string, now time.Time) {
	Become(t, catalog.TableStopped, reason, hint, Of(t).Anew(), now)
}

// Later is the time of a change of a table's state that happens now: after its last change, even if
// the clock was set back since, because the times identify and order changes.
func Later(t *catalog.StreamTable, now time.Time) time.Time {
	now = now.Truncate(time.Microsecond) // the precision of the catalogue
	if now.After(t.Since) {
		return now
	}
	return t.Since.Add(time.Microsecond)
}
