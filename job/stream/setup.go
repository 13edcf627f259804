package stream

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/described"
	"github.com/tidemarkdb/tidemark/job/stream/point"
)

// A setup begins a stream, resumes the copy before it, or removes it.
type setup struct {
	*stream
	process *process
}

// checkKnown checks whether a stream that was set up before can be resumed.
func (r *setup) checkKnown(ctx context.Context) error {
	if r.spec.SourceMoved {
		r.rec.Source = tidemark.MaskURL(r.spec.Copy.Source)
	}
	if r.spec.TargetMoved {
		if err := r.moveTarget(ctx); err != nil {
			return err
		}
	}
	if err := r.sameEnds(); err != nil {
		return err
	}
	s := r.rec
	switch where := r.spec.Queue; {
	case where == "" && strings.Contains(s.Queue, "://"):
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "replicate", Object: s.Name, Err: errors.New("has its queue at " + s.Queue), Hint: "Give that URL with --queue, with its password if it has one."}
	case where == "":
		r.spec.Queue = s.Queue
	case tidemark.MaskURL(where) != s.Queue:
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "replicate", Object: s.Name, Err: errors.New("has the queue " + s.Queue + ", which may hold changes that the source no longer has"), Hint: "Leave --queue out, or copy again with --anew."}
	}
	if s.Tables != "" {
		known, err := described.SourceOf([]byte(s.Tables))
		if err != nil {
			return err
		}
		r.shape = known
	}
	return nil
}

// begin makes the source keep its log, and copies.
func (r *setup) begin(ctx context.Context) (run string, rep *job.Report, err error) {
	r.rec.State = catalog.StreamCopying
	if r.spec.Queue == "" {
		r.spec.Queue = directQueue
	}
	if err := r.open(ctx); err != nil {
		return "", nil, err
	}
	defer r.close()
	err = r.freeName(ctx)
	if err == nil {
		err = r.newQueue(ctx)
	}
	if err != nil {
		return "", nil, err
	}
	if r.spec.NoCopy || !r.spec.From.IsZero() {
		if err = r.startStream(ctx); err == nil {
			err = r.following(ctx)
		}
		return "", nil, err
	}
	findings, err := r.hold(ctx)
	if err != nil {
		return "", nil, err
	}
	return r.copy(ctx, findings)
}

// startStream begins a stream without a copy: from now on, or from the requested point, as far as
// the source still has its log.
func (r *setup) startStream(ctx context.Context) error {
	if r.spec.From.IsZero() || r.spec.From.Now {
		if _, err := r.hold(ctx); err != nil {
			return err
		}
		if err := r.adopt(ctx); err != nil {
			return r.undo(ctx, "", err)
		}
		return nil
	}
	g, err := point.NewGate(r.spec.From, r.src.Name())
	if err == nil {
		err = g.Begin(ctx, r.finder())
	}
	if err != nil {
		return err
	}
	begins, err := r.from.Begins(ctx, r.spec.Name, r.spec.From.Time)
	if err != nil {
		return err
	}
	if g.Place > 0 && g.Place < begins {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "replicate", Object: r.spec.From.Log, Err: errors.New("the source's log starts at a later position"), Hint: "Start with a copy: leave --from out."}
	}
	if _, err = r.hold(ctx); err != nil {
		return err
	}
	if r.rec.Place = g.Place; g.Place == 0 {
		r.rec.Place, r.rec.From = begins, g.Time.Format(time.RFC3339Nano)
	}
	return nil
}

// hold makes the source keep its log for the stream. The catalogue records the stream first: a slot
// that it does not know would block the next start.
func (r *setup) hold(ctx context.Context) ([]tidemark.Finding, error) {
	tables, findings, err := r.tables(ctx)
	if err != nil {
		return nil, err
	}
	missing, err := r.needed(ctx, tables)
	if findings = append(findings, missing...); err == nil {
		err = r.logDDL(ctx)
	}
	if err != nil {
		return nil, err
	}
	adopts := !r.spec.From.IsZero() && !r.spec.From.Now
	if !adopts && engine.Of(r.src.Name()).KeepsLog {
		if _, err := r.from.Begins(ctx, r.spec.Name, time.Time{}); err == nil {
			return nil, r.isHeld()
		} else if tidemark.KindOf(err) != tidemark.NotFound {
			return nil, err
		}
	}
	r.rec = catalog.Stream{Name: r.record(), Source: r.spec.Copy.Source, Target: r.spec.Copy.Target, Queue: r.spec.Queue, State: catalog.StreamCopying, Started: r.env.Time(), Identity: described.NewID()}
	if err := r.env.Catalog.BeginStream(ctx, r.rec, r.beside()...); err != nil {
		return nil, err
	}
	err = r.from.Hold(ctx, r.spec.Name, tables)
	if adopts && tidemark.KindOf(err) == tidemark.Exists {
		err = nil // the slot from whose log it is to begin
	}
	if err != nil {
		if tidemark.KindOf(err) == tidemark.Exists && engine.Of(r.src.Name()).KeepsLog {
			err = r.isHeld()
		}
		if derr := r.env.Catalog.DropStream(context.WithoutCancel(ctx), r.record()); derr != nil {
			return nil, derr
		}
		return nil, err
	}
	if err = r.lookAt(ctx, tables); err == nil {
		err = r.keepFilters(ctx, tables)
	}
	if err == nil {
		_, _, err = r.subscribe(ctx, tables) // records the present shape of the tables
	}
	if err == nil {
		err = r.tellDDL(ctx, true)
	}
	if err != nil && !adopts {
		return nil, r.undo(ctx, "", err)
	}
	if err != nil {
		return nil, err
	}
	return findings, r.env.Catalog.PutStream(ctx, r.rec)
}

