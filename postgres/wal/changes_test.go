package wal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestChangesAreASet compares a set of pages with a naive one, through marks and cuts of forks of
// all sizes.
func TestChangesAreASet(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		c, plain := NewChanges(), map[uint32]bool{}
		f := Fork{Space: 1663, Database: 5, Relation: 16384, Number: MainFork}
		pages, limit := uint32(1)<<(4+rnd.IntN(15)), uint32(NoLimit)
		for range 20_000 {
			if rnd.IntN(5000) == 0 {
				n := rnd.Uint32N(pages)
				c.cut(f, n)
				if n < limit {
					limit = n
					for page := range plain {
						if page >= n {
							delete(plain, page)
						}
					}
				}
				continue
			}
			page := rnd.Uint32N(pages)
			c.mark(f, page)
			plain[page] = true
			c.mark(Fork{Space: 1663, Database: 5, Relation: 16384, Number: FreeSpaceFork}, page)
		}
		from, to := rnd.Uint32N(pages), rnd.Uint32N(pages)+1
		want := []uint32{}
		for page := range plain {
			if page >= from && page < to {
				want = append(want, page-from)
			}
		}
		slices.Sort(want)
		if got := c.Pages(f, from, to, 1<<20); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d to %d: %d pages, and not %d", seed, from, to, len(got), len(want))
		}
		if n := len(want); n > 0 && c.Pages(f, from, to, n-1) != nil {
			t.Errorf("seed %d: there are more than %d pages", seed, n-1)
		}
		held := forkBytes
		for i := range c.forks[f].chunks {
			held += chunkBytes + c.forks[f].chunks[i].size()
		}
		if c.held != held {
			t.Errorf("seed %d: %d bytes are counted, and it has %d", seed, c.held, held)
		}
		if got, there := c.Of(f); got != limit || !there || len(c.forks) != 1 {
			t.Errorf("seed %d: limit %d, and not %d; %d forks", seed, got, limit, len(c.forks))
		}
	}
}

// summaryOf creates a summary from bytes in hex, and appends the checksum.
func summaryOf(text string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		panic(err)
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

const (
	summaryBegin = "7b132b65 "
	summaryEnd   = " 00000000 00000000 00000000 00000000 00000000 00000000"
	// smallSummary has a fork of two chunks in which the pages 7, 3 and 65537 have changed.
	smallSummary = summaryBegin + "7f060000 05000000 00400000 00000000 ffffffff 02000000 0200 0100 0700 0300 0100" + summaryEnd
)

// TestSummary reads a summary written by hand, and checks the errors of invalid ones.
func TestSummary(t *testing.T) {
	f := Fork{Space: 1663, Database: 5, Relation: 16384}
	c := NewChanges()
	if err := c.AddSummary(bytes.NewReader(summaryOf(smallSummary))); err != nil {
		t.Fatal(err)
	}
	if got := c.Pages(f, 0, NoLimit, 10); !slices.Equal(got, []uint32{3, 7, 65537}) {
		t.Errorf("pages %v", got)
	}
	if err := (&Changes{forks: map[Fork]*forkChanges{}, most: 100}).AddSummary(bytes.NewReader(summaryOf(smallSummary))); !errors.Is(err, ErrTooMany) {
		t.Errorf("more than fits: %v", err)
	}
	good := summaryOf(smallSummary)
	for _, x := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "it is truncated"},
		{"another file", summaryOf("7c132b65" + summaryEnd), "it begins with 652B137C and not with 652B137B"},
		{"cut", good[:len(good)-1], "it is truncated"},
		{"longer", append(slices.Clone(good), 0), "it continues after its end"},
		{"a bit", slices.Concat(good[:32], []byte{good[32] ^ 1}, good[33:]), "its checksum is "},
		{"fork", summaryOf(summaryBegin + "7f060000 05000000 00400000 04000000 ffffffff 00000000" + summaryEnd), "it has a fork 4"},
		{"chunks", summaryOf(summaryBegin + "7f060000 05000000 00400000 00000000 ffffffff 01000100" + summaryEnd), "it has 65537 chunks of one fork"},
		{"chunk", summaryOf(summaryBegin + "7f060000 05000000 00400000 00000000 ffffffff 01000000 0110" + summaryEnd), "it has a chunk of 4097"},
	} {
		if err := NewChanges().AddSummary(bytes.NewReader(x.b)); err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// FuzzSummary reads arbitrary bytes as a summary.
func FuzzSummary(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(summaryOf(smallSummary))
	f.Add(summaryOf(summaryBegin + "7f060000 05000000 00000000 00000000 00000000 00000000" + summaryEnd))
	f.Add(summaryOf(summaryBegin + "7f060000 05000000 00400000 02000000 ffffffff 01000000 0010" + strings.Repeat("ff00", 4096) + summaryEnd))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewChanges()
		if c.AddSummary(bytes.NewReader(b)) != nil {
			return
		}
		for fork := range c.forks {
			pages := c.Pages(fork, 0, NoLimit, 1<<30)
			if !slices.IsSorted(pages) || len(slices.Compact(slices.Clone(pages))) != len(pages) {
				t.Errorf("%+v: pages %v", fork, pages)
			}
		}
	})
}

// TestCover checks which summaries are chosen.
func TestCover(t *testing.T) {
	var all []Summary
	for _, name := range []string{
		"0000000100000000000001000000000000000200.summary",
		"0000000100000000000002000000000000000300.summary",
		"0000000100000000000003000000000000000380.summary",
		"0000000200000000000003000000000000000400.summary",
		"0000000200000000000005000000000000000600.summary",
		"00000002000000000000050000000000000006.summary", // not names of summaries
		"0000000200000000000005000000000000000500.summary",
		"0000000200000000000005000000000000000600.summary.tmp",
	} {
		if s, ok := ParseSummaryName(name); ok {
			all = append(all, s)
		}
	}
	if len(all) != 5 {
		t.Errorf("%d names are summaries'", len(all))
	}
	slices.Reverse(all)
	for _, x := range []struct {
		timeline    uint32
		from, until uint64
		n           int
		to          uint64
	}{{1, 0x100, 0x380, 3, 0x380}, {1, 0x210, 0x300, 1, 0x300}, {1, 0x80, 0x300, 0, 0x80}, {2, 0x300, 0x600, 1, 0x400}, {2, 0x450, 0x600, 0, 0x450}, {2, 0x500, 0x600, 1, 0x600}, {3, 0, 1, 0, 0}} {
		if use, to := Cover(all, x.timeline, x.from, x.until); len(use) != x.n || to != x.to {
			t.Errorf("timeline %d from %X to %X: %d summaries up to %X", x.timeline, x.from, x.until, len(use), to)
		}
	}
}
