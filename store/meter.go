package store

import (
	"context"
	"io"
	"iter"
	"sync/atomic"
	"time"
)

// A Meter counts what passes through the Stores that it wraps.
type Meter struct {
	Read, Written  atomic.Int64 // bytes
	Calls, Errors  atomic.Int64
	reading, write atomic.Int64 // nanoseconds
}

// Times gives how long calls have taken that read, and that wrote; those at once add up.
func (m *Meter) Times() (reading, writing time.Duration) {
	return time.Duration(m.reading.Load()), time.Duration(m.write.Load())
}

// Wrap gives s with a count of what passes through it.
func (m *Meter) Wrap(s Store) Store { return &metered{Store: s, m: m} }

// note counts a call that began then.
func (m *Meter) note(begun time.Time, in *atomic.Int64, err error) {
	m.Calls.Add(1)
	in.Add(int64(time.Since(begun)))
	if err != nil && err != io.EOF {
		m.Errors.Add(1)
	}
}

type metered struct {
	Store
	m *Meter
}

func (s *metered) Unwrap() Store { return s.Store }

func (s *metered) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	begun := time.Now()
	o, err := s.Store.Create(ctx, name, mode)
	s.m.note(begun, &s.m.write, err)
	if err != nil {
		return nil, err
	}
	return &meteredObject{o, s.m}, nil
}

type meteredObject struct {
	Object
	m *Meter
}

func (o *meteredObject) Write(p []byte) (int, error) {
	begun := time.Now()
	n, err := o.Object.Write(p)
	o.m.note(begun, &o.m.write, err)
	o.m.Written.Add(int64(n))
	return n, err
}

func (o *meteredObject) Commit() error {
	begun := time.Now()
	err := o.Object.Commit()
	o.m.note(begun, &o.m.write, err)
	return err
}

func (s *metered) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	begun := time.Now()
	r, err := s.Store.Read(ctx, name, offset, length)
	s.m.note(begun, &s.m.reading, err)
	if err != nil {
		return nil, err
	}
	return &meteredReader{r, s.m}, nil
}

type meteredReader struct {
	io.ReadCloser
	m *Meter
}

func (r *meteredReader) Read(p []byte) (int, error) {
	begun := time.Now()
	n, err := r.ReadCloser.Read(p)
	r.m.note(begun, &r.m.reading, err)
	r.m.Read.Add(int64(n))
	return n, err
}

func (s *metered) Stat(ctx context.Context, name string) (Info, error) {
	begun := time.Now()
	i, err := s.Store.Stat(ctx, name)
	s.m.note(begun, &s.m.reading, err)
	return i, err
}

func (s *metered) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	s.m.Calls.Add(1)
	return s.Store.List(ctx, prefix)
}

func (s *metered) Delete(ctx context.Context, name string) error {
	begun := time.Now()
	err := s.Store.Delete(ctx, name)
	s.m.note(begun, &s.m.write, err)
	return err
}
