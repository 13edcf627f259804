package job

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// heldFor is how long a queue stays stopped before it is tried again.
const heldFor = 30 * time.Second

// errTry ends a session in which the queue was stopped.
var errTry = errors.New("the queue is to be tried again")

// holds says whether an error stops the queue and not the process: what is captured meanwhile
// stays in the queue. A stream that is to end with what it has done cannot wait so, nor one whose
// queue is the source's own log.
func (r *replicating) holds(err error) bool {
	var stop *tidemark.QueueStop
	if !errors.As(err, &stop) || r.spec.Queue == directQueue || r.spec.Half == Joined || !r.spec.Until.IsZero() {
		return false
	}
	hint := strings.TrimRight(tidemark.HintOf(err), ". ")
	r.env.Watch.Event(Event{Time: r.env.now(), Kind: "stopped", Object: "queue of " + r.spec.Name, Text: strings.TrimLeft(hint+". It is tried again every "+heldFor.String()+", and after tidemark set.", ". "), Error: err.Error()})
	r.held = err
	return true
}

// heldQueue is a finding for the report.
func (r *replicating) heldQueue() []tidemark.Finding {
	if r.held == nil {
		return nil
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: "queue of " + r.spec.Name, Text: "is stopped, and nothing more of it is applied: " + r.held.Error(), Hint: tidemark.HintOf(r.held)}}
}

// hold enlists a worker that waits in place of those that apply.
func hold(g *flow.Group) {
	g.Go("Stopped", func(ctx context.Context, c *flow.Clock) error {
		defer c.Enter(c.Enter(flow.WaitWork))
		<-ctx.Done()
		return ctx.Err()
	})
}
