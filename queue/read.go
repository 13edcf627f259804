package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// ahead is how many messages Read requests before they are needed.
const ahead = 4

// Read emits the transactions after the Place after, one by one, and waits for more until ctx ends.
// emit owns what it gets, and may block; its error is returned unchanged. after 0 means from the
// first that exists.
//
// The pieces of a transaction follow each other; they may differ from those that were appended. A
// relation comes before its first use, and again when it has changed, whatever the appended stream
// had.
//
// Errors: Lost, if the log begins after the place after, or ends before what was already read from
// it; Corrupt, if a message is damaged or missing; Transient, if a transaction restarts after emit
// has received its first pieces.
func (l *Log) Read(ctx context.Context, after uint64, emit func(*change.Tx) error) error {
	next, _, err := l.find(ctx, after)
	if err != nil {
		return l.wrap("read", err)
	}
	ctx, stop := context.WithCancel(ctx)
	var wg crash.Group
	defer wg.Wait()
	defer stop()
	in := make(chan chan fetched, ahead-1)
	wg.Go(func() { l.fetch(ctx, &wg, next, in) })

	r := reader{after: after, skip: true, given: map[uint32][]byte{}, pending: map[uint32][]byte{}}
	var prev uint64 // checksum of the message before
	for first := true; ; first = false {
		m, err := nextMessage(ctx, in)
		if err != nil {
			return l.wrap("read", err)
		}
		switch {
		case first && after > 0 && m.after > after:
			return l.fail(tidemark.Lost, "read", fmt.Errorf("it begins after position %d, and the target is at %d", m.after, after),
				"The changes in between are no longer in the queue: tidemark capture --from-target restarts it from the target's position.")
		case !first && m.prev != prev:
			return l.wrap("read", fmt.Errorf("message %d does not follow the one that was before it: %w", m.seq, errDamaged))
		}
		prev = m.sum
		lost := false
		if m.open == m.seq {
			if lost, err = l.givenUp(ctx, m.seq); err != nil {
				return l.wrap("read", err)
			}
		}
		if err := r.emitFrom(m, lost, emit); err != nil {
			var e emitError
			if errors.As(err, &e) {
				return e.error
			}
			if errors.Is(err, errAgain) {
				return l.fail(tidemark.Transient, "read", err, "")
			}
			return l.wrap("read", err)
		}
	}
}

// A fetched is a message, or the error that replaces it.
type fetched struct {
	m   *message
	err error
}

// nextMessage returns the next message.
func nextMessage(ctx context.Context, in <-chan chan fetched) (*message, error) {
	select {
	case f := <-in:
		select {
		case got := <-f:
			return got.m, got.err
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}

// fetch reads messages from the one numbered seq on, several at once, until ctx ends or one cannot
// be read.
func (l *Log) fetch(ctx context.Context, wg *crash.Group, seq uint64, out chan<- chan fetched) {
	var last uint64
	for seq := seq; ; seq++ { // each message has a variable of its own
		f := make(chan fetched, 1)
		for last < seq {
			var err error
			if last, err = l.store.Wait(ctx, seq); err == nil && last < seq-1 {
				err = l.fail(tidemark.Lost, "read", fmt.Errorf("it ends with message %d, and message %d was there", last, seq-1),
					"The queue was replaced, or lost its end: restart it from the target's position with --from-target.")
			}
			if err != nil {
				f <- fetched{err: err}
				break
			}
		}
		select {
		case out <- f:
		case <-ctx.Done():
			return
		}
		if last < seq {
			return
		}
		wg.Go(func() {
			m, err := l.get(ctx, seq)
			f <- fetched{m, err}
		})
	}
}

// givenUp reports whether the transaction that begins in the message numbered seq, and continues
// after it, was abandoned. One that is still being appended was not.
func (l *Log) givenUp(ctx context.Context, seq uint64) (bool, error) {
	st, err := l.store.State(ctx)
	if err != nil || st.Last <= seq {
		return false, err
	}
	end, err := l.search(ctx, seq+1, st.Last, func(m *message) bool { return m.open != seq })
	if err != nil || end > st.Last {
		return false, err
	}
	m, err := l.get(ctx, end)
	if err != nil {
		return false, err
	}
	return m.flags&continuesFlag == 0, nil
}

var errAgain = errors.New("the capture restarted a transaction whose first pieces were already read")

// emitError is an error returned by emit.
type emitError struct{ error }

// A reader emits the transactions of consecutive messages.
type reader struct {
	after   uint64            // Place of the last transaction to skip
	given   map[uint32][]byte // relations as emit received them
	pending map[uint32][]byte // and their current versions in the stream, if emit has not received them
	part    []byte            // the beginning of a change that continues in the next entry
	skip    bool              // the current transaction is skipped
	amid    bool              // emit has received pieces of a transaction whose end is still to come
}

// emitFrom emits the transactions in m. With lost, it leaves out the one that is unfinished at its
// end.
func (r *reader) emitFrom(m *message, lost bool, emit func(*change.Tx) error) error {
	note := func(id uint32, framed []byte) { r.pending[id] = framed }
	clear(r.pending)
	if err := eachRelation(m.relations, note); err != nil {
		return err
	}
	end := len(m.entries)
	for lost && end > 0 {
		if end--; m.entries[end].flags&firstFlag != 0 {
			break
		}
	}
	for i := range m.entries {
		e := &m.entries[i]
		if e.flags&firstFlag != 0 {
			if r.amid {
				return errAgain
			}
			r.part, r.skip = nil, i >= end || e.tx.Place <= r.after
		}
		if r.skip {
			if e.flags&relationsFlag != 0 {
				if err := eachRelation(e.tx.Changes, note); err != nil {
					return err
				}
			}
			continue
		}
		if err := r.entry(e, emit); err != nil {
			return err
		}
	}
	return nil
}

// entry emits one entry, preceded by the relations that it needs. They do not come between the
// parts of a change, but before the first of them.
func (r *reader) entry(e *entry, emit func(*change.Tx) error) error {
	r.amid = e.tx.More
	changes := e.tx.Changes
	if r.part != nil {
		changes = append(r.part, changes...)
	} else if before := r.owed(); before != nil {
		changes = append(before, changes...)
	} else if e.flags&partFlag != 0 {
		changes = bytes.Clone(changes)
	}
	if r.part = nil; e.flags&partFlag != 0 {
		r.part = changes
		return nil
	}
	e.tx.Changes = changes
	if e.flags&relationsFlag != 0 {
		err := eachRelation(changes, func(id uint32, framed []byte) { r.given[id] = bytes.Clone(framed) })
		if err != nil {
			return err
		}
	}
	if !e.tx.More {
		r.after = e.tx.Place
	}
	if err := emit(&e.tx); err != nil {
		return emitError{err}
	}
	return nil
}

// owed returns the relations that emit has not received yet, and records that it receives them.
func (r *reader) owed() []byte {
	var out []byte
	for id, framed := range r.pending {
		if !bytes.Equal(r.given[id], framed) {
			out = append(out, framed...)
			r.given[id] = bytes.Clone(framed)
		}
	}
	clear(r.pending)
	return out
}
