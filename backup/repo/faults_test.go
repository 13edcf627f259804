package repo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// pgNext returns the log after one with segments of 16 MB.
func pgNext(name string) string {
	var n uint64
	if _, err := fmt.Sscanf(name, "00000001/00000001%016X", &n); err != nil {
		return ""
	}
	return logName(int(n + 1))
}

// filled makes a repository with a full backup, one that builds on it, and logs.
func filled(t testing.TB, keys Keys) (*memory, *Repo) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, keys))
	for n := range 4 {
		if err := putLog(ctx, r, n+1); err != nil {
			t.Fatal(err)
		}
	}
	parent := ""
	for i, codec := range []string{"lz4", "zstd"} {
		m, _, err := backUp(ctx, r, parent, codec, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		parent = m.ID
	}
	v := must(r.Verify(ctx, VerifyOptions{NextLog: pgNext}))
	if len(v.Damages)+len(v.Left) != 0 {
		t.Fatalf("%+v", v)
	}
	return s, r
}

// Ten thousand random corruptions, each in another place: verify finds each one and names the
// object. Half of the repositories are encrypted.
func TestRandomCorruptionsAreFound(t *testing.T) {
	tries := 5000
	if testing.Short() {
		tries = 300
	}
	for i, keys := range []Keys{{}, passphrase} {
		t.Run([]string{"plain", "encrypted"}[i], func(t *testing.T) {
			t.Parallel()
			s, _ := filled(t, keys)
			good := maps.Clone(s.objects)
			names := slices.DeleteFunc(s.names(), func(n string) bool { return n == spareName }) // its content has no meaning
			rnd := rand.New(rand.NewPCG(uint64(i), 42))
			kinds := map[string]int{}
			for try := range tries {
				s.objects = maps.Clone(good)
				kind, name := corrupt(s, names, rnd)
				if kind == "" {
					continue
				}
				kinds[kind]++
				r, err := Open(t.Context(), s, keys)
				if name == configName {
					if err == nil && kind != "swapped" {
						t.Fatalf("%d: %s was %s, and opened", try, name, kind)
					}
					if err != nil {
						continue
					}
				}
				if err != nil {
					t.Fatalf("%d: %s of %s: %v", try, kind, name, err)
				}
				v, err := r.Verify(t.Context(), VerifyOptions{NextLog: pgNext, Workers: 1})
				if err != nil {
					t.Fatalf("%d: %s was %s: %v", try, name, kind, err)
				}
				if !finds(v, name) {
					t.Fatalf("%d: %s was %s, and what is found is %+v, %+v", try, name, kind, v.Damages, v.Left)
				}
			}
			t.Log(kinds)
			if len(kinds) != 6 {
				t.Errorf("only %v were tried", kinds)
			}
		})
	}
}

// finds reports whether a report names an object. If the manifest is lost or damaged, all packs
// together are left.
func finds(v *VerifyReport, name string) bool {
	for _, d := range v.Damages {
		if d.Object == name {
			return true
		}
	}
	_, id, _ := strings.Cut(name, "/")
	id, _, _ = strings.Cut(id, "/")
	return slices.ContainsFunc(v.Left, func(d Damage) bool { return d.Object == "packs/"+id })
}

