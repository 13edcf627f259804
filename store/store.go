package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A Store is a place with objects. Their names consist of parts separated by slashes; CheckName
// defines which are allowed. All methods may be called concurrently.
//
// Errors are of type tidemark.Error: NotFound, Exists, Full, Forbidden, Denied, Unreachable, and
// Transient if a retry may succeed. They contain no secrets.
type Store interface {
	// Create begins an object, which is invisible until its Commit. With New, Commit fails (Kind
	// Exists) if the name exists, and Create may fail so already; with Replace the object
	// atomically replaces any existing one. ctx applies to the whole write.
	Create(ctx context.Context, name string, mode Mode) (Object, error)
	// Read reads length bytes from offset on, or up to the end if length is negative. A range
	// beyond the end is truncated, without an error. Kind NotFound.
	Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// Stat returns what is known about one object. Kind NotFound.
	Stat(ctx context.Context, name string) (Info, error)
	// List yields the objects whose names begin with prefix, in no order. Objects created or
	// deleted meanwhile may or may not be included.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Delete removes an object, durably. Kind NotFound.
	Delete(ctx context.Context, name string) error
	// String returns the place's URL, without secrets.
	String() string
	// Close closes connections. No method may be called after it.
	Close() error
}

// Mode defines what happens to an existing object of the same name.
type Mode uint8

const (
	New     Mode = iota // fail
	Replace             // replace it
)

// An Object is an object being written, by one goroutine.
type Object interface {
	io.Writer
	// Commit makes the object appear. When it returns nil, the object survives a power failure, as
	// far as the place guarantees that; after an error nothing is left of it, unless the place
	// could not report whether it appeared.
	Commit() error
	// Abort discards it. After Commit it does nothing, so that it can be deferred.
	Abort()
}

// Info is what a Store knows about an object without reading it.
type Info struct {
	Name string
	Size int64
	Time time.Time // of the last change, by the place's own clock
}

// A Sweeper is a Store in which killed writers can leave files that List does not show.
type Sweeper interface {
	// Sweep removes those not written to since before, a time of the place's clock, and returns
	// their names.
	Sweep(ctx context.Context, before time.Time) ([]string, error)
}

// Sweep sweeps s, if it is a Sweeper.
func Sweep(ctx context.Context, s Store, before time.Time) ([]string, error) {
	for {
		if w, ok := s.(Sweeper); ok {
			return w.Sweep(ctx, before)
		}
		u, ok := s.(interface{ Unwrap() Store })
		if !ok {
			return nil, nil
		}
		s = u.Unwrap()
	}
}

// WriterMemory returns about how many bytes of memory an object uses while it is written to s.
func WriterMemory(s Store) int64 {
	for {
		if w, ok := s.(interface{ writerMemory() int64 }); ok {
			return w.writerMemory()
		}
		u, ok := s.(interface{ Unwrap() Store })
		if !ok {
			return 16 << 20
		}
		s = u.Unwrap()
	}
}

// A keptError is a temporary refusal: retention will expire.
type keptError struct{ error }

func (k keptError) Unwrap() error { return k.error }

const keptHint = "Try again once its object lock, hold or retention rule expires."

// Kept reports whether an error of Delete means that the place retains the object for now: by an
// object lock, a hold or a retention policy, which the place reported.
func Kept(err error) bool { return errors.As(err, new(keptError)) }

// CheckName rejects names that some place cannot store, or that have a special meaning there: parts
// consist of letters, digits and ._-, begin with a letter or digit, and have at most 100 bytes.
// Kind Bug, since we choose the names.
func CheckName(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		ok := part != "" && len(part) <= 100 && !strings.ContainsRune("._-", rune(part[0])) && !strings.HasSuffix(part, ".")
		for _, c := range []byte(part) {
			ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
		}
		if !ok {
			return &tidemark.Error{Kind: tidemark.Bug, Op: "name", Object: fmt.Sprintf("%q", name), Err: errors.New("is not a valid object name")}
		}
	}
	return nil
}

// Options of a place.
type Options struct {
	// Pace limits the total rate of reads and writes, also of other places that use it; nil: no
	// limit.
	Pace *Pace
	// Uncached keeps what is read and written out of the system's cache, if the place is a folder.
	Uncached bool
	// Attempts is how often an operation is tried that may succeed later; 0 means 5.
	Attempts int
	// Meter counts, if not nil.
	Meter *Meter
}

// Open opens a place: file:///folder, or a folder's path; sftp://user@host/folder;
// s3://bucket/prefix; azblob://container/prefix; gs://bucket/prefix. Nothing is read or written
// yet. Kind Invalid: not a URL; Unsupported: an unknown scheme.
func Open(_ context.Context, place string, opt Options) (Store, error) {
	s, err := open(place)
	if err != nil {
		return nil, err
	}
	if f, ok := s.(*files); ok {
		f.uncached = opt.Uncached
	}
	if opt.Meter != nil || opt.Pace != nil {
		s = Watch(s, opt.Meter, opt.Pace)
	}
	return Retry(s, RetryOptions{Attempts: opt.Attempts}), nil
}

func open(place string) (Store, error) {
	scheme, rest, ok := strings.Cut(place, ":")
	switch {
	case place == "":
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Err: errors.New("no place was given"), Hint: "Name a folder, or a URL such as file:///backup."}
	case !ok || len(scheme) == 1 || strings.ContainsAny(scheme, `/\.`): // C:\backup is a path
		return newFile(place)
	case scheme == "file":
		return openFile(rest)
	}
	u, err := url.Parse(place)
	if err != nil {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: tidemark.MaskURL(place), Err: errors.New("is not a valid URL"), Hint: "Percent-encode special characters of a password: @ is %40."}
	}
	switch scheme {
	case "sftp":
		return openSFTP(u)
	case "s3":
		return openS3(u)
	case "azblob":
		return openAzure(u)
	case "gs":
		return openGoogle(u)
	}
	return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "open repository", Object: tidemark.MaskURL(place), Err: errors.New("the scheme " + scheme + " is not supported"), Hint: "Use a folder, file:///folder, sftp://user@host/folder, s3://bucket/prefix, azblob://container/prefix or gs://bucket/prefix."}
}
