package diff

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A present is a memory whose rows are read by their keys and changed, in a transaction or not.
type present struct {
	*memory
	begun   bool
	changes []change.Repair
	before  map[tidemark.TableID][][]*string
	meddle  func() // called once when rows are locked
	refuse  string // the key of a row that cannot be changed
}

func (p *present) Close() {}

func (p *present) Read(ctx context.Context, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	var rows [][]*string
	for _, row := range p.rows[r.Move.From.TableID] {
		if slices.ContainsFunc(r.Range.Values, func(key []string) bool { return keyOf(r.Move, r.Range.Columns, row, key) }) {
			rows = append(rows, row)
		}
	}
	sub := &memory{rows: map[tidemark.TableID][][]*string{r.Move.From.TableID: rows}, batch: p.batch, piece: p.piece}
	err := sub.Read(ctx, 0, tidemark.Read{Move: r.Move, Range: &tidemark.Range{ToBlock: int64(len(rows))}, Format: r.Format}, emit)
	if p.begun && p.meddle != nil {
		p.meddle()
		p.meddle = nil
	}
	return err
}

func keyOf(m *tidemark.Move, columns []string, row []*string, key []string) bool {
	for i, c := range columns {
		if v := row[slices.Index(m.Source, c)]; v == nil || *v != key[i] {
			return false
		}
	}
	return true
}

func (p *present) Begin(context.Context) error {
	p.begun, p.before = true, maps.Clone(p.rows)
	for id, rows := range p.before {
		p.before[id] = slices.Clone(rows)
	}
	return nil
}

func (p *present) End(_ context.Context, commit bool) error {
	if p.begun = false; !commit {
		p.rows = p.before
	}
	return nil
}

func (p *present) SQL(c change.Repair) (string, error) {
	p.changes = append(p.changes, c)
	return strconv.Itoa(len(p.changes) - 1), nil
}

func (p *present) Run(_ context.Context, sql string) (int64, error) {
	n, _ := strconv.Atoi(sql)
	c := p.changes[n]
	if c.Row[0] == p.refuse {
		return 0, &tidemark.Error{Kind: tidemark.BadRow, Op: "repair", Err: errors.New("refused")}
	}
	m := &tidemark.Move{Source: []string{"a", "b", "c"}}
	rows := p.rows[c.Table.TableID]
	at := slices.IndexFunc(rows, func(row []*string) bool { return keyOf(m, c.Key, row, c.Row) })
	if at < 0 && c.Kind == tidemark.InsertChange {
		at, rows = len(rows), append(rows, make([]*string, 3))
	}
	if at < 0 {
		return 0, nil
	}
	if c.Kind == tidemark.DeleteChange {
		p.rows[c.Table.TableID] = slices.Delete(slices.Clone(rows), at, at+1)
		return 1, nil
	}
	row := slices.Clone(rows[at])
	for _, s := range c.Set {
		row[slices.Index(m.Source, s.Column)] = s.Value
	}
	rows[at] = row
	p.rows[c.Table.TableID] = rows
	return 1, nil
}

// A shop is a table as a map, which becomes a memory's.
type shop map[int][2]string

func (s shop) fill(m *memory, rnd *rand.Rand) {
	var rows [][]*string
	for id, v := range s {
		rows = append(rows, []*string{str(strconv.Itoa(id)), str(v[0]), str(v[1])})
	}
	rnd.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	m.rows = map[tidemark.TableID][][]*string{{Schema: "s", Name: "t"}: rows}
}

