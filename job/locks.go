package job

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// lockLook is how often it is asked whether sessions of ours wait for a lock.
const lockLook = 4 * time.Second

// A waiter can say what its sessions wait for. MySQL's engine cannot yet.
type waiter interface {
	Waits(ctx context.Context) ([]tidemark.Finding, error)
}

// watchLocks tells, once each, of the locks of others that the ends' sessions wait
// for at two looks in a row, until the function that it gives is called. Without it
// a job that waits for a process that hangs would look as if it hung itself.
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
				found, _ := w.Waits(ctx) // the job itself meets whatever is wrong
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
