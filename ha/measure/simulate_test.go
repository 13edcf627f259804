package measure

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/ha"
)

func simulated(t *testing.T, spec SimSpec) *SimReport {
	t.Helper()
	if spec.Time == 0 {
		spec.Time = time.Minute // the count ends it
	}
	r, err := Simulate(context.Background(), spec)
	if err != nil {
		t.Fatalf("%s: %v", spec.Mode, err)
	}
	if r.OnStandby.Bytes != r.Bytes {
		t.Errorf("%s: %d bytes were shipped, %d arrived", spec.Mode, r.Bytes, r.OnStandby.Bytes)
	}
	return r
}

func workersOf(r flow.Report, role string) flow.Times {
	for _, x := range r.Roles {
		if x.Name == role {
			return x.Sum()
		}
	}
	return flow.Times{}
}

// Every mode ships everything logged to a disk, and reports where the time went.
func TestSimulateEveryMode(t *testing.T) {
	t.Parallel()
	for _, m := range simModes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			here, there := t.TempDir(), t.TempDir()
			r := simulated(t, SimSpec{Mode: strings.ToLower(m.name), Count: 60, Sizes: Sizes{Fixed: 5000}, Dir: here,
				Standby: StandbySpec{Dir: there}, SyncRelay: true, ApplyDelay: time.Millisecond, Committers: 20})
			empty(t, here)
			empty(t, there)
			if m.serial() {
				unit := int64(2 * ha.Page) // 5000 bytes are two pages
				if m.rule == shipBehind {
					unit = catchUpUnit
				}
				if r.Flushes != 60 || r.Bytes != 60*unit || r.Commit != nil || r.Flush.N != 60 || r.Ship.N != 60 {
					t.Errorf("%d flushes, %d bytes, %+v", r.Flushes, r.Bytes, r.Flush)
				}
			} else if r.Commits != 60 || r.Bytes != 60*5000 || r.Commit.N != 60 || r.Flushes < 1 || r.Flushes > 60 || int64(r.Flush.N) != r.Flushes {
				t.Errorf("%d commits, %d flushes, %d bytes", r.Commits, r.Flushes, r.Bytes)
			}
			if r.Mode != m.name || r.Engine != m.engine || r.Rate <= 0 || r.Seconds <= 0 || r.Write.N == 0 || r.OnStandby.Frames == 0 || r.Stopped {
				t.Errorf("%+v", r)
			}
			roles := map[bool][]string{true: {"sender", "standby receiver", "standby log writer"}, false: {"committer", "log writer", "sender", "acks", "standby receiver"}}[m.serial()]
			for _, role := range roles {
				w := workersOf(r.Workers, role)
				if w.Total <= 0 || w.Total != w.IO+w.Working+w.WaitBuffer+w.WaitWork {
					t.Errorf("%s: %+v", role, w)
				}
			}
			for _, role := range r.Workers.Roles {
				if len(role.Workers) > 16 {
					t.Errorf("%d lines for %s", len(role.Workers), role.Name)
				}
			}
		})
	}
}

// With disks and a proxy of known delay and rate, no flush can be faster than Db2's formulas, and
// all are about as fast: other tests may slow them down.
func TestSimulateFollowsDb2sFormulas(t *testing.T) {
	t.Parallel()
	const bytes = 16 * ha.Page
	disk := ha.Disk{Overhead: 4e-3, Rate: 32 << 20}
	line := Line{Delay: 10 * time.Millisecond, Rate: 16 << 20}
	w, s, r := disk.Write(bytes), bytes/line.Rate, line.Delay.Seconds()
	for mode, want := range map[string]float64{"SYNC": 2*w + s + r, "NEARSYNC": max(w, s+r), "ASYNC": max(w, s), "SUPERASYNC": max(w, s)} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			const n = 40
			x, got := (*SimReport)(nil), math.Inf(1)
			for try := 0; try < 5 && got > 4*want+0.1; try++ { // a machine may stall for a while, but not every time
				x = simulated(t, SimSpec{Mode: mode, Count: n, Sizes: Sizes{Fixed: bytes}, Disk: &disk, Line: line, Standby: StandbySpec{Disk: &disk}})
				got = x.Flush.Mean
				if mode == "ASYNC" || mode == "SUPERASYNC" { // data in flight is only waited for at the end
					got = x.Seconds / n
				}
				if got < want*0.999 {
					break
				}
			}
			if got < want*0.999 || got > 4*want+0.1 {
				t.Errorf("a flush takes %.4f s, by the formula %.4f", got, want)
			}
			if mode == "SYNC" && (x.Flush.Min < want*0.999 || x.Write.Min < w || x.Ship.Min < s+r+w || x.OnStandby.Write.Min < w) {
				t.Errorf("%+v", x)
			}
		})
	}
}

