package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// RetryOptions of Retry. The zero value is good.
type RetryOptions struct {
	Attempts int           // total; 0 means 5
	Pause    time.Duration // before the second attempt, then doubled up to 10 s; 0 means 200 ms
	// Keep is how many bytes of an object being written are kept, so that it can be written again;
	// for a larger one, a failed write is final. 0 means 4 MB.
	Keep int
}

const keptMost = 4 << 20

// Retry is s with retries of what fails with Kind Transient. A Read resumes where it broke off.
func Retry(s Store, opt RetryOptions) Store {
	if opt.Attempts <= 0 {
		opt.Attempts = 5
	}
	if opt.Pause <= 0 {
		opt.Pause = 200 * time.Millisecond
	}
	if opt.Keep <= 0 {
		opt.Keep = keptMost
	}
	return &retried{Store: s, opt: opt}
}

type retried struct {
	Store
	opt RetryOptions
}

func (s *retried) Unwrap() Store { return s.Store }

const longestPause = 10 * time.Second

// try retries do until it succeeds, fails permanently, or has failed often enough.
func (s *retried) try(ctx context.Context, do func() error) error {
	pause := s.opt.Pause
	for n := 1; ; n++ {
		err := do()
		if err == nil || !passing(err) {
			return err
		}
		if n >= s.opt.Attempts {
			return gaveUp(err, n)
		}
		if flow.Sleep(ctx, pause) != nil {
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

// gaveUp adds the number of attempts to an error without a hint.
func gaveUp(err error, n int) error {
	var own *tidemark.Error
	if n == 1 || !errors.As(err, &own) || own.Hint != "" {
		return err
	}
	last := *own
	last.Hint = fmt.Sprintf("Check the place and the network (%d attempts failed), then run it again.", n)
	return &last
}

// passing reports whether an error may be transient.
func passing(err error) bool { return tidemark.KindOf(err) == tidemark.Transient }

func (s *retried) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	o := &retriedObject{s: s, ctx: ctx, name: name, mode: mode}
	if err := s.try(ctx, o.begin); err != nil {
		return nil, err
	}
	return o, nil
}

// retriedObject keeps what was written as long as it is small.
type retriedObject struct {
	s    *retried
	ctx  context.Context
	name string
	mode Mode
	to   Object
	kept []byte
	lost bool // too much was written to keep it
	over bool
}

func (o *retriedObject) begin() (err error) {
	o.to, err = o.s.Store.Create(o.ctx, o.name, o.mode)
	return err
}

// again writes the kept bytes to a new object.
func (o *retriedObject) again() error {
	o.to.Abort()
	if err := o.begin(); err != nil {
		o.to = gone{err}
		return err
	}
	_, err := o.to.Write(o.kept)
	return err
}

func (o *retriedObject) Write(p []byte) (int, error) {
	if o.lost || len(o.kept)+len(p) > o.s.opt.Keep {
		o.lost, o.kept = true, nil
		return o.to.Write(p)
	}
	o.kept = append(o.kept, p...)
	first := true
	err := o.s.try(o.ctx, func() error {
		if first {
			first = false
			_, err := o.to.Write(p)
			return err
		}
		return o.again()
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *retriedObject) Commit() error {
	o.over = true
	if o.lost {
		return o.to.Commit()
	}
	first := true
	err := o.s.try(o.ctx, func() error {
		if first {
			first = false
			return o.to.Commit()
		}
		err := o.again()
		if err == nil {
			err = o.to.Commit()
		}
		if tidemark.KindOf(err) == tidemark.Exists && o.there() {
			return nil // the first attempt's answer was lost, not its work
		}
		return err
	})
	o.kept = nil
	return err
}

// there reports whether the object exists with the bytes that were written.
func (o *retriedObject) there() bool {
	r, err := o.s.Store.Read(o.ctx, o.name, 0, int64(len(o.kept))+1)
	if err != nil {
		return false
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return err == nil && bytes.Equal(b, o.kept)
}

func (o *retriedObject) Abort() {
	if !o.over {
		o.over = true
		o.to.Abort()
	}
}

// gone is an object whose next attempt could not begin.
type gone struct{ err error }

func (g gone) Write([]byte) (int, error) { return 0, g.err }
func (g gone) Commit() error             { return g.err }
func (g gone) Abort()                    {}

func (s *retried) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r := &retriedReader{s: s, ctx: ctx, name: name, at: offset, left: length}
	if err := s.try(ctx, r.open); err != nil {
		return nil, err
	}
	return r, nil
}

type retriedReader struct {
	s        *retried
	ctx      context.Context
	name     string
	at, left int64
	from     io.ReadCloser
	failures int
}

func (r *retriedReader) open() (err error) {
	r.from, err = r.s.Store.Read(r.ctx, r.name, r.at, r.left)
	return err
}

func (r *retriedReader) Read(p []byte) (int, error) {
	for {
		n, err := r.from.Read(p)
		r.at += int64(n)
		if r.left > 0 {
			r.left -= int64(n)
		}
		if n > 0 && err != io.EOF {
			r.failures = 0
			return n, nil // the next read returns an error again
		}
		if err == nil || err == io.EOF || !passing(err) || r.failures+1 >= r.s.opt.Attempts {
			return n, err
		}
		r.failures++
		_ = r.from.Close() // it is broken
		if err := r.s.try(r.ctx, r.open); err != nil {
			r.from = io.NopCloser(failing{err})
			return 0, err
		}
	}
}

func (r *retriedReader) Close() error { return r.from.Close() }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (s *retried) Stat(ctx context.Context, name string) (i Info, err error) {
	err = s.try(ctx, func() error {
		i, err = s.Store.Stat(ctx, name)
		return err
	})
	return i, err
}

// List retries whole listings until the first name was returned; after that, names would be
// repeated, so it remembers them.
func (s *retried) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		given := map[string]bool{}
		stopped := false
		err := s.try(ctx, func() error {
			for i, err := range s.Store.List(ctx, prefix) {
				if err != nil {
					return err
				}
				if given[i.Name] {
					continue
				}
				given[i.Name] = true
				if !yield(i, nil) {
					stopped = true
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(Info{}, err)
		}
	}
}

// Delete treats NotFound on a retry as success.
func (s *retried) Delete(ctx context.Context, name string) error {
	first := true
	return s.try(ctx, func() error {
		err := s.Store.Delete(ctx, name)
		if !first && tidemark.KindOf(err) == tidemark.NotFound {
			return nil
		}
		first = false
		return err
	})
}
