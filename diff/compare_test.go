package diff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
)

var text = tidemark.Type{Kind: tidemark.Text, Native: "text", Portable: true}

// nasty are values that formats have to write with care.
var nasty = []*string{nil, str(""), str(`\N`), str("N"), str("a"), str("b"), str("ab"), str("a\tb"), str("\t"), str("a\nb"), str("\n"),
	str(`\`), str(`\\`), str(`\t`), str("\x00"), str("\x1a"), str("\r\v\f\b"), str("é😀"), str("0"), str(strings.Repeat("long", 40))}

// cell formats a value as a word, for comparison.
func cell(v *string) string {
	if v == nil {
		return "NULL"
	}
	return fmt.Sprintf("%q", *v)
}

func cells(row []*string) string {
	var out []string
	for _, v := range row {
		out = append(out, cell(v))
	}
	return strings.Join(out, " ")
}

// dumb compares two tables the obvious way. Each difference is a line.
func dumb(a, b [][]*string, key []int) []string {
	if len(key) == 0 {
		return dumbMultiset(a, b)
	}
	index := func(rows [][]*string) map[string][]*string {
		out := map[string][]*string{}
		for _, r := range rows {
			out[keyCells(r, key)] = r
		}
		return out
	}
	as, bs := index(a), index(b)
	var out []string
	for k, r := range as {
		o, ok := bs[k]
		switch {
		case !ok:
			out = append(out, "missing "+k)
		case cells(o) != cells(r):
			line := "different " + k
			for i := range r {
				if cell(r[i]) != cell(o[i]) {
					line += fmt.Sprintf(" %c:%s->%s", 'a'+i, cell(r[i]), cell(o[i]))
				}
			}
			out = append(out, line)
		}
	}
	for k := range bs {
		if _, ok := as[k]; !ok {
			out = append(out, "extra "+k)
		}
	}
	slices.Sort(out)
	return out
}

func keyCells(r []*string, key []int) string {
	var out []*string
	for _, k := range key {
		out = append(out, r[k])
	}
	return cells(out)
}

func dumbMultiset(a, b [][]*string) []string {
	n := map[string]int{}
	for _, r := range a {
		n[cells(r)]++
	}
	for _, r := range b {
		n[cells(r)]--
	}
	var out []string
	for r, k := range n {
		for ; k > 0; k-- {
			out = append(out, "missing "+r)
		}
		for ; k < 0; k++ {
			out = append(out, "extra "+r)
		}
	}
	slices.Sort(out)
	return out
}

// lines returns a TableResult's rows in the form of dumb. Long values are shortened; the tests have
// only one long value.
func lines(t TableResult) []string {
	var out []string
	full := func(s *string) *string {
		if s != nil && strings.HasSuffix(*s, "... (160 bytes)") {
			return str(strings.Repeat("long", 40))
		}
		if s != nil && strings.HasPrefix(*s, "0x") {
			panic("a value of the tests was taken for bytes: " + *s)
		}
		return s
	}
	for _, r := range t.Rows {
		var vs []*string
		for _, v := range r.Values {
			vs = append(vs, full(v.Text))
		}
		line := string(r.Kind) + " " + cells(vs)
		for _, c := range r.Changes {
			line += fmt.Sprintf(" %s:%s->%s", c.Column, cell(full(c.Source)), cell(full(c.Target)))
		}
		for range r.Count {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

func drawRows(r *rapid.T, columns int, key []int) [][]*string {
	rows := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(nasty), columns, columns), 0, 60).Draw(r, "rows")
	if len(key) == 0 {
		return rows
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(rows, func(row []*string) bool {
		k := keyCells(row, key)
		defer func() { seen[k] = true }()
		return seen[k]
	})
}

// mutate returns another table with some rows removed, added and changed.
func mutate(r *rapid.T, rows [][]*string, columns int, key []int) [][]*string {
	out := slices.Clone(rows)
	taken := map[string]bool{}
	for _, row := range rows {
		taken[keyCells(row, key)] = true
	}
	for range rapid.IntRange(0, 8).Draw(r, "mutations") {
		i := rapid.IntRange(0, max(len(out)-1, 0)).Draw(r, "which")
		switch op := rapid.IntRange(0, 2).Draw(r, "op"); {
		case op == 0 && len(out) > 0:
			out = slices.Delete(out, i, i+1)
		case op == 1 && len(out) > 0:
			row := slices.Clone(out[i])
			c := rapid.IntRange(0, columns-1).Draw(r, "column")
			if !slices.Contains(key, c) {
				row[c] = rapid.SampledFrom(nasty).Draw(r, "value")
				out[i] = row
			}
		case op == 2:
			row := rapid.SliceOfN(rapid.SampledFrom(nasty), columns, columns).Draw(r, "row")
			if k := keyCells(row, key); len(key) == 0 || !taken[k] {
				taken[k] = true
				out = append(out, row)
			}
		}
	}
	return out
}

func drawSide(r *rapid.T, rnd *rand.Rand, name string, rows [][]*string) *memory {
	shuffled := slices.Clone(rows)
	rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return &memory{rows: map[tidemark.TableID][][]*string{{Schema: "s", Name: name}: shuffled}, rand: rnd,
		ranges: rapid.IntRange(1, 4).Draw(r, "ranges"), batch: rapid.IntRange(0, 400).Draw(r, "batch"), piece: rapid.SampledFrom([]int{0, 1, 7, 100}).Draw(r, "piece")}
}

// The clever comparison against the dumb one, in all formats, with and without
// keys, with many passes and with one.
func TestCompareAgainstDumbTwin(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		columns := rapid.IntRange(1, 4).Draw(r, "columns")
		key := rapid.Permutation([]int{0, 1, 2, 3}[:columns]).Draw(r, "key")[:rapid.IntRange(0, columns).Draw(r, "key columns")]
		rows := drawRows(r, columns, key)
		other := mutate(r, rows, columns, key)
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
		types := slices.Repeat([]tidemark.Type{text}, columns)
		pair := pairOf("t", types, types, key...)
		engine := rapid.SampledFrom([]string{"postgres", "mysql", "file", ""}).Draw(r, "engine")
		opt := Options{SourceEngine: engine, TargetEngine: engine, Lanes: rapid.IntRange(1, 3).Draw(r, "lanes"), Hashers: rapid.IntRange(1, 3).Draw(r, "hashers"),
			Buckets: rapid.SampledFrom([]int{0, 1, 2, 3, 16, 1000}).Draw(r, "buckets"), Held: rapid.SampledFrom([]int{0, 1, 10}).Draw(r, "held"), MaxPrinted: 1000, Passes: 1000}
		var source, target Side = drawSide(r, rnd, "t", rows), drawSide(r, rnd, "t", other)
		switch rapid.IntRange(0, 3).Draw(r, "summers") {
		case 1:
			source, target = summing{source.(*memory), nil}, summing{target.(*memory), nil}
		case 2:
			source, target = summing{source.(*memory), nil}, summing{target.(*memory), errors.New("refused")}
		case 3:
			target = summing{target.(*memory), nil}
		}
		got, err := Compare(t.Context(), source, target, []Pair{pair}, opt)
		if err != nil {
			r.Fatal(err)
		}
		res := got.Tables[0]
		want := dumb(rows, other, key)
		seen[res.Format]++
		if d := cmp.Diff(want, lines(res)); d != "" {
			r.Fatal(d)
		}
		if res.Equal != (len(want) == 0) || got.Equal != res.Equal || res.Missing+res.Extra+res.Different != int64(len(want)) || res.Partial || res.Changed {
			r.Fatalf("%+v", res)
		}
		if res.SourceRows != int64(len(rows)) || res.TargetRows != int64(len(other)) {
			r.Fatalf("%d and %d rows, want %d and %d", res.SourceRows, res.TargetRows, len(rows), len(other))
		}
	})
	for _, f := range []string{tidemark.CopyText.String(), tidemark.CopyBinary.String(), tidemark.LoadData.String(), byServers} {
		if seen[f] == 0 && !testing.Short() { // with -short rapid draws a fifth: too few for all of them
			t.Errorf("%v was never used", f)
		}
	}
}

func side(rows map[string][][]*string) *memory {
	out := &memory{rows: map[tidemark.TableID][][]*string{}, ranges: 2, batch: 4000}
	for name, r := range rows {
		out.rows[tidemark.TableID{Schema: "s", Name: name}] = r
	}
	return out
}

func numbered(n int, value string) [][]*string {
	out := make([][]*string, n)
	for i := range out {
		out[i] = []*string{str(fmt.Sprint(i)), str(value)}
	}
	return out
}

func TestManyTablesAndWhatIsPrinted(t *testing.T) {
	a := map[string][][]*string{"equal": numbered(1000, "x"), "empty": nil, "gone": numbered(500, "y"), "changed": numbered(5000, "z"), "dup": {{str("1"), nil}, {str("1"), nil}, {str("1"), nil}}}
	b := maps.Clone(a)
	b["gone"] = nil
	changed := slices.Clone(a["changed"])
	changed[17] = []*string{str("17"), nil}
	changed[18] = []*string{str("18"), str("z ")}
	changed = append(changed[:100], changed[101:]...)
	changed = append(changed, []*string{str("9999999"), str("new\n")})
	b["changed"] = changed
	b["dup"] = a["dup"][:1]
	types := []tidemark.Type{text, text}
	var pairs []Pair
	for _, name := range []string{"equal", "empty", "gone", "changed"} {
		pairs = append(pairs, pairOf(name, types, types, 0))
	}
	pairs = append(pairs, pairOf("dup", types, types))
	got, err := Compare(t.Context(), side(a), side(b), pairs, Options{MaxPrinted: 4, Lanes: 2, Buckets: 4})
	if err != nil {
		t.Fatal(err)
	}
	out := got.String()
	for _, want := range []string{
		"s.equal: equal, 1000 rows\n",
		"s.empty: equal, 0 rows\n",
		"s.gone: 500 missing on the target, 500 rows on the source and 0 on the target\n  missing    a=",
		"\n  and 496 more\n",
		"s.changed: 1 missing on the target, 1 extra on the target, 2 different, 5000 rows on each side\n",
		"  missing    a=100\n",
		"  extra      a=9999999\n",
		`  different  a=17: b "z" -> NULL` + "\n",
		`  different  a=18: b "z" -> "z "` + "\n",
		"s.dup: 2 missing on the target, 3 rows on the source and 1 on the target\n  missing    a=1  b=NULL  (2 times)\n",
		"5 tables compared, 2 equal, 3 not\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var back Result
	if j, err := json.Marshal(got); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(j, &back); err != nil || cmp.Diff(got, back) != "" {
		t.Errorf("%v: %s", err, cmp.Diff(got, back))
	}
}

// Equal tables of servers that hash them are not read; those that differ are, once for their sums
// and once for their rows.
func TestServersAreAskedFirst(t *testing.T) {
	rows := numbered(1000, "x")
	other := slices.Clone(rows)
	other[5] = []*string{str("5"), str("y")}
	a, b := side(map[string][][]*string{"t": rows, "u": rows}), side(map[string][][]*string{"t": rows, "u": other})
	types := []tidemark.Type{text, text}
	pairs := []Pair{pairOf("t", types, types, 0), pairOf("u", types, types, 0)}
	var mu sync.Mutex
	var bytes, more int64
	opt := Options{SourceEngine: "postgres", TargetEngine: "postgres", Progress: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		bytes, more = bytes+e.Bytes, more+e.More
	}}
	got, err := Compare(t.Context(), summing{a, nil}, summing{b, nil}, pairs, opt)
	if err != nil {
		t.Fatal(err)
	}
	if x := got.Tables[0]; !x.Equal || x.Format != byServers || x.SourceRows != 1000 {
		t.Errorf("got %+v", x)
	}
	if x := got.Tables[1]; x.Equal || x.Different != 1 || len(x.Rows) != 1 {
		t.Errorf("got %+v", x)
	}
	if n := a.reads.Load(); n > 3*2 {
		t.Errorf("%d ranges of the source were read", n)
	}
	opt.ReadRows = true
	if got, err = Compare(t.Context(), summing{a, nil}, summing{b, nil}, pairs, opt); err != nil || got.Tables[0].Format == byServers {
		t.Errorf("got %v, %v", got, err)
	}
}

// A target that is completely empty is not read twice as a whole: a few ranges are enough to show a
// few rows.
func TestRowsOfAnEmptyTargetAreCountedWithoutReadingThemAgain(t *testing.T) {
	a, b := side(map[string][][]*string{"t": numbered(100_000, "x")}), side(nil)
	a.ranges = 50
	got, err := Compare(t.Context(), a, b, []Pair{pairOf("t", []tidemark.Type{text, text}, []tidemark.Type{text, text}, 0)}, Options{MaxPrinted: 5, Buckets: 8})
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Tables[0]; r.Missing != 100_000 || len(r.Rows) != 5 || r.Changed || r.Equal {
		t.Errorf("got %v", r)
	}
	if n := a.reads.Load(); n > 60 {
		t.Errorf("%d ranges were read, of 50", n)
	}
}

func TestTooManyDifferencesArePartial(t *testing.T) {
	a, b := side(map[string][][]*string{"t": numbered(5000, "x")}), side(map[string][][]*string{"t": numbered(5000, "y")})
	got, err := Compare(t.Context(), a, b, []Pair{pairOf("t", []tidemark.Type{text, text}, []tidemark.Type{text, text}, 0)}, Options{Buckets: 64, Held: 1000, Passes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Tables[0]; !r.Partial || r.Different < 500 || r.Different > 1000 || len(r.Rows) != defaultPrinted {
		t.Errorf("got %v", r)
	}
	if !strings.Contains(got.String(), "at least ") {
		t.Error(got)
	}
}

// A single bucket for a table that turns out to be large is corrected before the second pass.
func TestBucketsFollowTheRows(t *testing.T) {
	rows := numbered(50_000, "x")
	other := slices.Clone(rows)
	other[33_333] = []*string{str("33333"), str("other")}
	p := pairOf("t", []tidemark.Type{text, text}, []tidemark.Type{text, text}, 0)
	p.Source.From.Rows, p.Target.From.Rows = 10, 10
	got, err := Compare(t.Context(), side(map[string][][]*string{"t": rows}), side(map[string][][]*string{"t": other}), []Pair{p}, Options{Held: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	if p.Source.From.Rows != 10 {
		t.Error("the caller's table was changed")
	}
	if want := "s.t: 1 different, 50000 rows on each side\n  different  a=33333: b \"x\" -> \"other\"\n"; got.Tables[0].String() != want {
		t.Errorf("got %v", got)
	}
}

func TestHeavyDuplicatesAreHeldOnce(t *testing.T) {
	rows := make([][]*string, 70_000)
	for i := range rows {
		rows[i] = []*string{str("same"), nil}
	}
	p := pairOf("t", []tidemark.Type{text, text}, []tidemark.Type{text, text})
	got, err := Compare(t.Context(), side(map[string][][]*string{"t": rows}), side(map[string][][]*string{"t": rows[:69_990]}), []Pair{p}, Options{Held: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Tables[0]; r.Missing != 10 || len(r.Rows) != 1 || r.Rows[0].Count != 10 {
		t.Errorf("got %v", r)
	}
}

// What a worker holds is bounded by the different rows, not by all of them.
func TestEqualRowsAreCompactedWhileTheyCome(t *testing.T) {
	c := newComparison(nil, nil, Options{Hashers: 1})
	tab, err := c.newTable(0, pairOf("t", []tidemark.Type{text}, []tidemark.Type{text}))
	if err != nil {
		t.Fatal(err)
	}
	tab.chooseBuckets(1)
	l := newLook(tab, 1)
	l.wanted[0] = held
	data := []byte(strings.Repeat("same\n", 10_000))
	for range 30 {
		if n, err := l.visit(c.hasher(0, 0, tab), 1, 0, &task{table: tab}, data); n != 10_000 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := len(l.entries[0][0]); n >= 1<<16 {
		t.Errorf("%d entries are held for 300,000 equal rows", n)
	}
	if got := compact(l.entries[0][0]); len(got) != 1 || got[0].rows != 300_000 {
		t.Errorf("compacted to %+v", got)
	}
}

func TestRowsOfGiants(t *testing.T) {
	big := strings.Repeat("0123456789abcde\n", 20_000) // longer when escaped
	rows := [][]*string{{str("1"), &big}, {str("2"), str("x")}, {str("3"), &big}, {str("4"), str(big[1:])}}
	other := slices.Clone(rows)
	other[2] = []*string{str("3"), str(big[:len(big)-1] + "!")}
	for _, engine := range []string{"postgres", "mysql", ""} {
		p := pairOf("t", []tidemark.Type{text, text}, []tidemark.Type{text, text}, 0)
		a, b := side(map[string][][]*string{"t": rows}), side(map[string][][]*string{"t": other})
		a.piece, b.piece = 40_000, 39_999
		got, err := Compare(t.Context(), a, b, []Pair{p}, Options{SourceEngine: engine, TargetEngine: engine, Lanes: 2})
		if err != nil {
			t.Fatal(err)
		}
		r := got.Tables[0]
		if r.Different != 1 || r.Missing+r.Extra != 0 || r.Rows[0].Values[0].Text == nil || *r.Rows[0].Values[0].Text != "3" ||
			!strings.HasSuffix(*r.Rows[0].Changes[0].Source, "... (320000 bytes)") {
			t.Errorf("%s: got %v", engine, r)
		}
	}
}

func TestZeroColumns(t *testing.T) {
	p := pairOf("t", nil, nil)
	got, err := Compare(t.Context(), side(map[string][][]*string{"t": {{}, {}}}), side(map[string][][]*string{"t": {{}, {}, {}}}), []Pair{p}, Options{SourceEngine: "postgres", TargetEngine: "postgres"})
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Tables[0]; r.Extra != 1 || r.SourceRows != 2 {
		t.Errorf("got %v", r)
	}
}

func TestErrors(t *testing.T) {
	two := []tidemark.Type{text, text}
	good := pairOf("t", two, two, 0)
	rows := map[string][][]*string{"t": numbered(3, "x")}
	broken := side(rows)
	broken.fail = &tidemark.Error{Kind: tidemark.Forbidden, Op: "read", Object: "s.t", Err: errors.New("permission denied"), Hint: "GRANT SELECT ON s.t TO u"}
	for _, c := range []struct {
		name   string
		target Side
		pair   Pair
		kind   tidemark.Kind
		text   string
	}{
		{"columns", side(rows), pairOf("t", two, two[:1], 0), tidemark.Invalid, "compare s.t with s.t: 2 columns cannot be compared with 1"},
		{"key", side(rows), pairOf("t", two, two, 2), tidemark.Invalid, "compare s.t with s.t: there is no column 2 for the key"},
		{"side", broken, good, tidemark.Forbidden, "compare target table s.t: read s.t: permission denied"},
		{"rows", miscounting{side(rows)}, good, tidemark.BadInput, "compare target table s.t: read rows as COPY text: a batch said to hold 4 rows holds 3"},
		{"cut", cutting{side(rows)}, good, tidemark.BadInput, "compare target table s.t: read rows as COPY text: an invalid row"},
	} {
		_, err := Compare(t.Context(), side(rows), c.target, []Pair{c.pair}, Options{})
		if err == nil || err.Error() != c.text || tidemark.KindOf(err) != c.kind {
			t.Errorf("%s: got %v (%v), want %s (%v)", c.name, err, tidemark.KindOf(err), c.text, c.kind)
		}
	}
	if _, err := Compare(t.Context(), broken, side(rows), []Pair{good}, Options{}); tidemark.HintOf(err) != "GRANT SELECT ON s.t TO u" {
		t.Errorf("the hint is lost: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compare(ctx, side(rows), side(rows), []Pair{good}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// miscounting and cutting are sides with a fault.
type miscounting struct{ *memory }

func (m miscounting) Split(ctx context.Context, mv *tidemark.Move) ([]tidemark.Range, error) {
	m.ranges = 1
	return m.memory.Split(ctx, mv)
}

func (m miscounting) Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	m.batch = 1 << 20
	return m.memory.Read(ctx, lane, r, func(b *tidemark.Batch) error { b.Rows++; return emit(b) })
}

type cutting struct{ *memory }

func (m cutting) Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	return m.memory.Read(ctx, lane, r, func(b *tidemark.Batch) error {
		if len(b.Data) > 0 {
			b.Data = b.Data[:len(b.Data)-1]
		}
		return emit(b)
	})
}

func TestProgress(t *testing.T) {
	var mu sync.Mutex
	var rows [2]int64
	var done []int
	p := pairOf("t", []tidemark.Type{text, text}, []tidemark.Type{text, text}, 0)
	_, err := Compare(t.Context(), side(map[string][][]*string{"t": numbered(100, "x")}), side(map[string][][]*string{"t": numbered(99, "x")}), []Pair{p}, Options{Progress: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Done != nil {
			done = append(done, int(e.Done.Missing))
			return
		}
		if e.Pass == 1 {
			rows[e.Side] += e.Rows
		}
	}})
	if err != nil || rows != [2]int64{100, 99} || !slices.Equal(done, []int{1}) {
		t.Errorf("%v: rows %v, done %v", err, rows, done)
	}
}
