package flow

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrClosed is what Put returns on a closed Buffer.
var ErrClosed = errors.New("flow: put into a closed buffer")

// A Buffer hands values from the workers of one stage to those of the next. It is bounded by a
// number of values and a number of bytes; a value larger than the limit is accepted once the buffer
// is empty, and stays alone in it.
//
// Put gives the value away: the sender never touches it again. Values come out in the order in
// which they went in; waiting senders are served in order, so small values cannot starve a large
// one. Waiting receivers are served in order too. Any number of workers may put and take; only the
// last writer closes.
type Buffer[T any] struct {
	maxItems int
	maxBytes int64
	size     func(T) int64

	mu      sync.Mutex
	ring    []item[T] // ring[(head+i)%len(ring)] for i < n
	head, n int
	bytes   int64
	closed  bool
	putters []*putter[T]
	takers  []*taker[T]
}

// An item is a value in the buffer, with its size on arrival.
type item[T any] struct {
	v    T
	size int64
}

// A putter is a waiting sender; done is closed once its outcome is decided.
type putter[T any] struct {
	v    T
	size int64
	done chan struct{}
	err  error
}

// A taker is a waiting receiver; done is closed once its outcome is decided.
type taker[T any] struct {
	v    T
	ok   bool
	done chan struct{}
}

// NewBuffer returns a buffer of at most items values (at least one) that together have at most
// bytes bytes as measured by size. With bytes <= 0 or a nil size only their number is bounded.
func NewBuffer[T any](items int, bytes int64, size func(T) int64) *Buffer[T] {
	if size == nil || bytes <= 0 {
		size, bytes = func(T) int64 { return 0 }, 1
	}
	items = max(items, 1)
	return &Buffer[T]{maxItems: items, maxBytes: bytes, size: size, ring: make([]item[T], items)}
}

// Put appends v to the buffer and waits, in state WaitBuffer, while the buffer is full; it touches
// the clock only then. On error, which is ctx's or ErrClosed, v still belongs to the caller.
func (b *Buffer[T]) Put(ctx context.Context, c *Clock, v T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	size := b.size(v)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	if len(b.putters) == 0 && b.fits(size) {
		b.push(v, size)
		b.mu.Unlock()
		return nil
	}
	p := &putter[T]{v: v, size: size, done: make(chan struct{})}
	b.putters = append(b.putters, p)
	b.mu.Unlock()

	defer c.Enter(c.Enter(WaitBuffer))
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.putters, p); i >= 0 {
		b.putters = slices.Delete(b.putters, i, i+1)
		b.admit() // a large value that gave up may have blocked others that fit
		return ctx.Err()
	}
	return p.err // decided meanwhile
}

// Take takes the oldest value, and waits, in state WaitWork, while there is none; it touches the
// clock only then. ok is false once the buffer is closed and empty. err is ctx's error.
func (b *Buffer[T]) Take(ctx context.Context, c *Clock) (v T, ok bool, err error) {
	return b.TakeAs(ctx, c, WaitWork)
}

// TakeAs is Take that waits in another state. A pool of empty buffers is a Buffer too, and a worker
// that takes one of them waits in WaitBuffer: the workers that empty them are slower.
func (b *Buffer[T]) TakeAs(ctx context.Context, c *Clock, wait State) (v T, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return v, false, err
	}
	b.mu.Lock()
	if b.n > 0 {
		v = b.pop()
		b.admit()
		b.mu.Unlock()
		return v, true, nil
	}
	if b.closed {
		b.mu.Unlock()
		return v, false, nil
	}
	t := &taker[T]{done: make(chan struct{})}
	b.takers = append(b.takers, t)
	b.mu.Unlock()

	defer c.Enter(c.Enter(wait))
	select {
	case <-t.done:
		return t.v, t.ok, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.takers, t); i >= 0 {
		b.takers = slices.Delete(b.takers, i, i+1)
		return v, false, ctx.Err()
	}
	return t.v, t.ok, nil // received a value meanwhile, which must not be lost
}

// TryTake takes the oldest value if there is one, and never waits.
func (b *Buffer[T]) TryTake() (v T, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n == 0 {
		return v, false
	}
	v = b.pop()
	b.admit()
	return v, true
}

// Close marks the end of the values. Only the last writer calls it. Values in the buffer can still
// be taken. Senders that still wait (the last writer should have waited for them) get ErrClosed.
// Closing twice does nothing.
func (b *Buffer[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, t := range b.takers { // they wait, so the buffer is empty
		close(t.done)
	}
	for _, p := range b.putters {
		p.err = ErrClosed
		close(p.done)
	}
	b.takers, b.putters = nil, nil
}

// Drain removes the values that remain after a failure and passes each to f, which may be nil.
func (b *Buffer[T]) Drain(f func(T)) {
	for {
		b.mu.Lock()
		if b.n == 0 {
			b.mu.Unlock()
			return
		}
		v := b.pop()
		b.admit()
		b.mu.Unlock()
		if f != nil {
			f(v)
		}
	}
}

// Len returns the number of values in the buffer.
func (b *Buffer[T]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// Bytes returns the number of bytes in the buffer.
func (b *Buffer[T]) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

func (b *Buffer[T]) fits(size int64) bool {
	return b.n == 0 || b.n < b.maxItems && b.bytes+size <= b.maxBytes
}

// push appends v, or hands it directly to the receiver that has waited longest.
func (b *Buffer[T]) push(v T, size int64) {
	if len(b.takers) > 0 {
		t := b.takers[0]
		b.takers = slices.Delete(b.takers, 0, 1)
		t.v, t.ok = v, true
		close(t.done)
		return
	}
	b.ring[(b.head+b.n)%len(b.ring)] = item[T]{v, size}
	b.n++
	b.bytes += size
}

func (b *Buffer[T]) pop() T {
	out := b.ring[b.head]
	b.ring[b.head] = item[T]{} // do not keep the taken value alive
	b.head = (b.head + 1) % len(b.ring)
	b.n--
	b.bytes -= out.size
	return out.v
}

// admit lets waiting senders put their values, oldest first, while there is room.
func (b *Buffer[T]) admit() {
	for len(b.putters) > 0 && b.fits(b.putters[0].size) {
		p := b.putters[0]
		b.putters = slices.Delete(b.putters, 0, 1)
		b.push(p.v, p.size)
		close(p.done)
	}
}
