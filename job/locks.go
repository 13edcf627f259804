package job

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// lockLook is the interval between two checks for sessions of ours that wait for a lock.
const lockLook = 4 * time.Second

// A waiter can tell what its sessions wait for. MySQL's engine cannot yet.
type waiter interface {
	Waits(ctx context.Context) ([]tidemark.Finding, error)
}

// watchLocks reports, once each, the locks of others that sessions of source or target wait for in
// two checks in a row, until the function that it gives is called. Without it a job that waits for
// a hanging process would seem to hang itself.
func watchLocks(ctx context.Context, env Env, ends ...any) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg crash.Group
	for _, end := range ends {
		w, ok := end.(waiter)
		if !ok {
			continue
		}
		wg.Go(func() {
			seen := map[tidemark.Finding]int{}
			for flow.Sleep(ctx, lockLook) == nil {
				found, _ := w.Waits(ctx) // if something is wrong, the job itself fails on it
				for _, f := range found {
					if seen[f]++; seen[f] == 2 {
						env.Event(Event{Kind: "wait", Object: f.Object, Text: f.Text + ". " + f.Hint})
					}
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}
