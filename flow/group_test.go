package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// A job of three stages in virtual time: the reader needs 1 s for a batch, the writer 3 s. The
// report must be exact to the second.
func TestPipelineSaysWhoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const batches = 10
		g := flow.NewGroup(t.Context())
		b := ints(1, 1000)
		g.Go("Reader", func(ctx context.Context, c *flow.Clock) error {
			defer b.Close()
			for range batches {
				old := c.Enter(flow.IO)
				time.Sleep(time.Second)
				c.Enter(old)
				if err := b.Put(ctx, c, 100); err != nil {
					return err
				}
				c.Count(1, 2048, 7)
			}
			return nil
		})
		g.Go("Writer", func(ctx context.Context, c *flow.Clock) error {
			for {
				v, ok, err := b.Take(ctx, c)
				if err != nil || !ok {
					return err
				}
				c.Enter(flow.IO)
				time.Sleep(3 * time.Second)
				c.Enter(flow.Working)
				c.Count(1, int64(v), 7)
			}
		})
		time.Sleep(14500 * time.Millisecond)
		if r := g.Report(); r.Roles[0].Workers[0].WaitBuffer != 7500*time.Millisecond {
			t.Errorf("while it runs:\n%v", r)
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		r := g.Report()
		const want = "" +
			"Reader       Total       I/O   Working   WaitBuf  WaitWork    Batches       kBytes          Rows\n" +
			"000          25.00     10.00      0.00     15.00      0.00         10           20            70\n" +
			"TOT          25.00     10.00      0.00     15.00      0.00         10           20            70\n" +
			"\n" +
			"Writer       Total       I/O   Working   WaitBuf  WaitWork    Batches       kBytes          Rows\n" +
			"000          31.00     30.00      0.00      0.00      1.00         10            0            70\n" +
			"TOT          31.00     30.00      0.00      0.00      1.00         10            0            70\n"
		if got := r.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		role, share, why := r.Limiting()
		if role != "Writer" || why != flow.IO || share < 0.96 || share > 0.97 {
			t.Errorf("limiting: %s %.3f %v", role, share, why)
		}
	})
}

func TestFirstErrorCancelsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flow.NewGroup(t.Context())
		boom := errors.New("boom")
		for range 3 {
			g.Go("Sleeper", func(ctx context.Context, _ *flow.Clock) error {
				<-ctx.Done()
				if context.Cause(ctx) != boom {
					t.Errorf("cause is %v", context.Cause(ctx))
				}
				return ctx.Err()
			})
		}
		g.Go("Failer", func(context.Context, *flow.Clock) error {
			time.Sleep(time.Minute)
			return boom
		})
		if err := g.Wait(); err != boom {
			t.Errorf("got %v", err)
		}
		for _, w := range g.Report().Roles[0].Workers {
			if w.Total != time.Minute {
				t.Errorf("a sleeper lived for %v", w.Total)
			}
		}
	})
}

func TestParentCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := flow.NewGroup(ctx)
	g.Go("x", func(ctx context.Context, _ *flow.Clock) error { <-ctx.Done(); return ctx.Err() })
	cancel()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPanicBecomesAnError(t *testing.T) {
	g := flow.NewGroup(t.Context())
	g.Go("Reader", func(ctx context.Context, _ *flow.Clock) error { <-ctx.Done(); return nil })
	g.Go("Reader", func(context.Context, *flow.Clock) error { panic("out of tape") })
	err := g.Wait()
	var p *flow.PanicError
	if !errors.As(err, &p) || p.Role != "Reader" || p.Worker != 1 || p.Value != "out of tape" {
		t.Fatalf("got %#v", err)
	}
	if want := "Reader 001 panicked: out of tape"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !strings.Contains(string(p.Stack), "TestPanicBecomesAnError") {
		t.Errorf("the stack does not show where:\n%s", p.Stack)
	}
}

func TestWorkerThatEndsItsGoroutine(t *testing.T) {
	g := flow.NewGroup(t.Context())
	g.Go("Reader", func(context.Context, *flow.Clock) error { runtime.Goexit(); return nil })
	if err := g.Wait(); err == nil {
		t.Error("the group believes that all went well")
	}
}

func TestWorkersAreAddedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flow.NewGroup(t.Context())
		work := func(context.Context, *flow.Clock) error { time.Sleep(time.Second); return nil }
		g.Go("Lane", func(ctx context.Context, c *flow.Clock) error {
			work(ctx, c)
			g.Go("Lane", work)
			g.Go("Index", work)
			return nil
		})
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		r := g.Report()
		if len(r.Roles) != 2 || r.Roles[0].Name != "Lane" || len(r.Roles[0].Workers) != 2 || r.Roles[1].Name != "Index" {
			t.Errorf("got\n%v", r)
		}
		for _, ro := range r.Roles {
			if got := ro.Workers[0].Total; got != time.Second {
				t.Errorf("%s 000 lived for %v", ro.Name, got)
			}
		}
	})
}

func role(name string, ts ...flow.Times) flow.Role { return flow.Role{Name: name, Workers: ts} }

func times(io, working, waitBuffer, waitWork int) flow.Times {
	t := flow.Times{IO: time.Duration(io), Working: time.Duration(working), WaitBuffer: time.Duration(waitBuffer), WaitWork: time.Duration(waitWork)}
	t.Total = t.IO + t.Working + t.WaitBuffer + t.WaitWork
	return t
}

func TestLimiting(t *testing.T) {
	for _, c := range []struct {
		name  string
		roles []flow.Role
		role  string
		share float64
		why   flow.State
	}{
		{"nothing ran", nil, "", 0, flow.Working},
		{"source", []flow.Role{role("R", times(99, 1, 0, 0)), role("W", times(20, 0, 0, 80))}, "R", 1, flow.IO},
		{"target", []flow.Role{role("R", times(20, 0, 80, 0)), role("W", times(90, 5, 0, 5))}, "W", 0.95, flow.IO},
		{"the CPU in the middle", []flow.Role{role("R", times(20, 0, 80, 0)), role("H", times(0, 97, 0, 3)), role("W", times(9, 0, 0, 91))}, "H", 0.97, flow.Working},
		{"one lane too few", []flow.Role{role("R", times(100, 0, 0, 0)), role("W", times(40, 0, 0, 60), times(30, 0, 0, 70))}, "R", 1, flow.IO},
		{"a short stage is not to blame", []flow.Role{role("Plan", times(3, 0, 0, 0)), role("R", times(80, 0, 17, 3)), role("W", times(70, 0, 0, 30))}, "R", 0.8, flow.IO},
		{"many short workers are", []flow.Role{role("R", times(30, 0, 70, 0)), role("Index", times(25, 0, 0, 0), times(25, 0, 0, 0), times(25, 0, 0, 0), times(24, 1, 0, 0))}, "Index", 1, flow.IO},
		{"as busy, but waited for", []flow.Role{role("R", times(95, 0, 5, 0)), role("X", times(95, 0, 4, 1)), role("W", times(10, 0, 0, 90))}, "X", 0.95, flow.IO},
	} {
		r, share, why := flow.Report{Roles: c.roles}.Limiting()
		if r != c.role || share < c.share-0.001 || share > c.share+0.001 || why != c.why {
			t.Errorf("%s: got %s %.3f %v, want %s %.3f %v", c.name, r, share, why, c.role, c.share, c.why)
		}
	}
}

func TestMergeAndJSON(t *testing.T) {
	a := flow.Report{Roles: []flow.Role{role("R", times(1, 0, 0, 0)), role("W", times(2, 0, 0, 0))}}
	b := flow.Report{Roles: []flow.Role{role("W", times(3, 0, 0, 0)), role("X", times(4, 0, 0, 0))}}
	want := flow.Report{Roles: []flow.Role{role("R", times(1, 0, 0, 0)), role("W", times(2, 0, 0, 0), times(3, 0, 0, 0)), role("X", times(4, 0, 0, 0))}}
	got := flow.Merge(a, b)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if len(a.Roles[1].Workers) != 1 {
		t.Error("merging changed a report")
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back flow.Report
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("%v: %s", err, text)
	}
}
