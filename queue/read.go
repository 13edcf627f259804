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

// ahead is how many messages Read has asked for before they are needed.
const ahead = 4

// Read gives the transactions behind the Place after, one after the other, and waits for
// more until ctx ends. emit owns what it gets, and may take its time; an error of it is
// returned as it is. after 0 means from the first that is there.
//
// The pieces of a transaction follow each other; they may be other, and more, than those
// that were appended. A relation comes before its first use, and again when it has
// changed, whatever it was in the stream that was appended.
//
// Errors: Lost, if the log begins behind after, or has ended before what was read from it
// already; Corrupt, if a message is not as it was written, or not there; Transient, if
// a transaction began again of which emit has got the first pieces.
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
		m, err := take(ctx, in)
		if err != nil {
			return l.wrap("read", err)
		}
		switch {
		case first && after > 0 && m.after > after:
			return l.fail(tidemark.Lost, "read", fmt.Errorf("it begins behind place %d, and %d is where the target is", m.after, after),
				"What lies between is not in the queue any more: tidemark capture --from-target begins it anew from where the target is.")
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
		if err := r.give(m, lost, emit); err != nil {
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

// A fetched is a message, or why there is none.
type fetched struct {
	m   *message
	err error
}

// take gives the next message.
func take(ctx context.Context, in <-chan chan fetched) (*message, error) {
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

// fetch reads messages from the one numbered seq on, several at once, until ctx ends or
// one cannot be had.
func (l *Log) fetch(ctx context.Context, wg *crash.Group, seq uint64, out chan<- chan fetched) {
	var last uint64
	for seq := seq; ; seq++ { // each message has a variable of its own
		f := make(chan fetched, 1)
		for last < seq {
			var err error
			if last, err = l.store.Wait(ctx, seq); err == nil && last < seq-1 {
				err = l.fail(tidemark.Lost, "read", fmt.Errorf("it ends with message %d, and message %d was there", last, seq-1),
					"The queue was replaced, or has lost its end: begin it anew from where the target is, with --from-target.")
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

// givenUp says whether the transaction that begins in the message numbered seq, and goes
// on behind it, was given up. One that is still being appended was not.
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

var errAgain = errors.New("the capture has begun a transaction again of which the first pieces were read")

// emitError is what emit has returned.
type emitError struct{ error }

// A reader gives away the transactions of messages that follow each other.
type reader struct {
	after   uint64            // Place of the last one that is not wanted
	given   map[uint32][]byte // relations as emit has got them
	pending map[uint32][]byte // and as they are now in the stream, where it may not have got them
	part    []byte            // the beginning of a change that goes on in the next entry
	skip    bool              // the transaction that has begun is not wanted
	amid    bool              // emit has got pieces of a transaction whose end is to come
}

// give gives away what is in m. The transaction that is unfinished at its end is left out
// if lost is set.
func (r *reader) give(m *message, lost bool, emit func(*change.Tx) error) error {
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

// entry gives away one entry, with the relations that have to stand before it. They do not
// go between the parts of a change, but before the first of them.
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

// owed gives the relations that emit has not got yet, and takes note that it gets them.
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
