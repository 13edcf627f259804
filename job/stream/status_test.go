package stream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/job/sampled"
)

// What a stream is doing, without a session and with one.
func TestDoing(t *testing.T) {
	now := time.Now()
	lost := &tidemark.Error{Kind: tidemark.Unreachable, Op: "connect", Object: "db", Err: errors.New("no answer")}
	session := func(role Role) *sampler { return &sampler{role: role, link: &link{}, meter: &capture.Meter{}} }
	for name, x := range map[string]struct {
		set   func(*statusKeeper)
		s     *sampler
		out   sampled.Status
		want  sampled.State
		doing string
	}{
		"at first":          {func(*statusKeeper) {}, nil, sampled.Status{}, sampled.Connecting, "connecting"},
		"failed":            {func(p *statusKeeper) { p.lost(now, lost) }, nil, sampled.Status{}, sampled.Retrying, "retrying since "},
		"source away":       {func(p *statusKeeper) { p.ends[sourceEnd].Heard(now, nil); p.ends[sourceEnd].Heard(now, lost) }, session(Both), sampled.Status{}, sampled.Retrying, "retrying: source unreachable since "},
		"target away":       {func(p *statusKeeper) { p.ends[targetEnd].Heard(now, lost) }, session(Both), sampled.Status{}, sampled.Retrying, "retrying: target unreachable since "},
		"both away":         {func(p *statusKeeper) { p.ends[0].Heard(now, lost); p.ends[1].Heard(now, lost) }, session(Both), sampled.Status{}, sampled.Retrying, "retrying: source and target unreachable since "},
		"stopped":           {func(*statusKeeper) {}, &sampler{held: errors.New("it"), link: &link{}}, sampled.Status{}, sampled.Halted, "the queue is stopped: it"},
		"one large":         {func(p *statusKeeper) { p.oldest = apply.Underway{Rows: 12345, Reading: true} }, session(Both), sampled.Status{}, sampled.OneAlone, "applying one transaction of 12,345 rows so far"},
		"a silent capture":  {func(*statusKeeper) {}, session(ApplyHalf), sampled.Status{LowTime: now.Add(-time.Hour)}, sampled.Waiting, "waiting: nothing received from capture since "},
		"an apply, idle":    {func(*statusKeeper) {}, session(ApplyHalf), sampled.Status{Idle: true}, sampled.Idle, "idle"},
		"an apply, at work": {func(*statusKeeper) {}, session(ApplyHalf), sampled.Status{}, sampled.Applying, "applying"},
		"a capture":         {func(*statusKeeper) {}, session(CaptureHalf), sampled.Status{}, sampled.Applying, "capturing"},
	} {
		p := &statusKeeper{}
		x.set(p)
		out := x.out
		out.Time = now
		p.judge(&out, x.s)
		if out.State != x.want || !strings.HasPrefix(out.Doing, x.doing) || out.Idle != (x.want == sampled.Idle) || out.LogRoom != -1 {
			t.Errorf("%s: %s, %q, idle %v, room %d", name, out.State, out.Doing, out.Idle, out.LogRoom)
		}
	}
}

// While there is no session nobody asks the source: what the target lacks is as old as the last
// answer, from the first second on; in a new process, as old as the last sample says, until the log
// tells more.
func TestBehindWithoutASession(t *testing.T) {
	now := time.Now()
	lost := &tidemark.Error{Kind: tidemark.Unreachable, Op: "connect", Object: "db", Err: errors.New("no answer")}
	for name, x := range map[string]struct {
		set  func(*statusKeeper)
		s    *sampler
		want float64
	}{
		"nothing is known": {func(*statusKeeper) {}, nil, 0},
		"target lost": {func(p *statusKeeper) {
			p.ends[sourceEnd].Heard(now.Add(-time.Second), nil)
			p.lost(now, lost)
		}, nil, 1},
		"started again": {func(p *statusKeeper) { p.marks.Complete(now.Add(-time.Minute)) }, nil, 60},
		"connected again": {func(p *statusKeeper) {
			p.marks.Add(now.Add(-30*time.Second), 7)
			p.marks.Done(7)
			p.ends[sourceEnd].Heard(now, nil)
			p.marks.Add(now, 9)
		}, &sampler{role: Both, link: &link{}, meter: &capture.Meter{}}, 30},
		"asked all the time": {func(p *statusKeeper) {
			p.marks.Add(now.Add(-30*time.Second), 7)
			p.marks.Done(7)
			p.marks.Add(now.Add(-time.Second), 7)
			p.ends[sourceEnd].Heard(now, nil)
			p.marks.Add(now, 9)
		}, &sampler{role: Both, link: &link{}, meter: &capture.Meter{}}, 0},
	} {
		p, out := &statusKeeper{}, sampled.Status{Time: now}
		x.set(p)
		if p.judge(&out, x.s); out.Lag != x.want {
			t.Errorf("%s: %.1f s behind, want %.1f", name, out.Lag, x.want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// Errors that end a stream, or its copy, say how to resume it.
func TestGoingOn(t *testing.T) {
	const pg = "postgres://h/db"
	keeps := KeepsLog(pg) + "."
	for _, x := range []struct{ in, want *tidemark.Error }{
		{&tidemark.Error{Op: "apply", Kind: tidemark.BadRow, Hint: "Look."}, &tidemark.Error{Hint: "Look. The same command resumes from there. " + keeps}},
		{&tidemark.Error{Op: "follow", Kind: tidemark.Lost}, &tidemark.Error{Hint: "The target is complete up to there. To copy again, use --anew, with --prep truncate to fill the existing tables."}},
		{&tidemark.Error{Op: "apply", Kind: tidemark.Lost, Hint: "Another has it."}, &tidemark.Error{Hint: "Another has it."}},
	} {
		if got := tidemark.HintOf(withResumeHint(x.in, pg)); got != x.want.Hint {
			t.Errorf("%q, want %q", got, x.want.Hint)
		}
	}
	copied := &tidemark.Error{Op: "copy", Kind: tidemark.Full, Hint: "Make room; then add --resume 123 to the same command."}
	if got, want := tidemark.HintOf(withCopyResumeHint(copied, pg)), "Make room. The same command resumes the copy. "+keeps; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := withCopyResumeHint(errors.New("bare"), pg); !strings.Contains(err.Error(), "bare") || tidemark.HintOf(err) != "The same command resumes the copy. "+keeps {
		t.Error(err)
	}
	if strings.Contains(KeepsLog("mysql://h"), "until --remove") {
		t.Error("a source of MySQL keeps no log")
	}
	for kind, want := range map[tidemark.Kind]bool{tidemark.Transient: true, tidemark.Full: true, tidemark.Cancelled: true, tidemark.BadRow: false, tidemark.Denied: false} {
		if worthResuming(&tidemark.Error{Kind: kind, Op: "copy", Err: errors.New("x")}) != want {
			t.Errorf("%v", kind)
		}
	}
}
