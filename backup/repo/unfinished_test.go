package repo

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A slow is a backup made step by step, with checkpoints between.
type slow struct {
	w     *Writer
	packs []*Pack
	seal  *Sealer
	rnd   *rand.Rand
	want  map[Path][]byte // files given to AddFile
	n     int
}

func beginSlow(ctx context.Context, r *Repo, parent string, seed uint64) (*slow, error) {
	w, err := r.Begin(ctx, BeginOptions{Parent: parent})
	if err != nil {
		return nil, err
	}
	return &slow{w: w, packs: []*Pack{w.NewPack(w.Context()), w.NewPack(w.Context())}, seal: w.Sealer(Codec{}), rnd: rand.New(rand.NewPCG(seed, 3)), want: map[Path][]byte{}}, nil
}

// add writes a file whose pieces are in different packs.
func (s *slow) add() error {
	f := File{Path: Path(fmt.Sprint("base/", s.n)), Mode: 0o600}
	var whole []byte
	for i := range 1 + s.rnd.IntN(4) {
		plain := text(s.rnd, 1+s.rnd.IntN(2000))
		sealed, err := s.seal.Seal(nil, plain)
		if err != nil {
			return err
		}
		ref, err := s.packs[(s.n+i)%2].Append(sealed)
		if err != nil {
			return err
		}
		f.Extents = append(f.Extents, Extent{At: int64(len(whole)), Length: uint32(len(plain)), Ref: ref})
		f.CRC = CombineCRC(f.CRC, ref.CRC, int64(len(plain)))
		whole = append(whole, plain...)
	}
	f.Size = int64(len(whole))
	s.n++
	s.want[f.Path] = whole
	return s.w.AddFile(f)
}

func (s *slow) note(ctx context.Context) error {
	c, err := s.w.Checkpoint()
	if err != nil {
		return err
	}
	return c.Write(ctx, slowManifest)
}

var slowManifest = Manifest{Engine: "postgres", SystemID: "7", PageSize: 512, Ranges: []LogRange{{Timeline: 1, Start: "0/1", End: "0/2", First: logName(2), Last: logName(3)}}}

func (s *slow) end(ctx context.Context) (*Manifest, error) {
	for _, p := range s.packs {
		if err := p.Close(); err != nil {
			return nil, err
		}
	}
	return s.w.Publish(ctx, slowManifest)
}

// some writes n files and a checkpoint.
func (s *slow) some(ctx context.Context, n int) error {
	for range n {
		if err := s.add(); err != nil {
			return err
		}
	}
	return s.note(ctx)
}

// gone simulates a killed process: its lock expires.
func (s *slow) gone(at *memory) {
	s.w.lock.cancel(errReleased) // nobody renews it now
	<-s.w.lock.done
	at.clock += time.Hour
}

// sameFiles checks that a backup has files as expected, and returns how many.
func sameFiles(t *testing.T, r *Repo, m *Manifest, want map[Path][]byte) int {
	t.Helper()
	got, files, err := read(t.Context(), r, m)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range got {
		if !bytes.Equal(text, want[path]) {
			t.Fatalf("%s has other bytes", path)
		}
	}
	return len(files)
}

// A stopped backup becomes one of kind Partial, on which another one builds; it stays as long as
// that one, and is removed with it.
func TestUnfinishedIsGoneOnWith(t *testing.T) {
	for _, keys := range []Keys{{}, passphrase} {
		ctx := t.Context()
		s := newMemory()
		r := must(Create(ctx, s, keys))
		first := must(beginSlow(ctx, r, "", 1))
		for range 3 { // the checkpoint's packs end with the next piece after it
			if err := first.some(ctx, 5); err != nil {
				t.Fatal(err)
			}
		}
		id := first.w.ID
		_, _, err := r.TakeOver(ctx, id)
		wantKind(t, err, tidemark.Transient) // it is being written
		if err := putLog(ctx, r, 1); err != nil {
			t.Fatal(err)
		}
		if err := putLog(ctx, r, 3); err != nil {
			t.Fatal(err)
		}
		first.gone(s)
		if open := must(r.Unfinished(ctx)); len(open) != 1 || open[0].ID != id || open[0].Kind != Partial {
			t.Fatalf("%+v", open)
		}
		_, _, err = r.TakeOver(ctx, "20200101-000000-00000000")
		wantKind(t, err, tidemark.NotFound)
		m, release, err := r.TakeOver(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = r.TakeOver(ctx, id) // two at once
		wantKind(t, err, tidemark.Transient)
		if n := sameFiles(t, r, m, first.want); n != 10 || m.Count != 10 {
			t.Fatalf("it has %d files, and says %d", n, m.Count)
		}
		second := must(beginSlow(ctx, r, id, 2))
		release()
		if err := second.some(ctx, 4); err != nil {
			t.Fatal(err)
		}
		rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}, Unfinished: -1}))
		if len(rep.Gone)+len(rep.Orphans) != 0 || len(rep.Stay) != 1 || !strings.HasPrefix(rep.Stay[0].Why[0], "in use: ") {
			t.Fatalf("%+v", rep)
		}
		child := must(second.end(ctx))
		if open := must(r.Unfinished(ctx)); len(open) != 0 {
			t.Fatalf("%+v", open)
		}
		s.clock += 10 * day
		rep = must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
		if len(rep.Gone) != 0 || !slices.Equal(rep.Stay[1].Why, []string{"needed by " + child.ID}) {
			t.Fatalf("%+v", rep.Stay)
		}
		v := must(r.Verify(ctx, VerifyOptions{}))
		if len(v.Damages)+len(v.Left) != 0 || v.Backups != 2 {
			t.Fatalf("%+v", v)
		}
		time.Sleep(time.Millisecond)
		third := must(beginSlow(ctx, r, "", 3))
		must(third.end(ctx))
		if rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}})); len(rep.Gone) != 2 {
			t.Fatalf("%+v", rep)
		}
	}
}

