package main

import (
	"context"
	"path/filepath"

	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/queue/jetstream"
)

// queueSettings say how the queue of a stream is kept.
type queueSettings struct {
	dir             string
	size, message   int64
	compress        bool
	replicas        int
	credentials, ca string
}

// store says where the store of a stream's queue is.
func (s *settings) store(stream, where string) (jetstream.Options, error) {
	q := s.queue
	opt := jetstream.Options{Queue: stream, Limit: q.size, Replicas: q.replicas, Credentials: q.credentials, CA: q.ca}
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

func (s *settings) openQueue(ctx context.Context, stream, where string) (*queue.Log, error) {
	opt, err := s.store(stream, where)
	if err != nil {
		return nil, err
	}
	store, err := jetstream.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	log, err := queue.New(ctx, store, queue.Options{MaxMessage: int(s.queue.message), Compress: s.queue.compress})
	if err != nil {
		_ = store.Close() // the first error is the one to tell
		return nil, err
	}
	return log, nil
}

func (s *settings) removeQueue(ctx context.Context, stream, where string) error {
	opt, err := s.store(stream, where)
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
