package repo

import (
	"fmt"
	"hash/crc32"
	"runtime"
	"testing"
)

// heap returns the live heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Verify keeps a few bytes per file for its checksum, and nothing per piece.
func TestVerifyKeepsNothingOfPieces(t *testing.T) {
	const packs, files, extents = 60, 500, 4 // per pack; per file
	ctx := t.Context()
	r := must(Create(ctx, newMemory(), Keys{}))
	w := must(r.Begin(ctx, BeginOptions{}))
	plain := []byte("some bytes")
	for n := range packs {
		p := w.NewPack(ctx)
		ref := must(p.Append(must(w.Sealer(Codec{}).Seal(nil, plain))))
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range files {
			f := File{Path: Path(fmt.Sprintf("base/%d/%d", n, i)), Size: extents, CRC: crc32.Checksum(plain[:extents], castagnoli)}
			for at := range extents {
				f.Extents = append(f.Extents, Extent{At: int64(at), Length: 1, Skip: uint32(at), Ref: ref})
			}
			if err := w.AddFile(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := must(w.Publish(ctx, Manifest{Engine: "postgres"}))
	for range r.Files(ctx, m) { // memory of the list reader stays
	}
	before, most := heap(), int64(0)
	var looks int
	v := must(r.Verify(ctx, VerifyOptions{Workers: 1, memory: 256 << 10, Progress: func(int64, int64) {
		if looks++; looks < 4 {
			most = max(most, heap()-before)
		}
	}}))
	if len(v.Damages) > 0 || v.Files != packs*files || v.Packs != packs+1 {
		t.Fatalf("%+v", v)
	}
	// 30,000 files with 120,000 extents: 1.4 to 2.9 MB, and 4.5 once beside a load. With a record
	// for each extent it would be 9 MB.
	if looks == 0 || most > 6<<20 {
		t.Errorf("while it reads packs it keeps %d bytes", most)
	}
}
