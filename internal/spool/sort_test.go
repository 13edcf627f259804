package spool

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// Records come back sorted, twice, whether or not they fit into memory, and also after more are
// added.
func TestSorter(t *testing.T) {
	for _, memory := range []int{1, 300, 5000, 1 << 20} {
		r := rand.New(rand.NewPCG(1, uint64(memory)))
		s := NewSorter(memory)
		var want [][]byte
		for range 2 {
			for range 500 {
				record := binary.BigEndian.AppendUint32(nil, r.Uint32()>>uint(r.IntN(30)))
				record = append(record, make([]byte, r.IntN(40))...)
				if r.IntN(50) == 0 {
					record = nil
				}
				want = append(want, record)
				if err := s.Add(record); err != nil {
					t.Fatal(err)
				}
			}
			slices.SortFunc(want, bytes.Compare)
			for range 2 {
				n := 0
				for got, err := range s.Sorted() {
					if err != nil || n == len(want) || !bytes.Equal(got, want[n]) {
						t.Fatalf("memory %d: record %d is %x, %v", memory, n, got, err)
					}
					n++
				}
				if n != len(want) {
					t.Fatalf("memory %d: %d of %d records", memory, n, len(want))
				}
			}
		}
		if spilled := len(s.runs) > 0; spilled != (memory < 1<<20) {
			t.Errorf("memory %d: %d runs", memory, len(s.runs))
		}
		s.Close()
	}
}
