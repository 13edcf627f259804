package stream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/queue"
)

// A queue may be lost: the disk of its server, or its folder. What was in it a MySQL or MariaDB source still has in its
// binlogs; a PostgreSQL source has released it. The target has noted how far it is.

// An eventFinder is a source whose log can be read from certain positions only.
type eventFinder interface {
	// EventBefore gives the last one at or before a position.
	EventBefore(ctx context.Context, place uint64) (uint64, error)
}

// fromTarget begins the queue of a stream anew where the target is. Kind Lost: the source does not have its log from
// there; nothing is changed then. What the target has already comes again, and is skipped.
func (r *setup) fromTarget(ctx context.Context) error {
	if r.spec.Queue == directQueue {
		return r.refuse(tidemark.Invalid, "has no queue that could be lost", "Leave --from-target out: it continues from where the target is.")
	}
	if r.rec.State != catalog.StreamFollowing {
		return r.refuse(tidemark.Incomplete, "has not finished its copy", "Leave --from-target out until it has.")
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
		return goingOn(notKept(err, "where the target is"), r.spec.Copy.Source)
	}
	stream.Close()
	// From here on it can be done again, whatever is killed when.
	if err := r.env.Catalog.PutStream(ctx, r.rec); err != nil {
		return err
	}
	if err := r.spec.RemoveQueue(ctx, r.spec.Name, r.spec.Queue); err != nil {
		return err
	}
	if r.spec.Half == CaptureHalf {
		if err := r.head(ctx); err != nil {
			return err
		}
	}
	r.announce("state", "its queue begins anew where the target is")
	return nil
}

// reached is up to where the target has the stream, as it says itself.
func (r *setup) reached(ctx context.Context) (uint64, error) {
	if err := r.openTarget(ctx); err != nil {
		return 0, err
	}
	defer r.close()
	f, ok := r.tgt.(progressSource)
	if !ok {
		return 0, &tidemark.Error{Kind: tidemark.Unsupported, Op: r.spec.Half.Verb(), Object: r.spec.Name, Err: errors.New(r.tgt.Name() + " does not tell how far streams were applied")}
	}
	applied, err := f.Applied(ctx)
	return max(applied[r.spec.Name].Low, r.rec.Place-1), err
}

// relay lets the stream begin behind low. Tables whose rows the capture has put into the queue, and the target does not
// have all of, are loaded again.
func (r *setup) relay(ctx context.Context, low uint64) error {
	r.rec.Place = low + 1
	if r.spec.Half != CaptureHalf {
		return nil // loads are noted when they are on the target
	}
	known, err := r.env.Catalog.StreamTables(ctx, r.record())
	if err != nil {
		return err
	}
	loaded := func(t catalog.StreamTable) bool { return len(loadOf(&t).Marks) > 0 }
	if f, ok := r.from.(eventFinder); ok && slices.ContainsFunc(known, loaded) {
		// The target may be amid a load, at none of the log's own positions.
		if r.rec.Place, err = f.EventBefore(ctx, low+1); err != nil {
			return err
		}
	}
	for _, k := range known {
		marks := loadOf(&k).Marks
		if k.State != catalog.TableLoading && (len(marks) == 0 || marks[len(marks)-1].Place <= low) || k.State == catalog.TableStopped {
			continue
		}
		err := r.env.Catalog.EditStreamTable(ctx, r.record(), k.Table, func(t *catalog.StreamTable) error {
			x := loadOf(t)
			again := x.anew()
			again.Manual, again.Asked = x.Manual, x.Asked
			t.State, t.Since, t.Shape, t.Load = catalog.TableLoading, later(t, r.env.Time()), nil, again.text()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// notKept words that a source does not have its log from where the stream would continue, since it was in a queue that is
// no more.
func notKept(err error, text string) error {
	if tidemark.KindOf(err) != tidemark.Lost {
		return err
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Err: errors.New(reasonOf(err) + ", " + text), Hint: "The source has released what was in the queue, and nobody has it any more"}
}

// lostQueue is an error if the queue of a capture is empty: it has had something since the stream began.
func (r *session) lostQueue(ctx context.Context, log *queue.Log) error {
	if r.spec.Half == Whole || r.spec.Half == Joined {
		return nil // what its queue does not have is asked from where the target is
	}
	st, err := log.Stats(ctx)
	if err != nil || st.Messages > 0 {
		return err
	}
	const text = "is empty, and was not before: its store was lost"
	if r.spec.Half == ApplyHalf {
		r.env.Event(job.Event{Kind: "finding", Object: "queue of " + r.spec.Name, Text: text + ". tidemark capture --from-target begins it anew from where the target is; this process waits for that"})
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "capture", Object: "queue of " + r.spec.Name, Err: errors.New(text), Hint: "The same command with --from-target begins it anew from where the target is, if the source has its log from there."}
}

// keepNoted gives up to where a stream from MySQL or MariaDB may forget what it has noted of the log, where up to end all is
// in the queue: it is needed if the queue is lost, from where the target is.
func (r *session) keepNoted(log *queue.Log) func(ctx context.Context, end uint64) uint64 {
	if tidemark.Family(r.src.Name()) != "mysql" {
		return nil
	}
	var first uint64
	var looked time.Time
	return func(ctx context.Context, end uint64) uint64 {
		if time.Since(looked) >= idleEvery {
			looked = time.Now()
			if st, err := log.Stats(ctx); err == nil { // less is forgotten otherwise
				first = st.First
			}
		}
		return min(first, end)
	}
}