// corrupt changes an object and returns how and which one; "" if the bytes are the same as before.
func corrupt(s *memory, names []string, rnd *rand.Rand) (kind, name string) {
	name = names[rnd.IntN(len(names))]
	was := s.objects[name].text
	b := bytes.Clone(was)
	switch rnd.IntN(7) {
	case 0, 1:
		kind = "flipped"
		b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
	case 2:
		kind = "cut"
		b = b[:rnd.IntN(len(b))]
	case 3:
		kind = "lost"
		last := strings.HasPrefix(name, "wal/") && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "wal/") && n > name })
		first := name == "wal/"+logName(1)
		if last || first {
			return "", "" // that is an archive that begins later, or ends earlier
		}
		delete(s.objects, name)
		return kind, name
	case 4:
		kind = "swapped"
		other := names[rnd.IntN(len(names))]
		if other == name || other == configName || name == configName {
			return "", ""
		}
		s.objects[name], s.objects[other] = s.objects[other], s.objects[name]
		return kind, name
	case 5:
		kind = "overwritten"
		at, n := rnd.IntN(len(b)), 1+rnd.IntN(64)
		for i := at; i < min(at+n, len(b)); i++ {
			b[i] = byte(rnd.Uint32())
		}
	case 6:
		kind = "grown"
		b = append(b, make([]byte, 1+rnd.IntN(100))...)
	}
	if bytes.Equal(b, was) {
		return "", ""
	}
	s.objects[name] = memObject{text: b, time: s.objects[name].time}
	return kind, name
}

// Each byte of a small repository is changed once, also those that random corruption misses.
func TestEveryByteCounts(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	w := must(r.Begin(ctx, BeginOptions{}))
	p := w.NewPack(ctx)
	sealed := must(w.Sealer(Codec{}).Seal(nil, []byte("some text of a file")))
	ref := must(p.Append(sealed))
	if err := w.AddFile(File{Path: "f", Size: 19, CRC: sealed.CRC, Extents: []Extent{{Length: 19, Ref: ref}}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Publish(ctx, Manifest{}); err != nil {
		t.Fatal(err)
	}
	if err := putLog(ctx, r, 1); err != nil {
		t.Fatal(err)
	}
	for _, name := range s.names() {
		if name == configName || name == spareName {
			continue // see TestConfigBits; without meaning
		}
		b := bytes.Clone(s.objects[name].text)
		for i := range b {
			b[i] ^= 1 << (i % 8)
			s.objects[name] = memObject{b, s.now()}
			v, err := r.Verify(ctx, VerifyOptions{})
			if err != nil || !finds(v, name) {
				t.Fatalf("byte %d of %s: %v, %+v", i, name, err, v)
			}
			b[i] ^= 1 << (i % 8)
		}
		s.objects[name] = memObject{b, s.now()}
	}
}

// A piece cannot replace another one of the same backup, nor of another, nor can an older object of
// the same name return.
func TestPiecesAreBoundToTheirPlace(t *testing.T) {
	for _, keys := range []Keys{{}, passphrase} {
		ctx := t.Context()
		s := newMemory()
		r := must(Create(ctx, s, keys))
		w := must(r.Begin(ctx, BeginOptions{}))
		p, sealer := w.NewPack(ctx), w.Sealer(Codec{})
		var refs [2]Ref
		f := File{Path: "f", Size: 8}
		for i, text := range []string{"AAAA", "BBBB"} {
			sealed := must(sealer.Seal(nil, []byte(text)))
			refs[i] = must(p.Append(sealed))
			f.Extents = append(f.Extents, Extent{At: int64(i) * 4, Length: 4, Ref: refs[i]})
			f.CRC = CombineCRC(f.CRC, sealed.CRC, 4)
		}
		if err := w.AddFile(f); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		m := must(w.Publish(ctx, Manifest{}))
		name := packName(m.ID, refs[0].Pack)
		b := s.objects[name].text
		a0, a1 := b[refs[0].Offset:refs[0].Offset+int64(refs[0].Stored)], b[refs[1].Offset:]
		for i := range a0 {
			a0[i], a1[i] = a1[i], a0[i]
		}
		_, err := r.Opener(m).Piece(ctx, nil, refs[0])
		wantKind(t, err, tidemark.Corrupt)
		if v := must(r.Verify(ctx, VerifyOptions{})); !finds(v, name) {
			t.Errorf("%+v", v)
		}
		// A matching trailer does not hide it.
		if n := len(b); binary.BigEndian.Uint32(b[n-trailerSize:]) != 2*entrySize+tagSize {
			t.Errorf("the trailer is another than the format says")
		}
	}
}

// A process dies, or a call fails, at each call that writes or removes something. Whatever is
// listed is complete then; what is left is found, and prune removes it once the lock has expired,
// and not before.
func TestFaultAtEveryCall(t *testing.T) {
	for what, c := range map[string]struct {
		kind   faultKind
		places int
	}{"stop": {stop, 1}, "stopLate": {stopLate, 1}, "fail": {fail, 1}, "failLate": {failLate, 1}, "stripe-stop": {stop, 2}, "stripe-failLate": {failLate, 2}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for n, by := steps(t); ; n += by {
				if !faultAt(t, c.kind, n, c.places) {
					if n < 30 {
						t.Errorf("there were only %d calls", n)
					}
					break
				}
			}
		})
	}
}

