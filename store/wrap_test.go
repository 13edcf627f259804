package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// faulty fails with Kind Transient after a number of calls. It wraps a real Store.
type faulty struct {
	Store
	until int // calls that succeed
	fails int // calls that fail after these
}

func (s *faulty) fault() error {
	if s.until--; s.until >= 0 {
		return nil
	}
	if s.fails--; s.fails < 0 {
		return nil
	}
	return &tidemark.Error{Op: "write", Kind: tidemark.Transient, Err: errors.New("connection reset")}
}

func (s *faulty) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	if err := s.fault(); err != nil {
		return nil, err
	}
	o, err := s.Store.Create(ctx, name, mode)
	return &faultyObject{o, s}, err
}

type faultyObject struct {
	Object
	s *faulty
}

func (o *faultyObject) Write(p []byte) (int, error) {
	if err := o.s.fault(); err != nil {
		n, _ := o.Object.Write(p[:len(p)/2])
		return n, err
	}
	return o.Object.Write(p)
}

// Commit fails, alternately, before and after the object was made.
func (o *faultyObject) Commit() error {
	if err := o.s.fault(); err != nil {
		o.Object.Abort()
		return err
	}
	if err := o.Object.Commit(); err != nil {
		return err
	}
	return o.s.fault()
}

func (s *faulty) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := s.fault(); err != nil {
		return nil, err
	}
	r, err := s.Store.Read(ctx, name, offset, length)
	return &faultyReader{r, s}, err
}

type faultyReader struct {
	io.ReadCloser
	s *faulty
}

func (r *faultyReader) Read(p []byte) (int, error) {
	if err := r.s.fault(); err != nil {
		return 0, err
	}
	return r.ReadCloser.Read(p[:min(len(p), 5)])
}

func (s *faulty) Stat(ctx context.Context, name string) (Info, error) {
	if err := s.fault(); err != nil {
		return Info{}, err
	}
	return s.Store.Stat(ctx, name)
}

func (s *faulty) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for i, err := range s.Store.List(ctx, prefix) {
			if ferr := s.fault(); ferr != nil {
				yield(Info{}, ferr)
				return
			}
			if !yield(i, err) {
				return
			}
		}
		if err := s.fault(); err != nil {
			yield(Info{}, err)
		}
	}
}

func (s *faulty) Delete(ctx context.Context, name string) error {
	if err := s.fault(); err != nil {
		return err
	}
	if err := s.Store.Delete(ctx, name); err != nil {
		return err
	}
	return s.fault()
}

// Whichever call fails once or twice, Retry hides it; with three attempts, three failures are not
// hidden.
func TestRetry(t *testing.T) {
	text := strings.Repeat("0123456789", 10)
	work := func(s Store) error {
		ctx := context.Background()
		for _, name := range []string{"a/1", "a/2"} {
			o, err := s.Create(ctx, name, New)
			if err != nil {
				return err
			}
			defer o.Abort()
			for part := range strings.SplitAfterSeq(text, "4") {
				if _, err := io.WriteString(o, part); err != nil {
					return err
				}
			}
			if err := o.Commit(); err != nil {
				return err
			}
		}
		r, err := s.Read(ctx, "a/1", 3, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if string(b) != text[3:] {
			t.Fatalf("%q was read", b)
		}
		n := 0
		for _, err := range s.List(ctx, "a/") {
			if err != nil {
				return err
			}
			n++
		}
		if n != 2 {
			t.Fatalf("%d objects are listed", n)
		}
		if _, err := s.Stat(ctx, "a/2"); err != nil {
			return err
		}
		return s.Delete(ctx, "a/2")
	}
	synctest.Test(t, func(t *testing.T) {
		whole := 0
		for at := 0; whole == 0; at++ {
			for fails := 1; fails <= 3; fails++ {
				inner, err := newFile(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				f := &faulty{Store: inner, until: at, fails: fails}
				err = work(Retry(f, RetryOptions{Attempts: 3, Pause: time.Second}))
				switch {
				case f.until >= 0:
					whole++ // nothing failed: there are no further calls
					fallthrough
				case fails < 3:
					if err != nil {
						t.Errorf("call %d failed %d times: %v", at, fails, err)
					}
				case tidemark.KindOf(err) != tidemark.Transient && f.fails < 0 && err != nil:
					t.Errorf("call %d failed %d times: %v", at, fails, err)
				}
			}
		}
	})
}

// Permanent errors are not retried.
func TestRetryNotOfFinalErrors(t *testing.T) {
	var m Meter
	s, err := Open(t.Context(), t.TempDir(), Options{Meter: &m})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat(t.Context(), "x"); tidemark.KindOf(err) != tidemark.NotFound {
		t.Fatal(err)
	}
	if n := m.Calls.Load(); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := newFile(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		s := Watch(inner, nil, NewPace(1000))
		begun := time.Now()
		o, err := s.Create(t.Context(), "x", New)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if _, err := o.Write(make([]byte, 50)); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Commit(); err != nil {
			t.Fatal(err)
		}
		r, err := s.Read(t.Context(), "x", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if n, err := io.Copy(io.Discard, r); n != 2000 || err != nil {
			t.Fatal(n, err)
		}
		// 4000 bytes at 1000 per second, less the burst of a fifth of a second.
		if took := time.Since(begun); took != 3800*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err = s.Create(ctx, "y", New)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Write(make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait was not cut: %v", err)
		}
		o.Abort()
	})
}

func TestMeter(t *testing.T) {
	var m Meter
	inner, err := newFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := Watch(inner, &m, nil)
	o, err := s.Create(t.Context(), "x", New)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Write(make([]byte, 1234)); err != nil {
		t.Fatal(err)
	}
	if err := o.Commit(); err != nil {
		t.Fatal(err)
	}
	r, err := s.Read(t.Context(), "x", 34, -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := s.Stat(t.Context(), "y"); err == nil {
		t.Fatal("y is there")
	}
	spent := MeterOf(s).Spent()
	if m.Written.Load() != 1234 || m.Read.Load() != 1200 || m.Errors.Load() != 1 || m.Calls.Load() < 6 || spent.Reading <= 0 || spent.Writing <= 0 || spent.Committing <= 0 || spent.Commits != 1 {
		t.Errorf("%d written, %d read, %d errors of %d calls, %+v", m.Written.Load(), m.Read.Load(), m.Errors.Load(), m.Calls.Load(), spent)
	}
}

// TestRetryKnowsItsOwnObject: an object that exists when a write is tried again is that of the
// first attempt only if it has the same bytes.
func TestRetryKnowsItsOwnObject(t *testing.T) {
	for other, want := range map[string]bool{"ours": true, "their": false, "theirs": false, "": false} {
		inner, err := newFile(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		put := func(s Store, text string, meanwhile func()) error {
			o, err := s.Create(t.Context(), "x", New)
			if err == nil {
				_, err = o.Write([]byte(text))
			}
			if err != nil {
				return err
			}
			meanwhile()
			return o.Commit()
		}
		err = put(Retry(&faulty{Store: inner, until: 2, fails: 1}, RetryOptions{Pause: time.Millisecond}), "ours", func() {
			if err := put(inner, other, func() {}); err != nil {
				t.Fatal(err)
			}
		})
		if (err == nil) != want || err != nil && tidemark.KindOf(err) != tidemark.Exists {
			t.Errorf("beside %q: %v", other, err)
		}
	}
}
