package apply

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A twin is a table on a target that applies one change after the other, and is strict about which
// rows exist.
type twin map[string][]string

var errTwin = errors.New("a change does not find its row")

func texts(row change.Tuple) (out []string) {
	for _, v := range row.Values(nil) {
		out = append(out, map[byte]string{change.UnchangedValue: "same", change.NullValue: "null"}[v.Kind]+string(v.Data))
	}
	return out
}

func (w twin) apply(c change.Change) error {
	old, now := texts(c.Old), texts(c.New)
	key := func(row []string) string { return fmt.Sprint(row[0]) }
	switch c.Kind {
	case tidemark.RelationChange:
		return nil
	case tidemark.InsertChange:
		if _, there := w[key(now)]; there || strings.Contains(strings.Join(now, " "), "same") {
			return errTwin
		}
	case tidemark.UpdateChange:
		at := key(now)
		if old != nil {
			at = key(old)
		}
		was, there := w[at]
		if !there {
			return errTwin
		}
		for i := range now {
			if now[i] == "same" {
				now[i] = was[i]
			}
		}
		delete(w, at)
		if _, there := w[key(now)]; there {
			return errTwin
		}
	case tidemark.DeleteChange:
		if _, there := w[key(old)]; !there {
			return errTwin
		}
		delete(w, key(old))
		return nil
	}
	w[key(now)] = now
	return nil
}

func (w twin) applyAll(changes []byte) error {
	for len(changes) > 0 {
		c, rest, err := change.Next(changes)
		if err != nil {
			return err
		}
		if err := w.apply(c); err != nil {
			return fmt.Errorf("%w: %c %v %v", err, c.Kind, texts(c.Old), texts(c.New))
		}
		changes = rest
	}
	return nil
}

func rowOf(values ...string) change.Tuple {
	var out []change.Value
	for _, v := range values {
		switch v {
		case "same":
			out = append(out, change.Value{Kind: change.UnchangedValue})
		case "null":
			out = append(out, change.Value{Kind: change.NullValue})
		default:
			out = append(out, change.Value{Kind: change.TextValue, Data: []byte(v)})
		}
	}
	return change.AppendTuple(nil, out)
}

// told returns a change as it is in a transaction.
func told(kind tidemark.ChangeKind, table uint32, oldKey bool, old, now change.Tuple) []byte {
	return change.Append(nil, message(kind, change.Change{Table: table, Old: old, OldKey: oldKey}, now))
}

func netTables() map[tidemark.TableID]*tidemark.Table {
	columns := []tidemark.Column{{Name: "id", Type: tidemark.Type{Kind: tidemark.Int}}, {Name: "v", Type: tidemark.Type{Kind: tidemark.Text}}, {Name: "w", Type: tidemark.Type{Kind: tidemark.Text}}}
	key := &tidemark.Index{Name: "pk", Unique: true, Parts: []tidemark.IndexPart{{Column: "id"}}}
	out := map[tidemark.TableID]*tidemark.Table{}
	for _, name := range []string{"parent", "child", "loose", "tied"} {
		t := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: name}, Columns: columns}
		if name == "parent" || name == "child" {
			t.Key = key
		}
		if name == "child" || name == "tied" {
			t.ForeignKeys = []tidemark.ForeignKey{{Columns: []string{"v"}, Ref: tidemark.TableID{Schema: "s", Name: "parent"}, RefColumns: []string{"id"}}}
		}
		out[t.TableID] = t
	}
	return out
}