// steps returns the first call to fail at, and how many there are from one to the next: with -short
// one in seven, drawn by a seed, otherwise all.
func steps(t *testing.T) (first, by int) {
	if !testing.Short() {
		return 0, 1
	}
	return int(testdb.Seed(t) % 7), 7
}

// faultAt reports whether there is an n-th call.
func faultAt(t *testing.T, kind faultKind, n, places int) bool {
	ctx := context.Background()
	keys := Keys{}
	if n%2 == 1 {
		keys = passphrase
	}
	s := newWorld(places)
	first := must(s.create(ctx, keys))
	base, _, err := backUp(ctx, first, "", "lz4", 7)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := putLog(ctx, first, i); err != nil {
			t.Fatal(err)
		}
	}
	s.later(2 * time.Hour)
	wrong := &fault{n: n, kind: kind}
	s.setFault(wrong)
	acknowledged := work(ctx, s, keys)
	happened := wrong.over
	s.setFault(nil) // another process, on the same store

	check := func(when string) []*Manifest {
		t.Helper()
		r, err := s.open(ctx, keys)
		if err != nil {
			t.Fatalf("%s of call %d: %v", when, n, err)
		}
		all, err := r.Backups(ctx)
		if err != nil {
			t.Fatalf("%s of call %d: %v", when, n, err)
		}
		v, err := r.Verify(ctx, VerifyOptions{NextLog: pgNext})
		if err != nil || len(v.Damages) != 0 || v.Backups != len(all) {
			t.Fatalf("%s of call %d: %v, %+v", when, n, err, v)
		}
		for i, m := range all {
			if all[i], err = r.Manifest(ctx, m.ID); err != nil {
				t.Fatalf("%s of call %d: %v", when, n, err)
			}
			if _, _, err := read(ctx, r, all[i]); err != nil {
				t.Fatalf("%s of call %d: %v", when, n, err)
			}
		}
		for _, id := range acknowledged {
			if !slices.ContainsFunc(all, func(m *Manifest) bool { return m.ID == id }) {
				t.Fatalf("%s of call %d: backup %s was said to be there", when, n, id)
			}
		}
		return all
	}
	r := must(s.open(ctx, keys))
	keep := Keep{Last: 100}
	if slices.ContainsFunc(must(r.locks(ctx, s[0].now(), "")), func(l LockState) bool { return l.Removes }) {
		// It was pruning, and its lock holds for a while: other prunes would wait.
		_, err := r.Prune(ctx, PruneOptions{Keep: keep})
		wantKind(t, err, tidemark.Transient)
		s.later(time.Hour)
	}
	before := check("after the fault")
	// At once: prune leaves alone what a live lock protects.
	rep, err := r.Prune(ctx, PruneOptions{Keep: keep})
	if err != nil {
		t.Fatalf("call %d: %v", n, err)
	}
	if len(rep.Orphans) > 0 && len(rep.Locks) == 0 && kind <= stopLate {
		t.Fatalf("call %d: what may still be written was removed: %+v", n, rep.Orphans)
	}
	s.later(time.Hour)
	if _, err := r.Prune(ctx, PruneOptions{Keep: keep}); err != nil {
		t.Fatalf("call %d: %v", n, err)
	}
	after := check("after prune")
	if len(after) != len(before) {
		t.Fatalf("call %d: of %d backups %d are left", n, len(before), len(after))
	}
	v := must(r.Verify(ctx, VerifyOptions{}))
	if len(v.Left) != 0 {
		t.Fatalf("call %d: prune has left %+v", n, v.Left)
	}
	for _, name := range s.names() {
		if strings.HasPrefix(name, "locks/") {
			t.Fatalf("call %d: the lock %s is left", n, name)
		}
	}
	if !slices.ContainsFunc(after, func(m *Manifest) bool { return m.ID == base.ID }) && len(acknowledged) == 0 {
		t.Fatalf("call %d: the backup from before is gone", n)
	}
	return happened
}

