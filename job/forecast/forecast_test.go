package forecast

import (
	"math"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// planOfTables is a plan of tables with that many bytes, in ranges of at most 100, each with an
// index.
func planOfTables(bytes ...int64) *load.Plan {
	p := &load.Plan{Owner: map[string]int{}}
	for i, n := range bytes {
		id := tidemark.TableID{Schema: "s", Name: string(rune('a' + i))}
		t := &tidemark.Table{TableID: id, Bytes: n, Rows: n}
		p.Moves = append(p.Moves, tidemark.Move{From: t, To: t})
		p.Owner[id.String()] = i
		for left := n; left > 0; left -= 100 {
			p.Ranges = append(p.Ranges, tidemark.Range{ID: len(p.Ranges) + 1, Move: i, Bytes: min(left, 100)})
		}
		p.Objects = append(p.Objects, tidemark.Object{ID: "table " + id.String(), Kind: "table", Table: id},
			tidemark.Object{ID: "index " + id.String(), Kind: "index", Phase: tidemark.AfterTable, Table: id, Heavy: true, Bytes: n, Depends: []string{"table " + id.String()}})
	}
	return p
}

func close(got, want float64) bool { return math.Abs(got-want) < 0.01*max(want, 1) }

// The simulation against what one can work out by hand.
func TestSimulate(t *testing.T) {
	r := Rates{Rows: []Point{{1, 100}, {2, 150}}, Build: []Point{{1, 50}, {2, 100}}, Beside: Beside{1, 1}, Define: 1, Start: 0.5}
	one := Simulate(planOfTables(1000), r, 1, 1)
	if !close(one.Define, 1.5) || !close(one.Rows, 10) || !close(one.After, 20) || !close(one.Total(), 31.5) || one.Beside != 0 {
		t.Errorf("one table, one lane: %v", one)
	}
	// Two lanes move 150 together; the ranges of one table are shared.
	if two := Simulate(planOfTables(1000), r, 2, 1); !close(two.Rows, 1000.0/150) || !close(two.After, 20) {
		t.Errorf("one table, two lanes: %v", two)
	}
	// The index of a is built while b is read, at full rates: b takes 10 s, the index of a 20 s,
	// then that of b.
	if beside := Simulate(planOfTables(1000, 1000), r, 1, 1); !close(beside.Rows, 20) || !close(beside.Beside, 10) || !close(beside.After, 30) {
		t.Errorf("two tables: %v", beside)
	}
	// With half of the rates left beside each other, b takes 20 s and a's index 20 of its 20.
	r.Beside = Beside{0.5, 0.5}
	if shared := Simulate(planOfTables(1000, 1000), r, 1, 1); !close(shared.Rows, 30) || !close(shared.After, 10+20) {
		t.Errorf("two tables that share: %v", shared)
	}
	// Ten ranges with 1 s each beside their bytes.
	r.Range, r.Small = 1, 1
	if fixed := Simulate(planOfTables(1000), r, 1, 1); !close(fixed.Rows, 20) {
		t.Errorf("ranges with a fixed part: %v", fixed)
	}
	// A table that costs twice as much.
	r.Range, r.Small, r.Cost = 0, 0, map[int]float64{0: 2}
	if twice := Simulate(planOfTables(1000), r, 1, 1); !close(twice.Rows, 20) {
		t.Errorf("rows that cost more: %v", twice)
	}
}

// More lanes and builders never take longer if rates do not fall, whatever the plan.
func TestSimulateMoreIsNotSlower(t *testing.T) {
	r := Rates{Rows: []Point{{1, 100}, {2, 180}, {4, 200}}, Build: []Point{{1, 50}, {2, 80}}, Beside: Beside{1, 1}, Range: 0.01, Small: 0.01, Object: 0.01}
	for _, p := range []*load.Plan{planOfTables(1000), planOfTables(5000, 300, 20, 7), planOfTables(900, 800, 700, 600, 500, 400)} {
		last := math.Inf(1)
		for n := 1; n <= 4; n *= 2 {
			took := Simulate(p, r, n, 2).Total()
			if took > last*1.01 {
				t.Errorf("%d lanes take %.1f s, fewer %.1f", n, took, last)
			}
			last = took
		}
	}
	if n := Auto(r, 4); n != 2 {
		t.Errorf("%d lanes, though the third brings less than a tenth", n)
	}
}

// Foreign keys wait for the keys and rows that they need, an object that depends on nothing known
// is built all the same, and a plan without rows ends.
func TestSimulateDependencies(t *testing.T) {
	p := planOfTables(1000, 100)
	p.Objects = append(p.Objects, tidemark.Object{ID: "fk", Kind: "foreign key", Phase: tidemark.AfterRows, Table: p.Moves[1].To.TableID, Heavy: true, Bytes: 100, Depends: []string{"index s.a", "nothing"}})
	r := Rates{Rows: []Point{{1, 100}}, Build: []Point{{1, 100}}, Beside: Beside{1, 1}}
	if got := Simulate(p, r, 1, 1); got.Last != "fk" {
		t.Errorf("%v", got)
	}
	if got := Simulate(&load.Plan{Objects: []tidemark.Object{{ID: "view", Kind: "view", Phase: tidemark.AfterRows}}}, r, 2, 2); got.Total() != 0 || got.Last != "view" {
		t.Errorf("%v", got)
	}
}

// Halves of a trial that differ widely tell nothing, and that is said in figures.
func TestCheckNoise(t *testing.T) {
	if err := checkNoise(2, 10<<20, 12<<20); err != nil {
		t.Error(err)
	}
	for _, x := range [][2]float64{{10 << 20, 3 << 20}, {3 << 20, 10 << 20}, {5 << 20, 0}} {
		err := checkNoise(2, x[0], x[1])
		if tidemark.KindOf(err) != tidemark.Transient || !strings.Contains(err.Error(), "too busy to tell") || !strings.Contains(err.Error(), "MB/s") || tidemark.HintOf(err) == "" {
			t.Errorf("%v: %v", x, err)
		}
	}
}

// Past runs scale by rows, the newest counting most; earlier forecasts correct the next one, and
// one alone is half believed.
func TestPast(t *testing.T) {
	if took, off := scaled([]past{{rows: 100, seconds: 10}}, 200); took != 20 || off < ofPastRuns {
		t.Errorf("%.1f s, off %.2f", took, off)
	}
	took, off := scaled([]past{{rows: 100, seconds: 10}, {rows: 100, seconds: 40}}, 100)
	if took <= 10 || took >= 25 || off < 0.5 {
		t.Errorf("%.1f s, off %.2f", took, off)
	}
	if f, n := correction([]past{{foreseen: &job.Foreseen{Expected: 10, Took: 40}}}); n != 1 || !close(f, 2) {
		t.Errorf("factor %.2f of %d", f, n)
	}
	if f, n := correction([]past{{}, {foreseen: nil}}); n != 0 || f != 1 {
		t.Errorf("factor %.2f of %d", f, n)
	}
	var right []past
	for range 5 {
		right = append(right, past{foreseen: &job.Foreseen{Expected: 10, Took: 20}})
	}
	if f, n := correction(right); n != 5 || f < 1.7 || f > 2 {
		t.Errorf("factor %.2f of %d", f, n)
	}
}
