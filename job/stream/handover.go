package stream

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/described"
	"github.com/tidemarkdb/tidemark/queue"
)

// needsServer refuses a queue that two processes on two hosts cannot share.
func (r *setup) needsServer() error {
	if strings.Contains(r.spec.Queue, "://") {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Invalid, Op: r.spec.Role.Verb(), Object: r.spec.Name, Err: errors.New("capture and apply need a queue on a server"), Hint: "Name it: --queue relay:host:7456, nats://host:4222, or kafka://host:9092."}
}

// beginCapture makes the source keep its log, and writes a description of its tables to the queue.
func (r *setup) beginCapture(ctx context.Context) (string, *job.Report, error) {
	if err := r.needsServer(); err != nil {
		return "", nil, err
	}
	r.rec.State = catalog.StreamCopying
	if err := r.open(ctx); err != nil {
		return "", nil, err
	}
	defer r.close()
	err := r.newQueue(ctx)
	if err == nil {
		err = r.startStream(ctx)
	}
	if err == nil {
		if err = r.head(ctx); err != nil {
			err = r.undo(ctx, "", err)
		}
	}
	if err == nil {
		err = r.following(ctx)
	}
	return "", nil, err
}

// head writes the first message of a queue: the log position from which it has the source's
// changes, and of which tables.
func (r *setup) head(ctx context.Context) error {
	log, err := r.openQueue(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	place := r.rec.Place
	if last, _, err := log.Begin(ctx, place-1); err != nil || last >= place-1 {
		if err == nil {
			err = r.refuse(tidemark.NotEmpty, queue.ErrOther.Error(), queue.OtherHint)
		}
		return err
	}
	text, _, err := r.describe(ctx, nil)
	if err != nil {
		return err
	}
	now := r.env.Time()
	return log.Append(ctx, []*change.Tx{{Place: place - 1, End: place, Time: now, Put: now, Changes: described.Message(place-1, text)}})
}

// beginApply waits until a capture has started, and copies the rows that existed before it.
func (r *setup) beginApply(ctx context.Context) (run string, rep *job.Report, err error) {
	if err := r.needsServer(); err != nil {
		return "", nil, err
	}
	place, d, err := r.awaitHead(ctx)
	if err != nil {
		return "", nil, err
	}
	r.rec = catalog.Stream{Name: r.record(), Source: r.spec.Copy.Source, Target: r.spec.Copy.Target, Queue: r.spec.Queue, State: catalog.StreamCopying,
		Place: place, Tables: string(r.shape.(described.Source).Text), Started: r.env.Time()}
	if d.Stream != nil {
		r.rec.Identity = d.Stream.ID
	}
	if err := r.openTarget(ctx); err != nil {
		return "", nil, err
	}
	defer r.close()
	if err := r.freeName(ctx); err != nil {
		return "", nil, err
	}
	if r.spec.NoCopy {
		r.rec.State = catalog.StreamFollowing
		if err = r.isFromHere(ctx, d); err == nil {
			err = r.env.Catalog.BeginStream(ctx, r.rec, r.beside()...)
		}
		return "", nil, err
	}
	known := r.shape
	if err := r.openSource(ctx); err != nil {
		return "", nil, err
	}
	if err := r.isFrom(ctx, d); err != nil {
		return "", nil, err
	}
	tables, findings, err := r.tables(ctx)
	if err == nil {
		err = r.lookAt(ctx, tables) // before the snapshot: later changes are on the target, and are found there when they arrive
	}
	if err == nil {
		err = r.from.AlignNextSnapshot(ctx, r.spec.Name)
	}
	if err == nil {
		err = r.env.Catalog.BeginStream(ctx, r.rec, r.beside()...)
	}
	if err == nil {
		_, _, err = r.subscribe(ctx, tables)
	}
	if err != nil {
		return "", nil, err
	}
	run, rep, err = r.copy(ctx, findings)
	r.shape = known
	return run, rep, err
}

// awaitHead waits until the queue has messages, and reads the log position from which it has the
// source's changes, and of which tables.
func (r *setup) awaitHead(ctx context.Context) (place uint64, d described.Description, err error) {
	log, err := r.spec.OpenQueue(ctx, r.spec.Name, r.spec.Queue)
	if err != nil {
		return 0, d, err
	}
	defer log.Close()
	waiting := crash.After(2*time.Second, func() {
		r.announce("state", "waits for tidemark capture to start")
	})
	defer waiting.Stop()
	place, text, err := described.Head(ctx, log, r.spec.Name)
	if err == nil {
		d, err = described.Parse(text)
	}
	if err == nil {
		r.shape = d.Source(text)
	}
	return place, d, err
}
