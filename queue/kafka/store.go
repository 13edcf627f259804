// Package kafka keeps a queue's messages in a topic of Kafka that has one partition.
//
// # Numbers and offsets
//
// Messages are numbered from 1 without a gap; Kafka's offsets have gaps, because control records of
// transactions take offsets too. So each record's key contains its number and the total bytes of
// all messages up to it. Both rise with the offset, so a message is found by searching between two
// known ones; a sequential reader finds the next one directly. The size of the queue is the
// difference of two such totals. All of this is only in the records, so nothing can be out of step
// after a crash.
//
// # One writer
//
// Messages are put in transactions of Kafka, whose transactional id is the topic's name. A new
// writer gets a new epoch for it: from then on the servers fence earlier writers, and have aborted
// their uncommitted transactions. Only then does the new writer look for the queue's end. So it
// really appends at the end. As a check, every record must get the next offset by our own count:
// otherwise its transaction is not committed.
//
// # Unknown ends
//
// If the answer to a commit is missing, a new epoch of our own makes the servers decide: once it
// begins, the transaction is committed or aborted. Then we check which.
//
// The package relies on acknowledgements of all in-sync replicas, a topic without retention limits
// (which Open checks), and reading only committed records. To Kafka, a durable message is one in
// the memory of several machines, rather than on one disk.
//
// Start reading at Open.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/queue"
)

// Options of Open.
type Options struct {
	// Queue is its name; without a topic in URL, the topic is tidemark_ and this name.
	Queue string
	// URL is kafka://user:password@host:9092,host2:9092/topic or kafka+tls://...; only one host is
	// required. After a ? come sasl=plain (the default), scram-sha-256 or scram-sha-512, and files:
	// ca=, cert=, key=.
	URL string
	// Limit is how many bytes it holds, at most; default 10 GB. It never drops stored messages.
	Limit int64
	// MaxMessage is the largest message size in bytes; default 1 MB.
	MaxMessage int
	// Replicas is the replication factor of a topic that Open creates; default the servers' own
	// default.
	Replicas int
}

const (
	defaultLimit   = 10 << 30
	defaultMessage = 1 << 20
	// overhead is what Kafka and our key add to a message.
	overhead = 256
	// patience is how long the servers may be away before we give up.
	patience = 30 * time.Second
)

// A Store implements queue.Store.
type Store struct {
	name  string
	topic string
	opt   Options
	addr  *address
	id    kadm.TopicID // of the topic: another topic of that name is not ours
	most  int          // size of the largest message in bytes
	batch int32        // and of one write

	asks  *link // searches and reads
	waits *link // waits for new records: a server answers requests of a connection one after the other

	reading semaphore // held to read ahead
	known   known

	writing  semaphore
	producer *kgo.Client // nil: no writer has begun, or it was fenced, or its outcome is unknown
	next     int64       // offset that the next record will get
}

// A semaphore is a lock whose waiters obey a ctx.
type semaphore chan struct{}

func (s semaphore) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) release() { <-s }

