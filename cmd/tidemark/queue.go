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

// openQueue gives what opens the queue of a stream.
func (s *settings) openQueue() func(ctx context.Context, stream, where string) (*queue.Log, error) {
	q := s.queue
	return func(ctx context.Context, stream, where string) (*queue.Log, error) {
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
		store, err := jetstream.Open(ctx, opt)
		if err != nil {
			return nil, err
		}
		log, err := queue.New(ctx, store, queue.Options{MaxMessage: int(q.message), Compress: q.compress})
		if err != nil {
			_ = store.Close() // the first error is the one to tell
			return nil, err
		}
		return log, nil
	}
}