// Waits of commits in the other engines: certain lower bounds, generous upper ones.
func TestSimulateCommits(t *testing.T) {
	t.Parallel()
	disk := ha.Disk{Overhead: 5e-3}
	line := Line{Delay: 20 * time.Millisecond}
	w, r := disk.Overhead, line.Delay.Seconds()
	for _, c := range []struct {
		mode, engine string
		least        float64
		relay        bool
		apply        time.Duration
	}{
		{mode: "local", least: w},
		{mode: "remote_write", least: w + r},
		{mode: "on", least: 2*w + r},
		{mode: "remote_apply", least: 2*w + r + 0.03, apply: 30 * time.Millisecond},
		{mode: "AFTER_COMMIT", least: w + r},
		{mode: "AFTER_COMMIT", least: 2*w + r, relay: true},
		{mode: "AFTER_SYNC", least: w + r},
		{mode: "AFTER_SYNC", engine: "mariadb", least: w + r},
	} {
		t.Run(c.mode+c.engine, func(t *testing.T) {
			t.Parallel()
			var x *SimReport
			for try := 0; try == 0 || try < 5 && x.Commit.Min >= c.least && x.Commit.Mean > 10*c.least+0.5; try++ {
				x = simulated(t, SimSpec{Mode: c.mode, Engine: c.engine, Count: 200, Disk: &disk, Line: line, Standby: StandbySpec{Disk: &disk}, SyncRelay: c.relay, ApplyDelay: c.apply})
			}
			if x.Commit.Min < c.least || x.Commit.Mean > 10*c.least+0.5 {
				t.Errorf("commits take %.4f to %.4f s, at least %.4f is right", x.Commit.Min, x.Commit.Max, c.least)
			}
			if x.FlushOf.Max > 8<<10 || x.FlushOf.Min < 1<<10 { // 8 committers of 1 kB
				t.Errorf("flushes: %+v", x.FlushOf)
			}
			// Groups commit one after the other: there are at most as many as round trips.
			if groups := workersOf(x.Workers, "commit stage").Batches; c.mode == "AFTER_SYNC" && c.engine == "" && float64(groups) > x.Seconds/r*2+2 {
				t.Errorf("%d groups in %.2f s", groups, x.Seconds)
			}
		})
	}
}

func TestSimulateEndsByTimeAndKeepsToARate(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"SYNC", "SUPERASYNC", "on"} {
		const rate, d = 1 << 20, 700 * time.Millisecond
		x := simulated(t, SimSpec{Mode: mode, Time: d, Target: rate, Sizes: Sizes{Fixed: 4096}})
		if x.Seconds < d.Seconds() {
			t.Errorf("%s: it ended after %v s", mode, x.Seconds)
		}
		if most := rate*x.Seconds + 8*catchUpUnit; float64(x.Bytes) > most || x.Bytes == 0 {
			t.Errorf("%s: %d bytes in %v s", mode, x.Bytes, x.Seconds)
		}
	}
}

// Committers leave the log alone while they think.
func TestSimulateThink(t *testing.T) {
	t.Parallel()
	x := simulated(t, SimSpec{Mode: "remote_write", Committers: 4, Count: 40, Think: 10 * time.Millisecond})
	if x.Seconds < 0.1 { // ten times each
		t.Errorf("it took %v s", x.Seconds)
	}
}

