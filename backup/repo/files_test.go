package repo

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Listed files can be read back while more are added, and what turned out not to belong is in no
// list.
func TestListed(t *testing.T) {
	ctx := t.Context()
	r := must(Create(ctx, newMemory(), passphrase))
	w := must(r.Begin(ctx, BeginOptions{}))
	rnd := rand.New(rand.NewPCG(1, 1))
	n := 0
	add := func(more int) {
		t.Helper()
		for range more {
			name := Path(fmt.Sprintf("base/%d/%x", n%7, rnd.Uint64()))
			if n%3 == 0 {
				name = Path(fmt.Sprint("left/", n))
			}
			if err := w.AddFile(File{Path: name, Size: int64(n), CRC: ZerosCRC(int64(n))}); err != nil {
				t.Fatal(err)
			}
			n++
		}
		at := 0
		for f, err := range w.Listed(ctx) {
			if err != nil || f.Size != int64(at) {
				t.Fatalf("the file %d of %d is %+v, %v", at, n, f, err)
			}
			at++
		}
		if at != n {
			t.Fatalf("%d of %d files are listed", at, n)
		}
	}
	add(0)
	add(10) // not in a piece
	add(30_000)
	add(30_000)
	add(1)
	m := must(w.Publish(ctx, Manifest{Left: []Path{"left", "base/1"}}))
	if len(m.Lists) < 3 || len(m.Packs) < 2 || m.Count != int64(n) {
		t.Fatalf("%d files in %d pieces of %d packs", m.Count, len(m.Lists), len(m.Packs))
	}
	got := 0
	for f, err := range r.Files(ctx, must(r.Manifest(ctx, m.ID))) {
		if err != nil || f.Size%3 == 0 || f.Size%7 == 1 {
			t.Fatalf("%+v, %v", f, err)
		}
		got++
	}
	want := 0
	for i := range n {
		if i%3 != 0 && i%7 != 1 {
			want++
		}
	}
	if got != want {
		t.Errorf("%d files of %d are in the backup", got, want)
	}
	if v := must(r.Verify(ctx, VerifyOptions{})); len(v.Damages)+len(v.Left) > 0 {
		t.Errorf("%d damages, %d objects too many", len(v.Damages), len(v.Left))
	}
}
