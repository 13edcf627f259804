package store

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// The round trips to a far bucket go to the worker that waits for them.
func TestTrips(t *testing.T) {
	near := s3Place(t, "trips")
	port := fmt.Sprint(testdb.S3(t).Port)
	wire := testdb.NewWire(t, port, 20*time.Millisecond)
	st, err := Open(t.Context(), strings.Replace(near, ":"+port, ":"+wire.Port, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := flow.NewClock()
	ctx := c.Counting(t.Context())
	defer c.Enter(c.Enter(flow.IO))
	was := c.Snapshot()
	does := func(what string, requests int64, do func(ctx context.Context) error) {
		t.Helper()
		if err := do(ctx); err != nil {
			t.Fatal(what, err)
		}
		now := c.Snapshot()
		// The server closes connections of its own accord; what is sent again needs more.
		if n := now.RoundTrips - was.RoundTrips; n < requests || n > 3*requests {
			t.Errorf("%s: %d round trips, want %d", what, n, requests)
		}
		was = now
	}
	write := func(size int) func(context.Context) error {
		return func(ctx context.Context) error {
			o, err := st.Create(ctx, fmt.Sprint("object", size), New)
			if err != nil {
				return err
			}
			if _, err := o.Write(bytes.Repeat([]byte{1}, size)); err != nil {
				return err
			}
			return o.Commit()
		}
	}
	does("a look at nothing", 1, func(ctx context.Context) error {
		if _, err := st.Stat(ctx, "nothing"); tidemark.KindOf(err) != tidemark.NotFound {
			return err
		}
		return nil
	})
	does("a small object", 2, write(1000))                   // is it there, and put
	does("an object of three parts", 4, write(2*partSize+1)) // begin, is it there, the last part, complete; two parts are sent meanwhile
	for range 3 {
		does("a look", 1, func(ctx context.Context) error { _, err := st.Stat(ctx, "object1000"); return err })
	}
	does("by nobody", 0, func(context.Context) error { _, err := st.Stat(t.Context(), "object1000"); return err })
	if trip := was.RoundTripTime / time.Duration(was.RoundTrips); trip < 40*time.Millisecond || was.RoundTripTime > was.IO {
		t.Errorf("a round trip takes %s, and all %s of %s of I/O", trip, was.RoundTripTime, was.IO)
	}
}