// How long an unfinished backup and its log stay, and that nothing is left of it afterwards.
func TestPruneOfUnfinished(t *testing.T) {
	for _, taken := range []bool{false, true} {
		ctx := t.Context()
		s := newMemory()
		r := must(Create(ctx, s, Keys{}))
		for n := range 5 {
			if err := putLog(ctx, r, n+1); err != nil {
				t.Fatal(err)
			}
		}
		b := must(beginSlow(ctx, r, "", 1))
		if err := b.some(ctx, 3); err != nil {
			t.Fatal(err)
		}
		if err := b.some(ctx, 3); err != nil {
			t.Fatal(err)
		}
		b.gone(s)
		whole := must(beginSlow(ctx, r, "", 2))
		for _, p := range whole.packs {
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
		later := slowManifest
		later.Ranges = []LogRange{{Timeline: 1, First: logName(4), Last: logName(5), Count: 2}}
		must(whole.w.Publish(ctx, later))
		if taken {
			_, release, err := r.TakeOver(ctx, b.w.ID)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
		if len(rep.Gone)+len(rep.Orphans) != 0 || len(rep.Logs) != 1 || taken != (len(rep.Stay) == 2) {
			t.Fatalf("%+v", rep)
		}
		// What its owner wrote after the checkpoint is unneeded once another backup has taken it
		// over.
		if v := must(r.Verify(ctx, VerifyOptions{})); len(v.Damages) != 0 || taken && len(v.Left) != 0 {
			t.Fatalf("%+v", v)
		}
		dry := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}, Unfinished: time.Minute, DryRun: true}))
		if len(dry.Gone) != 0 || taken == (len(dry.Orphans) == 1) { // it was taken over less than a minute ago
			t.Fatalf("%+v", dry)
		}
		s.clock += 25 * time.Hour
		rep = must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
		if len(rep.Gone)+len(rep.Orphans) != 1 || len(rep.Logs) != 2 || len(must(r.Unfinished(ctx))) != 0 {
			t.Fatalf("%+v", rep)
		}
		if v := must(r.Verify(ctx, VerifyOptions{})); len(v.Damages)+len(v.Left) != 0 {
			t.Fatalf("%+v", v)
		}
		_, _, err := r.TakeOver(ctx, b.w.ID)
		wantKind(t, err, tidemark.NotFound)
	}
}

// What an unfinished backup builds on stays as long as that can be resumed, and while it is being
// resumed.
func TestPruneLeavesWhatUnfinishedNeeds(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	whole := func(parent string, seed uint64) string {
		time.Sleep(time.Millisecond) // each begins at a time of its own
		b := must(beginSlow(ctx, r, parent, seed))
		return must(b.end(ctx)).ID
	}
	base := whole("", 1)
	b := must(beginSlow(ctx, r, base, 2))
	for range 2 {
		if err := b.some(ctx, 3); err != nil {
			t.Fatal(err)
		}
	}
	b.gone(s)
	newest := whole("", 3)
	prune := func(state string, want ...string) {
		t.Helper()
		rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
		var got []string
		for _, k := range rep.Stay {
			got = append(got, k.ID+": "+k.Why[0])
		}
		if !slices.Equal(got, want) || len(rep.Orphans) != 0 {
			t.Fatalf("%s: %q stay, and %d are left over", state, got, len(rep.Orphans))
		}
	}
	prune("stopped", newest+": newest", base+": needed by "+b.w.ID+", which is not finished")
	l := must(r.Lock(ctx, LockSpec{Purpose: "backup", Takes: b.w.ID}))
	s.clock += 25 * time.Hour // longer than it stays unused
	if err := l.write(ctx); err != nil {
		t.Fatal(err)
	}
	prune("about to be taken over", newest+": newest", base+": needed by "+b.w.ID+", which is not finished")
	m := must(l.takeOver(ctx, b.w.ID))
	prune("taken over", newest+": newest", m.ID+": in use: "+l.state.String(), base+": needed by "+m.ID+", which is not finished")
	child := whole(m.ID, 4)
	l.Release()
	prune("finished", child+": newest", m.ID+": needed by "+child, base+": needed by "+child)
	if v := must(r.Verify(ctx, VerifyOptions{})); len(v.Damages)+len(v.Left) != 0 || v.Backups != 3 {
		t.Errorf("%+v", v)
	}
}

