package jetstream

import (
	"context"
	"errors"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemarkdb/tidemark"
)

// Remove deletes a queue with its content. It deletes a folder without opening it, so even a
// damaged one; Kind Invalid: it is not a queue's, or in use.
func Remove(ctx context.Context, opt Options) error {
	const op = "remove queue"
	if opt.Dial != nil { // a Server forgets what it has noted
		c, err := opt.Dial(ctx, wantRemove+opt.Queue)
		if err != nil {
			return err
		}
		c.Close()
	}
	if opt.Dir == "" {
		s, err := Open(ctx, opt)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.js.DeleteStream(ctx, s.asks().Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return s.fail(ctx, op, err)
		}
		return s.fail(ctx, op, s.js.DeleteStream(ctx, streamPrefix+opt.Queue))
	}
	e := &embedded{}
	if err := e.claim(opt.Dir); err != nil {
		return err
	}
	e.close()
	if err := os.RemoveAll(opt.Dir); err != nil {
		return &tidemark.Error{Kind: tidemark.Denied, Op: op, Object: opt.Dir, Err: err, Hint: "Remove the folder by hand."}
	}
	return nil
}
