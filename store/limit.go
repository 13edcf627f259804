package store

import (
	"context"
	"io"
	"sync"
	"time"
)

// Limit gives s with a bound on its rate: what is read and written through it, and through others with
// the same pace, comes to no more than so many bytes a second, a fifth of a second's worth of them at once.
func Limit(s Store, p *Pace) Store { return &limited{Store: s, b: p} }

// A Pace says when the next bytes may pass: when all before them have, at the rate. A burst
// is what has not been used of the last fifth of a second.
type Pace struct {
	rate float64

	mu   sync.Mutex
	free time.Time // when the bytes that have passed are paid for
}

const burst = time.Second / 5

// NewPace makes one of so many bytes a second, or nothing, which does not bound, where that is 0.
func NewPace(bytesPerSecond int64) *Pace {
	if bytesPerSecond <= 0 {
		return nil
	}
	return &Pace{rate: float64(bytesPerSecond)}
}

// take waits until n bytes may pass.
func (b *Pace) take(ctx context.Context, n int) error {
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
	b *Pace
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
	b   *Pace
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
	b   *Pace
}

func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if werr := r.b.take(r.ctx, n); werr != nil && (err == nil || err == io.EOF) {
		return n, werr
	}
	return n, err
}