// refuse is an error of the whole stream.
func (r *stream) refuse(kind tidemark.Kind, text, hint string) error {
	return &tidemark.Error{Op: r.spec.Role.Verb(), Object: "stream " + r.spec.Name, Kind: kind, Err: errors.New(text), Hint: hint}
}

// isHeld is the error of a slot that is there already.
func (r *setup) isHeld() error {
	return &tidemark.Error{Kind: tidemark.Exists, Op: "replicate", Object: r.spec.Name, Err: errors.New("the source keeps its log for a stream of this name, which this catalogue does not know"), Hint: "Name the catalogue that knows it (--state), choose another --name, or use --anew to drop it and copy again."}
}

// copy fills the target from a view at a place of the log, from which it is followed.
func (r *setup) copy(ctx context.Context, findings []tidemark.Finding) (string, *job.Report, error) {
	spec := r.spec.Copy
	spec.Firing = job.FiresLater
	spec.Findings = append(spec.Findings, findings...)
	r.rec.Copy = catalog.NewRunID() // before anything has that name, so that whoever resumes knows what is its own
	if err := r.env.Catalog.PutStream(ctx, r.rec); err != nil {
		return "", nil, err
	}
	spec.Run = r.rec.Copy
	run, rep, err := job.CopyBetween(ctx, r.env, "copy", spec, r.src, r.tgt)
	if err != nil && run != "" && worthResuming(err) {
		return run, rep, withCopyResumeHint(err, r.spec.Copy.Source)
	}
	if err != nil {
		return run, rep, r.undo(ctx, run, err)
	}
	r.copied(run, rep)
	r.rec.Place = rep.Position.Place
	return run, rep, r.following(ctx)
}

// adopt begins a stream without a copy: from now on.
func (r *setup) adopt(ctx context.Context) error {
	position, err := r.src.Freeze(ctx, 1)
	r.rec.Place = position.Place
	return err
}

// undo lets the source forget its log when the copy has failed: nobody would ever read
// it, and it would fill the source's disk.
func (r *setup) undo(ctx context.Context, run string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var uerr error
	if r.spec.Role != ApplyHalf {
		uerr = r.from.DropHold(ctx, r.spec.Name)
	}
	if uerr != nil {
		return &tidemark.Error{Kind: tidemark.KindOf(err), Op: "replicate", Object: r.spec.Name, Err: err, Hint: "The source still keeps its log for the stream: tidemark replicate --remove ends that."}
	}
	if derr := r.env.Catalog.DropStream(ctx, r.record()); derr != nil {
		return derr
	}
	var e *tidemark.Error
	if run != "" && errors.As(err, &e) {
		return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Err: e.Err, Hint: "Start again, with --prep drop for what the copy has left on the target. Nothing is left on the source."}
	}
	return err
}

// beginHalf begins a stream, or the half of it that is this process's.
func (r *setup) beginHalf(ctx context.Context) (string, *job.Report, error) {
	return [...]func(context.Context) (string, *job.Report, error){r.begin, r.beginCapture, r.beginApply}[r.spec.Role](ctx)
}

// beginAgain begins a stream of which nothing but its name was noted, and perhaps that of its copy.
func (r *setup) beginAgain(ctx context.Context) (string, *job.Report, error) {
	if adopts := !r.spec.From.IsZero() && !r.spec.From.Now; adopts {
		var err error
		if r.spec.Role == CaptureHalf { // of which the queue may have the first message
			err = r.dropQueue(ctx, r.spec.Queue, r.rec.Identity, true)
		}
		if err == nil {
			err = r.env.Catalog.DropStream(ctx, r.record())
		}
		if err != nil {
			return "", nil, err
		}
	} else if err := r.remove(ctx, true); err != nil {
		return "", nil, err
	}
	r.rec = catalog.Stream{}
	return r.beginHalf(ctx)
}

// copied tells that all rows are there.
func (r *setup) copied(run string, rep *job.Report) {
	r.env.Event(job.Event{Kind: "state", Object: "stream " + r.spec.Name, Rows: rep.Rows, Bytes: rep.Bytes, Seconds: rep.Seconds, Text: "copied (run " + run + ")"})
}
