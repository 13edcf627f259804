package change

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemarkdb/tidemark"
	"pgregory.net/rapid"
)

func drawTuple(r *rapid.T, label string) []Value {
	return rapid.SliceOfN(rapid.Custom(func(r *rapid.T) Value {
		v := Value{Kind: rapid.SampledFrom([]byte("nutb")).Draw(r, "kind")}
		if v.Kind == TextValue || v.Kind == BinaryValue {
			v.Data = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(r, "data")
		}
		return v
	}), 0, 5).Draw(r, label)
}

// Changes that are written are read as the same changes, one after another.
func TestChangesRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type made struct {
			kind     tidemark.ChangeKind
			table    uint32
			old, new []Value
			key      bool
		}
		var want []made
		var changes []byte
		for range rapid.IntRange(0, 5).Draw(r, "changes") {
			m := made{kind: rapid.SampledFrom([]tidemark.ChangeKind{tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange}).Draw(r, "kind"), table: rapid.Uint32().Draw(r, "table")}
			b := []byte{byte(m.kind), byte(m.table >> 24), byte(m.table >> 16), byte(m.table >> 8), byte(m.table)}
			if m.kind == tidemark.DeleteChange || m.kind == tidemark.UpdateChange && rapid.Bool().Draw(r, "old") {
				m.old, m.key = drawTuple(r, "old"), rapid.Bool().Draw(r, "key")
				b = AppendTuple(append(b, map[bool]byte{true: 'K', false: 'O'}[m.key]), m.old)
			}
			if m.kind != tidemark.DeleteChange {
				m.new = drawTuple(r, "new")
				b = AppendTuple(append(b, 'N'), m.new)
			}
			changes = Append(changes, b)
			want = append(want, m)
		}
		rest := changes
		for i, m := range want {
			var c Change
			var err error
			if c, rest, err = Next(rest); err != nil {
				r.Fatalf("change %d: %v", i, err)
			}
			if c.Kind != m.kind || c.Table != m.table || c.OldKey != m.key && m.old != nil {
				r.Fatalf("got %+v, want %+v", c, m)
			}
			if d := cmp.Diff(m.old, c.Old.Values(nil), cmp.Comparer(bytes.Equal)); d != "" && len(m.old) > 0 {
				r.Fatal(d)
			}
			if d := cmp.Diff(m.new, c.New.Values(nil), cmp.Comparer(bytes.Equal)); d != "" && len(m.new) > 0 {
				r.Fatal(d)
			}
		}
		if len(rest) > 0 {
			r.Fatalf("%d bytes are left", len(rest))
		}
	})
}

func TestRelationsRoundTrip(t *testing.T) {
	want := Relation{ID: 1<<31 + 7, Table: tidemark.TableID{Schema: "public", Name: "größe"}, Identity: 'd',
		Columns: []RelationColumn{{Name: "id", Key: true, Type: 20, Mod: -1}, {Name: "a b", Type: 1043, Mod: 24}}}
	c, err := Parse(want.Append(nil))
	if err != nil || c.Table != want.ID {
		t.Fatalf("%+v, %v", c, err)
	}
	got, err := ParseRelation(c.Body)
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}
	for n := range c.Body {
		if _, err := ParseRelation(c.Body[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are a relation", n, len(c.Body))
		}
	}
}

// Any bytes yield changes or an error; a parsed change stays within its message, and its tuples can
// be read.
func FuzzChanges(f *testing.F) {
	f.Add(Append(nil, Relation{ID: 1, Identity: 'f'}.Append(nil)))
	f.Add(Append(nil, AppendTuple([]byte("I\x00\x00\x00\x01N"), []Value{{Kind: NullValue}, {Kind: TextValue, Data: []byte("x")}})))
	f.Add(Append(nil, AppendTuple([]byte("D\x00\x00\x00\x01K"), []Value{{Kind: BinaryValue, Data: []byte("x")}})))
	f.Add(Append(nil, []byte("T\x00\x00\x00\x01\x03\x00\x00\x00\x01")))
	f.Add(Append(nil, []byte("M\x01\x00\x00\x00\x00\x00\x00\x00\x01p\x00\x00\x00\x00\x01x")))
	f.Fuzz(func(t *testing.T, changes []byte) {
		for len(changes) > 0 {
			c, rest, err := Next(changes)
			if err != nil {
				return
			}
			if len(rest) >= len(changes) {
				t.Fatal("a change took no bytes")
			}
			changes = rest
			c.Old.Values(nil)
			c.New.Values(nil)
			switch c.Kind {
			case tidemark.RelationChange:
				_, _ = ParseRelation(c.Body)
			case tidemark.TruncateChange:
				_, _ = ParseTruncation(c.Body)
			case tidemark.MessageChange:
				_, _ = ParseLogicalMessage(c.Body)
			}
		}
	})
}
