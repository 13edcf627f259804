package crash

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However a goroutine is started, its panic is reported once, with its stack.
func TestWaysToPanic(t *testing.T) {
	broken := func() { panic(errors.New("broken")) }
	ways := map[string]func(){
		"Go":     func() { Go(broken) },
		"Run":    func() { Run(broken) },
		"After":  func() { After(time.Second, broken); time.Sleep(2 * time.Second) },
		"OnDone": func() { ctx, cancel := context.WithCancel(context.Background()); OnDone(ctx, broken); cancel() },
		"Group": func() {
			var g Group
			defer func() {
				if e, is := recover().(*Error); !is || e.Error() != "a worker panicked: broken" {
					t.Errorf("who waits gets %v", e)
				}
			}()
			g.Go(broken)
			g.Wait()
		},
		"a Group within": func() {
			Go(func() {
				var g Group
				g.Go(broken)
				g.Wait()
			})
		},
	}
	for name, do := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told atomic.Pointer[Error]
				stop := Watch(func(e *Error) { told.Store(e) })
				defer stop()
				do()
				synctest.Wait()
				e := told.Load()
				if e == nil || !strings.Contains(string(e.Stack), "TestWaysToPanic") || e.Unwrap() == nil {
					t.Errorf("told was %v", e)
				}
			})
		})
	}
}

func TestGroupWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		var n atomic.Int32
		for range 3 {
			g.Go(func() { time.Sleep(time.Second); n.Add(1) })
		}
		g.Wait()
		if n.Load() != 3 {
			t.Errorf("%d have ended", n.Load())
		}
	})
}

// Without a watcher, panics are not hidden.
func TestNobodyWatches(t *testing.T) {
	defer func() {
		if recover() != "here" {
			t.Error("the panic is gone")
		}
	}()
	Run(func() { panic("here") })
}