// work writes a log, a backup and one that builds on it, and prunes the first chain. It returns the
// backups that must exist wherever it ended.
func work(ctx context.Context, s world, keys Keys) (acknowledged []string) {
	r, err := s.open(ctx, keys)
	if err != nil {
		return nil
	}
	if err := putLog(ctx, r, 4); err != nil {
		return nil
	}
	m, _, err := backUp(ctx, r, "", "zstd", 8)
	if err != nil {
		return nil
	}
	acknowledged = append(acknowledged, m.ID)
	inc, _, err := backUp(ctx, r, m.ID, "none", 9)
	if err != nil {
		return acknowledged
	}
	acknowledged = append(acknowledged, inc.ID)
	_, _ = r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}) // success does not matter
	return acknowledged
}

// A byte changed on its way to the store is found.
func TestFlipOnTheWay(t *testing.T) {
	ctx := context.Background()
	for n := 0; ; n++ {
		s := newMemory()
		r := must(Create(ctx, s, Keys{}))
		for i := range 4 {
			if err := putLog(ctx, r, i); err != nil {
				t.Fatal(err)
			}
		}
		s.fault = &fault{n: n, kind: flip}
		m, _, err := backUp(ctx, r, "", "zstd", 7)
		happened := s.fault.over
		s.fault = nil
		if !happened {
			if n < 20 {
				t.Errorf("there were only %d calls", n)
			}
			break
		}
		if err != nil {
			continue // it was noticed at once
		}
		v := must(r.Verify(ctx, VerifyOptions{}))
		if len(v.Damages) > 0 {
			continue
		}
		// It may have hit a lock, which is gone.
		if _, _, err := read(ctx, r, m); err != nil {
			t.Errorf("call %d: verify found nothing: %v", n, err)
		}
	}
}

// full completes a log file as soon as its open one is read.
type full struct {
	*memory
	t *testing.T
	r *Repo // directly on the memory
}

func (f full) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if whole, open := strings.CutSuffix(name, ".open"); open {
		if err := f.r.PutLog(ctx, strings.TrimPrefix(whole, logPrefix), strings.NewReader("all of it"), Codec{}); err != nil {
			f.t.Error(err)
		}
		if err := f.r.DeleteLog(ctx, strings.TrimPrefix(name, logPrefix)); err != nil {
			f.t.Error(err)
		}
	}
	return f.memory.Read(ctx, name, offset, length)
}

// An archive's changes during a verify are no damage.
func TestVerifyBesideAnArchive(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	if err := r.PutOpenLog(ctx, "00000001/000000010000000100000001.open", strings.NewReader("the beginning"), Codec{}); err != nil {
		t.Fatal(err)
	}
	v := must(must(Open(ctx, full{s, t, r}, Keys{})).Verify(ctx, VerifyOptions{}))
	if len(v.Damages) > 0 || len(must(r.Logs(ctx, ""))) != 1 {
		t.Errorf("%+v", v.Damages)
	}
}
