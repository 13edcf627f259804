package catalog

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// A run's progress overwrites the earlier one, and is listed while the run is open.
func TestOpenRuns(t *testing.T) {
	c, err := Open(filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, now := t.Context(), time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)
	for i, id := range []string{"A", "B", "C"} {
		if err := c.Begin(ctx, Run{ID: id, Verb: "backup", Source: "s", Target: "t", Started: now.Add(time.Duration(i) * time.Minute), State: Running}); err != nil {
			t.Fatal(err)
		}
	}
	for done := int64(1); done <= 2; done++ {
		if err := c.PutWork(ctx, "A", now.Add(time.Duration(done)*time.Second), Work{Phase: "copy", Unit: "bytes", Total: 10, Done: done, Rate: 1, Left: 8 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.PutWork(ctx, "B", now, Work{Done: 5}); err != nil {
		t.Fatal(err)
	}
	if err := c.DropWork(ctx, "B"); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(ctx, Run{ID: "C", Verb: "backup", Started: now, Ended: now, State: Done}); err != nil {
		t.Fatal(err)
	}
	open, err := c.OpenRuns(ctx)
	if err != nil || len(open) != 2 {
		t.Fatalf("got %+v, %v", open, err)
	}
	a, b := open[0], open[1]
	if want := (Work{Phase: "copy", Unit: "bytes", Total: 10, Done: 2, Rate: 1, Left: 8 * time.Second}); a.ID != "A" || a.Work == nil || !reflect.DeepEqual(*a.Work, want) || !a.Heard.Equal(now.Add(2*time.Second)) {
		t.Errorf("A is %+v, %+v", a, a.Work)
	}
	if b.ID != "B" || b.Work != nil || !b.Heard.IsZero() {
		t.Errorf("B is %+v", b)
	}
	if err := c.PutWork(ctx, "D", now, Work{}); err == nil {
		t.Error("a run that is not there has told how far it is")
	}
}
