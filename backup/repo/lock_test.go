package repo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Prune does not disturb a backup or a reader as long as the lock is renewed.
func TestPruneLeavesWhatIsUsed(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	var ids []string
	for i := range 3 {
		m, _, err := backUp(ctx, r, "", "none", uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
		time.Sleep(time.Millisecond) // so that one is the newest
	}
	reader := must(r.Lock(ctx, LockSpec{Purpose: "restore", Needs: []string{ids[1]}}))
	w := must(r.Begin(ctx, BeginOptions{}))
	p := w.NewPack(ctx)
	must(p.Append(must(w.Sealer(Codec{}).Seal(nil, []byte("x")))))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
	if len(rep.Gone) != 1 || rep.Gone[0].ID != ids[0] || len(rep.Orphans) != 0 || len(rep.Locks) != 0 {
		t.Fatalf("%+v", rep)
	}
	if why := strings.Join(rep.Stay[1].Why, ", "); rep.Stay[1].ID != ids[1] || !strings.Contains(why, "in use: restore on") {
		t.Errorf("%s stays, because it is %s", rep.Stay[1].ID, why)
	}
	m, err := w.Publish(ctx, Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(ctx); err != nil {
		t.Error(err)
	}
	if _, err := r.Manifest(ctx, m.ID); err != nil {
		t.Errorf("Abort behind Publish has done something: %v", err)
	}
	reader.Release()
	reader.Release()
	if rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}})); len(rep.Gone) != 1 {
		// ids[2] is the newest of its cluster; the one published now is of another.
		t.Errorf("%+v", rep.Gone)
	}
	_, err = r.Begin(ctx, BeginOptions{Parent: ids[1]})
	wantKind(t, err, tidemark.NotFound)
	for _, name := range s.names() {
		if strings.HasPrefix(name, "locks/") {
			t.Errorf("the lock %s is left", name)
		}
	}
}

// A stalled writer that others considered dead cannot publish what they have removed.
func TestWriterThatStoodStill(t *testing.T) {
	for _, begunAnew := range []bool{false, true} {
		ctx := t.Context()
		s := newMemory()
		r := must(Create(ctx, s, Keys{}))
		w := must(r.Begin(ctx, BeginOptions{}))
		p := w.NewPack(ctx)
		must(p.Append(must(w.Sealer(Codec{}).Seal(nil, []byte("x")))))
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		s.clock += time.Hour // and its lock was not renewed
		rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
		if len(rep.Orphans) != 1 || len(rep.Locks) != 1 {
			t.Fatalf("%+v", rep)
		}
		if begunAnew {
			// It renewed its lock just before that was removed, and continues to write.
			if err := w.lock.write(ctx); err != nil {
				t.Fatal(err)
			}
			w.packs = nil
			must(p.Append(must(w.Sealer(Codec{}).Seal(nil, []byte("y")))))
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.Publish(ctx, Manifest{})
		wantKind(t, err, tidemark.Lost)
		if all := must(r.Backups(ctx)); len(all) != 0 {
			t.Fatalf("%d backups are listed", len(all))
		}
		if err := w.Abort(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// The mark of a removed backup is removed once no writer can return.
func TestMarksGo(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	w := must(r.Begin(ctx, BeginOptions{}))
	p := w.NewPack(ctx)
	must(p.Append(must(w.Sealer(Codec{}).Seal(nil, []byte("x")))))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 1, 0} {
		s.clock += 5 * 24 * time.Hour
		must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
		n := 0
		for range s.List(ctx, "backups/") {
			n++
		}
		if n != want {
			t.Errorf("%d marks instead of %d", n, want)
		}
		if v := must(r.Verify(ctx, VerifyOptions{})); len(v.Damages)+len(v.Left)+v.Backups != 0 {
			t.Errorf("%+v", v)
		}
	}
}

// A lock is renewed while it is held, and its owner is notified when it is lost.
func TestLockIsRenewed(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	l := must(r.Lock(ctx, LockSpec{Purpose: "archive", Lease: 300 * time.Millisecond}))
	at := must(s.Stat(ctx, l.name())).Time
	for deadline := time.Now().Add(5 * time.Minute); must(s.Stat(ctx, l.name())).Time.Equal(at); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not renewed")
		}
	}
	if err := s.Delete(ctx, l.name()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Context().Done():
	case <-time.After(5 * time.Minute):
		t.Fatal("its owner is not told that it is gone")
	}
	wantKind(t, context.Cause(l.Context()), tidemark.Lost)
	l.Release()
}

// Users wait for removers; two removers do not run at once; and a dead one is waited for only as
// long as its lease.
func TestRemoverGoesAlone(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	l := must(r.Lock(ctx, LockSpec{Purpose: "prune", Removes: true}))
	_, err := r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}})
	wantKind(t, err, tidemark.Transient)
	if !strings.Contains(err.Error(), "another process is removing objects: prune on") {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := r.Begin(short, BeginOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a backup began meanwhile: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		w, err := r.Begin(ctx, BeginOptions{})
		if err == nil {
			err = w.Abort(ctx)
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a backup began meanwhile: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	l.Release()
	if err := testdb.From(t, "the backup", done); err != nil {
		t.Fatal(err)
	}
	// A dead remover.
	must(r.Lock(context.WithoutCancel(ctx), LockSpec{Purpose: "prune", Removes: true})).cancel(errReleased)
	s.mu.Lock()
	s.clock += time.Hour
	s.mu.Unlock()
	if w, err := r.Begin(ctx, BeginOptions{}); err != nil {
		t.Error(err)
	} else if err := w.Abort(ctx); err != nil {
		t.Error(err)
	}
	// An unreadable lock holds for a while, and does not stop others.
	s.objects["locks/strange"] = memObject{[]byte("?"), s.now()}
	if rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}})); len(rep.Locks) != 1 {
		t.Errorf("%+v", rep.Locks) // the dead one's
	}
	s.clock += time.Hour
	if rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}})); len(rep.Locks) != 1 || rep.Locks[0].ID != "strange" {
		t.Errorf("%+v", rep.Locks)
	}
}
