// Package kafka keeps a queue's messages in a topic of Kafka that has one partition.
//
// # Numbers and offsets
//
// Messages are numbered from 1 without a gap; offsets of Kafka have gaps, because what begins,
// ends or gives up a transaction takes offsets too. So each record has its number in its key,
// with the bytes of all messages up to it. Both rise with the offset, so a message is found
// by looking between two that are known; whoever reads on from one finds the next one
// behind it. What the queue holds is the difference of two such sums. Nothing of this is kept
// anywhere but in the records, so nothing can be out of step after a crash.
//
// # One writer
//
// Messages are put in transactions of Kafka, whose transactional id is the topic's name. Who
// begins to write gets a new epoch for it: from then on the servers refuse all of an
// earlier writer, and have given up what that one had not committed. Only then does the new
// one look where the queue ends. So what it puts behind the end is behind the end. As a check, every
// record must get the offset that is next by our own count: one that does not is not committed.
//
// # Unknown ends
//
// Where the answer to a commit is missing, a new epoch of our own makes the servers decide:
// the transaction is committed or given up when it begins. Then we look which.
//
// What it relies on: acknowledgements of all replicas in sync, a topic that forgets nothing by
// itself (which Open checks), and reading of what is committed alone. That Kafka has written a
// message to memory of several machines rather than to one disk is Kafka's way of being durable.
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
	// Queue names it, and its topic if the URL does not: tidemark_ and this.
	Queue string
	// URL is kafka://user:password@host:9092,host2:9092/topic or kafka+tls://..., of which all but
	// one host may be left out. Behind a ? stand sasl=plain (the default), scram-sha-256 or
	// scram-sha-512, and files: ca=, cert=, key=.
	URL string
	// Limit is how many bytes it holds at most; default 10 GB. What is there already is
	// never dropped because of it.
	Limit int64
	// MaxMessage is how many bytes the largest message has that will be put; default 1 MB.
	MaxMessage int
	// Replicas is on how many servers each message of a topic is that Open makes; default what
	// the servers have as default.
	Replicas int
}

const (
	defaultLimit   = 10 << 30
	defaultMessage = 1 << 20
	// overhead is what Kafka puts around a message, and our key.
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
	id    kadm.TopicID // of the topic: another one of that name is not ours
	most  int          // bytes of the largest message
	batch int32        // and of what is written at once

	asks  *link // looks, and reads
	waits *link // for what comes: a server answers requests of a connection one after the other

	reading semaphore // who reads ahead
	known   known

	writing  semaphore
	producer *kgo.Client // nil: nobody has begun to write, or was fenced off, or it is not known what became of it
	next     int64       // offset that the next record will get
}

// A semaphore is a lock, and waiting for it ends with a ctx.
type semaphore chan struct{}

func (s semaphore) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) give() { <-s }

// Open opens a queue, and makes its topic if it is not there. Kinds of errors: Invalid, also for a
// topic that would forget messages; Unreachable, Denied, Forbidden.
func Open(ctx context.Context, opt Options) (*Store, error) {
	s, err := connect(ctx, opt)
	if err == nil {
		if err = s.openTopic(ctx, true); err == nil {
			_, _, err = s.look(ctx)
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

// Remove deletes a queue with all that is in it.
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
		_, _, err = s.look(ctx) // whether it holds what is ours
	}
	if err != nil {
		return err
	}
	if err := s.forget(ctx); err != nil && tidemark.KindOf(err) != tidemark.Forbidden { // then nobody has asked either
		return err
	}
	if _, err := s.asks.admin.DeleteTopic(ctx, s.topic); err != nil {
		return s.fail(ctx, op, err)
	}
	// It is gone a moment later, and one of the same name may be wanted next.
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

// describe asks for the topic.
func (s *Store) describe(ctx context.Context) (kadm.TopicDetail, error) {
	all, err := s.asks.admin.ListTopics(ctx, s.topic)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	t := all[s.topic]
	return t, t.Err
}

// openTopic finds the topic, or makes it.
func (s *Store) openTopic(ctx context.Context, create bool) error {
	const op = "open"
	t, err := s.describe(ctx)
	if errors.Is(err, kerr.UnknownTopicOrPartition) && create {
		if err := s.create(ctx); err != nil {
			return s.fail(ctx, op, err)
		}
	}
	// A new topic has no leader yet, and not all servers know of it.
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

// checkSettings refuses a topic that would forget what was not applied.
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
			_, _ = fmt.Sscan(got, &most) // 0 if it is no number, which is found below
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
	first, last, err := s.look(ctx)
	if err != nil {
		return queue.State{}, err
	}
	st := queue.State{First: first.seq, Last: last.seq, Bytes: last.total - first.before(), Limit: s.opt.Limit, MaxMessage: s.most}
	if first.seq == 0 {
		st.First, st.Bytes = last.seq+1, 0
	}
	return st, nil
}

// Purge lets the servers delete records.
func (s *Store) Purge(ctx context.Context, seq uint64) error {
	const op = "trim"
	p, _, err := s.find(ctx, seq, false)
	if errors.Is(err, queue.ErrMissing) {
		return nil // it was forgotten already
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
		return nil // another has trimmed further
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
	defer s.writing.give()
	s.drop()
	for _, l := range []*link{s.asks, s.waits} {
		if l != nil {
			l.Close()
		}
	}
	return nil
}
