package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/queue"
)

const (
	// grace is how long a transaction may still run once nobody waits for it. If it were ended
	// midway, its outcome would have to be determined.
	grace = 2 * time.Second
	// window is about how many bytes a transaction has.
	window = 16 << 20
	// timeout is when the servers abort a transaction whose writer has died. Until then, readers do
	// not see what a foreign writer puts after it; a writer of ours ends it at once.
	timeout = time.Minute
)

// begin fences earlier writers, and finds the end of the queue.
func (s *Store) begin(ctx context.Context) error {
	const op = "append to"
	opts, err := s.addr.client()
	if err != nil {
		return s.fail(ctx, op, err)
	}
	c, err := kgo.NewClient(append(opts, kgo.TransactionalID(s.topic), kgo.TransactionTimeout(timeout), kgo.ConcurrentTransactionsBackoff(5*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(s.batch), kgo.ProducerLinger(0))...)
	if err != nil {
		return s.error(tidemark.Bug, op, err, "")
	}
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, _, err = c.ProducerID(asked); err != nil {
		err = s.fail(ctx, op, err)
	} else if err = s.sameTopic(ctx); err == nil {
		_, _, err = s.bounds(ctx)
	}
	if err != nil {
		c.Close()
		return err
	}
	k := &s.known
	k.mu.Lock()
	k.put, s.next = k.seen, k.end
	k.mu.Unlock()
	s.producer = c
	return nil
}

// drop closes a writing client: a new one has to begin.
func (s *Store) drop() {
	if s.producer != nil {
		s.producer.Close()
		s.producer = nil
	}
}

// Put commits messages, as many at once as fit into a transaction. If a commit's outcome is unknown
// it determines the outcome.
func (s *Store) Put(ctx context.Context, first uint64, messages [][]byte) (int, error) {
	const op = "append to"
	if err := s.writing.acquire(ctx); err != nil {
		return 0, err
	}
	defer s.writing.release()
	if s.producer == nil {
		if err := s.begin(ctx); err != nil {
			return 0, err
		}
		if _, last := s.known.ends(); first != last.seq+1 {
			// The writer of that message is fenced now. A new look sees the message.
			return 0, s.error(tidemark.Transient, op, fmt.Errorf("message %d was to be the next one, and %d is the last: another process has written", first, last.seq), "")
		}
	}
	var since time.Time // when transactions began to fail
	strange := 0        // failures because of an offset that was not the next one
	for done := 0; ; {
		if done == len(messages) || ctx.Err() != nil {
			return done, ctx.Err()
		}
		seq, rest := first+uint64(done), messages[done:]
		if _, last := s.known.ends(); seq != last.seq+1 {
			return done, queue.ErrFenced
		}
		n, err := s.room(ctx, rest)
		if n == 0 {
			return done, err
		}
		err = s.commit(ctx, seq, rest[:n])
		if err == nil {
			done, since = done+n, time.Time{}
			continue
		}
		s.drop()
		switch {
		case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
			return done, queue.ErrFenced
		case ctx.Err() != nil:
			return done, ctx.Err()
		// A restarted server may accept a message before it has written the end of the transaction
		// before; beginning again makes it write that first.
		case !since.IsZero() && time.Since(since) > patience, strange == 2, !errors.Is(err, errOffset) && !passes(err):
			return done, s.fail(ctx, op, err)
		case since.IsZero():
			since = time.Now()
		}
		if errors.Is(err, errOffset) {
			strange++
		}
		if err := s.begin(ctx); err != nil {
			return done, err
		}
		switch _, last := s.known.ends(); last.seq {
		case seq - 1: // it was aborted
		case seq + uint64(n) - 1:
			got, err := s.Get(ctx, seq)
			if err == nil && !bytes.Equal(got, rest[0]) {
				err = queue.ErrFenced
			}
			if err != nil {
				return done, err
			}
			done, since = done+n, time.Time{}
		default:
			return done, queue.ErrFenced
		}
	}
}

// room returns how many of messages go into the next transaction: none, and ErrFull, if the first
// of them would exceed the queue's limit.
func (s *Store) room(ctx context.Context, messages [][]byte) (n int, err error) {
	for range 2 {
		first, last := s.known.ends()
		held := last.total - first.before()
		if first.seq == 0 {
			held = 0
		}
		size := int64(0)
		for n = 0; n < len(messages) && (n == 0 || size < window); n++ {
			if size += int64(len(messages[n])); held+size > s.opt.Limit {
				break
			}
		}
		if n > 0 {
			return n, nil
		}
		if _, _, err := s.bounds(ctx); err != nil { // another process may have trimmed it
			return 0, err
		}
	}
	return 0, queue.ErrFull
}

// errOffset means that a record did not get the next offset by our count.
var errOffset = errors.New("another process writes to the topic")

// commit puts messages in one transaction, numbered from seq on.
func (s *Store) commit(ctx context.Context, seq uint64, messages [][]byte) error {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	defer crash.OnDone(ctx, func() {
		if flow.Sleep(own, grace) == nil {
			cancel()
		}
	})()
	if err := s.producer.BeginTransaction(); err != nil {
		return err
	}
	_, p := s.known.ends()
	begun := place{seq: seq, offset: s.next, total: p.total + int64(len(messages[0])), size: int64(len(messages[0]))}
	answers := make(chan error, len(messages))
	for i, b := range messages {
		p = place{seq: seq + uint64(i), offset: s.next + int64(i), total: p.total + int64(len(b)), size: int64(len(b))}
		want := p.offset
		s.producer.Produce(own, &kgo.Record{Topic: s.topic, Key: keyOf(p.seq, p.total), Value: b}, func(r *kgo.Record, err error) {
			if err == nil && r.Offset != want {
				err = fmt.Errorf("a message got offset %d, and %d was next: %w", r.Offset, want, errOffset)
			}
			answers <- err
		})
	}
	var failed error
	for range messages {
		select {
		case err := <-answers:
			if failed == nil {
				failed = err
			}
		case <-own.Done():
			return own.Err()
		}
	}
	if errors.Is(failed, errOffset) {
		_ = s.producer.EndTransaction(own, kgo.TryAbort) // it must never be committed
	}
	if failed != nil {
		return failed
	}
	if err := s.producer.EndTransaction(own, kgo.TryCommit); err != nil {
		return err
	}
	if err := s.ended(own, p.offset+2); err != nil {
		return err
	}
	s.next = p.offset + 2 // after the control record that ends the transaction
	s.known.committed(begun, p)
	return nil
}

// ended waits until a transaction's end is in the topic, before end. The servers report the commit
// a moment earlier, and one that dies in that moment may come back without it.
func (s *Store) ended(ctx context.Context, end int64) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		all, err := s.asks.admin.ListCommittedOffsets(ctx, s.topic)
		if err == nil {
			err = all.Error()
		}
		at, ok := all.Lookup(s.topic, 0)
		switch {
		case err == nil && ok && at.Offset >= end:
			return nil
		case err != nil && !kerr.IsRetriable(err):
			return err
		}
		if err := flow.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}