// TestLiveAgainstDumbTwin lets a follower lag behind a leader that continues: only what was changed
// on the follower is found, what changes at each look is reported as such, and a repair repairs
// what was found.
func TestLiveAgainstDumbTwin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 3))
		leader, follower, meddled := shop{}, shop{}, map[int]bool{}
		for id := range rapid.IntRange(0, 40).Draw(r, "rows") {
			leader[id] = [2]string{nastyText(rnd), "x"}
		}
		maps.Copy(follower, leader)
		for range rapid.IntRange(0, 12).Draw(r, "differences") {
			id := rnd.IntN(100)
			meddled[id] = true
			if _, ok := follower[id]; ok && rnd.IntN(2) == 0 {
				delete(follower, id)
			} else {
				follower[id] = [2]string{"meddled", strconv.Itoa(rnd.IntN(3))}
			}
		}
		hot := rapid.IntRange(0, 3).Draw(r, "hot")
		// These are changes of the leader that the follower does not have yet.
		var lag []func()
		advance := func() {
			for _, f := range lag {
				f()
			}
			lag = nil
			for range rnd.IntN(10) {
				id := 200 + rnd.IntN(40)
				v := [2]string{"v", strconv.Itoa(rnd.IntN(1000))}
				leader[id] = v
				lag = append(lag, func() { follower[id] = v })
			}
			for id := 300; id < 300+hot; id++ {
				v := [2]string{"hot", strconv.Itoa(rnd.IntN(1 << 30))}
				leader[id] = v
				lag = append(lag, func() { follower[id] = v })
			}
		}
		piece, batch := rapid.SampledFrom([]int{0, 1, 7}).Draw(r, "piece"), rapid.IntRange(0, 400).Draw(r, "batch")
		from, to := &present{memory: &memory{ranges: 2, rand: rnd, piece: piece, batch: batch}}, &present{memory: &memory{ranges: 3, rand: rnd, piece: piece, batch: batch}}
		look := func() {
			leader.fill(from.memory, rnd)
			follower.fill(to.memory, rnd)
		}
		want := func() (out []string) {
			for id := range meddled {
				a, okA := leader[id]
				b, okB := follower[id]
				switch {
				case okA && !okB:
					out = append(out, fmt.Sprint("missing ", id))
				case okB && !okA:
					out = append(out, fmt.Sprint("extra ", id))
				case a != b:
					out = append(out, fmt.Sprint("different ", id))
				}
			}
			slices.Sort(out)
			return out
		}()
		advance()
		look()
		types := []tidemark.Type{{Kind: tidemark.Int, Native: "integer"}, text, text}
		engine := rapid.SampledFrom([]string{"postgres", "mysql", ""}).Draw(r, "engine")
		keep := rapid.SampledFrom([]int{0, 12}).Draw(r, "keep")
		l, err := NewLive([]Pair{pairOf("t", types, types, 0)}, Options{SourceEngine: engine, TargetEngine: engine, Keep: keep, MaxPrinted: 1000})
		if err != nil {
			r.Fatal(err)
		}
		fail := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		fail(l.First(t.Context(), from.memory, to.memory))
		settle := func() {
			for range 6 {
				rows, tables := l.Unsettled()
				if rows+tables == 0 {
					break
				}
				advance()
				look()
				fail(l.Again(t.Context(), from, to))
				if _, tables := l.Unsettled(); tables > 0 {
					fail(l.First(t.Context(), from.memory, to.memory))
				}
			}
		}
		settle()
		got, err := l.Result(t.Context(), from, to)
		fail(err)
		res := got.Tables[0]
		var found []string
		for _, row := range res.Rows {
			found = append(found, string(row.Kind)+" "+*row.Values[0].Text)
		}
		slices.Sort(found)
		if keep == 0 && cmp.Diff(want, found) != "" {
			r.Fatal(cmp.Diff(want, found))
		}
		for _, f := range found {
			if !slices.Contains(want, f) {
				r.Fatalf("%s does not differ", f)
			}
		}
		if keep == 0 && (res.Changing != int64(hot) || res.Equal != (len(want)+hot == 0)) {
			r.Fatalf("%d still changing, of %d: %+v", res.Changing, hot, res)
		}
		// A repair leaves rows that keep changing, and one that is changed during the repair.
		for range 5 {
			look()
			tally, err := l.Repair(t.Context(), from, to, Repairing{Execute: true, Tell: func(int, []Repaired) error { return nil }, Done: func(int) error { return nil }})
			fail(err)
			follower = shop{}
			for _, row := range to.rows[tidemark.TableID{Schema: "s", Name: "t"}] {
				id, _ := strconv.Atoi(*row[0])
				follower[id] = [2]string{*row[1], *row[2]}
			}
			if _, tables := l.Unsettled(); tally.Rows() == 0 && tables == 0 {
				break
			} else if tables > 0 {
				fail(l.First(t.Context(), from.memory, to.memory))
			}
			settle()
		}
		for _, f := range lag {
			f()
		}
		if hot == 0 && cmp.Diff(leader, follower) != "" {
			r.Fatal(cmp.Diff(leader, follower))
		}
	})
}

func nastyText(rnd *rand.Rand) string {
	if v := nasty[rnd.IntN(len(nasty))]; v != nil && *v != `\N` {
		return *v
	}
	return ""
}