// What Abort leaves can be resumed; without a checkpoint nothing is left.
func TestAbortKeepsTheCheckpoint(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	b := must(beginSlow(ctx, r, "", 1))
	for range 2 {
		if err := b.some(ctx, 4); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.add(); err != nil {
		t.Fatal(err)
	}
	if b.w.Kept() == 0 {
		t.Error("nothing is kept")
	}
	if err := b.w.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	m, release, err := r.TakeOver(ctx, b.w.ID)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if n := sameFiles(t, r, m, b.want); n != 4 {
		t.Errorf("%d files", n)
	}
	if v := must(r.Verify(ctx, VerifyOptions{})); len(v.Damages)+len(v.Left) != 0 || v.Packs != len(m.Packs) {
		t.Errorf("%+v", v)
	}
	before := len(s.names())
	b = must(beginSlow(ctx, r, "", 2))
	if err := b.add(); err != nil {
		t.Fatal(err)
	}
	if err := b.w.Abort(ctx); err != nil || b.w.Kept() != 0 || len(s.names()) != before {
		t.Errorf("%v: %v", err, s.names())
	}
}

// An owner considered dead that is alive can neither finish the backup nor remove what others have
// taken over.
func TestOwnerOfWhatWasTakenOver(t *testing.T) {
	for _, renews := range []bool{false, true} {
		ctx := t.Context()
		s := newMemory()
		r := must(Create(ctx, s, Keys{}))
		b := must(beginSlow(ctx, r, "", 1))
		for range 2 {
			if err := b.some(ctx, 3); err != nil {
				t.Fatal(err)
			}
		}
		s.clock += time.Hour // it stalls
		m, release, err := r.TakeOver(ctx, b.w.ID)
		if err != nil {
			t.Fatal(err)
		}
		release()
		if renews { // it rewrites its lock just as that is removed
			if err := b.w.lock.write(ctx); err != nil {
				t.Fatal(err)
			}
		} else if err := b.note(ctx); tidemark.KindOf(err) != tidemark.Lost {
			t.Fatalf("it has noted a checkpoint: %v", err)
		}
		if err := b.add(); err != nil {
			t.Fatal(err)
		}
		_, err = b.end(ctx)
		wantKind(t, err, tidemark.Lost)
		if err := b.w.Abort(ctx); err != nil {
			t.Fatal(err)
		}
		if n := sameFiles(t, r, m, b.want); n != 3 {
			t.Errorf("%d files", n)
		}
		must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
		if v := must(r.Verify(ctx, VerifyOptions{})); len(v.Damages)+len(v.Left) != 0 || v.Backups != 1 {
			t.Errorf("%+v", v)
		}
	}
}

// A damaged checkpoint is found, and is never taken for a backup; neither is one with missing
// packs.
func TestDamagedCheckpoints(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	b := must(beginSlow(ctx, r, "", 1))
	for range 2 {
		if err := b.some(ctx, 2); err != nil {
			t.Fatal(err)
		}
	}
	b.gone(s)
	name := checkpointName(b.w.ID)
	good := s.objects[name]
	for i := range good.text {
		bad := bytes.Clone(good.text)
		bad[i] ^= 1 << (i % 8)
		s.objects[name] = memObject{bad, good.time}
		if v := must(r.Verify(ctx, VerifyOptions{Quick: true})); !finds(&VerifyReport{Damages: v.Damages}, name) {
			t.Fatalf("byte %d: %+v", i, v)
		}
		if open := must(r.Unfinished(ctx)); len(open) != 0 {
			t.Fatalf("byte %d: %+v", i, open)
		}
		if _, _, err := r.TakeOver(ctx, b.w.ID); tidemark.KindOf(err) != tidemark.Corrupt {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	s.objects[name] = good
	pack := must(r.Unfinished(ctx))[0].Packs[0]
	delete(s.objects, packName(b.w.ID, pack.Number))
	_, _, err := r.TakeOver(ctx, b.w.ID)
	wantKind(t, err, tidemark.Lost)
	if rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}})); len(rep.Orphans) != 1 {
		t.Errorf("%+v", rep)
	}
	if left := s.names(); slices.Contains(left, name) {
		t.Errorf("%v", left)
	}
}

