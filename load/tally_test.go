package load

import (
	"math/rand/v2"
	"testing"
)

// TestTotals: the totals that are counted as tables change are the sums of all tables.
func TestTotals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	x := NewTally(make([]TableStatus, 3))
	for range 200 {
		x.Change(rnd.IntN(3), func(s *TableStatus) {
			s.Rows, s.Bytes, s.Done, s.Expected = s.Rows+rnd.Int64N(9), s.Bytes+rnd.Int64N(99), s.Done+rnd.Int64N(5), rnd.Int64N(999)
			s.State = []string{FullLoad, TableCompleted, TableError}[rnd.IntN(3)]
		})
		if got, want := x.Totals(), Sum(x.Snapshot()); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
}
