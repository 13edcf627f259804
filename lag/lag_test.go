package lag

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestMarks compares Marks with a completely known log.
func TestMarks(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		now := time.Unix(1_000_000, 0)
		var m Marks
		var log []time.Time // of the transaction that ends at its index + 1
		applied, asked := 0, now
		asks := []time.Time{now}
		m.Complete(now)
		away := time.Time{} // until then nobody asks
		for range 400 {
			now = now.Add(time.Duration(1+rnd.IntN(300)) * time.Millisecond)
			if rnd.IntN(50) == 0 {
				away = now.Add(time.Duration(rnd.IntN(5000)) * time.Millisecond)
			}
			switch rnd.IntN(4) {
			case 0:
				log = append(log, now)
			case 1:
				applied += rnd.IntN(len(log) - applied + 1)
				m.Done(uint64(applied))
			default:
				if now.Before(away) {
					continue
				}
				m.Add(now, uint64(len(log)))
				asked, asks = now, append(asks, now)
			}
			oldest, waits := m.Oldest()
			if waits != (applied < len(log) && !log[applied].After(asked)) {
				t.Fatalf("seed %d: %v, with %d of %d applied", seed, waits, applied, len(log))
			}
			if !waits {
				continue
			}
			if late := oldest.Sub(log[applied]); late > gap {
				t.Fatalf("seed %d: seen %v after its commit", seed, late)
			}
			between := func(at time.Time) bool { return at.After(oldest) && at.Before(log[applied]) }
			if oldest.Before(log[applied]) && slices.ContainsFunc(asks, between) {
				t.Fatalf("seed %d: seen %v before its commit, though the log's end was known between", seed, log[applied].Sub(oldest))
			}
			if at := m.Before(uint64(applied)); at.After(log[applied]) {
				t.Fatalf("seed %d: committed %v before it is said to be", seed, at.Sub(log[applied]))
			}
		}
	}
}

// TestManyMarks tests a target that has been away for a long time.
func TestManyMarks(t *testing.T) {
	var m Marks
	begin := time.Unix(1_000_000, 0)
	const n = 100_000
	for i := range n {
		m.Add(begin.Add(time.Duration(i)*time.Second), uint64(i+1))
	}
	if len(m.marks) > most {
		t.Errorf("%d marks", len(m.marks))
	}
	if at, ok := m.Oldest(); !ok || !at.Equal(begin) {
		t.Errorf("the oldest is %v", at)
	}
	m.Done(n / 2)
	if at, _ := m.Oldest(); at.Sub(begin) < (n/2-n/500)*time.Second || at.Sub(begin) > (n/2+n/500)*time.Second {
		t.Errorf("the oldest is %v behind the first", at.Sub(begin))
	}
	m.Add(begin.Add(n*time.Second), 7) // another log
	if _, ok := m.Oldest(); !ok {
		t.Error("nothing waits")
	}
}

// TestQuiet tests a log that does not grow.
func TestQuiet(t *testing.T) {
	var m Marks
	at := time.Unix(1_000_000, 0)
	m.Add(at, 5)
	m.Done(5)
	m.Add(at.Add(70*time.Second), 5)
	if _, ok := m.Oldest(); ok {
		t.Error("something waits")
	}
	m.Add(at.Add(71*time.Second), 6)
	if got := m.Before(5); !got.Equal(at.Add(70 * time.Second)) {
		t.Errorf("committed behind %v", got)
	}
	if got, ok := m.Oldest(); !ok || !got.Equal(at.Add(71*time.Second)) {
		t.Errorf("the oldest is %v", got)
	}
}

// TestOldestIsTheFirstSight: what waits was committed before the log was first seen to have grown,
// however often it is seen like that.
func TestOldestIsTheFirstSight(t *testing.T) {
	var m Marks
	at := time.Unix(1_000_000, 0)
	for i := range 10 {
		m.Add(at.Add(time.Duration(i)*time.Second), 5)
	}
	if got, ok := m.Oldest(); !ok || !got.Equal(at) {
		t.Errorf("the oldest is %v behind the first sight", got.Sub(at))
	}
}
