package load

import (
	"context"
	"testing"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// TestWatchThatPanics is heard of by who watches for panics, and by who waits for the end.
func TestWatchThatPanics(t *testing.T) {
	heard := make(chan *crash.Error, 1)
	defer crash.Watch(func(e *crash.Error) { heard <- e })()
	r := &Run{group: flow.NewGroup(t.Context()), opt: Options{Watch: func(context.Context, func(string) []flow.State) { panic("no sample") }}}
	end := r.watched(t.Context())
	if e := <-heard; e.Value != "no sample" {
		t.Errorf("heard %v", e)
	}
	defer func() {
		if recover() == nil {
			t.Error("the end says nothing")
		}
	}()
	end()
}
