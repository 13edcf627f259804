package store

import (
	"context"
	"io"
	"sync"
	"time"
)

// Limit gives s with a bound on its rate: what is read and written through it comes to no more
// than so many bytes a second, a fifth of a second's worth of them at once.
func Limit(s Store, bytesPerSecond int64) Store {
	return &limited{Store: s, b: &pace{rate: float64(bytesPerSecond)}}
}

// A pace says when the next bytes may pass: when all before them have, at the rate. A burst
// is what has not been used of the last fifth of a second.
type pace struct {
	rate float64

	mu   sync.Mutex
	free time.Time // when the bytes that have passed are paid for
}

const burst = time.Second / 5

// take waits until n bytes may pass.
func (b *pace) take(ctx context.Context, n int) error {
	now := time.Now()
	b.mu.Lock()
	if earliest := now.Add(-burst); b.free.Before(earliest) {
		b.free = earliest
	}
	b.free = b.free.Add(time.Duration(float64(n) / b.rate * float64(time.Second)))
	wait := b.free.Sub(now)
	b.mu.Unlock()
	if wait <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

type limited struct {
	Store
	b *pace
}

func (s *limited) Unwrap() Store { return s.Store }

func (s *limited) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	o, err := s.Store.Create(ctx, name, mode)
	if err != nil {
		return nil, err
	}
	return &limitedObject{o, ctx, s.b}, nil
}

type limitedObject struct {
	Object
	ctx context.Context
	b   *pace
}

func (o *limitedObject) Write(p []byte) (int, error) {
	if err := o.b.take(o.ctx, len(p)); err != nil {
		return 0, err
	}
	return o.Object.Write(p)
}

func (s *limited) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := s.Store.Read(ctx, name, offset, length)
	if err != nil {
		return nil, err
	}
	return &limitedReader{r, ctx, s.b}, nil
}

type limitedReader struct {
	io.ReadCloser
	ctx context.Context
	b   *pace
}

func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if werr := r.b.take(r.ctx, n); werr != nil && (err == nil || err == io.EOF) {
		return n, werr
	}
	return n, err
}
