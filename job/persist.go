package job

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// persist runs something with two databases, and runs it again, with new snapshots, after a lost
// connection or a restart of a server, for as long as budget since both last answered; 0 means not
// at all. do calls there once both answer: a server that never answered is an error at once.
func (e Env) persist(ctx context.Context, what string, budget time.Duration, do func(there func()) error) error {
	var last time.Time // when both last answered
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		came := false
		err := do(func() { came = true })
		kind := tidemark.KindOf(err)
		again := kind == tidemark.Transient || kind == tidemark.Unreachable || errors.Is(err, tidemark.ErrSnapshotLost)
		if err == nil || !again || ctx.Err() != nil {
			return err
		}
		if came {
			last, wait = time.Now(), 200*time.Millisecond
		}
		left := budget - time.Since(last)
		if last.IsZero() || left <= 0 {
			return err
		}
		e.Event(Event{Kind: "retry", Object: what, Error: err.Error(), Text: "for another " + left.Round(time.Second).String()})
		if err := flow.Sleep(ctx, min(wait, left)); err != nil {
			return err
		}
	}
}
