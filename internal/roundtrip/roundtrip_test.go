package roundtrip_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// A far server answers each byte with one, after a round trip and what work it takes: as many
// milliseconds as the byte says.
func serve(conn net.Conn, trip time.Duration) {
	b := make([]byte, 1)
	for {
		if _, err := io.ReadFull(conn, b); err != nil {
			return
		}
		time.Sleep(trip + time.Duration(b[0])*time.Millisecond)
		if _, err := conn.Write(b); err != nil {
			return
		}
	}
}

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, distant := net.Pipe()
		go serve(distant, 20*time.Millisecond)
		c := flow.NewClock()
		ctx := c.Counting(context.Background())
		var d roundtrip.Distance
		conn := roundtrip.NewConn(context.Background(), near, &d)
		ask := func(work byte, before time.Duration) {
			t.Helper()
			_, err := conn.Write([]byte{work})
			time.Sleep(before)
			_, err2 := conn.Read(make([]byte, 8))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
		}
		ask(3, 0)
		ask(0, 0)
		roundtrip.LoggedIn(conn)
		if got := d.RoundTrip(); got != 20*time.Millisecond {
			t.Errorf("the distance is %s", got)
		}
		if got := c.Snapshot(); got.RoundTrips != 0 {
			t.Errorf("the login counted: %+v", got)
		}
		roundtrip.Bind(ctx, conn)
		c.Enter(flow.IO)
		ask(0, 0)
		ask(200, 0)                 // the server's work is no distance
		ask(0, 18*time.Millisecond) // the answer was nearly here
		ask(0, 5*time.Millisecond)  // a part of it was waited for
		if got := c.Snapshot(); got.RoundTrips != 3 || got.RoundTripTime != 55*time.Millisecond {
			t.Errorf("%+v", got)
		}
		near.Close()
		distant.Close()
	})
}

// The shortest recent turn counts: a route that has become longer is noticed within two windows.
func TestTheDistanceChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d roundtrip.Distance
		d.Note(5 * time.Millisecond)
		d.Note(9 * time.Millisecond)
		if d.RoundTrip() != 5*time.Millisecond {
			t.Errorf("%s", d.RoundTrip())
		}
		for range 70 {
			time.Sleep(time.Second)
			d.Note(20 * time.Millisecond)
		}
		if d.RoundTrip() != 20*time.Millisecond {
			t.Errorf("after a minute: %s", d.RoundTrip())
		}
		d.Note(time.Millisecond)
		if d.RoundTrip() != time.Millisecond {
			t.Errorf("a shorter one counts at once: %s", d.RoundTrip())
		}
	})
}
