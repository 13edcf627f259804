package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/queue/jetstream"
	"github.com/tidemarkdb/tidemark/queue/kafka"
	"github.com/tidemarkdb/tidemark/relay"
)

// queueOptions choose the queue between the halves of a stream, and how it stores messages.
type queueOptions struct {
	queue        string        // --queue; none: the stream's present one, and direct, which needs nothing, for a new stream
	dir          string        // --queue-dir; none: beside the catalogue, which has the same owner
	size         int64         // --queue-size 10GB: some hours of a busy source, and less than a disk
	message      int64         // --queue-message 1000kB: the default limit of NATS servers is 1MB
	transactions int           // --trans-batch 0: as many as fit into a message
	interval     time.Duration // --commit-interval 0s: latency comes first
	compress     bool          // --queue-compress off: it costs CPU
	replicas     int           // --queue-replicas 0: the servers' default
	warn         func(tidemark.Finding)
}

func (o *queueOptions) warnBy(warn func(tidemark.Finding)) { o.warn = warn }

func (o *queueOptions) table() option.Table {
	return option.Table{
		option.New("queue", "text", "", "Queue between capture and apply: direct, durable, a relay, or the URL of NATS or Kafka. direct: memory, and the source keeps its log until it is applied; durable: a queue on this machine's disk; relay:HOST:PORT: on the disk of that tidemark relay; nats://user@host:4222, tls://... (NATS with JetStream); kafka://user@host:9092/topic, kafka+tls://... (Kafka). Default: direct; an existing stream keeps its queue.", func(v string) error {
			if o.queue = v; relay.Is(v) {
				o.queue = relay.Canonical(v)
			}
			return checkQueue(v)
		}).For("replicate cutover peek capture apply").CommonTo("replicate capture apply"),
		option.New("queue-dir", "file", "", "Folder of the durable queue; default: beside the catalogue.", option.Text(&o.dir)).For("replicate cutover peek"),
		option.New("queue-size", "size", "10GB", "Maximum size of the queue; when it is full, capture waits, and the source keeps its log.", option.Size(&o.size)).For("replicate cutover capture apply"),
		option.New("queue-message", "size", "1000kB", "Maximum size of a message in the queue, 4kB to 32MB (IBM's MAX_MESSAGE_SIZE).", option.Size(&o.message)).For("replicate cutover capture apply"),
		option.New("trans-batch", "number", "0", "Maximum number of source transactions in a message of the queue (IBM's TRANS_BATCH_SZ); 0: as many as fit.", option.Number(0, 1<<20, &o.transactions)).For("replicate cutover capture"),
		option.New("commit-interval", "duration", "0s", "Minimum time between two writes to a durable queue (IBM's COMMIT_INTERVAL): fewer and larger messages, at the cost of latency; 0s: write again as soon as the previous write is done.", option.Duration(&o.interval)).For("replicate cutover capture"),
		option.New("queue-compress", "on/off", "off", "Compress the queue's messages with zstd.", option.OnOff(&o.compress)).For("replicate cutover capture apply"),
		option.New("queue-replicas", "number", "0", "How many servers of a cluster store each message, 1 to 5; 0 means one with NATS, and the cluster's default with Kafka.", option.Number(0, 5, &o.replicas)).For("replicate cutover capture apply"),
	}.In(option.Queues)
}

// checkQueue tells what is wrong with the location of a queue.
func checkQueue(where string) error {
	switch {
	case where == "", where == "direct", where == "durable":
		return nil
	case kafka.Is(where):
		return kafka.Check(where)
	case relay.Is(where):
		_, _, err := relay.Parse(where)
		return err
	case jetstream.Is(where):
		return jetstream.Check(where)
	}
	return errors.New("must be direct, durable, relay:HOST:PORT, or the URL of NATS servers (nats://, tls://) or of Kafka (kafka://, kafka+tls://)")
}

func (o *queueOptions) jetstream(state *stateOptions, stream, where string) (jetstream.Options, error) {
	opt := jetstream.Options{Queue: stream, Limit: o.size, Replicas: o.replicas}
	switch {
	case relay.Is(where):
		peer, err := address.Relay(where, versionText())
		if err != nil {
			return opt, err
		}
		opt.URL, opt.Dial = peer.String(), peer.Dial
	case where != "durable":
		opt.URL = where
	case o.dir != "":
		opt.Dir = o.dir
	default:
		path, err := state.statePath()
		if err != nil {
			return opt, err
		}
		opt.Dir = filepath.Join(filepath.Dir(path), "queues", stream)
	}
	return opt, nil
}

func (o *queueOptions) kafka(stream, where string) kafka.Options {
	return kafka.Options{Queue: stream, URL: where, Limit: o.size, MaxMessage: int(o.message), Replicas: o.replicas}
}

// store opens the store of a stream's queue.
func (o *queueOptions) store(ctx context.Context, state *stateOptions, stream, where string) (queue.Store, error) {
	if text := kafka.Exposed(where); kafka.Is(where) && text != "" && o.warn != nil {
		o.warn(tidemark.Finding{Severity: tidemark.Warning, Object: tidemark.MaskURL(where), Text: text, Hint: "Write kafka+tls:// if the servers have TLS."})
	}
	if kafka.Is(where) {
		return kafka.Open(ctx, o.kafka(stream, where))
	}
	opt, err := o.jetstream(state, stream, where)
	if err != nil {
		return nil, err
	}
	return jetstream.Open(ctx, opt)
}

// openQueue opens the queue of a stream.
type openQueue = func(ctx context.Context, stream, where string) (*queue.Log, error)

func (o *queueOptions) openQueue(ctx context.Context, state *stateOptions, stream, where string) (*queue.Log, error) {
	store, err := o.store(ctx, state, stream, where)
	if err != nil {
		return nil, err
	}
	log, err := queue.New(ctx, store, queue.Options{MaxMessage: int(o.message), MaxTransactions: o.transactions, Compress: o.compress})
	if err != nil {
		_ = store.Close() // the first error is the one to report
		return nil, err
	}
	return log, nil
}

// remover removes the queue of a stream.
func (o *replicateOptions) remover() func(ctx context.Context, stream, where string) error {
	return func(ctx context.Context, stream, where string) error {
		if kafka.Is(where) {
			return kafka.Remove(ctx, o.kafka(stream, where))
		}
		opt, err := o.jetstream(&o.stateOptions, stream, where)
		if err != nil {
			return err
		}
		return jetstream.Remove(ctx, opt)
	}
}

// spool is the folder for transactions that are too large for memory: beside the catalogue, since
// the system's temporary folder may itself be in memory.
func (o *stateOptions) spool() string {
	path, err := o.statePath()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(path), "spool")
}
