package job

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// What is compared is compared again after a lost connection, and after the end of the session that
// held the snapshot, which a new one replaces. Anything else is an error at once.
func TestPersist(t *testing.T) {
	kind := func(k tidemark.Kind, cause error) error { return &tidemark.Error{Kind: k, Op: "read", Err: cause} }
	cause := errors.New("because")
	for name, c := range map[string]struct {
		err  error
		came bool // both servers had answered
		want int  // how often it is tried
	}{
		"connection":             {kind(tidemark.Transient, cause), true, 2},
		"server away":            {kind(tidemark.Unreachable, cause), true, 2},
		"snapshot":               {kind(tidemark.Lost, fmt.Errorf("%w: gone", tidemark.ErrSnapshotLost)), true, 2},
		"snapshot, of a table":   {fmt.Errorf("compare: %w", kind(tidemark.Lost, fmt.Errorf("%w: gone", tidemark.ErrSnapshotLost))), true, 2},
		"damaged pages":          {kind(tidemark.Lost, cause), true, 1},
		"privilege":              {kind(tidemark.Forbidden, cause), true, 1},
		"never there":            {kind(tidemark.Transient, cause), false, 1},
		"printed, not to repeat": {final{kind(tidemark.Lost, tidemark.ErrSnapshotLost)}, true, 1},
	} {
		w, tries := &witness{}, 0
		err := Env{Watch: w}.persist(context.Background(), "diff", time.Minute, func(there func()) error {
			if tries++; c.came {
				there()
			}
			if tries == 1 {
				return c.err
			}
			return nil
		})
		if tries != c.want || len(w.events) != c.want-1 || (err == nil) != (c.want == 2) {
			t.Errorf("%s: tried %d times, %d events, %v", name, tries, len(w.events), err)
		}
	}
}
