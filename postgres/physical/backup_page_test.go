package physical

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// dumbChecksum is the algorithm as described: word after word, lane after lane.
func dumbChecksum(page []byte, block uint32) uint16 {
	lanes := checksumStart
	step := func(i int, word uint32) {
		t := lanes[i] ^ word
		lanes[i] = t*checksumPrime ^ t>>17
	}
	for at := 0; at < len(page); at += 4 {
		word := binary.LittleEndian.Uint32(page[at:])
		if at == 8 {
			word &= 0xFFFF0000
		}
		step(at/4%checksumLanes, word)
	}
	var sum uint32
	for i := range lanes {
		step(i, 0)
		step(i, 0)
		sum ^= lanes[i]
	}
	return uint16((sum^block)%65535 + 1)
}

func TestPageChecksumIsTheDumbOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		page := make([]byte, 1024<<(n%6))
		for i := range page {
			page[i] = byte(random.Uint32())
		}
		before := string(page)
		block := random.Uint32()
		if got, want := pageChecksum(page, block), dumbChecksum(page, block); got != want {
			t.Fatalf("page of %d: got %#x, want %#x", len(page), got, want)
		}
		if string(page) != before {
			t.Fatal("the page was changed")
		}
	}
}

func TestPagesThatAreWrongAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	b := &Backup{dataFolder: dataFolder{facts: facts{page: 8192, segment: 1 << 30}}}
	f := &tidemark.DataFile{Path: "base/5/16384.2"}
	const first = 2<<17 + 3 // block of the relation at offset 3 pages of its third file
	content := make([]byte, 6*8192+100)
	for i := range content[8192:] { // the first page is new
		content[8192+i] = byte(random.Uint32())
	}
	for n := 1; n < 6; n++ {
		page := content[n*8192:][:8192]
		binary.LittleEndian.PutUint16(page[8:], dumbChecksum(page, uint32(first+n)))
	}
	if wrong := b.Check(f, 3*8192, content); wrong != nil {
		t.Fatalf("pages %v are said to be wrong", wrong)
	}
	for range 100 {
		at, bit := random.IntN(6*8192), byte(1)<<random.IntN(8)
		content[at] ^= bit
		if wrong := b.Check(f, 3*8192, content); len(wrong) != 1 || wrong[0] != at/8192*8192 {
			t.Fatalf("a bit at %d was changed: got %v", at, wrong)
		}
		content[at] ^= bit
	}
	if wrong := b.Check(f, 4*8192, content); len(wrong) != 5 {
		t.Errorf("of pages that are in another place, %v are said to be wrong", wrong)
	}
}

func BenchmarkPageChecksum(b *testing.B) {
	page := make([]byte, 8192)
	for i := range page {
		page[i] = byte(i * 7)
	}
	b.SetBytes(8192)
	var block uint32
	for b.Loop() {
		pageChecksum(page, block)
		block++
	}
}
