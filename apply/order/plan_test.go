package order

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A twin is tables in memory, each with rows of a key and a unique value; it applies one change
// after the other.
type twin []map[string]string

// do applies a change, or returns why the server would refuse it.
func (w twin) do(table int, kind tidemark.ChangeKind, old, new []change.Value) error {
	rows := w[table]
	from := new
	if old != nil {
		from = old
	}
	_, there := rows[string(from[0].Data)]
	if there == (kind == tidemark.InsertChange) {
		return fmt.Errorf("%c of %s, there %v", kind, from[0].Data, there)
	}
	if kind != tidemark.InsertChange {
		delete(rows, string(from[0].Data))
	}
	if kind == tidemark.DeleteChange {
		return nil
	}
	key, value := string(new[0].Data), string(new[1].Data)
	if _, there := rows[key]; there {
		return fmt.Errorf("%c to %s, which is there", kind, key)
	}
	for k, v := range rows {
		if v == value && v != "" {
			return fmt.Errorf("%c: %s and %s have %s", kind, k, key, v)
		}
	}
	rows[key] = value
	return nil
}

type shapeKey struct {
	table *Table
	kind  tidemark.ChangeKind
	moved bool // the row's key changes
}

// A planned is one change of a history, as given to a plan.
type planned struct {
	table    int
	kind     tidemark.ChangeKind
	old, new []change.Value
}

func texts2(a, b int) []change.Value {
	unique := change.Value{Kind: change.NullValue}
	if b > 0 {
		unique = change.Value{Kind: change.TextValue, Data: strconv.AppendInt(nil, int64(b), 10)}
	}
	return []change.Value{{Kind: change.TextValue, Data: strconv.AppendInt(nil, int64(a), 10)}, unique}
}

// drawHistory draws changes that a server accepts one after the other.
func drawHistory(r *rapid.T, w twin, uniques bool) (out []planned) {
	for range rapid.IntRange(0, 60).Draw(r, "changes") {
		p := planned{table: rapid.IntRange(0, len(w)-1).Draw(r, "table"), kind: rapid.SampledFrom([]tidemark.ChangeKind{'I', 'U', 'D'}).Draw(r, "kind")}
		unique := 0
		if uniques {
			unique = rapid.IntRange(0, 3).Draw(r, "unique")
		}
		row := texts2(rapid.IntRange(1, 6).Draw(r, "key"), unique)
		switch p.kind {
		case 'I':
			p.new = row
		case 'D':
			p.old = row
		case 'U':
			p.new = row
			if rapid.IntRange(0, 4).Draw(r, "moves") == 0 {
				p.old = texts2(rapid.IntRange(1, 6).Draw(r, "old key"), 0)
			}
		}
		kept := map[string]string{}
		for k, v := range w[p.table] {
			kept[k] = v
		}
		if w.do(p.table, p.kind, p.old, p.new) != nil {
			w[p.table] = kept
			continue
		}
		out = append(out, p)
	}
	return out
}

// A plan's runs have the same effect as the changes one after the other, and never do anything that
// a server would refuse.
func TestPlanAgainstDumbTwin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const tables = 3
		w := twin{{}, {}, {}}
		for i := range w {
			for k := range rapid.IntRange(0, 4).Draw(r, "rows") {
				w[i][strconv.Itoa(k+1)] = ""
			}
		}
		again := twin{{}, {}, {}}
		for i := range w {
			for k, v := range w[i] {
				again[i][k] = v
			}
		}
		p := Plan[*Shape]{Free: rapid.Bool().Draw(r, "replica")}
		unique := rapid.Bool().Draw(r, "unique")
		var to []*Table
		shapes := map[shapeKey]*Shape{}
		for i := range tables {
			to = append(to, &Table{ID: tidemark.TableID{Name: strconv.Itoa(i)}, Salt: uint64(i), Key: []int{0}, Uniques: unique,
				Batched: rapid.IntRange(0, 5).Draw(r, "triggers") > 0, Related: rapid.Bool().Draw(r, "related")})
		}
		check := func() {
			for _, run := range p.Runs {
				for _, c := range run.Rows {
					if err := again.do(slices.Index(to, run.Shape.Table), run.Shape.Kind, c.Old.Values(nil), c.New.Values(nil)); err != nil {
						r.Fatal(err)
					}
				}
			}
			p.Clear()
		}
		joined := 0
		for _, x := range drawHistory(r, w, unique) {
			d := to[x.table]
			key := shapeKey{d, x.kind, x.kind == 'U' && x.old != nil}
			s := shapes[key]
			if s == nil {
				s = &Shape{Table: d, Kind: x.kind, Alone: key.moved}
				shapes[key] = s
			}
			var c Row
			var keys []uint64
			if x.new != nil {
				c.New = change.AppendTuple(nil, x.new)
				keys = append(keys, d.KeyHash(x.new))
			}
			if x.old != nil {
				c.Old = change.AppendTuple(nil, x.old)
				keys = append(keys, d.KeyHash(x.old))
			}
			before := len(p.Runs)
			p.Add(s, c, keys)
			if len(p.Runs) == before {
				joined++
			}
			if rapid.IntRange(0, 20).Draw(r, "send") == 0 {
				check()
			}
		}
		check()
		for i := range w {
			if fmt.Sprint(w[i]) != fmt.Sprint(again[i]) {
				r.Fatalf("table %d: want %v, got %v", i, w[i], again[i])
			}
		}
	})
}

// Transactions of the same kind become one statement for each kind.
func TestPlanGathers(t *testing.T) {
	d := &Table{ID: tidemark.TableID{Name: "t"}, Key: []int{0}, Batched: true}
	shapes := map[tidemark.ChangeKind]*Shape{}
	for _, kind := range []tidemark.ChangeKind{'I', 'U', 'D'} {
		shapes[kind] = &Shape{Table: d, Kind: kind}
	}
	p := Plan[*Shape]{Free: true}
	for i := range 100 {
		for j, kind := range "IUUUD" {
			p.Add(shapes[tidemark.ChangeKind(kind)], Row{New: change.Tuple{1}}, []uint64{uint64(i*10 + j)})
		}
	}
	var got string
	for _, r := range p.Runs {
		got += fmt.Sprintf("%c%d ", r.Shape.Kind, len(r.Rows))
	}
	if got != "I100 U300 D100 " {
		t.Error(got)
	}
	p.Clear()
	d.Uniques = true
	got = ""
	for i := range 100 {
		for j, kind := range "IUUUD" {
			p.Add(shapes[tidemark.ChangeKind(kind)], Row{New: change.Tuple{1}}, []uint64{uint64(i*10 + j)})
		}
	}
	for _, r := range p.Runs {
		got += fmt.Sprintf("%c%d ", r.Shape.Kind, len(r.Rows))
	}
	if len(p.Runs) > 6 {
		t.Error(got)
	}
}
