package tidemark_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A list gives back what was added to it, all or by size, in little memory.
func TestDataList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l tidemark.DataList
	var want []tidemark.DataFile
	var files, bytes, largest int64
	for i := range 20_000 {
		f := tidemark.DataFile{Path: fmt.Sprintf("base/%d/%d", i/3000, 16384+i), Size: r.Int64N(1 << r.IntN(40)), Mode: r.Uint32N(0o1000), Modified: time.Unix(0, r.Int64()-1<<62), Pages: i%2 == 0}
		switch r.IntN(1000) {
		case 0:
			f.Path = string(make([]byte, r.IntN(200_000)))
		case 1:
			f.Path = ""
		case 2:
			f.Path, f.Dir, f.Size = "base", true, 0
		}
		if !f.Dir {
			files, bytes, largest = files+1, bytes+f.Size, max(largest, f.Size)
		}
		l.Add(f)
		want = append(want, f)
	}
	same := func(a, b tidemark.DataFile) bool {
		return a.Path == b.Path && a.Size == b.Size && a.Mode == b.Mode && a.Modified.Equal(b.Modified) && a.Dir == b.Dir && a.Pages == b.Pages
	}
	n, sum := l.Count()
	if got := slices.Collect(l.All()); !slices.EqualFunc(got, want, same) || n != files || sum != bytes || l.Largest() != largest {
		t.Errorf("%d of %d files, %d bytes of %d, the largest of %d", n, files, sum, bytes, l.Largest())
	}
	some := slices.DeleteFunc(slices.Clone(want), func(f tidemark.DataFile) bool { return f.Dir || f.Size < 1000 || f.Size >= 50_000 })
	if got := slices.Collect(l.Between(1000, 50_000)); !slices.EqualFunc(got, some, same) || len(some) < 1000 {
		t.Errorf("%d of %d files between", len(got), len(some))
	}
	if got := slices.Collect(l.Drain()); !slices.EqualFunc(got, want, same) || len(slices.Collect(l.All())) > 0 {
		t.Errorf("%d of %d files, and %d are left", len(got), len(want), len(slices.Collect(l.All())))
	}
}
