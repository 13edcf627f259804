package postgres

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
)

// A twin is tables in memory, each with rows of a key and a unique value, which takes
// one change after the other.
type twin []map[string]string

// do makes a change, and says why the server would refuse it.
func (w twin) do(table int, kind tidemark.ChangeKind, old, new []tidemark.Value) error {
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

// A planned is what a history's changes are given to a plan as.
type planned struct {
	table    int
	kind     tidemark.ChangeKind
	old, new []tidemark.Value
}

func texts2(a, b int) []tidemark.Value {
	unique := tidemark.Value{Kind: tidemark.NullValue}
	if b > 0 {
		unique = tidemark.Value{Kind: tidemark.TextValue, Data: strconv.AppendInt(nil, int64(b), 10)}
	}
	return []tidemark.Value{{Kind: tidemark.TextValue, Data: strconv.AppendInt(nil, int64(a), 10)}, unique}
}

// drawHistory draws changes that a server takes one after the other.
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

// A plan's runs do what the changes do one after the other, and at no moment anything
// that a server would refuse.
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
		p := plan{last: map[uint64]int{}, free: rapid.Bool().Draw(r, "replica")}
		unique := rapid.Bool().Draw(r, "unique")
		var to []*destination
		for i := range tables {
			table := &tidemark.Table{TableID: tidemark.TableID{Name: strconv.Itoa(i)}}
			to = append(to, &destination{bound: &tidemark.Bound{Table: table}, salt: uint64(i), key: []int{0}, uniques: unique, quick: map[shapeKey]*shape{},
				batched: rapid.IntRange(0, 5).Draw(r, "triggers") > 0, related: rapid.Bool().Draw(r, "related")})
		}
		check := func() {
			for _, run := range p.runs {
				for _, c := range run.rows {
					s := run.shape
					for i, d := range to {
						if d != s.to {
							continue
						}
						if err := again.do(i, s.kind, c.old.Values(nil), c.new.Values(nil)); err != nil {
							r.Fatal(err)
						}
					}
				}
			}
			p.clear()
		}
		joined := 0
		for _, x := range drawHistory(r, w, unique) {
			d := to[x.table]
			key := shapeKey{kind: x.kind, moved: x.kind == 'U' && x.old != nil}
			s := d.quick[key]
			if s == nil {
				s = &shape{to: d, kind: x.kind, alone: key.moved, newest: nowhere}
				d.quick[key] = s
				d.shapes = append(d.shapes, s)
			}
			var c change
			var keys []uint64
			if x.new != nil {
				c.new = tidemark.AppendTuple(nil, x.new)
				keys = append(keys, d.keyHash(x.new))
			}
			if x.old != nil {
				c.old = tidemark.AppendTuple(nil, x.old)
				keys = append(keys, d.keyHash(x.old))
			}
			before := len(p.runs)
			p.add(s, c, keys)
			if len(p.runs) == before {
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
	table := &tidemark.Table{TableID: tidemark.TableID{Name: "t"}}
	d := &destination{bound: &tidemark.Bound{Table: table}, key: []int{0}, batched: true}
	shapes := map[tidemark.ChangeKind]*shape{}
	for _, kind := range []tidemark.ChangeKind{'I', 'U', 'D'} {
		shapes[kind] = &shape{to: d, kind: kind, newest: nowhere}
		d.shapes = append(d.shapes, shapes[kind])
	}
	p := plan{last: map[uint64]int{}, free: true}
	for i := range 100 {
		for j, kind := range "IUUUD" {
			p.add(shapes[tidemark.ChangeKind(kind)], change{new: tidemark.Tuple{1}}, []uint64{uint64(i*10 + j)})
		}
	}
	var got string
	for _, r := range p.runs {
		got += fmt.Sprintf("%c%d ", r.shape.kind, len(r.rows))
	}
	if got != "I100 U300 D100 " {
		t.Error(got)
	}
	p.clear()
	d.uniques = true
	got = ""
	for i := range 100 {
		for j, kind := range "IUUUD" {
			p.add(shapes[tidemark.ChangeKind(kind)], change{new: tidemark.Tuple{1}}, []uint64{uint64(i*10 + j)})
		}
	}
	for _, r := range p.runs {
		got += fmt.Sprintf("%c%d ", r.shape.kind, len(r.rows))
	}
	if len(p.runs) > 6 {
		t.Error(got)
	}
}
