package store

import (
	"context"
	"io"
	"iter"
	"sync/atomic"
	"time"
)

// A Meter counts the traffic of the Stores that use it.
type Meter struct {
	Read, Written            atomic.Int64 // bytes
	Calls, Errors            atomic.Int64
	commits                  atomic.Int64
	reading, writing, commit atomic.Int64 // nanoseconds
}

// Spent is where the time of calls to a Store went; that of concurrent calls adds up.
type Spent struct {
	Calls      int64         `json:"calls"`
	Commits    int64         `json:"commits"`
	Reading    time.Duration `json:"reading_ns"`
	Writing    time.Duration `json:"writing_ns"`
	Committing time.Duration `json:"committing_ns"` // syncs of files and their renames, ends of uploads
}

// Spent returns it until now; a nil Meter has none.
func (m *Meter) Spent() Spent {
	if m == nil {
		return Spent{}
	}
	return Spent{m.Calls.Load(), m.commits.Load(), time.Duration(m.reading.Load()), time.Duration(m.writing.Load()), time.Duration(m.commit.Load())}
}

// Since returns what was spent after an earlier moment.
func (s Spent) Since(o Spent) Spent {
	return Spent{s.Calls - o.Calls, s.Commits - o.Commits, s.Reading - o.Reading, s.Writing - o.Writing, s.Committing - o.Committing}
}

// MeterOf returns the Meter that counts the traffic of s; nil if none does.
func MeterOf(s Store) *Meter {
	for {
		if w, ok := s.(*watched); ok && w.m != nil {
			return w.m
		}
		u, ok := s.(interface{ Unwrap() Store })
		if !ok {
			return nil
		}
		s = u.Unwrap()
	}
}

// note counts a call that began at begun, and read or wrote n bytes.
func (m *Meter) note(begun time.Time, writes bool, n int, err error) {
	if m == nil {
		return
	}
	took, bytes := &m.reading, &m.Read
	if writes {
		took, bytes = &m.writing, &m.Written
	}
	m.Calls.Add(1)
	took.Add(int64(time.Since(begun)))
	bytes.Add(int64(n))
	if err != nil && err != io.EOF {
		m.Errors.Add(1)
	}
}

// Watch returns s with its traffic counted and its rate limited. Either may be nil; waiting for the
// rate is not counted.
func Watch(s Store, m *Meter, p *Pace) Store { return &watched{s, m, p} }

type watched struct {
	Store
	m *Meter
	p *Pace
}

func (s *watched) Unwrap() Store { return s.Store }

func (s *watched) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	begun := time.Now()
	o, err := s.Store.Create(ctx, name, mode)
	s.m.note(begun, true, 0, err)
	if err != nil {
		return nil, err
	}
	return &watchedObject{o, ctx, s}, nil
}

type watchedObject struct {
	Object
	ctx context.Context
	s   *watched
}

func (o *watchedObject) Write(p []byte) (int, error) {
	if err := o.s.p.wait(o.ctx, len(p)); err != nil {
		return 0, err
	}
	begun := time.Now()
	n, err := o.Object.Write(p)
	o.s.m.note(begun, true, n, err)
	return n, err
}

func (o *watchedObject) Commit() error {
	begun := time.Now()
	err := o.Object.Commit()
	if m := o.s.m; m != nil {
		m.Calls.Add(1)
		m.commits.Add(1)
		m.commit.Add(int64(time.Since(begun)))
		if err != nil {
			m.Errors.Add(1)
		}
	}
	return err
}

func (s *watched) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	begun := time.Now()
	r, err := s.Store.Read(ctx, name, offset, length)
	s.m.note(begun, false, 0, err)
	if err != nil {
		return nil, err
	}
	return &watchedReader{r, ctx, s}, nil
}

type watchedReader struct {
	io.ReadCloser
	ctx context.Context
	s   *watched
}

func (r *watchedReader) Read(p []byte) (int, error) {
	begun := time.Now()
	n, err := r.ReadCloser.Read(p)
	r.s.m.note(begun, false, n, err)
	if werr := r.s.p.wait(r.ctx, n); werr != nil && (err == nil || err == io.EOF) {
		return n, werr
	}
	return n, err
}

func (s *watched) Stat(ctx context.Context, name string) (Info, error) {
	begun := time.Now()
	i, err := s.Store.Stat(ctx, name)
	s.m.note(begun, false, 0, err)
	return i, err
}

func (s *watched) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	if s.m != nil {
		s.m.Calls.Add(1)
	}
	return s.Store.List(ctx, prefix)
}

func (s *watched) Delete(ctx context.Context, name string) error {
	begun := time.Now()
	err := s.Store.Delete(ctx, name)
	s.m.note(begun, true, 0, err)
	return err
}
