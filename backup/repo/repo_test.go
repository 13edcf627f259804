package repo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/store"
)

func TestMain(m *testing.M) {
	scryptWork = 4
	lockRetry = time.Millisecond
	testdb.Main(m)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func wantKind(t *testing.T, err error, kind tidemark.Kind) {
	t.Helper()
	if err == nil || tidemark.KindOf(err) != kind {
		t.Fatalf("%v (%v), not %v", err, tidemark.KindOf(err), kind)
	}
}

var passphrase = Keys{Passphrase: "correct horse"}

// text returns bytes that compress to about a half.
func text(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return b
}

// backUp writes a backup with a few files: of several pieces, bundled, with holes, empty, folders.
// Pieces have pieceSize bytes. It returns the expected content of each file.
func backUp(ctx context.Context, r *Repo, parent, codec string, seed uint64) (*Manifest, map[Path][]byte, error) {
	const pieceSize = 3000
	rnd := rand.New(rand.NewPCG(seed, 0))
	c, err := ParseCodec(codec)
	if err != nil {
		return nil, nil, err
	}
	w, err := r.Begin(ctx, BeginOptions{Parent: parent})
	if err != nil {
		return nil, nil, err
	}
	defer w.Abort(ctx)
	s := w.Sealer(c)
	packs := []*Pack{w.NewPack(w.Context()), w.NewPack(w.Context())}
	defer packs[0].Abort()
	defer packs[1].Abort()
	n := 0
	put := func(plain []byte) (Ref, error) {
		sealed, err := s.Seal(make([]byte, 0, s.Bound(len(plain))), plain)
		if err != nil {
			return Ref{}, err
		}
		n++
		return packs[n%2].Append(sealed)
	}
	want := map[Path][]byte{}
	for i, size := range []int{0, 1, 10_000, pieceSize, 2*pieceSize + 17} {
		whole := text(rnd, size)
		f := File{Path: Path(fmt.Sprintf("base/1/%d", i)), Size: int64(size), Mode: 0o600, MTime: int64(i)*1e9 + 1, CRC: crc32.Checksum(whole, castagnoli)}
		for at := 0; at < size; at += pieceSize {
			end := min(at+pieceSize, size)
			ref, err := put(whole[at:end])
			if err != nil {
				return nil, nil, err
			}
			f.Extents = append(f.Extents, Extent{At: int64(at), Length: uint32(end - at), Ref: ref})
		}
		want[f.Path] = whole
		if err := w.AddFile(f); err != nil {
			return nil, nil, err
		}
	}
	// Many small files in one piece.
	var bundle []byte
	var small []File
	for i := range 5 {
		part := text(rnd, 30+30*i)
		f := File{Path: Path(fmt.Sprintf("small/%d-\xff", i)), Size: int64(len(part)), Mode: 0o640, CRC: crc32.Checksum(part, castagnoli)}
		f.Extents = []Extent{{Length: uint32(len(part)), Skip: uint32(len(bundle))}}
		bundle = append(bundle, part...)
		small = append(small, f)
		want[f.Path] = part
	}
	ref, err := put(bundle)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range small {
		f.Extents[0].Ref = ref
		if err := w.AddFile(f); err != nil {
			return nil, nil, err
		}
	}
	// A file with holes before, between and after its extents.
	holes := make([]byte, 9000)
	f := File{Path: "holes", Size: 9000, Mode: 0o600}
	for _, at := range []int{1000, 5000} {
		copy(holes[at:], text(rnd, 700))
		ref, err := put(holes[at : at+700])
		if err != nil {
			return nil, nil, err
		}
		f.Extents = append(f.Extents, Extent{At: int64(at), Length: 700, Ref: ref})
	}
	f.CRC = crc32.Checksum(holes, castagnoli)
	want[f.Path] = holes
	files := []File{f, {Path: "pg_dynshmem", Type: Folder, Mode: 0o700}}
	if parent != "" {
		page := text(rnd, 512)
		ref, err := put(page)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, File{Path: "base/1/2", Size: 10_240, CRC: crc32.Checksum(page, castagnoli), Blocks: &Blocks{PageSize: 512, Truncate: 20},
			Extents: []Extent{{At: 512, Length: 512, Ref: ref}}})
	}
	for _, f := range files {
		if err := w.AddFile(f); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range packs {
		if err := p.Close(); err != nil {
			return nil, nil, err
		}
	}
	kind := Full
	if parent != "" {
		kind = Incremental
	}
	m, err := w.Publish(ctx, Manifest{Kind: kind, Engine: "postgres", Version: "15.18", SystemID: "7", Label: "test", PageSize: 512,
		Ranges: []LogRange{{Timeline: 1, Start: "0/1", End: "0/2", First: "00000001/000000010000000000000002", Last: "00000001/000000010000000000000003", Count: 2}}})
	return m, want, err
}

func putLog(ctx context.Context, r *Repo, n int) error {
	rnd := rand.New(rand.NewPCG(uint64(n), 1))
	return r.PutLog(ctx, logName(n), bytes.NewReader(text(rnd, 2500)), must(ParseCodec("zstd:1")))
}

func logName(n int) string { return fmt.Sprintf("00000001/00000001%016X", n) }

// read reassembles a backup's files.
func read(ctx context.Context, r *Repo, m *Manifest) (map[Path][]byte, []File, error) {
	out := map[Path][]byte{}
	var files []File
	o := r.Opener(m)
	for f, err := range r.Files(ctx, m) {
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
		if f.Type != "" || f.Blocks != nil {
			continue
		}
		whole := make([]byte, f.Size)
		for _, e := range f.Extents {
			plain, err := o.Piece(ctx, nil, e.Ref)
			if err != nil {
				return nil, nil, err
			}
			copy(whole[e.At:], plain[e.Skip:e.Skip+e.Length])
		}
		out[f.Path] = whole
	}
	return out, files, nil
}

func TestBackupComesBack(t *testing.T) {
	dir := must(store.Open(t.Context(), t.TempDir(), store.Options{}))
	for name, keys := range map[string]Keys{"plain": {}, "encrypted": passphrase} {
		for _, codec := range []string{"none", "lz4", "s2", "zstd", "zstd:1", "zstd:9"} {
			t.Run(name+"/"+codec, func(t *testing.T) {
				var s store.Store = newMemory()
				if codec == "zstd" && name == "encrypted" {
					s = dir
				}
				r := must(Create(t.Context(), s, keys))
				m, want, err := backUp(t.Context(), r, "", codec, 1)
				if err != nil {
					t.Fatal(err)
				}
				r = must(Open(t.Context(), s, keys)) // as another process would
				all := must(r.Backups(t.Context()))
				if len(all) != 1 || all[0].ID != m.ID {
					t.Fatalf("%v are listed", all)
				}
				brief := *m
				brief.Packs, brief.Lists, brief.Report = nil, nil, nil
				if diff := cmp.Diff(must(json.Marshal(brief)), must(json.Marshal(all[0]))); diff != "" {
					t.Errorf("what is said of it comes back as something else:\n%s", diff)
				}
				again := must(r.Manifest(t.Context(), m.ID))
				if diff := cmp.Diff(must(json.Marshal(m)), must(json.Marshal(again))); diff != "" {
					t.Errorf("the manifest comes back as another:\n%s", diff)
				}
				got, files, err := read(t.Context(), r, again)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if n := len(files); int64(n) != m.Count || n != len(want)+1 {
					t.Errorf("%d files are listed, and %d said", n, m.Count)
				}
				for _, f := range files {
					if f.Path == "base/1/3" && (f.MTime != 3e9+1 || f.Mode != 0o600) {
						t.Errorf("%+v came back", f)
					}
				}
				v := must(r.Verify(t.Context(), VerifyOptions{}))
				for _, d := range v.Damages {
					if !strings.HasPrefix(d.Object, "wal/") { // the test has no log
						t.Errorf("damage: %+v", d)
					}
				}
				if v.Packs != len(m.Packs) || v.Files != m.Count || v.Backups != 1 || v.Pieces == 0 || len(v.Left) != 0 {
					t.Errorf("%+v", v)
				}
				for i := range s.List(t.Context(), "locks/") {
					t.Errorf("the lock %s is left", i.Name)
				}
			})
		}
	}
}

// A pack ends at PackSize and the next one begins; both are read.
func TestPacksEnd(t *testing.T) {
	s := must(store.Open(t.Context(), t.TempDir(), store.Options{}))
	r := must(Create(t.Context(), s, Keys{}))
	w := must(r.Begin(t.Context(), BeginOptions{}))
	defer w.Abort(t.Context())
	p, sealer := w.NewPack(t.Context()), w.Sealer(Codec{})
	plain := make([]byte, 30<<20)
	for i := range plain {
		plain[i] = byte(i * i >> 8)
	}
	f := File{Path: "big", Size: 6 * 30 << 20}
	var room []byte
	for i := range 6 {
		plain[0] = byte(i)
		sealed, err := sealer.Seal(room, plain)
		if err != nil {
			t.Fatal(err)
		}
		room = sealed.Bytes
		ref, err := p.Append(sealed)
		if err != nil {
			t.Fatal(err)
		}
		f.Extents = append(f.Extents, Extent{At: int64(i) * 30 << 20, Length: 30 << 20, Ref: ref})
		f.CRC = CombineCRC(f.CRC, sealed.CRC, 30<<20)
	}
	if err := errors.Join(p.Close(), w.AddFile(f)); err != nil {
		t.Fatal(err)
	}
	m, err := w.Publish(t.Context(), Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Packs) != 3 || m.Packs[0].Pieces != 4 || m.Packs[0].Size > PackSize || m.Packs[1].Pieces != 2 {
		t.Fatalf("the packs are %+v", m.Packs)
	}
	v := must(r.Verify(t.Context(), VerifyOptions{}))
	if len(v.Damages) != 0 || len(v.Left) != 0 || v.Plain < f.Size {
		t.Errorf("%+v", v)
	}
}

// If another process makes the repository between a backup's preparation and its begin, the backup
// is sealed for that repository.
func TestBackupWhereSomebodyElseWasFirst(t *testing.T) {
	for _, keys := range []Keys{{}, {Passphrase: "correct horse"}} {
		s, ctx := newMemory(), t.Context()
		ours := must(OpenOrCreate(ctx, s, keys))
		must(must(OpenOrCreate(ctx, s, keys)).Lock(ctx, LockSpec{})).Release()
		if _, _, err := backUp(ctx, ours, "", "zstd:1", 7); err != nil {
			t.Fatal(err)
		}
		for _, d := range must(must(Open(ctx, s, keys)).Verify(ctx, VerifyOptions{})).Damages {
			if !strings.HasPrefix(d.Object, "wal/") { // nothing is archived
				t.Errorf("%+v", d)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	id, other := must(age.GenerateX25519Identity()), must(age.GenerateX25519Identity())
	ctx := t.Context()
	mine := Keys{Identities: "# a comment\n" + id.String() + "\n"}
	s := newMemory()
	r := must(Create(ctx, s, Keys{Recipients: []string{id.Recipient().String(), other.Recipient().String()}}))
	if !r.Encrypted() {
		t.Error("it is not encrypted")
	}
	if _, _, err := backUp(ctx, r, "", "zstd", 1); err != nil {
		t.Fatal(err)
	}
	for _, k := range []Keys{mine, {Identities: other.String()}} {
		again, err := Open(ctx, s, k)
		if err != nil || again.ID() != r.ID() {
			t.Fatal(again, err)
		}
		if n := len(must(again.Backups(ctx))); n != 1 {
			t.Errorf("%d backups", n)
		}
	}
	third := must(age.GenerateX25519Identity())
	_, err := Open(ctx, s, Keys{Identities: third.String()})
	wantKind(t, err, tidemark.Denied)
	_, err = Open(ctx, s, passphrase)
	wantKind(t, err, tidemark.Denied)
	_, err = Open(ctx, s, Keys{})
	wantKind(t, err, tidemark.Denied)
	_, err = Open(ctx, s, Keys{Identities: "AGE-SECRET-KEY-NONSENSE"})
	wantKind(t, err, tidemark.Invalid)
	if strings.Contains(err.Error()+tidemark.HintOf(err), "NONSENSE") {
		t.Errorf("the error says the key: %v", err)
	}
	_, err = Create(ctx, newMemory(), Keys{Recipients: []string{"age1nonsense"}})
	wantKind(t, err, tidemark.Invalid)
	_, err = Create(ctx, newMemory(), mine)
	wantKind(t, err, tidemark.Invalid)
	_, err = Create(ctx, newMemory(), Keys{Recipients: []string{id.Recipient().String()}, Passphrase: "x"})
	wantKind(t, err, tidemark.Invalid)
	_, err = Create(ctx, s, passphrase)
	wantKind(t, err, tidemark.NotEmpty)

	p := newMemory()
	must(Create(ctx, p, passphrase))
	must(Open(ctx, p, passphrase))
	_, err = Open(ctx, p, Keys{Passphrase: "wrong horse"})
	wantKind(t, err, tidemark.Denied)
	if strings.Contains(err.Error(), "wrong horse") {
		t.Errorf("the error says the passphrase: %v", err)
	}
	if got := fmt.Sprintf("%v %+v %#v %s", passphrase, passphrase, passphrase, &passphrase); strings.Contains(got, "correct") {
		t.Errorf("keys print as %s", got)
	}
	_, err = Create(ctx, p, passphrase)
	wantKind(t, err, tidemark.Exists)
	must(OpenOrCreate(ctx, p, passphrase))
	_, err = Open(ctx, newMemory(), Keys{})
	wantKind(t, err, tidemark.NotFound)

	bare := newMemory()
	prepared := must(OpenOrCreate(ctx, bare, Keys{}))
	if n := len(bare.objects); n != 0 {
		t.Errorf("before anything was written there are %d objects", n)
	}
	late := must(OpenOrCreate(ctx, bare, Keys{}))
	must(prepared.Lock(ctx, LockSpec{})).Release()
	was := late.ID()
	lock := must(late.Lock(ctx, LockSpec{Purpose: "first"}))
	if held := must(prepared.locks(ctx, bare.now(), "")); len(held) != 1 || held[0].Purpose != "first" {
		t.Errorf("%+v", held)
	}
	lock.Release()
	if late.ID() != prepared.ID() || was == late.ID() {
		t.Errorf("%s, which was %s, is beside %s", late.ID(), was, prepared.ID())
	}
	_, err = Open(ctx, bare, passphrase)
	wantKind(t, err, tidemark.Invalid)

	// Another key was substituted for ours: the id reveals it.
	q := newMemory()
	must(Create(ctx, q, Keys{Recipients: []string{id.Recipient().String()}}))
	c := must(openConfig(s.objects[configName].text))
	c.Key = must(openConfig(q.objects[configName].text)).Key
	s.objects[configName] = memObject{text: sealConfig(must(json.Marshal(c)))}
	_, err = Open(ctx, s, mine)
	wantKind(t, err, tidemark.Corrupt)

	// Clear text reveals nothing about the source.
	for name, o := range s.objects {
		if name != configName && (bytes.Contains(o.text, []byte("base/1")) || bytes.Contains(o.text, []byte("postgres"))) {
			t.Errorf("%s can be read", name)
		}
	}
}

// Each bit of the configuration counts.
func TestConfigBits(t *testing.T) {
	s := newMemory()
	must(Create(t.Context(), s, passphrase))
	b := bytes.Clone(s.objects[configName].text)
	if !json.Valid(b) {
		t.Errorf("it is no JSON: %s", b)
	}
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			s.objects[configName] = memObject{text: b}
			if _, err := readConfig(t.Context(), s); err == nil {
				t.Fatalf("byte %d, bit %d was flipped, and nobody noticed", i, bit)
			}
			b[i] ^= 1 << bit
		}
	}
	for n := range b {
		s.objects[configName] = memObject{text: b[:n]}
		if _, err := readConfig(t.Context(), s); err == nil {
			t.Fatalf("%d bytes of it are enough", n)
		}
	}
}

func TestLogs(t *testing.T) {
	for _, keys := range []Keys{{}, passphrase} {
		ctx := t.Context()
		s := newMemory()
		r := must(Create(ctx, s, keys))
		big := text(rand.New(rand.NewPCG(1, 1)), 3*frameSize+5)
		c := must(ParseCodec("lz4"))
		for name, b := range map[string][]byte{logName(1): big, logName(2): nil, logName(3): big[:frameSize], "00000002.history": []byte("1 0/3000000\n")} {
			if err := r.PutLog(ctx, name, bytes.NewReader(b), c); err != nil {
				t.Fatal(err)
			}
			in := must(r.GetLog(ctx, name))
			if got := must(io.ReadAll(in)); !bytes.Equal(got, b) {
				t.Errorf("%s comes back as other bytes", name)
			}
			in.Close()
			// Repeating it is harmless; other bytes are rejected, and change nothing.
			if err := r.PutLog(ctx, name, bytes.NewReader(b), Codec{}); err != nil {
				t.Error(err)
			}
			wantKind(t, r.PutLog(ctx, name, bytes.NewReader(append(bytes.Clone(b), 0)), c), tidemark.Collision)
			if len(b) > 0 {
				other := bytes.Clone(b)
				other[len(b)-1] ^= 1
				wantKind(t, r.PutLog(ctx, name, bytes.NewReader(other), c), tidemark.Collision)
				wantKind(t, r.PutLog(ctx, name, bytes.NewReader(b[1:]), c), tidemark.Collision)
			}
			if got := must(io.ReadAll(must(r.GetLog(ctx, name)))); !bytes.Equal(got, b) {
				t.Errorf("%s was overwritten", name)
			}
		}
		var names []string
		for _, l := range must(r.Logs(ctx, "00000001/")) {
			names = append(names, l.Name)
		}
		if diff := cmp.Diff([]string{logName(1), logName(2), logName(3)}, names); diff != "" {
			t.Error(diff)
		}
		_, err := r.GetLog(ctx, logName(9))
		wantKind(t, err, tidemark.NotFound)
		// An unfinished log grows, and is removed.
		for _, b := range [][]byte{big[:10], big[:20]} {
			if err := r.PutOpenLog(ctx, logName(4)+".open", bytes.NewReader(b), c); err != nil {
				t.Fatal(err)
			}
			if got := must(io.ReadAll(must(r.GetLog(ctx, logName(4)+".open")))); !bytes.Equal(got, b) {
				t.Errorf("%d bytes came back of %d", len(got), len(b))
			}
		}
		if err := errors.Join(r.DeleteLog(ctx, logName(4)+".open"), r.DeleteLog(ctx, logName(4)+".open")); err != nil {
			t.Error(err)
		}
		w := must(r.CreateLog(ctx, logName(5), c))
		if _, err := w.Write(big); err != nil {
			t.Fatal(err)
		}
		w.Abort()
		if n := len(must(r.Logs(ctx, ""))); n != 4 {
			t.Errorf("there are %d logs", n)
		}
	}
}

func TestCombineCRC(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		a, b := text(rnd, rnd.IntN(3000)), text(rnd, rnd.IntN(3000))
		whole := crc32.Checksum(slices.Concat(a, b), castagnoli)
		if got := CombineCRC(crc32.Checksum(a, castagnoli), crc32.Checksum(b, castagnoli), int64(len(b))); got != whole {
			t.Fatalf("%d and %d bytes: %08x instead of %08x", len(a), len(b), got, whole)
		}
		if got := ZerosCRC(int64(len(a))); got != crc32.Checksum(make([]byte, len(a)), castagnoli) {
			t.Fatalf("%d zeros: %08x", len(a), got)
		}
	}
	// 1 TB of zeros by the definition: half of it twice.
	if half := ZerosCRC(1 << 39); CombineCRC(half, half, 1<<39) != ZerosCRC(1<<40) {
		t.Error("large lengths are wrong")
	}
}

func TestRefsAsJSON(t *testing.T) {
	e := Extent{At: 1 << 40, Length: 5, Skip: 7, Ref: Ref{Pack: 1<<32 - 1, Codec: 3, Offset: 1<<62 + 1, Stored: 9, Plain: 1<<32 - 2, CRC: 1<<32 - 3, Number: 1<<64 - 1}}
	b := must(json.Marshal(e))
	if want := "[1099511627776,5,7,[4294967295,4611686018427387905,9,4294967294,4294967293,18446744073709551615,3]]"; string(b) != want {
		t.Errorf("%s", b)
	}
	var got Extent
	if err := json.Unmarshal(b, &got); err != nil || got != e {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{`{}`, `[1,2,3]`, `[1,2,3,4,5,6,7,8]`, `[1,2,3,,5,6,7]`, `"x"`, `[1,2,3,4,5,6,-7]`} {
		var r Ref
		if err := json.Unmarshal([]byte(bad), &r); err == nil {
			t.Errorf("%s is taken for %+v", bad, r)
		}
	}
	for _, p := range []Path{"a/b", "ä", "\xff\x00", ""} {
		var got Path
		if err := json.Unmarshal(must(json.Marshal(p)), &got); err != nil || got != p {
			t.Errorf("%q comes back as %q: %v", p, got, err)
		}
	}
}

func TestParseCodec(t *testing.T) {
	for _, s := range []string{"none", "lz4", "s2", "zstd:3", "zstd:22"} {
		if c, err := ParseCodec(s); err != nil || c.String() != s {
			t.Errorf("%s: %s %v", s, c, err)
		}
	}
	for _, s := range []string{"", "gzip", "zstd:", "zstd:0", "zstd:23", "lz4:1"} {
		if _, err := ParseCodec(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}
