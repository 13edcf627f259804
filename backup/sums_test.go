package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/store"
)

// Whatever verify reports of a file, a restore refuses, and the other way round: here all pieces
// are sound, and the lists lie.
func TestRestoreRefusesWhatVerifyReports(t *testing.T) {
	type lie struct {
		what string
		kind string // of the backup that has it
		path string
		tell func(f *repo.File)
		want string
	}
	sum := func(f *repo.File) { f.CRC ^= 4 }
	swap := func(f *repo.File) { // two pieces are exchanged
		f.Extents[0].Ref, f.Extents[1].Ref = f.Extents[1].Ref, f.Extents[0].Ref
	}
	checksum := "its bytes have the checksum"
	for _, l := range []lie{
		{what: "nothing"},
		{"a file that is one piece", repo.Full, "base/one", sum, checksum},
		{"a file of whole pieces", repo.Full, "base/several", sum, checksum},
		{"exchanged pieces", repo.Full, "base/several", swap, checksum},
		{"a file within a shared piece", repo.Full, "base/small", sum, checksum},
		{"another file's part of a piece", repo.Full, "base/small", func(f *repo.File) { f.Extents[0].Skip += 100 }, checksum},
		{"a file across pieces that it shares", repo.Full, "base/across", sum, checksum},
		{"a file with holes", repo.Full, "base/holes", func(f *repo.File) { f.Extents[0].At += 100 }, checksum},
		{"an empty file", repo.Full, "base/empty", sum, checksum},
		{"overlapping extents", repo.Full, "base/several", func(f *repo.File) { f.Extents[1].At-- }, "two extents overlap"},
		{"bytes beyond the end", repo.Full, "base/several", func(f *repo.File) { f.Size -= 10 }, "an extent is beyond the end of the file"},
		{"a tablespace's link", repo.Full, "base/empty", func(f *repo.File) { *f = repo.File{Path: "pg_tblspc/16385", Type: repo.Link, To: "/etc"} }, `it is a "link"`},
		{"an unknown type", repo.Full, "base/empty", func(f *repo.File) { f.Type = "device" }, `it is a "device"`},
		{"shared pages of an incremental backup", repo.Incremental, "base/paged", sum, checksum},
		{"whole pages of an incremental backup", repo.Incremental, "base/several", sum, checksum},
		{"whole pieces below an incremental backup", repo.Full, "base/paged", sum, checksum},
		{"another server's parent", repo.Incremental, "", nil, "of another server"},
	} {
		t.Run(l.what, func(t *testing.T) {
			dir := t.TempDir()
			place, err := store.Open(t.Context(), filepath.Join(dir, "repo"), store.Options{})
			must(t, err)
			defer place.Close()
			r, err := repo.Create(t.Context(), place, repo.Keys{})
			must(t, err)
			b := told{t: t, r: r, system: "7", tell: func(kind string, f *repo.File) {
				if l.tell != nil && kind == l.kind && string(f.Path) == l.path {
					l.tell(f)
				}
			}}
			m := b.full()
			if l.kind == repo.Incremental || l.path == "base/paged" {
				if l.tell == nil {
					b.system = "8"
				}
				m = b.incremental(m.ID)
			}
			rep, err := r.Verify(t.Context(), repo.VerifyOptions{})
			must(t, err)
			if found := len(rep.Damages); found != min(len(l.want), 1) || found > 0 && !strings.Contains(rep.Damages[0].Text, l.want) {
				t.Errorf("verify: %+v", rep.Damages)
			}
			for name, opt := range map[string]RestoreOptions{"new": {}, "direct": {Options: Options{Direct: true}}, "over": {Delta: true, Force: true}} {
				opt.Dir = filepath.Join(dir, name)
				if opt.Delta { // all that is there is right
					must(t, os.MkdirAll(filepath.Join(opt.Dir, "global"), 0o700))
					must(t, os.WriteFile(filepath.Join(opt.Dir, "PG_VERSION"), nil, 0o600))
					must(t, os.WriteFile(filepath.Join(opt.Dir, lastFile), nil, 0o600))
				}
				x, err := NewRestore(r, m, opt)
				must(t, err)
				err = x.Run(t.Context())
				if l.want == "" {
					must(t, err)
					continue
				}
				if tidemark.KindOf(err) != tidemark.Corrupt || !strings.Contains(err.Error(), l.want) || !strings.Contains(tidemark.HintOf(err), "nother backup") {
					t.Errorf("%s: restore ends with %v", name, err)
				}
				if b, err := os.ReadFile(filepath.Join(opt.Dir, lastFile)); err == nil && len(b) > 0 {
					t.Errorf("%s: a server would start there", name)
				}
			}
		})
	}
}

