package stream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
	"github.com/tidemarkdb/tidemark/queue"
)

// A queue may be lost: the disk of its server, or its folder. A MySQL or MariaDB source still has
// its contents in its binlogs; a PostgreSQL source has released them. The target has recorded its
// log position.

// An eventFinder is a source whose log can be read from certain positions only.
type eventFinder interface {
	// EventBefore gives the last one at or before a position.
	EventBefore(ctx context.Context, place uint64) (uint64, error)
}

// fromTarget starts the queue of a stream again at the target's log position. Kind Lost: the source
// does not have its log from there; nothing is changed then. What the target already has is read
// again, and skipped.
func (r *setup) fromTarget(ctx context.Context) error {
	if r.spec.Queue == directQueue {
		return r.refuse(tidemark.Invalid, "has a direct queue, which cannot be lost", "Leave --from-target out: the stream continues from the target's log position.")
	}
	if r.rec.State != catalog.StreamFollowing {
		return r.refuse(tidemark.Incomplete, "has not finished its copy", "Leave --from-target out until the copy is done.")
	}
	low, err := r.reached(ctx)
	if err != nil {
		return err
	}
	if err := r.openSource(ctx); err != nil {
		return err
	}
	defer r.close()
	if err := r.relay(ctx, low); err != nil {
		return err
	}
	moves, _, err := r.tables(ctx)
	if err != nil {
		return err
	}
	stream, err := r.from.Follow(ctx, r.spec.Name, moves, r.rec.Place)
	for tidemark.KindOf(err) == tidemark.Transient { // the server has not noticed yet that a process was killed
		r.env.Event(job.Event{Kind: "retry", Object: "stream " + r.spec.Name, Error: err.Error()})
		if err := flow.Sleep(ctx, time.Second); err != nil {
			return err
		}
		stream, err = r.from.Follow(ctx, r.spec.Name, moves, r.rec.Place)
	}
	if err != nil {
		return withResumeHint(notKept(err, "which is the log position of the target"), r.spec.Copy.Source)
	}
	stream.Close()
	// From here on it can be repeated, whenever a process is killed.
	if err := r.env.Catalog.PutStream(ctx, r.rec); err != nil {
		return err
	}
	if err := r.dropQueue(ctx, r.spec.Queue, r.rec.Identity, true); err != nil {
		return err
	}
	if r.spec.Role == CaptureHalf {
		if err := r.head(ctx); err != nil {
			return err
		}
	}
	r.announce("state", "its queue starts again at the target's log position")
	return nil
}

// reached is the log position up to which the target has the stream, by its own record.
func (r *setup) reached(ctx context.Context) (uint64, error) {
	if err := r.openTarget(ctx); err != nil {
		return 0, err
	}
	defer r.close()
	f, ok := r.tgt.(progressSource)
	if !ok {
		return 0, &tidemark.Error{Kind: tidemark.Unsupported, Op: r.spec.Role.Verb(), Object: r.spec.Name, Err: errors.New(r.tgt.Name() + " does not report how far streams were applied")}
	}
	applied, err := f.Applied(ctx)
	return max(applied[r.spec.Name].Low, r.rec.Place-1), err
}

// relay lets the stream begin after low. Tables whose rows capture has written to the queue, but
// that are incomplete on the target, are loaded again.
func (r *setup) relay(ctx context.Context, low uint64) error {
	r.rec.Place = low + 1
	if r.spec.Role != CaptureHalf {
		return nil // loads are recorded once they are on the target
	}
	known, err := r.env.Catalog.StreamTables(ctx, r.record())
	if err != nil {
		return err
	}
	loaded := func(t catalog.StreamTable) bool { return len(loading.Of(&t).Marks) > 0 }
	if f, ok := r.from.(eventFinder); ok && slices.ContainsFunc(known, loaded) {
		// The target may be within a load, at none of the log's own positions.
		if r.rec.Place, err = f.EventBefore(ctx, low+1); err != nil {
			return err
		}
	}
	for _, k := range known {
		marks := loading.Of(&k).Marks
		if k.State != catalog.TableLoading && (len(marks) == 0 || marks[len(marks)-1].Place <= low) || k.State == catalog.TableStopped {
			continue
		}
		err := r.env.Catalog.EditStreamTable(ctx, r.record(), k.Table, func(t *catalog.StreamTable) error {
			x := loading.Of(t)
			again := x.Anew()
			again.Manual, again.Asked = x.Manual, x.Asked
			t.State, t.Since, t.Shape, t.Load = catalog.TableLoading, loading.Later(t, r.env.Time()), nil, again.Text()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// notKept is the error of a source that does not have its log from where the stream would continue,
// since that was in a lost queue.
func notKept(err error, text string) error {
	if tidemark.KindOf(err) != tidemark.Lost {
		return err
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Err: errors.New(reasonOf(err) + ", " + text), Hint: "The source has released what was in the queue, so these changes are lost"}
}

// lostQueue is an error if the queue of a capture is empty, although it has had messages since the
// stream began.
func (r *session) lostQueue(ctx context.Context, log *queue.Log) error {
	if r.spec.Role == Both || r.spec.Role == BothViaHalves {
		return nil // what its queue lacks is requested from the target's log position on
	}
	st, err := log.Stats(ctx)
	if err != nil || st.Messages > 0 {
		return err
	}
	const text = "is empty, but was not before: its store was lost"
	if r.spec.Role == ApplyHalf {
		r.env.Event(job.Event{Kind: "finding", Object: "queue of " + r.spec.Name, Text: text + ". tidemark capture --from-target rebuilds it from the target's log position; this process waits for that"})
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "capture", Object: "queue of " + r.spec.Name, Err: errors.New(text), Hint: "Run the same command with --from-target: it rebuilds the queue from the target's log position, if the source still has its log from there."}
}

// keepNoted gives the log position before which a stream from MySQL or MariaDB may forget its
// records of the log, if everything up to end is in the queue: the records are needed if the queue
// is lost, from the target's log position on.
func (r *session) keepNoted(log *queue.Log) func(ctx context.Context, end uint64) uint64 {
	if !engine.Of(r.src.Name()).KeepsRecords {
		return nil
	}
	var first uint64
	var looked time.Time
	return func(ctx context.Context, end uint64) uint64 {
		if time.Since(looked) >= idleEvery {
			looked = time.Now()
			if st, err := log.Stats(ctx); err == nil { // otherwise less is forgotten
				first = st.First
			}
		}
		return min(first, end)
	}
}