func TestSimulateStops(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"NEARSYNC", "remote_write"} {
		ctx, stop := context.WithCancel(context.Background())
		time.AfterFunc(400*time.Millisecond, stop)
		r, err := Simulate(ctx, SimSpec{Mode: mode, Time: time.Hour, Line: Line{Delay: time.Millisecond}})
		if err != nil && tidemark.KindOf(err) == tidemark.Cancelled {
			continue // it was so slow that it had not begun
		}
		if err != nil || !r.Stopped || r.Bytes != r.OnStandby.Bytes {
			t.Errorf("%s: %v, %+v", mode, err, r)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Simulate(ctx, SimSpec{Mode: "on"}); tidemark.KindOf(err) != tidemark.Cancelled {
		t.Error(err)
	}
}

// A standby of this process either starts or says that it was stopped: which of the two comes
// first, its address or its end, is chance, where many goroutines wait for a processor.
func TestStandbyHereIsStoppedAtOnce(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	stop()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 100 {
				_, end, err := (&StandbySpec{}).startHere(ctx)
				switch {
				case err == nil && end == nil:
					t.Error("it has not started, and no error says so")
				case err == nil:
					end()
				case tidemark.KindOf(err) != tidemark.Cancelled:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// A standby that goes away midway ends the simulation with an error, and a primary that goes away
// leaves a standby that serves the next one.
func TestSimulateLosesTheOtherSide(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"SYNC", "SUPERASYNC", "on", "local"} {
		dir := t.TempDir()
		f := listening(t, false, &StandbySpec{Dir: dir})
		time.AfterFunc(300*time.Millisecond, f.stop)
		_, err := Simulate(context.Background(), SimSpec{Mode: mode, Peer: f.addr, Time: time.Minute})
		if k := tidemark.KindOf(err); k != tidemark.Transient && k != tidemark.Unreachable || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v", mode, err)
		}
		f.wait(t)
		empty(t, dir)
	}
	dir := t.TempDir()
	f := listening(t, false, &StandbySpec{Dir: dir})
	l, err := dialLink(context.Background(), f.addr, hello{Purpose: "ship", Ship: &shipTerms{Mode: "SYNC", Engine: "db2"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.flush(1000); err != nil {
		t.Fatal(err)
	}
	l.close()
	for try := 0; ; try++ {
		r, err := Simulate(context.Background(), SimSpec{Mode: "SYNC", Peer: f.addr, Count: 3})
		if err == nil && r.OnStandby.Frames == 3 {
			break
		}
		if tidemark.KindOf(err) != tidemark.Transient || try > 6000 {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if !strings.Contains(f.said(), "lost the connection to the primary") {
		t.Errorf("the standby says %q", f.said())
	}
}

func TestSimulateRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		spec SimSpec
		kind tidemark.Kind
		says string
	}{
		"no mode":                   {SimSpec{Mode: "always"}, tidemark.Invalid, "is not a mode"},
		"a mode of another engine":  {SimSpec{Mode: "on", Engine: "mariadb"}, tidemark.Invalid, "is not a mode of mariadb"},
		"no folder":                 {SimSpec{Mode: "on", Dir: dir + "/none"}, tidemark.NotFound, "no such file"},
		"no folder on the standby":  {SimSpec{Mode: "on", Standby: StandbySpec{Dir: dir + "/none"}}, tidemark.NotFound, "no such file"},
		"something that is not one": {SimSpec{Mode: "on", Peer: serveOnce(t, []byte("220 smtp ready\r\n"))}, tidemark.Unsupported, "another program answers there"},
	} {
		_, err := Simulate(context.Background(), c.spec)
		if tidemark.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty(t, dir)
}

// Drawn sizes have the distribution's bounds and mean.
func TestDrawnSizes(t *testing.T) {
	many := ha.Distribution{Min: math.Inf(1)}
	for i := range 3000 {
		x := 100 + float64(i*i%7000)
		many.Count, many.Sum, many.Min, many.Max = many.Count+1, many.Sum+x, min(many.Min, x), max(many.Max, x)
		band := int(x / 100)
		for len(many.Buckets) <= band {
			n := float64(len(many.Buckets))
			many.Buckets = append(many.Buckets, ha.Band{From: 100 * n, To: 100*n + 99})
		}
		many.Buckets[band].Count++
	}
	many.Mean = many.Sum / float64(many.Count)
	for name, d := range map[string]ha.Distribution{"many": many, "single values": {Count: 4, Sum: 4000, Min: 500, Max: 2500, Mean: 1000, Buckets: []ha.Band{{From: 500, To: 500, Count: 3}, {From: 2500, To: 2500, Count: 1}}}} {
		draw := Sizes{Spread: &d}.draw(1)
		var sum, least, most float64
		const n = 20000
		least = math.Inf(1)
		for range n {
			x := float64(draw())
			sum, least, most = sum+x, min(least, x), max(most, x)
		}
		if mean := sum / n; math.Abs(mean/d.Mean-1) > 0.03 {
			t.Errorf("%s: mean %v, not %v", name, mean, d.Mean)
		}
		if least < d.Min*0.5 || most > d.Max*1.5 {
			t.Errorf("%s: from %v to %v, not %v to %v", name, least, most, d.Min, d.Max)
		}
	}
	if got := (Sizes{}).draw(7)(); got != 7 {
		t.Error(got)
	}
	if got := (Sizes{Fixed: 9, Spread: &ha.Distribution{}}).draw(7)(); got != 9 {
		t.Error(got)
	}
}