// told are backups of sound pieces, about whose files a test tells something else.
type told struct {
	t      *testing.T
	r      *repo.Repo
	system string
	tell   func(kind string, f *repo.File)

	w    *repo.Writer
	pack *repo.Pack
	kind string
}

func (b *told) begin(kind, parent string) {
	var err error
	b.w, err = b.r.Begin(b.t.Context(), repo.BeginOptions{Parent: parent})
	must(b.t, err)
	b.pack, b.kind = b.w.NewPack(b.t.Context()), kind
}

// piece stores bytes that differ from any other's.
func (b *told) piece(of byte, n int) ([]byte, repo.Ref) {
	plain := make([]byte, n)
	for i := range plain {
		plain[i] = of ^ byte(i>>3*37)
	}
	sealed, err := b.w.Sealer(repo.Codec{}).Seal(nil, plain)
	must(b.t, err)
	ref, err := b.pack.Append(sealed)
	must(b.t, err)
	return plain, ref
}

// add lists a file with the bytes that it was made of.
func (b *told) add(name string, whole []byte, extents ...repo.Extent) {
	f := repo.File{Path: repo.Path(name), Mode: 0o600, Size: int64(len(whole)), CRC: crcOf(whole), Extents: extents}
	b.tell(b.kind, &f)
	must(b.t, b.w.AddFile(f))
}

// pages lists a file of which there are only pages, one after the other from an offset.
func (b *told) pages(name string, size, at int64, plain []byte, extents ...repo.Extent) {
	f := repo.File{Path: repo.Path(name), Mode: 0o600, Size: size, CRC: crcOf(plain), Extents: extents, Blocks: &repo.Blocks{PageSize: testPage, Truncate: size / testPage}}
	for i := range f.Extents {
		f.Extents[i].At = at
		at += int64(f.Extents[i].Length)
	}
	b.tell(b.kind, &f)
	must(b.t, b.w.AddFile(f))
}

func (b *told) end() *repo.Manifest {
	must(b.t, b.pack.Close())
	m, err := b.w.Publish(b.t.Context(), repo.Manifest{Engine: "postgres", Kind: b.kind, SystemID: b.system, PageSize: testPage})
	must(b.t, err)
	return m
}

func (b *told) full() *repo.Manifest {
	b.begin(repo.Full, "")
	for _, name := range []string{".", "base", "global"} {
		must(b.t, b.w.AddFile(repo.File{Path: repo.Path(name), Type: repo.Folder, Mode: 0o700}))
	}
	const n = 4 * testPage
	p1, r1 := b.piece(1, n)
	p2, r2 := b.piece(2, n)
	p3, r3 := b.piece(3, n)
	all := func(at int64, r repo.Ref) repo.Extent { return repo.Extent{At: at, Length: n, Ref: r} }
	b.add("base/empty", nil)
	b.add("base/one", p1, all(0, r1))
	b.add("base/several", append(append([]byte{}, p1...), p2...), all(0, r1), all(n, r2))
	b.add("base/paged", append(append([]byte{}, p1...), p2...), all(0, r1), all(n, r2))
	b.add("base/small", p3[:500], repo.Extent{Length: 500, Ref: r3})
	b.add("base/across", append(append([]byte{}, p2...), p3[500:900]...), all(0, r2), repo.Extent{At: n, Skip: 500, Length: 400, Ref: r3})
	holes := make([]byte, 3000)
	copy(holes[1000:], p3[1000:1500])
	b.add("base/holes", holes, repo.Extent{At: 1000, Skip: 1000, Length: 500, Ref: r3})
	b.add(lastFile, p3[2000:2100], repo.Extent{Skip: 2000, Length: 100, Ref: r3})
	return b.end()
}

func (b *told) incremental(parent string) *repo.Manifest {
	b.begin(repo.Incremental, parent)
	for _, name := range []string{".", "base", "global"} {
		must(b.t, b.w.AddFile(repo.File{Path: repo.Path(name), Type: repo.Folder, Mode: 0o700}))
	}
	p4, r4 := b.piece(4, 4*testPage)
	p5, r5 := b.piece(5, 2*testPage)
	b.pages("base/paged", 8*testPage, 2*testPage, p4[testPage:3*testPage], repo.Extent{Skip: testPage, Length: 2 * testPage, Ref: r4})
	b.pages("base/several", 8*testPage, 0, p5, repo.Extent{Length: 2 * testPage, Ref: r5})
	b.add(lastFile, p4[:100], repo.Extent{Length: 100, Ref: r4})
	return b.end()
}