// During concurrent writes, each checkpoint has only complete files.
func TestCheckpointsOfABusyBackup(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	w := must(r.Begin(ctx, BeginOptions{}))
	want := map[Path][]byte{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			b := &slow{w: w, packs: []*Pack{w.NewPack(ctx), w.NewPack(ctx)}, seal: w.Sealer(Codec{}), rnd: rand.New(rand.NewPCG(uint64(n), 9)), want: map[Path][]byte{}, n: n * 1000}
			for range 200 {
				if err := b.add(); err != nil {
					t.Error(err)
				}
			}
			for _, p := range b.packs {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for path, text := range b.want {
				want[path] = text
			}
		})
	}
	var noted []*Manifest
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	for last := false; !last; {
		select {
		case <-over:
			last = true
		case <-time.After(time.Millisecond):
		}
		c := must(w.Checkpoint())
		if err := c.Write(ctx, slowManifest); err != nil {
			t.Fatal(err)
		}
		noted = append(noted, must(r.checkpoint(ctx, w.ID)))
	}
	for i, m := range noted {
		if n := sameFiles(t, r, m, want); int64(n) != m.Count || i == len(noted)-1 && n != 800 {
			t.Fatalf("checkpoint %d: %d files", i, n)
		}
	}
	m := must(w.Publish(ctx, slowManifest))
	if n := sameFiles(t, r, m, want); n != 800 {
		t.Errorf("%d files", n)
	}
	if slices.Contains(s.names(), checkpointName(w.ID)) {
		t.Error("its checkpoint is left")
	}
}

// A process dies, or a call fails, at each call that writes or removes something, while a backup is
// made with checkpoints, and while another one resumes it. What can be resumed is complete then,
// and a prune leaves nothing else.
func TestFaultAtEachCallOfAnUnfinished(t *testing.T) {
	for _, kind := range []faultKind{stop, stopLate, fail, failLate} {
		for n, by := steps(t); ; n += by {
			s := newMemory()
			r := must(Create(t.Context(), s, Keys{}))
			s.fault = &fault{n: n, kind: kind}
			want, done := goOn(r, s)
			happened := s.fault.over
			s.fault = nil
			when := fmt.Sprintf("%d at call %d", kind, n)
			s.clock += time.Hour
			for _, m := range must(r.Backups(t.Context())) {
				sameFiles(t, r, must(r.Manifest(t.Context(), m.ID)), want[m.ID])
			}
			if v := must(r.Verify(t.Context(), VerifyOptions{})); len(v.Damages) != 0 {
				t.Fatalf("%s: %+v", when, v)
			}
			for _, m := range must(r.Unfinished(t.Context())) {
				m, release, err := r.TakeOver(t.Context(), m.ID)
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				release()
				sameFiles(t, r, m, want[m.ID])
			}
			before := len(must(r.Backups(t.Context())))
			must(r.Prune(t.Context(), PruneOptions{Keep: Keep{Last: 1}}))
			v := must(r.Verify(t.Context(), VerifyOptions{}))
			if len(v.Damages)+len(v.Left) != 0 || v.Backups != before {
				t.Fatalf("%s: of %d backups: %+v", when, before, v)
			}
			s.clock += 25 * time.Hour
			must(r.Prune(t.Context(), PruneOptions{Keep: Keep{Last: 1}}))
			all := must(r.Backups(t.Context()))
			if done && len(all) != 2 || !done && len(all) == 1 {
				t.Fatalf("%s: %d backups stay", when, len(all))
			}
			if !happened {
				if n < 25 || !done {
					t.Errorf("there were only %d calls", n)
				}
				break
			}
		}
	}
}

// goOn makes a backup with checkpoints, stops it, and resumes it; want has what each may have, and
// done reports whether it finished.
func goOn(r *Repo, s *memory) (want map[string]map[Path][]byte, done bool) {
	ctx := context.Background()
	want = map[string]map[Path][]byte{}
	b, err := beginSlow(ctx, r, "", 1)
	if err != nil {
		return want, false
	}
	want[b.w.ID] = b.want
	for range 3 {
		if err = b.some(ctx, 2); err != nil {
			break
		}
	}
	_ = b.w.Abort(ctx) // that of a dead process does nothing
	if err != nil {
		return want, false
	}
	m, release, err := r.TakeOver(ctx, b.w.ID)
	if err != nil {
		return want, false
	}
	defer release()
	next, err := beginSlow(ctx, r, m.ID, 2)
	if err != nil {
		return want, false
	}
	want[next.w.ID] = next.want
	if err = next.some(ctx, 2); err == nil {
		_, err = next.end(ctx)
	}
	if err != nil {
		_ = next.w.Abort(ctx)
	}
	return want, err == nil
}
