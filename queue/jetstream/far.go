package jetstream

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidemarkdb/tidemark"
)

// What a Store wants from a Server, followed by the name of a queue.
const (
	wantQueue  = "queue "
	wantRemove = "remove queue "
)

// A far opens the connections of a store to a Server in another process, and remembers why there is
// none.
type far struct {
	dial func(ctx context.Context, want string) (net.Conn, error)
	want string

	mu  sync.Mutex
	ctx context.Context // ends the first attempt
	err error           // of the last attempt
}

// connect begins; the client reconnects by itself.
func (f *far) connect(ctx context.Context) (*nats.Conn, error) {
	f.ctx = ctx
	conn, err := nats.Connect("nats://relay", nats.Name("tidemark"), nats.SetCustomDialer(f), nats.SkipHostLookup(),
		nats.MaxReconnects(-1), nats.ReconnectWait(500*time.Millisecond), nats.Timeout(10*time.Second),
		nats.PingInterval(10*time.Second), nats.MaxPingsOutstanding(2),
		nats.ReconnectBufSize(-1), // the store itself sends again what has no answer
	)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx = context.Background(); f.err != nil { // whose attempts have a deadline
		return nil, f.err
	}
	return conn, err
}

// Dial implements nats.CustomDialer. The addresses are those of nobody.
func (f *far) Dial(string, string) (net.Conn, error) {
	f.mu.Lock()
	ctx := f.ctx
	f.mu.Unlock()
	c, err := f.dial(ctx, f.want)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	return c, err
}

// last returns the error of the last attempt to connect; nil if that succeeded, or f is nil.
func (f *far) last() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// final reports whether trying again is of no use.
func final(err error) bool {
	kind := tidemark.KindOf(err)
	return err != nil && kind != tidemark.Unreachable && kind != tidemark.Transient
}
