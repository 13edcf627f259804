package stream

import (
	"context"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job/stream/described"
	"github.com/tidemarkdb/tidemark/queue"
)

// A queue is found by its URL and the stream's name, and two streams may have both in common. So a
// stream has an identity, a random number that its capture makes: each message of its queue carries
// it, and apply takes it over from the first one, if that says that it comes from apply's source.

// openQueue opens the stream's queue, whose messages must be its own.
func (r *stream) openQueue(ctx context.Context) (*queue.Log, error) {
	log, err := r.spec.OpenQueue(ctx, r.spec.Name, r.spec.Queue)
	if err == nil {
		log.Of(r.rec.Identity)
	}
	return log, err
}

// beside are the records that one catalogue cannot have beside the stream's own.
func (r *stream) beside() []string {
	if r.spec.Role == Both {
		return []string{RecordOf(r.spec.Name, CaptureHalf), RecordOf(r.spec.Name, ApplyHalf)}
	}
	return []string{RecordOf(r.spec.Name, Both)}
}

// newQueue refuses to begin a stream in a queue that has messages.
func (r *setup) newQueue(ctx context.Context) error {
	if r.spec.Queue == directQueue {
		return nil
	}
	log, err := r.spec.OpenQueue(ctx, r.spec.Name, r.spec.Queue)
	if err != nil {
		return err
	}
	defer log.Close()
	id, err := r.identity(ctx)
	if err != nil {
		return err
	}
	text, hint, err := described.Taken(ctx, log, id, r.spec.Queue)
	if err != nil || text == "" {
		return err
	}
	return r.refuse(tidemark.NotEmpty, text, hint)
}

// dropQueue removes the queue of a stream, unless another one has it. A folder is the catalogue's.
func (r *setup) dropQueue(ctx context.Context, where string, id uint32, known bool) error {
	if !strings.Contains(where, "://") {
		if !known {
			return nil
		}
	} else if log, err := r.spec.OpenQueue(ctx, r.spec.Name, where); err == nil { // or the removal says what is wrong
		source, err := r.identity(ctx)
		own := err == nil && described.Removable(ctx, log, id, known, source)
		if log.Close(); err != nil || !own {
			if err == nil && known {
				r.announce("state", "leaves its queue alone, which has messages of another stream")
			}
			return err
		}
	}
	return r.spec.RemoveQueue(ctx, r.spec.Name, where)
}

// An identified is a source that can be distinguished from others.
type identified interface {
	Identity(ctx context.Context) (string, error)
}

func (r *stream) identity(ctx context.Context) (string, error) {
	if i, ok := r.src.(identified); ok {
		return i.Identity(ctx)
	}
	return "", nil
}

// signed is what a description says of the stream.
func (r *stream) signed(ctx context.Context) (*described.Stream, error) {
	server, err := r.identity(ctx)
	return &described.Stream{ID: r.rec.Identity, Source: tidemark.MaskURL(r.spec.Copy.Source), Server: server, Began: r.rec.Started}, err
}

// isFrom refuses a queue whose stream does not come from the connected source.
func (r *setup) isFrom(ctx context.Context, d described.Description) error {
	if d.Stream == nil {
		return nil
	}
	id, err := r.identity(ctx)
	if err == nil && d.Differs(id, r.src.Default()) {
		err = r.notFrom(d.Stream)
	}
	return err
}

func (r *setup) notFrom(who *described.Stream) error {
	return r.refuse(tidemark.NotEmpty, "its queue has the messages of another stream, "+who.String()+", not from "+tidemark.MaskURL(r.spec.Copy.Source),
		"Nothing was applied, and the queue is unchanged. Give capture and apply of this stream another --name, and another topic if the URL names one; or give the source that the capture has.")
}

// isFromHere is isFrom for an apply that does not connect to the source: if the capture is in the
// same catalogue, both have the same source.
func (r *setup) isFromHere(ctx context.Context, d described.Description) error {
	if d.Stream == nil {
		return nil
	}
	c, err := r.env.Catalog.Stream(ctx, RecordOf(r.spec.Name, CaptureHalf))
	if err == nil && c.Identity == d.Stream.ID && !described.SamePlace(c.Source, tidemark.MaskURL(r.spec.Copy.Source)) {
		return r.notFrom(d.Stream)
	}
	r.announce("state", "its queue has a stream "+d.Stream.String())
	return nil
}
