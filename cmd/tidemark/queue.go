package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/queue/jetstream"
	"github.com/tidemarkdb/tidemark/queue/kafka"
)

// queueSettings say how the queue of a stream is kept.
type queueSettings struct {
	dir           string
	size, message int64
	compress      bool
	replicas      int
	transactions  int // in a message
	warn          func(tidemark.Finding)
}

// checkQueue says what is wrong with where a queue is to be.
func checkQueue(where string) error {
	switch {
	case where == "", where == "direct", where == "durable":
		return nil
	case kafka.Is(where):
		return kafka.Check(where)
	case jetstream.Is(where):
		return jetstream.Check(where)
	}
	return errors.New("must be direct, durable, or the URL of NATS servers (nats://, tls://) or of Kafka (kafka://, kafka+tls://)")
}

func (s *settings) jetstream(stream, where string) (jetstream.Options, error) {
	q := s.queue
	opt := jetstream.Options{Queue: stream, Limit: q.size, Replicas: q.replicas}
	switch {
	case where != "durable":
		opt.URL = where
	case q.dir != "":
		opt.Dir = q.dir
	default:
		path, err := s.statePath()
		if err != nil {
			return opt, err
		}
		opt.Dir = filepath.Join(filepath.Dir(path), "queues", stream)
	}
	return opt, nil
}

func (s *settings) kafka(stream, where string) kafka.Options {
	q := s.queue
	return kafka.Options{Queue: stream, URL: where, Limit: q.size, MaxMessage: int(q.message), Replicas: q.replicas}
}

// store opens the store of a stream's queue.
func (s *settings) store(ctx context.Context, stream, where string) (queue.Store, error) {
	if text := kafka.Exposed(where); kafka.Is(where) && text != "" && s.queue.warn != nil {
		s.queue.warn(tidemark.Finding{Severity: tidemark.Warning, Object: tidemark.MaskURL(where), Text: text, Hint: "Write kafka+tls:// if the servers have TLS."})
	}
	if kafka.Is(where) {
		return kafka.Open(ctx, s.kafka(stream, where))
	}
	opt, err := s.jetstream(stream, where)
	if err != nil {
		return nil, err
	}
	return jetstream.Open(ctx, opt)
}

func (s *settings) openQueue(ctx context.Context, stream, where string) (*queue.Log, error) {
	store, err := s.store(ctx, stream, where)
	if err != nil {
		return nil, err
	}
	log, err := queue.New(ctx, store, queue.Options{MaxMessage: int(s.queue.message), MaxTransactions: s.queue.transactions, Compress: s.queue.compress})
	if err != nil {
		_ = store.Close() // the first error is the one to tell
		return nil, err
	}
	return log, nil
}

func (s *settings) removeQueue(ctx context.Context, stream, where string) error {
	if kafka.Is(where) {
		return kafka.Remove(ctx, s.kafka(stream, where))
	}
	opt, err := s.jetstream(stream, where)
	if err != nil {
		return err
	}
	return jetstream.Remove(ctx, opt)
}

// spool is the folder for transactions that are too large for memory: beside the catalogue,
// since the system's for temporary files may be memory itself.
func (s *settings) spool() string {
	path, err := s.statePath()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(path), "spool")
}
