package logs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// PushOptions are the options of Push.
type PushOptions struct {
	// Ahead is how many of the files waiting after the requested one are pushed at the same time.
	// The server requests each of them later, and then learns that it is archived.
	Ahead int
	// QueueMax is how many bytes of files may wait while the archive cannot be written. The rest is
	// dropped, so that the server's disk does not fill: the archive then has a gap. 0: nothing is
	// dropped.
	QueueMax int64
}

// A GivenUp means that a file was not archived and never will be: the user's choice.
type GivenUp struct {
	Name   string
	Queued int64 // bytes that wait
	Err    error // why the archive could not be written
	Lost   error // why this could not be recorded, so that the archive will not have it
}

func (g *GivenUp) Error() string {
	text := fmt.Sprintf("archive %s: dropped, since %d bytes are waiting: %v", g.Name, g.Queued, g.Err)
	if g.Lost != nil {
		text += fmt.Sprintf("; the gap could not be recorded either: %v", g.Lost)
	}
	return text
}

// Push archives a server's log file durably. Kind Collision: the archive has another file of that
// name, or belongs to another server; Invalid: it is not a log file. A *GivenUp says that the file
// was dropped. Earlier drops are recorded in the archive with the next file that gets there.
func (a *Archive) Push(ctx context.Context, file string, opt PushOptions) (out error) {
	if _, err := place(filepath.Base(file)); err != nil {
		return err
	}
	done, err := a.pushed(file)
	if err != nil || done {
		return err
	}
	// What cannot be recorded in the archive now is recorded with the next file.
	defer func() {
		if out == nil {
			_ = a.tellGaps(ctx, filepath.Dir(file))
		}
	}()
	ready := waiting(file)
	var others crash.Group
	for _, next := range ready[:min(len(ready), opt.Ahead)] {
		others.Go(func() {
			if sum, err := a.push(ctx, next); err == nil {
				_ = noteFile(next, sum) // without a note it is pushed once more
			}
		})
	}
	_, err = a.push(ctx, file)
	others.Wait()
	return GiveUp(file, opt.QueueMax, err)
}

// GiveUp returns err, the failure to write the archive, or a *GivenUp if more bytes of files are
// waiting than max allows. A collision is never ignored.
func GiveUp(file string, max int64, err error) error {
	if kind := tidemark.KindOf(err); err == nil || max == 0 || kind == tidemark.Collision || kind == tidemark.Cancelled {
		return err
	}
	queued := int64(0)
	for _, f := range append(waiting(file), file) {
		if st, err := os.Stat(f); err == nil {
			queued += st.Size()
		}
	}
	if queued <= max {
		return err
	}
	return &GivenUp{filepath.Base(file), queued, err, noteGivenUp(file, err)}
}

// push puts a file into the archive, and returns a checksum of its bytes.
func (a *Archive) push(ctx context.Context, file string) (sum string, err error) {
	name := filepath.Base(file)
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fileError("read", file, err)
	}
	f := &tidemark.LogFile{Name: name, Bytes: b, Size: len(b)}
	if len(name) == 24 || strings.HasSuffix(name, ".partial") {
		if err := checkSegment(f); err != nil {
			return "", err
		}
	}
	return sumOf(b), a.Put(ctx, f)
}

// checkSegment compares a segment's header with its name and size.
func checkSegment(f *tidemark.LogFile) error {
	h, err := wal.ParseSegment(f.Bytes)
	if err != nil {
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "archive", Object: f.Name, Err: errors.New("it is not a log segment: " + err.Error())}
	}
	at, ok := wal.ParseName(f.Name[:24], h.Size)
	switch {
	case !ok || at.Place != h.Place || at.Timeline < h.Timeline:
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "archive", Object: f.Name, Err: fmt.Errorf("the file says that it is %s", wal.SegmentName(h.Timeline, h.Place, uint32(h.Size)))}
	case len(f.Bytes) != h.Size:
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "archive", Object: f.Name, Err: fmt.Errorf("the file has %d bytes instead of %d", len(f.Bytes), h.Size)}
	}
	f.Timeline, f.Place = at.Timeline, at.Place
	return nil
}

// waiting returns the segments after one that the server has marked as ready, in order.
func waiting(file string) (out []string) {
	dir, name := filepath.Split(file)
	marks, err := filepath.Glob(filepath.Join(dir, "archive_status", "*.ready")) // in the order of their names
	if err != nil {
		return nil
	}
	for _, m := range marks {
		next := strings.TrimSuffix(filepath.Base(m), ".ready")
		if len(next) == 24 && next > name && inTimeline.MatchString(next) {
			out = append(out, filepath.Join(dir, next))
		}
	}
	return out
}

// noted is the folder, beside the segments, of notes about files pushed before they were requested:
// the name, and a checksum, since a server that was restored to an earlier time may reuse the name.
const noted = "tidemark.pushed"

func noteFile(file, sum string) error {
	dir := filepath.Join(filepath.Dir(file), noted)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(sum), 0o600)
}

// pushed reports whether the file was pushed before, and removes its note.
func (a *Archive) pushed(file string) (bool, error) {
	note := filepath.Join(filepath.Dir(file), noted, filepath.Base(file))
	want, err := os.ReadFile(note)
	if err != nil {
		return false, nil // mostly there is none
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return false, fileError("read", file, err)
	}
	if err := os.Remove(note); err != nil {
		return false, fileError("remove", note, err)
	}
	return sumOf(b) == string(want), nil
}

func sumOf(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
