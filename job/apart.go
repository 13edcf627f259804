package job

import (
	"context"
	"encoding/json"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
)

// With a durable queue between them, capture and apply do not need each other: where one end of a stream is away, a
// session is begun with the other one alone. Its capture goes on into the queue, or what is in the queue is applied;
// and it ends as soon as the missing end answers, so that the next one has both.

// parts says whether a stream's ends can be worked at apart in this process.
func (r *replicating) parts() bool {
	return r.spec.Half == Whole && r.spec.Queue != directQueue && r.spec.Until.IsZero()
}

// openEnds connects to both ends, or to that of the half; and where one is away that has answered before, to the one that
// answers.
func (r *replicating) openEnds(ctx context.Context) error {
	var errs [2]error
	if r.spec.Half != ApplyHalf {
		errs[sourceEnd] = r.openSource(ctx)
		r.heardOf(ctx, sourceEnd, errs[sourceEnd])
	}
	if r.spec.Half != CaptureHalf {
		if errs[targetEnd] = r.openTarget(ctx); errs[targetEnd] != nil {
			r.tgt, r.to = nil, nil
		}
		r.heardOf(ctx, targetEnd, errs[targetEnd])
	}
	source, target := errs[sourceEnd], errs[targetEnd]
	var err error
	switch {
	case source == nil && target == nil:
		return nil
	case target == nil && r.passes(source):
		if r.src, r.from = nil, nil; r.known != nil {
			r.shape = *r.known
		}
		return nil
	case source != nil:
		err = source
	case r.passes(target):
		return nil
	default:
		err = target
	}
	r.close()
	return err
}

// lacks says whether an end is away without which the session can do nothing.
func (r *replicating) lacks() bool {
	alone := (r.src == nil) != (r.tgt == nil) && (r.spec.Half == Whole || r.spec.Half == Joined)
	return alone && (!r.parts() || r.src == nil && r.known == nil)
}

// await waits until the missing end answers, and keeps asking the other one meanwhile: so it is known how late the target
// is.
func (r *replicating) await(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.askEnds(ctx, &sampler{hose: &hose{}, meter: &capture.Meter{}}, stop)
	return context.Cause(ctx)
}

// remember keeps what the source's tables are, for a session without it.
func (r *replicating) remember(db *tidemark.Database) error {
	if !r.parts() || r.src == nil {
		return nil
	}
	bare := *db
	bare.Objects, bare.Findings = nil, nil
	text, err := json.Marshal(description{r.src.Default(), &bare, nil})
	if err == nil {
		r.known = &described{text, bare.Engine, r.src.Default()}
	}
	return err
}
