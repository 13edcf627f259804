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
	Attempts int           // in all; 0 means 5
	Pause    time.Duration // before the second, doubled before each other, up to 10 s; 0 means 200 ms
	// Keep is how many bytes of an object that is written are kept, so that it can be written again;
	// of a larger one a failed write is final. 0 means 4 MB.
	Keep int
}

const keptMost = 4 << 20

// Retry gives s, trying again what failed with Kind Transient. A Read goes on where it was cut.
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

// try does something until it succeeds, fails for good, or has failed often enough.
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

// gaveUp says of an error that has no other hint how often it has come.
func gaveUp(err error, n int) error {
	var own *tidemark.Error
	if n == 1 || !errors.As(err, &own) || own.Hint != "" {
		return err
	}
	last := *own
	last.Hint = fmt.Sprintf("It was tried %d times: look at the place and the way there, then run it again.", n)
	return &last
}

// passing says of an error whether it may not come again.
func passing(err error) bool { return tidemark.KindOf(err) == tidemark.Transient }

func (s *retried) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	o := &retriedObject{s: s, ctx: ctx, name: name, mode: mode}
	if err := s.try(ctx, o.begin); err != nil {
		return nil, err
	}
	return o, nil
}

// retriedObject keeps what was written while that is little.
type retriedObject struct {
	s    *retried
	ctx  context.Context
	name string
	mode Mode
	to   Object
	kept []byte
	lost bool // there was too much to keep
	over bool
}

func (o *retriedObject) begin() (err error) {
	o.to, err = o.s.Store.Create(o.ctx, o.name, o.mode)
	return err
}

// again writes what was written before into a new object.
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

// there says whether the object is there with the bytes that were written.
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

// gone is an object that could not be begun again.
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
			return n, nil // an error comes again
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

// List tries again what failed before anything was listed; after that, names that were given
// would come twice, so they are remembered.
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

// Delete takes it for done when a second attempt finds nothing.
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