// TestRepairLooksAgain leaves rows unchanged that have changed since they were found, and repairs
// the other rows of a batch of which the target rejects one.
func TestRepairLooksAgain(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	from, to := &present{memory: &memory{ranges: 1}}, &present{memory: &memory{ranges: 1}, refuse: "3"}
	leader := shop{1: {"a", ""}, 2: {"b", ""}, 3: {"c", ""}, 4: {"d", ""}}
	leader.fill(from.memory, rnd)
	shop{2: {"x", ""}, 3: {"y", ""}, 5: {"z", ""}}.fill(to.memory, rnd)
	types := []tidemark.Type{{Kind: tidemark.Int, Native: "integer"}, text, text}
	l, err := NewLive([]Pair{pairOf("t", types, types, 0)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.First(t.Context(), from.memory, to.memory); err != nil {
		t.Fatal(err)
	}
	l.Settle()
	to.meddle = func() { // the extra row, whose batch comes first, is locked
		leader[5], leader[2] = [2]string{"new", ""}, [2]string{"newer", ""}
		leader.fill(from.memory, rnd)
	}
	var told []string
	tally, err := l.Repair(t.Context(), from, to, Repairing{Execute: true, Done: func(int) error { return nil }, Tell: func(batch int, changes []Repaired) error {
		for _, c := range changes {
			told = append(told, fmt.Sprint(c.Kind, " ", *c.Key[0].Text))
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if rows, _ := l.Unsettled(); tally.Inserted != 2 || tally.Changed != 2 || len(tally.Failed) != 1 || tally.Rows() != 2 || rows != 2 || l.Differences() != 1 {
		t.Errorf("%+v, %d unsettled, %d different", tally, rows, l.Differences())
	}
	if want := []string{"missing 1", "missing 4"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestRepairOrder: referenced tables come first, also in a circle of references.
func TestRepairOrder(t *testing.T) {
	l := new(Live)
	for _, x := range []struct {
		name string
		refs []string
	}{{"grandchild", []string{"child"}}, {"child", []string{"parent", "other"}}, {"round", []string{"about"}}, {"about", []string{"round"}}, {"parent", nil}, {"other", []string{"other", "elsewhere"}}} {
		to := &tidemark.Table{TableID: tidemark.TableID{Name: x.name}}
		for _, ref := range x.refs {
			to.ForeignKeys = append(to.ForeignKeys, tidemark.ForeignKey{Ref: tidemark.TableID{Name: ref}})
		}
		l.tables = append(l.tables, &liveTable{table: &table{pair: Pair{Target: &tidemark.Move{From: to}}}})
	}
	var got []string
	for _, one := range l.byReference() {
		got = append(got, one.pair.Target.From.Name)
	}
	if want := []string{"parent", "other", "child", "grandchild", "about", "round"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRepairLeavesChangedRowsOfTheTarget: a row of the target that others have changed since it was
// compared stays as it is.
func TestRepairLeavesChangedRowsOfTheTarget(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	from, to := &present{memory: &memory{ranges: 1}}, &present{memory: &memory{ranges: 1}}
	shop{1: {"a", ""}, 2: {"b", ""}}.fill(from.memory, rnd)
	shop{1: {"x", ""}, 2: {"y", ""}, 5: {"z", ""}}.fill(to.memory, rnd)
	types := []tidemark.Type{{Kind: tidemark.Int, Native: "integer"}, text, text}
	l, err := NewLive([]Pair{pairOf("t", types, types, 0)}, Options{})
	if err == nil {
		err = l.First(t.Context(), from.memory, to.memory)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Settle()
	// The extra row's batch comes first, and locks that row only.
	to.meddle = func() { shop{1: {"x", ""}, 2: {"mine", ""}, 5: {"z", ""}}.fill(to.memory, rnd) }
	var told []string
	tally, err := l.Repair(t.Context(), from, to, Repairing{Execute: true, Done: func(int) error { return nil }, Tell: func(_ int, changes []Repaired) error {
		for _, c := range changes {
			told = append(told, fmt.Sprint(c.Kind, " ", *c.Key[0].Text))
		}
		return nil
	}})
	if want := []string{"extra 5", "different 1"}; err != nil || !slices.Equal(told, want) || tally.Changed != 1 {
		t.Errorf("told %q, want %q; %+v, %v", told, want, tally, err)
	}
}

// TestUnkeyedRowsChangedToAndFro: a row without a key that is missing at two looks may have been
// written again in between; one that is missing at three differs.
func TestUnkeyedRowsChangedToAndFro(t *testing.T) {
	x, y := [2]xxh3.Uint128{{Lo: 1}}, [2]xxh3.Uint128{{Lo: 2}}
	for _, c := range []struct {
		looks [][]Found
		want  bool
	}{
		{[][]Found{{{rows: x, count: 1}}, {{rows: x, count: 1}}}, false},
		{[][]Found{{{rows: x, count: 1}}, {{rows: x, count: 1}}, {{rows: x, count: 1}, {rows: y, count: 1}}}, true},
		{[][]Found{{{rows: x, count: 1}}, {{rows: x, count: 1}}, {{rows: x, count: 2}}, {{rows: x, count: 2}}}, false},
		{[][]Found{{{rows: x, count: 1}}, {{rows: x, count: 1}}, {{rows: y, count: 1}}, {{rows: x, count: 1}}, {{rows: x, count: 1}}}, false},
	} {
		live := &liveTable{table: &table{}}
		for _, found := range c.looks {
			live.result = TableResult{}
			live.seenUnkeyed(TableResult{Found: found})
		}
		if live.result.Unkeyed != c.want || live.whole == c.want {
			t.Errorf("%v: differs: %v, to be read again: %v", c.looks, live.result.Unkeyed, live.whole)
		}
	}
}
