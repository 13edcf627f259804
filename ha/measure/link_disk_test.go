package measure

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
)

// A listener with a folder gets its disk measured, and one without reports that it has none.
func TestPeersDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := listening(t, false, &StandbySpec{Dir: dir})
	if has, err := LookAtPeer(context.Background(), f.addr, ""); err != nil || !has {
		t.Errorf("%v, %v", has, err)
	}
	r, err := MeasurePeerDisk(context.Background(), f.addr, "", "mariadb", 300*time.Millisecond)
	for try := 0; try < 4 && err == nil && r.Overhead <= 0; try++ { // a line fitted to noise may begin at zero
		r, err = MeasurePeerDisk(context.Background(), f.addr, "", "mariadb", 300*time.Millisecond)
	}
	if err != nil || r.Engine != "mariadb" || r.Overhead <= 0 || len(r.Series[0].Sizes) == 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	if _, err := MeasurePeerDisk(context.Background(), f.addr, "", "tape", time.Second); tidemark.KindOf(err) != tidemark.Unsupported || tidemark.HintOf(err) == "" || !strings.Contains(err.Error(), "is not a supported engine") {
		t.Errorf("%v", err)
	}
	// The same listener then is the standby of a simulation.
	simulated(t, SimSpec{Mode: "on", Peer: f.addr, Count: 20})
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(200*time.Millisecond, cancel)
	if _, err := MeasurePeerDisk(ctx, f.addr, "", "postgres", time.Minute); tidemark.KindOf(err) != tidemark.Cancelled {
		t.Errorf("stopped: %v", err)
	}
	without := listening(t, false, nil)
	if has, err := LookAtPeer(context.Background(), without.addr, ""); err != nil || has {
		t.Errorf("%v, %v", has, err)
	}
	if _, err := MeasurePeerDisk(context.Background(), without.addr, "", "postgres", time.Second); tidemark.KindOf(err) != tidemark.Transient || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("%v", err)
	}
	// It takes as long as requested.
	x := simulated(t, SimSpec{Mode: "on", Peer: without.addr, Count: 10, Committers: 1, Standby: StandbySpec{Disk: &ha.Disk{Overhead: 0.02}}})
	if x.Commit.Min < 0.02 {
		t.Errorf("%+v", x.Commit)
	}
	without.stop()
	without.wait(t)
	for try := 0; ; try++ { // the stop is noticed, and nothing is left
		if !strings.Contains(f.said(), "measuring the disk of "+dir) {
			t.Error(f.said())
		}
		if _, err := MeasurePeerDisk(context.Background(), f.addr, "", "postgres", 50*time.Millisecond); err == nil {
			break
		} else if try > 3000 {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.stop()
	f.wait(t)
	empty(t, dir)
}