func netBinding(t interface{ Fatal(...any) }, name string, id uint32, identity byte) *Binding {
	tables := netTables()
	to := tables[tidemark.TableID{Schema: "s", Name: name}]
	r := change.Relation{ID: id, Table: to.TableID, Identity: identity}
	for i, c := range to.Columns {
		r.Columns = append(r.Columns, change.RelationColumn{Name: c.Name, Key: i == 0 || identity == 'f'})
	}
	b, err := Bind(r, to, tables)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// draw draws a change that is possible on a source with these rows, and applies it to them.
func draw(r *rapid.T, rows twin, table uint32, identity byte) []byte {
	id := strconv.Itoa(rapid.IntRange(0, 5).Draw(r, "id"))
	value := func() string { return rapid.SampledFrom([]string{"null", "a", "b", "c"}).Draw(r, "value") }
	was, there := rows[id]
	if !there {
		rows[id] = []string{id, value(), value()}
		return told(tidemark.InsertChange, table, false, nil, rowOf(rows[id]...))
	}
	old, oldKey := rowOf(was...), false
	if identity == 'd' {
		old, oldKey = rowOf(id, "null", "null"), true
	}
	delete(rows, id)
	now := []string{id, value(), value()}
	switch rapid.IntRange(0, 5).Draw(r, "what") {
	case 0:
		return told(tidemark.DeleteChange, table, oldKey, old, nil)
	case 1: // another key
		to := strconv.Itoa(rapid.IntRange(0, 5).Draw(r, "to"))
		if _, taken := rows[to]; !taken {
			now[0] = to
			break
		}
		fallthrough
	default:
		if identity == 'd' {
			old = nil
		}
	}
	row := append([]string(nil), now...)
	// If a row gets a new key, values are missing only if the whole old row is there.
	if at := rapid.IntRange(1, 4).Draw(r, "same"); at < 3 && (now[0] == id || identity == 'f') {
		now[at], row[at] = was[at], "same"
	}
	rows[now[0]] = now
	return told(tidemark.UpdateChange, table, oldKey && old != nil, old, rowOf(row...))
}

// A net leaves the same rows as its transactions one after the other; and each row has at most one
// change, or a delete and an insert.
func TestNetAgainstDumbTwin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		identity := rapid.SampledFrom([]byte("df")).Draw(r, "identity")
		b := netBinding(r, "parent", 7, identity)
		source := twin{}
		for i := range rapid.IntRange(0, 6).Draw(r, "rows before") {
			id := strconv.Itoa(i)
			source[id] = []string{id, "v" + id, "null"}
		}
		serial, together := maps.Clone(source), maps.Clone(source)
		for range rapid.IntRange(1, 3).Draw(r, "nets") {
			n := newNetChanges()
			for range rapid.IntRange(1, 12).Draw(r, "transactions") {
				tx := &change.Tx{}
				for range rapid.IntRange(1, 4).Draw(r, "changes") {
					tx.Changes = append(tx.Changes, draw(r, source, 7, identity)...)
				}
				if err := serial.applyAll(tx.Changes); err != nil {
					r.Fatal("the test itself:", err)
				}
				if ok, err := n.add(tx, map[uint32]*Binding{7: b}, map[uint32]*change.Bound{7: &b.Bound}); !ok || err != nil {
					r.Fatalf("not taken: %v", err)
				}
			}
			if n.broken {
				r.Fatal("the net is broken")
			}
			var changes []byte
			_ = n.each(change.Tx{}, func(tx *change.Tx, bounds map[uint32]*change.Bound) error {
				changes = append(changes, tx.Changes...)
				return nil
			})
			if err := together.applyAll(changes); err != nil {
				r.Fatal(err)
			}
			if len(n.order) > 2*len(n.known) || len(n.known) > 6 {
				r.Fatalf("%d changes of %d rows", len(n.order), len(n.known))
			}
		}
		if fmt.Sprint(together) != fmt.Sprint(serial) || fmt.Sprint(serial) != fmt.Sprint(source) {
			r.Fatalf("the source has\n%v\none by one\n%v\nthe nets\n%v", source, serial, together)
		}
	})
}

