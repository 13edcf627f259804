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

// A Store is a place with objects in it. Their names are made of parts with slashes between;
// CheckName says which are allowed. All methods may be called at once.
//
// Errors are of type tidemark.Error: NotFound, Exists, Full, Forbidden, Denied, Unreachable, and
// Transient for what may succeed when it is tried again. They hold no secret.
type Store interface {
	// Create begins an object, which nobody sees before its Commit. With New it fails then
	// (Kind Exists) if there is one of that name, and may fail so at once; with Replace it
	// takes the place of the other in one step. ctx is that of the whole writing.
	Create(ctx context.Context, name string, mode Mode) (Object, error)
	// Read reads length bytes from offset on, or up to the end where length is negative. What
	// is asked for beyond the end is not there, and no error. Kind NotFound.
	Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// Stat looks at one object. Kind NotFound.
	Stat(ctx context.Context, name string) (Info, error)
	// List gives the objects whose names begin with prefix, in no order. What comes or goes
	// meanwhile may be in it or not.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Delete removes an object, durably. Kind NotFound.
	Delete(ctx context.Context, name string) error
	// String is the place's URL, without secrets.
	String() string
	// Close ends connections. Nothing may be called after it.
	Close() error
}

// Mode says what becomes of an object of the same name.
type Mode uint8

const (
	New     Mode = iota // refuse it
	Replace             // take its place
)

// An Object is being written, by one goroutine.
type Object interface {
	io.Writer
	// Commit makes the object appear. When it returns nil, the object outlives a power cut, as far
	// as the place can promise that; after an error nothing is left of it, unless the place could not
	// say whether it appeared.
	Commit() error
	// Abort forgets it. After Commit it does nothing, so that it can be deferred.
	Abort()
}

// Info is what a Store knows of an object without reading it.
type Info struct {
	Name string
	Size int64
	Time time.Time // of the last change, by the place's own clock
}

// A Sweeper is a Store in which writers that died can leave files that List does not show.
type Sweeper interface {
	// Sweep removes those that were not written to since before, which is a time of the place's
	// clock, and gives their names.
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

// WriterMemory is about how many bytes an object takes that is being written to s.
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

// A keptError is a refusal that ends some day.
type keptError struct{ error }

func (k keptError) Unwrap() error { return k.error }

const keptHint = "an object lock, a hold or a rule of retention keeps it: try again when that has run out"

// Kept says whether an error of Delete means that the place keeps the object for now: by an object lock,
// a hold or a rule of retention, which it has named.
func Kept(err error) bool { return errors.As(err, new(keptError)) }

// CheckName refuses names that not every place can keep, or that would be special there:
// parts are of letters, digits and ._-, begin with a letter or digit, and are not longer than
// 100 bytes. Kind Bug, since names are made by us.
func CheckName(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		ok := part != "" && len(part) <= 100 && !strings.ContainsRune("._-", rune(part[0])) && !strings.HasSuffix(part, ".")
		for _, c := range []byte(part) {
			ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
		}
		if !ok {
			return &tidemark.Error{Kind: tidemark.Bug, Op: "name", Object: fmt.Sprintf("%q", name), Err: errors.New("is no name of an object")}
		}
	}
	return nil
}

// Options of a place.
type Options struct {
	// Pace bounds what is read and written together, also by other places that have it; nil does not.
	Pace *Pace
	// Uncached leaves nothing of what is read and written in the system's cache, where the place is a folder.
	Uncached bool
	// Attempts is how often something is tried that may succeed later; 0 means 5.
	Attempts int
	// Meter counts, if it is not nil.
	Meter *Meter
}

// Open opens a place: file:///folder, or a folder's path; sftp://user@host/folder;
// s3://bucket/prefix; azblob://container/prefix; gs://bucket/prefix. Nothing is read or written yet. Kind Invalid: a URL that is none; Unsupported: of a kind that is not known.
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
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Err: errors.New("no place was given"), Hint: "name a folder, or a URL such as file:///backup"}
	case !ok || len(scheme) == 1 || strings.ContainsAny(scheme, `/\.`): // C:\backup is a path
		return newFile(place)
	case scheme == "file":
		return openFile(rest)
	}
	u, err := url.Parse(place)
	if err != nil {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: tidemark.MaskURL(place), Err: errors.New("is no URL"), Hint: "special characters of a password are written as %40 and the like"}
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
	return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "open repository", Object: tidemark.MaskURL(place), Err: errors.New("places of the kind " + scheme + " are not known"), Hint: "use a folder, file:///folder, sftp://user@host/folder, s3://bucket/prefix, azblob://container/prefix or gs://bucket/prefix"}
}
