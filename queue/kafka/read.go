package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/queue"
)

// A link is a client that reads from the leader of the partition.
type link struct {
	*kgo.Client
	admin  *kadm.Client
	leader atomic.Int32 // its number; -1 if unknown
}

const (
	ahead = 1 << 20                // bytes per fetch of a sequential reader
	probe = 1                      // of a search: one batch arrives in any case
	poll  = 500 * time.Millisecond // how long a server waits for new records
	// A starting server may not know its topics for a moment.
	unknownFor = 3 * time.Second
)

// fetch reads about size bytes of committed records from an offset on. If there are none yet it
// waits for the given time. next is the offset after those examined, which need not all be
// messages. kerr.OffsetOutOfRange is returned unchanged.
func (s *Store) fetch(ctx context.Context, l *link, from int64, size int32, wait time.Duration) (records []*kgo.Record, next int64, err error) {
	for begun := time.Now(); ; {
		if records, next, err = s.fetchOnce(ctx, l, from, size, wait); err == nil || errors.Is(err, kerr.OffsetOutOfRange) {
			return records, next, err
		}
		since := time.Since(begun)
		if ctx.Err() != nil || since > patience || unknown(err) && since > unknownFor || !unknown(err) && !passes(err) || errors.Is(err, errRecords) || errors.Is(err, errReplaced) {
			return nil, from, s.fail(ctx, "read", err)
		}
		l.leader.Store(-1)
		if err := flow.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, from, err
		}
	}
}

// errRecords means that a response is not in Kafka's format.
var errRecords = errors.New("the server sent damaged data")

func (s *Store) fetchOnce(ctx context.Context, l *link, from int64, size int32, wait time.Duration) ([]*kgo.Record, int64, error) {
	leader, err := s.leader(ctx, l)
	if err != nil {
		return nil, from, err
	}
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = from, size
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = s.topic, s.id, []kmsg.FetchRequestTopicPartition{part}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = int32(wait.Milliseconds()), 1, size, 1
	req.Topics = []kmsg.FetchRequestTopic{topic}
	answer, err := l.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return nil, from, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, from, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, from, kerr.UnknownServerError
	}
	got := &resp.Topics[0].Partitions[0]
	out, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: s.topic}, got, kgo.DefaultDecompressor(), nil)
	var code *kerr.Error
	if out.Err != nil && !errors.As(out.Err, &code) {
		return nil, from, fmt.Errorf("%w: %w", errRecords, out.Err)
	}
	return out.Records, next, out.Err
}

// leader returns the number of the leader.
func (s *Store) leader(ctx context.Context, l *link) (int32, error) {
	if n := l.leader.Load(); n >= 0 {
		return n, nil
	}
	asked, cancel := context.WithTimeout(ctx, unknownFor)
	defer cancel()
	all, err := l.admin.ListTopics(asked, s.topic)
	if err != nil {
		return -1, err
	}
	t := all[s.topic]
	switch {
	case t.Err != nil:
		return -1, t.Err
	case t.ID != s.id:
		return -1, errReplaced
	case t.Partitions[0].Err != nil:
		return -1, t.Partitions[0].Err
	}
	l.leader.Store(t.Partitions[0].Leader)
	return t.Partitions[0].Leader, nil
}

// offsets returns the offsets between which the committed records are.
func (s *Store) offsets(ctx context.Context) (start, end int64, err error) {
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, ask := range []func(context.Context, ...string) (kadm.ListedOffsets, error){s.asks.admin.ListStartOffsets, s.asks.admin.ListCommittedOffsets} {
		for begun := time.Now(); ; {
			all, err := ask(asked, s.topic)
			if err == nil {
				err = all.Error()
			}
			if at, ok := all.Lookup(s.topic, 0); ok && err == nil {
				*[]*int64{&start, &end}[i] = at.Offset
				break
			}
			if !kerr.IsRetriable(err) || time.Since(begun) > unknownFor {
				return 0, 0, s.fail(ctx, "look at", err)
			}
			if err := flow.Sleep(ctx, 50*time.Millisecond); err != nil {
				return 0, 0, err
			}
		}
	}
	return start, end, nil
}

