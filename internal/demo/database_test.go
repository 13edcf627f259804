package main

import "testing"

func TestDifferences(t *testing.T) {
	for _, x := range []struct {
		source, target []uint64
		lost, doubled  int
	}{
		{nil, nil, 0, 0},
		{[]uint64{1, 2, 2, 3}, []uint64{1, 2, 2, 3}, 0, 0},
		{[]uint64{1, 2, 2, 3}, []uint64{1, 2, 3}, 1, 0},
		{[]uint64{1, 2, 3}, []uint64{1, 2, 2, 3, 3}, 0, 2},
		{[]uint64{1, 5}, []uint64{2, 5, 7}, 1, 2},
	} {
		if lost, doubled := differences(x.source, x.target); lost != x.lost || doubled != x.doubled {
			t.Errorf("%v, %v: lost %d, doubled %d", x.source, x.target, lost, doubled)
		}
	}
}
