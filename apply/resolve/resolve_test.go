package resolve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A fake has no rows: updates and deletes find no row, and inserts find a row with their key.
type fake struct {
	row   bool     // with its key exists, with other values
	fatal bool     // the target is gone
	did   []string // what was tried, and recorded
}

func (f *fake) Truncate(context.Context, change.Change, map[uint32]*change.Bound) error {
	f.did = append(f.did, "truncate")
	return nil
}

func (f *fake) Try(_ context.Context, b *change.Bound, c change.Change, keyOnly bool) (*Refusal, error) {
	f.did = append(f.did, "try "+string(c.Kind)+map[bool]string{true: " by key"}[keyOnly])
	switch {
	case f.fatal:
		return &Refusal{Cause: errors.New("gone"), Text: errors.New("gone")}, nil
	case keyOnly:
		return nil, nil
	case c.Kind == tidemark.InsertChange:
		err := errors.New("there already")
		return &Refusal{Cause: err, Text: err, OfRow: true, Duplicate: true, Keyed: true}, nil
	}
	err := Misfit(b.Table.String(), c.Kind, 0)
	return &Refusal{Cause: err, Text: err, OfRow: true, Checked: f.row}, nil
}

func (f *fake) There(context.Context, *change.Bound, change.Change) (bool, error) {
	return f.row, nil
}

func (f *fake) Note(_ context.Context, x change.Exception) error {
	f.did = append(f.did, strings.TrimSuffix("note "+x.Reason+map[bool]string{true: " applied"}[x.Applied], " "))
	return nil
}

func TestRun(t *testing.T) {
	row := change.AppendTuple(nil, []change.Value{{Kind: change.TextValue, Data: []byte("1")}})
	insert := change.AppendInsert(nil, 7, row)
	update := append([]byte{'U', 0, 0, 0, 7, 'O'}, append(slices.Clone(row), append([]byte{'N'}, row...)...)...)
	remove := append([]byte{'D', 0, 0, 0, 7, 'O'}, row...)
	for _, c := range []struct {
		name   string
		change []byte
		action tidemark.ConflictAction
		fake   fake
		want   string
		err    string
	}{
		{"an insert of a row that is there becomes an update", insert, tidemark.ForceConflict, fake{}, "try I, try U by key, note DUPLICATE applied", ""},
		{"an update of no row becomes an insert", update, tidemark.ForceConflict, fake{}, "try U, try I by key, note NOTFOUND applied", ""},
		{"a delete of no row stays undone", remove, tidemark.ForceConflict, fake{}, "try D, note NOTFOUND", ""},
		{"a changed row is found by its key", remove, tidemark.ForceConflict, fake{row: true}, "try D, try D by key, note CHECKFAILED applied", ""},
		{"ignored", insert, tidemark.IgnoreConflict, fake{}, "try I, note DUPLICATE", ""},
		{"stopped", insert, tidemark.StopOnConflict, fake{}, "try I", "there already"},
		{"what is not of the row ends it", update, tidemark.IgnoreConflict, fake{fatal: true}, "try U", "gone"},
		{"another table's change is none", change.AppendInsert(nil, 8, row), tidemark.StopOnConflict, fake{}, "", ""},
	} {
		b := &change.Bound{Table: &tidemark.Table{TableID: tidemark.TableID{Schema: "a", Name: "t"}}, Conflict: tidemark.Conflict{Action: c.action}}
		g := &change.Group{Txs: []*change.Tx{{Changes: change.Append(nil, c.change)}}, Bounds: []map[uint32]*change.Bound{{7: b}}}
		n, err := Run(t.Context(), g, &c.fake)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if did := strings.Join(c.fake.did, ", "); did != c.want || text != c.err || n != strings.Count(c.want, "note") {
			t.Errorf("%s: %d exceptions, did %q, want %q; error %q, want %q", c.name, n, did, c.want, text, c.err)
		}
	}
}

func TestBegin(t *testing.T) {
	now := time.UnixMicro(1000)
	if p := Begin(nil, now); p.Epoch != 1000 || p.Low != 0 || p.Done != nil {
		t.Errorf("the first apply begins with %+v", p)
	}
	p := Begin([]change.Progress{{Epoch: 5, Low: 10, Done: []uint64{30, 12}}, {Epoch: 4, Low: 12, Done: []uint64{11, 30, 20}}}, now)
	if p.Epoch != 6 || p.Low != 12 || !slices.Equal(p.Done, []uint64{20, 30}) {
		t.Errorf("two agents' rows come to %+v", p)
	}
}