// bounds finds the first message and the last one. There are none if first is the zero place.
func (s *Store) bounds(ctx context.Context) (first, last place, err error) {
	for range 3 {
		s.known.mu.Lock()
		seen := s.known.seen // before the servers are asked: another reader continues while they answer
		s.known.mu.Unlock()
		start, end, err := s.offsets(ctx)
		if err == nil {
			err = s.noteBetween(ctx, start, end, seen)
		}
		if errors.Is(err, kerr.OffsetOutOfRange) { // another process trims
			continue
		}
		if err != nil {
			return place{}, place{}, err
		}
		break
	}
	first, last = s.known.ends()
	return first, last, err
}

// noteBetween records the messages between two offsets; before is the last message that was read
// before the servers were asked for them.
func (s *Store) noteBetween(ctx context.Context, start, end int64, before place) error {
	k := &s.known
	k.mu.Lock()
	if k.put.seq > k.seen.seq && end > k.put.offset && end <= k.put.offset+2 {
		k.note(k.put) // only the end of our transaction follows our messages
		k.end = max(k.end, end)
	}
	k.tail = max(k.tail, start)
	seen, put, known, oldStart, first := k.seen, k.put, k.end, k.start, k.first
	k.mu.Unlock()
	if start == end || end <= max(seen.offset, put.offset) { // its records are gone, or not there yet
		if err := s.sameTopic(ctx); err != nil {
			return err
		}
	}
	if before.seq > 0 && end <= before.offset {
		return s.error(tidemark.Lost, "look at", fmt.Errorf("it ends at offset %d, and message %d was at %d", end, before.seq, before.offset),
			"The servers lost the end of the queue: restart it from the target's position with --from-target.")
	}
	if end > known {
		if err := s.lookBack(ctx, max(start, seen.offset+min(1, int64(seen.seq))), end); err != nil {
			return err
		}
	}
	if start == oldStart && first.seq > 0 {
		return nil
	}
	records, err := s.some(ctx, start, end, probe)
	if err != nil {
		return err
	}
	if _, err := k.add(records, 0); err != nil {
		return s.fail(ctx, "look at", err)
	}
	k.begins(start, records)
	return nil
}

// sameTopic fails unless the topic is still the one that was opened.
func (s *Store) sameTopic(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t, err := s.describe(asked)
	if err == nil && t.ID != s.id {
		err = errReplaced
	}
	return s.fail(ctx, "look at", err)
}

// lookBack finds the last message between two offsets, from their end.
func (s *Store) lookBack(ctx context.Context, from, end int64) error {
	for back := int64(2); ; back *= 4 {
		at, found := max(from, end-back), false
		for off := at; off < end; {
			records, next, err := s.fetch(ctx, s.asks, off, probe, 0)
			if err != nil {
				return err
			}
			if _, err := s.known.add(records, 0); err != nil {
				return s.fail(ctx, "look at", err)
			}
			found = found || len(records) > 0
			if next <= off {
				break
			}
			off = next
		}
		if found || at == from {
			s.known.mu.Lock()
			s.known.end = max(s.known.end, end)
			s.known.mu.Unlock()
			return nil
		}
	}
}

// some returns the first records between two offsets, of about so many bytes; nil if there are
// none.
func (s *Store) some(ctx context.Context, from, end int64, size int32) ([]*kgo.Record, error) {
	for from < end {
		records, next, err := s.fetch(ctx, s.asks, from, size, 0)
		if err != nil || len(records) > 0 || next <= from {
			return records, err
		}
		from = next
	}
	return nil, nil
}

// Get reads a message by its number.
func (s *Store) Get(ctx context.Context, seq uint64) ([]byte, error) {
	_, b, err := s.find(ctx, seq, true)
	return b, err
}

