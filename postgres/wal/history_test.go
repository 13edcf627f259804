package wal

import (
	"slices"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

func TestParseHistory(t *testing.T) {
	left, err := ParseHistory("# a remark\n\n1\t0/3000000\tno reason\n\n2\t1/B0\tbefore 2000-01-01\n")
	if err != nil || !slices.Equal(left, []tidemark.LogPlace{{Timeline: 1, Place: 0x3000000}, {Timeline: 2, Place: 1<<32 | 0xB0}}) {
		t.Errorf("%v, %v", left, err)
	}
	for _, text := range []string{"1\tnowhere\n", "x\t0/3000000\n", "1\t0/300000000\n"} {
		if _, err := ParseHistory(text); tidemark.KindOf(err) != tidemark.BadInput {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseName(t *testing.T) {
	for name, want := range map[string]uint64{"00000002000000010000000A": 1<<32 | 10<<24, "000000020000000000000001": 1 << 24} {
		at, ok := ParseName(name, 16<<20)
		if !ok || at.Timeline != 2 || at.Place != want || SegmentName(2, want, 16<<20) != name {
			t.Errorf("%s is %+v", name, at)
		}
	}
	for _, name := range []string{"00000002.history", "00000002000000010000000A.partial", "000000020000000100000100", "000000000000000100000001", "00000002000000010000000g"} {
		if at, ok := ParseName(name, 16<<20); ok {
			t.Errorf("%s is taken for %+v", name, at)
		}
	}
}
