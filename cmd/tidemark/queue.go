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

// store opens the store of a stream's queue.
func (s *settings) store(ctx context.Context, stream, where string) (*jetstream.Store, error) {
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
			return nil, err
		}
		opt.Dir = filepath.Join(filepath.Dir(path), "queues", stream)
	}
	return jetstream.Open(ctx, opt)
}

func (s *settings) openQueue(ctx context.Context, stream, where string) (*queue.Log, error) {
	store, err := s.store(ctx, stream, where)
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
	store, err := s.store(ctx, stream, where)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Remove(ctx)
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