// find finds a message; with read it also returns the content.
func (s *Store) find(ctx context.Context, seq uint64, read bool) (place, []byte, error) {
	if err := s.reading.acquire(ctx); err != nil { // the second caller finds what the first one has read ahead
		return place{}, nil, err
	}
	defer s.reading.release()
	if b := s.known.remove(seq); read && b != nil {
		return place{}, b, nil
	}
	for begun := time.Now(); ; {
		lo, hi, ok := s.known.around(seq)
		if ok {
			if lo.seq == seq && !read {
				return lo, nil, nil
			}
			p, b, err := s.search(ctx, lo, hi, seq)
			if !errors.Is(err, kerr.OffsetOutOfRange) {
				return p, b, err
			}
		}
		first, last, err := s.bounds(ctx)
		if err != nil {
			return place{}, nil, err
		}
		if first.seq == 0 || seq < first.seq || seq > last.seq {
			return place{}, nil, queue.ErrMissing
		}
		if time.Since(begun) > patience {
			return place{}, nil, s.error(tidemark.Transient, "read", fmt.Errorf("message %d was committed and is not yet visible", seq), "")
		}
		if _, _, ok := s.known.around(seq); !ok { // ours, and its transaction is just ending
			if err := flow.Sleep(ctx, time.Millisecond); err != nil {
				return place{}, nil, err
			}
		}
	}
}

// search looks for a message between two existing ones: lo is at or before it, hi at or after it.
func (s *Store) search(ctx context.Context, lo, hi place, seq uint64) (place, []byte, error) {
	bound := hi.offset + 1 // it is before that
	for half := false; lo.seq == seq || lo.offset+1 < bound; half = !half {
		at, size := lo.offset, int32(ahead)
		switch {
		case lo.seq == seq:
		case lo.seq+1 == seq:
			at++
		default:
			at, size = between(lo, hi, bound, seq, half), probe
		}
		records, err := s.some(ctx, at, bound, size)
		if err != nil {
			return place{}, nil, err
		}
		b, err := s.known.add(records, seq)
		if err != nil {
			return place{}, nil, s.fail(ctx, "read", err)
		}
		if len(records) == 0 {
			if bound = at; lo.seq == seq {
				break
			}
			continue
		}
		first, _ := placeOf(records[0]) // add has checked them
		last, _ := placeOf(records[len(records)-1])
		switch {
		case b != nil:
			p, _ := placeOf(records[seq-first.seq])
			return p, b, nil
		case first.seq > seq && lo.seq != seq:
			bound, hi = at, first
		case last.seq < seq:
			lo = last
		default:
			return place{}, nil, queue.ErrMissing
		}
	}
	return place{}, nil, queue.ErrMissing
}

// between guesses the offset of a message that is after lo and before bound: by interpolation
// between the numbers of lo and hi; or, with half, halfway, which bounds the number of guesses.
func between(lo, hi place, bound int64, seq uint64, half bool) int64 {
	at := lo.offset + (bound-lo.offset)/2
	if !half && hi.seq > lo.seq {
		at = lo.offset + int64(float64(seq-lo.seq)*float64(hi.offset-lo.offset)/float64(hi.seq-lo.seq))
	}
	return min(max(at, lo.offset+1), bound-1)
}

// Wait polls the servers for the next message.
func (s *Store) Wait(ctx context.Context, seq uint64) (uint64, error) {
	k := &s.known
	for begun := time.Now(); ; {
		k.mu.Lock()
		last, tail := k.seen.seq, k.tail
		k.mu.Unlock()
		if last >= seq || time.Since(begun) >= poll {
			return last, nil
		}
		records, next, err := s.fetch(ctx, s.waits, tail, ahead, poll)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			_, _, err = s.bounds(ctx)
		}
		if err != nil {
			return 0, err
		}
		if _, err := k.add(records, 0); err != nil {
			return 0, s.fail(ctx, "read", err)
		}
		k.mu.Lock()
		k.tail = max(k.tail, next)
		k.mu.Unlock()
	}
}
