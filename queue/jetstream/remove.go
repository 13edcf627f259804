package jetstream

import (
	"context"
	"os"

	"github.com/tidemarkdb/tidemark"
)

// Remove deletes the queue with all that is in it, and closes the store.
func (s *Store) Remove(ctx context.Context) error {
	const op = "remove queue"
	if err := s.js.DeleteStream(ctx, "TIDEMARK_"+s.opt.Queue); err != nil {
		return s.fail(ctx, op, err)
	}
	if err := s.Close(); err != nil || s.opt.Dir == "" {
		return err
	}
	if err := os.RemoveAll(s.opt.Dir); err != nil {
		return s.error(tidemark.Denied, op, err, "Remove the folder by hand.")
	}
	return nil
}