// Deletes come first, those of children before those of parents, and then parents before children;
// changes of rows that nothing identifies keep their order.
func TestNetOrder(t *testing.T) {
	parent, child, loose := netBinding(t, "parent", 1, 'd'), netBinding(t, "child", 2, 'd'), netBinding(t, "loose", 3, 'f')
	n := newNetChanges()
	var tx change.Tx
	add := func(kind tidemark.ChangeKind, table uint32, old, now change.Tuple) {
		tx.Changes = append(tx.Changes, told(kind, table, table != 3, old, now)...)
	}
	add(tidemark.InsertChange, 2, nil, rowOf("1", "2", "x"))
	add(tidemark.InsertChange, 3, nil, rowOf("9", "9", "9"))
	add(tidemark.InsertChange, 1, nil, rowOf("2", "p", "x"))
	add(tidemark.DeleteChange, 3, rowOf("9", "9", "9"), nil)
	add(tidemark.DeleteChange, 1, rowOf("3", "null", "null"), nil)
	add(tidemark.DeleteChange, 2, rowOf("4", "null", "null"), nil)
	add(tidemark.UpdateChange, 2, nil, rowOf("5", "2", "same"))
	if ok, err := n.add(&tx, map[uint32]*Binding{1: parent, 2: child, 3: loose}, nil); !ok || err != nil {
		t.Fatal(ok, err)
	}
	var got []string
	_ = n.each(change.Tx{}, func(tx *change.Tx, _ map[uint32]*change.Bound) error {
		for rest := tx.Changes; len(rest) > 0; {
			var c change.Change
			c, rest, _ = change.Next(rest)
			got = append(got, fmt.Sprintf("%c%d %v%v", c.Kind, c.Table, texts(c.Old), texts(c.New)))
		}
		return nil
	})
	const want = "D2 [4 null null][]; D1 [3 null null][]; I3 [][9 9 9]; D3 [9 9 9][]; I1 [][2 p x]; U2 [][5 2 same]; I2 [][1 2 x]"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// A change that cannot be part of a net is reported before anything of its transaction is added.
func TestNetRefuses(t *testing.T) {
	insert := told(tidemark.InsertChange, 1, false, nil, rowOf("1", "a", "b"))
	truncate := change.Append(nil, []byte{'T', 0, 0, 0, 1, 0, 0, 0, 0, 1})
	for name, second := range map[string][]byte{
		"truncate":                      truncate,
		"no key, and foreign keys":      told(tidemark.InsertChange, 2, false, nil, rowOf("1", "2", "3")),
		"another relation of the table": told(tidemark.InsertChange, 3, false, nil, rowOf("5", "2", "3")),
		"a new key, and not all told":   told(tidemark.UpdateChange, 1, true, rowOf("4", "null", "null"), rowOf("5", "same", "a")),
		"nor the old row":               told(tidemark.UpdateChange, 1, false, rowOf("4", "same", "c"), rowOf("5", "same", "a")),
		"another number of columns":     told(tidemark.InsertChange, 1, false, nil, rowOf("5")),
		"a key without a value":         told(tidemark.InsertChange, 1, false, nil, rowOf("null", "a", "b")),
	} {
		n := newNetChanges()
		bindings := map[uint32]*Binding{1: netBinding(t, "parent", 1, 'd'), 2: netBinding(t, "tied", 2, 'f'), 3: netBinding(t, "parent", 3, 'd')}
		if ok, err := n.add(&change.Tx{Changes: told(tidemark.InsertChange, 1, false, nil, rowOf("0", "a", "b"))}, bindings, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
		ok, err := n.add(&change.Tx{Changes: append(append([]byte(nil), insert...), second...)}, bindings, nil)
		if ok || err != nil || len(n.known) != 1 || n.broken {
			t.Errorf("%s: taken %v, error %v, %d rows known", name, ok, err, len(n.known))
		}
	}
	// Contradictions are left to the target to report.
	n := newNetChanges()
	bindings := map[uint32]*Binding{1: netBinding(t, "parent", 1, 'd')}
	if ok, err := n.add(&change.Tx{Changes: append(append([]byte(nil), insert...), insert...)}, bindings, nil); !ok || err != nil || !n.broken {
		t.Error(ok, err, n.broken)
	}
}
