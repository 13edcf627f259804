package binlog

import (
	"context"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// BenchmarkScan reads a log of transactions with rows of various sizes, from a file in the page
// cache, checksums included. Reading a file once creates hardly any garbage.
func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name string
		rows int
	}{{"rows-100B", 100}, {"rows-1kB", 1 << 10}, {"rows-8kB", 8 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			w := newWriter("8.0.33")
			for i := uint64(1); len(w.b) < 64<<20; i++ {
				w.transaction(i, c.rows)
			}
			f, err := Open([]string{write(b, b.TempDir(), "binlog.000001", w.b)}, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(w.b)))
			b.ReportAllocs()
			records := 0
			for b.Loop() {
				records = 0
				out, err := f.Scan(context.Background(), func(r *tidemark.LogRecord) error {
					records++
					return nil
				})
				if err != nil || out.Bytes != int64(len(w.b)) {
					b.Fatalf("%v, %d bytes", err, out.Bytes)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/event")
		})
	}
}

// The number of allocations does not depend on the number of events.
func TestNoGarbage(t *testing.T) {
	allocs := func(transactions int) float64 {
		w := newWriter("8.0.33")
		for i := range transactions {
			w.transaction(uint64(i), 50)
		}
		path := write(t, t.TempDir(), "binlog.000001", w.b)
		f, err := Open([]string{path}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(3, func() {
			if _, err := f.Scan(context.Background(), func(*tidemark.LogRecord) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	if few, many := allocs(10), allocs(5000); many > few+1000 { // of 25000 events; other goroutines may allocate too
		t.Errorf("%v allocations for 10 transactions, %v for 5000", few, many)
	}
}
