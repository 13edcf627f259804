package stream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/queue"
)

// A catchUp is the part of a stream that is applied before its copy is resumed.
type catchUp struct {
	kept map[tidemark.TableID]bool // the tables whose changes are applied
	to   uint64                    // changes committed before this log position
}

// resumeCopy resumes the copy before the stream.
func (r *setup) resumeCopy(ctx context.Context) (string, *job.Report, error) {
	run, err := catalog.Run{}, error(nil)
	if r.rec.Copy != "" {
		run, err = r.env.Catalog.Run(ctx, r.rec.Copy)
	}
	if run.ID == "" && (err == nil || tidemark.KindOf(err) == tidemark.NotFound) {
		return r.beginAgain(ctx)
	}
	if err != nil {
		return "", nil, err
	}
	r.rec.Place = max(r.rec.Place, run.Position.Place)
	src, tgt, err := r.openCopy(ctx)
	if err != nil {
		return "", nil, err
	}
	defer src.Close()
	defer tgt.Close()
	rep, err := job.ResumeBefore(ctx, r.env, r.spec.Copy, run, src, tgt, r.spec.Name, r)
	if err != nil {
		return run.ID, rep, withCopyResumeHint(err, r.spec.Copy.Source)
	}
	r.copied(run.ID, rep)
	return run.ID, rep, r.following(ctx)
}

// openCopy opens source and target for the copy: the stream has its own connections.
func (r *setup) openCopy(ctx context.Context) (job.Database, job.Database, error) {
	shape := r.shape
	err := r.openSource(ctx)
	if err == nil {
		err = r.openTarget(ctx)
	}
	src, tgt := r.src, r.tgt
	r.src, r.from, r.tgt, r.to, r.shape = nil, nil, nil, nil, shape
	if err != nil && src != nil {
		src.Close()
	}
	return src, tgt, err
}

// withCopyResumeHint adds to an error of a copy how to resume it.
func withCopyResumeHint(err error, source string) error {
	hint := "The same command resumes the copy. " + KeepsLog(source) + "."
	var e *tidemark.Error
	if errors.Is(err, queue.ErrOther) {
		return err
	}
	if !errors.As(err, &e) {
		return &tidemark.Error{Op: "replicate", Kind: tidemark.KindOf(err), Err: err, Hint: hint}
	}
	had := e.Hint
	if e.Kind == tidemark.Lost {
		if strings.Contains(had, "--anew") { // it cannot be resumed
			return err
		}
		had = "" // how to repeat a copy without a stream
	}
	if i := strings.Index(strings.ToLower(had), "add --resume "); i >= 0 { // the copy's own hint
		had = strings.TrimSuffix(strings.TrimRight(had[:i], " "), "; then")
	}
	if had = strings.TrimRight(had, ". "); had != "" {
		hint = had + ". " + hint
	}
	return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Err: e.Err, Hint: hint}
}

// worthResuming reports whether the error that ended a copy may be temporary, so that the copy can
// be resumed; otherwise nobody might ever read the log that the source keeps, and it would fill its
// disk. A snapshot of the source is lost with its connections, and a resumed copy takes another.
func worthResuming(err error) bool {
	switch tidemark.KindOf(err) {
	case tidemark.Cancelled, tidemark.Transient, tidemark.Unreachable, tidemark.Full, tidemark.Incomplete, tidemark.Lost:
		return true
	}
	return false
}

// Enroll describes what the stream can carry, and records the shape of the tables that are read
// again. With CatchUp, AlignNextSnapshot and Aligned it makes a setup a job.Follower.
func (r *setup) Enroll(ctx context.Context, src, tgt job.Database, again map[tidemark.TableID]bool) ([]tidemark.Move, error) {
	shape := r.shape
	r.src, r.shape, r.tgt = src, src, tgt
	defer func() { r.src, r.shape, r.tgt = nil, shape, nil }()
	_, moves, err := r.mapped(ctx, r.spec.Copy.Rules.Wants)
	if err == nil {
		moves, _, err = job.Streamable(moves)
	}
	if err != nil {
		return nil, err
	}
	fresh := slices.DeleteFunc(slices.Clone(moves), func(m tidemark.Move) bool { return !again[m.From.TableID] })
	if r.spec.Role != ApplyHalf {
		if err := r.lookAt(ctx, fresh); err != nil {
			return nil, err
		}
		r.published = nil // AlignNextSnapshot may have the source list them anew: the first look at the list records it
	}
	subs := &subscriptions{r: r.stream, of: map[tidemark.TableID]*catalog.StreamTable{}}
	for i := range fresh {
		if err := subs.enroll(ctx, &fresh[i]); err != nil {
			return nil, err
		}
	}
	return moves, nil
}

// AlignNextSnapshot makes the source keep its log from its next snapshot on.
func (r *setup) AlignNextSnapshot(ctx context.Context, src job.Database, moves []tidemark.Move, kept bool) error {
	from := src.(capture.Source) // openSource has checked that
	if r.spec.Role != Both || kept {
		return from.AlignNextSnapshot(ctx, r.spec.Name)
	}
	if err := from.DropHold(ctx, r.spec.Name); err != nil { // no table needs what is kept
		return err
	}
	return from.Hold(ctx, r.spec.Name, moves)
}

// Aligned notes that the stream begins at the log position of a snapshot.
func (r *setup) Aligned(ctx context.Context, place uint64) error {
	r.rec.Place = place
	return r.env.Catalog.PutStream(ctx, r.rec)
}

// CatchUp applies the stream to tables that are kept, up to a log position.
func (r *setup) CatchUp(ctx context.Context, kept map[tidemark.TableID]bool, to uint64) error {
	if to <= r.rec.Place {
		return nil
	}
	text := "applies the changes made since then to the tables that are kept"
	if r.spec.Role == ApplyHalf {
		text += "; tidemark capture must be running"
	}
	r.announce("state", text)
	queue, shape := r.spec.Queue, r.shape
	r.catching = &catchUp{kept, to}
	if r.spec.Role == Both {
		r.spec.Queue = directQueue // the queue begins after it
	}
	defer func() { r.catching, r.spec.Queue, r.shape = nil, queue, shape }()
	r.process.tries, r.process.since = 0, time.Now()
	if _, err := r.process.run(ctx, catchingUp, r.process.step); err != nil {
		return err
	}
	r.rec.Place = to
	return r.env.Catalog.PutStream(ctx, r.rec)
}
