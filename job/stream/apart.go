package stream

import (
	"context"

	"github.com/tidemarkdb/tidemark/capture"
)

// With a durable queue between them, capture and apply do not need each other: while one server is
// unavailable, a session starts with the other one alone. It captures into the queue, or applies
// what is in the queue; and it ends as soon as the missing server answers, so that the next session
// has both.

// openEnds connects to both servers, or to that of the half; if one is unavailable that has
// answered before, only to the other.
func (r *session) openEnds(ctx context.Context) error {
	var errs [2]error
	if r.spec.Role != ApplyHalf {
		errs[sourceEnd] = r.openSource(ctx)
		r.process.noteContact(ctx, sourceEnd, errs[sourceEnd])
	}
	if r.spec.Role != CaptureHalf {
		if errs[targetEnd] = r.openTarget(ctx); errs[targetEnd] != nil {
			r.tgt, r.to = nil, nil
		}
		r.process.noteContact(ctx, targetEnd, errs[targetEnd])
	}
	source, target := errs[sourceEnd], errs[targetEnd]
	var err error
	switch {
	case source == nil && target == nil:
		return nil
	case target == nil && r.process.passes(source):
		if r.src, r.from = nil, nil; r.known != nil {
			r.shape = *r.known
		}
		return nil
	case source != nil:
		err = source
	case r.process.passes(target):
		return nil
	default:
		err = target
	}
	r.close()
	return err
}

// lacks reports whether a server is missing without which the session can do nothing.
func (r *session) lacks() bool {
	alone := (r.src == nil) != (r.tgt == nil) && (r.spec.Role == Both || r.spec.Role == BothViaHalves)
	return alone && (!r.parts() || r.src == nil && r.known == nil)
}

// await waits until the missing server answers, and keeps asking the other one meanwhile, so that
// it is known how far the target is behind.
func (r *session) await(ctx context.Context) outcome {
	inside := r.ending.under(ctx)
	defer r.ending.cancel()
	(&prober{r, &sampler{link: &link{}, meter: &capture.Meter{}}}).askEnds(inside)
	return r.ending.read(context.Cause(ctx))
}