// Open opens a queue, and creates its topic if it is missing. Kinds of errors: Invalid, also if the
// topic would expire messages; Unreachable, Denied, Forbidden.
func Open(ctx context.Context, opt Options) (*Store, error) {
	s, err := connect(ctx, opt)
	if err == nil {
		if err = s.openTopic(ctx, true); err == nil {
			_, _, err = s.bounds(ctx)
		}
		if err != nil {
			s.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Remove deletes a queue and its content.
func Remove(ctx context.Context, opt Options) error {
	const op = "remove"
	s, err := connect(ctx, opt)
	if err != nil {
		return err
	}
	defer s.Close()
	if err = s.openTopic(ctx, false); errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	if err == nil {
		_, _, err = s.bounds(ctx) // checks that its content is ours
	}
	if err != nil {
		return err
	}
	if err := s.forget(ctx); err != nil && tidemark.KindOf(err) != tidemark.Forbidden { // then no request was stored either
		return err
	}
	if _, err := s.asks.admin.DeleteTopic(ctx, s.topic); err != nil {
		return s.fail(ctx, op, err)
	}
	// It disappears a moment later, and a new one of the same name may be needed next.
	for begun := time.Now(); time.Since(begun) < patience; {
		if _, err := s.describe(ctx); errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		if err := flow.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func connect(ctx context.Context, opt Options) (*Store, error) {
	const op = "open"
	if opt.Limit <= 0 {
		opt.Limit = defaultLimit
	}
	if opt.MaxMessage <= 0 {
		opt.MaxMessage = defaultMessage
	}
	s := &Store{name: opt.Queue + " at " + tidemark.MaskURL(opt.URL), opt: opt, reading: make(semaphore, 1), writing: make(semaphore, 1)}
	var err error
	if s.addr, err = parse(opt.URL); err != nil {
		s.name = opt.Queue
		return nil, s.error(tidemark.Invalid, op, err, "Write kafka://user:password@host:9092/topic, or kafka+tls://...")
	}
	if s.topic = s.addr.topic; s.topic == "" {
		s.topic = "tidemark_" + opt.Queue
	}
	s.known.cache = map[uint64][]byte{}
	base, err := s.addr.client()
	if err != nil {
		return nil, s.error(tidemark.Invalid, op, err, "Look at the files that the URL names.")
	}
	for _, to := range []**link{&s.asks, &s.waits} {
		c, err := kgo.NewClient(base...)
		if err != nil {
			s.Close()
			return nil, s.error(tidemark.Invalid, op, err, "")
		}
		*to = &link{Client: c, admin: kadm.NewClient(c)}
		(*to).leader.Store(-1)
	}
	asked, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := s.asks.Ping(asked); err != nil {
		s.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.connectFailed(err)
	}
	return s, nil
}

// describe requests the topic's metadata.
func (s *Store) describe(ctx context.Context) (kadm.TopicDetail, error) {
	all, err := s.asks.admin.ListTopics(ctx, s.topic)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	t := all[s.topic]
	return t, t.Err
}

// openTopic finds the topic, or creates it.
func (s *Store) openTopic(ctx context.Context, create bool) error {
	const op = "open"
	t, err := s.describe(ctx)
	if errors.Is(err, kerr.UnknownTopicOrPartition) && create {
		if err := s.create(ctx); err != nil {
			return s.fail(ctx, op, err)
		}
	}
	// A new topic has no leader yet, and not all servers know it.
	for begun := time.Now(); create && (err != nil || t.Partitions[0].Err != nil) && time.Since(begun) < patience; {
		if kerr.IsRetriable(err) || err == nil {
			if err := flow.Sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
			t, err = s.describe(ctx)
			continue
		}
		break
	}
	if err != nil {
		return s.fail(ctx, op, err)
	}
	if n := len(t.Partitions); n != 1 {
		return s.error(tidemark.Invalid, op, fmt.Errorf("topic %s has %d partitions", s.topic, n), "A queue is a topic of one partition: name another one, or one that is not there yet.")
	}
	s.id = t.ID
	return s.checkSettings(ctx)
}

// settings are those that a topic must have.
var settings = map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

func (s *Store) create(ctx context.Context) error {
	conf := map[string]*string{"max.message.bytes": new(fmt.Sprint(max(s.opt.MaxMessage+overhead, 1<<20)))}
	for name, v := range settings {
		conf[name] = new(v)
	}
	n := int16(-1)
	if s.opt.Replicas > 0 {
		n = int16(s.opt.Replicas)
	}
	if n >= 3 {
		conf["min.insync.replicas"] = new("2") // one server alone does not acknowledge
	}
	_, err := s.asks.admin.CreateTopic(ctx, 1, n, conf, s.topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// checkSettings rejects a topic that would expire messages before they are applied.
func (s *Store) checkSettings(ctx context.Context) error {
	const op = "open"
	all, err := s.asks.admin.DescribeTopicConfigs(ctx, s.topic)
	if err == nil && len(all) == 1 {
		err = all[0].Err
	}
	if err != nil {
		return s.fail(ctx, op, err)
	}
	most := 0
	for _, c := range all[0].Configs {
		got := c.MaybeValue()
		if want, ok := settings[c.Key]; ok && got != want {
			return s.error(tidemark.Invalid, op, fmt.Errorf("topic %s has %s = %s, and would forget what was not applied", s.topic, c.Key, got),
				fmt.Sprintf("Set it to %s, or name a topic that is not there yet.", want))
		}
		if c.Key == "max.message.bytes" {
			_, _ = fmt.Sscan(got, &most) // 0 if it is not a number, which is found below
		}
	}
	s.most = min(s.opt.MaxMessage, most-overhead)
	s.batch = int32(min(most, max(s.opt.MaxMessage+overhead, 1<<20)))
	if s.most <= 0 {
		return s.error(tidemark.Invalid, op, fmt.Errorf("topic %s has max.message.bytes = %d", s.topic, most), "Raise it above the size of messages (--queue-message).")
	}
	return nil
}

// Name implements queue.Store, as do the methods that follow.
func (s *Store) Name() string { return "queue " + s.name }

// State asks the servers.
func (s *Store) State(ctx context.Context) (queue.State, error) {
	first, last, err := s.bounds(ctx)
	if err != nil {
		return queue.State{}, err
	}
	st := queue.State{First: first.seq, Last: last.seq, Bytes: last.total - first.before(), Limit: s.opt.Limit, MaxMessage: s.most}
	if first.seq == 0 {
		st.First, st.Bytes = last.seq+1, 0
	}
	return st, nil
}

// Purge makes the servers delete records.
func (s *Store) Purge(ctx context.Context, seq uint64) error {
	const op = "trim"
	p, _, err := s.find(ctx, seq, false)
	if errors.Is(err, queue.ErrMissing) {
		return nil // already deleted
	}
	if err != nil {
		return err
	}
	var offsets kadm.Offsets
	offsets.AddOffset(s.topic, 0, p.offset, -1)
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := s.asks.admin.DeleteRecords(asked, offsets)
	if err == nil {
		err = all.Error()
	}
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return nil // another process has trimmed further
	}
	if err != nil {
		return s.fail(ctx, op, err)
	}
	s.known.trimmed(p)
	return nil
}

// Close ends the connections.
func (s *Store) Close() error {
	s.writing <- struct{}{}
	defer s.writing.release()
	s.drop()
	for _, l := range []*link{s.asks, s.waits} {
		if l != nil {
			l.Close()
		}
	}
	return nil
}
