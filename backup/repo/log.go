package repo

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// Names of logs are those of their objects below wal/: the timeline, as text that sorts, a slash,
// and the file's name, which sorts within it; or a name alone, such as that of a history file.
const logPrefix = "wal/"

// A Log is a file of a server's log in the repository.
type Log struct {
	Name   string
	Stored int64 // bytes
	Time   time.Time
}

// A LogWriter writes one.
type LogWriter struct {
	r    *logs
	ctx  context.Context
	name string
	to   *objectWriter
	sum  *xxh3.Hasher
	size int64
	over bool
}

// PutOpenLog writes a log, atomically replacing any existing one: for log files that a server has
// not finished, under names that finished ones never have.
func (r *logs) PutOpenLog(ctx context.Context, name string, src io.Reader, c Codec) error {
	to, err := r.createObject(ctx, logPrefix+name, store.Replace, c)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, src); err != nil {
		to.Abort()
		return err
	}
	return to.Commit()
}

// DeleteLog removes a log. A missing log is no error.
func (r *logs) DeleteLog(ctx context.Context, name string) error {
	err := r.store.Delete(ctx, logPrefix+name)
	if err != nil && tidemark.KindOf(err) == tidemark.NotFound {
		return nil
	}
	return err
}

// CreateLog begins to write a log. It is invisible before its Commit.
func (r *logs) CreateLog(ctx context.Context, name string, c Codec) (*LogWriter, error) {
	// Commit checks for an existing log of that name: it may have the same bytes.
	to, err := r.createObject(ctx, logPrefix+name, store.New, c)
	if tidemark.KindOf(err) == tidemark.Exists && err != nil {
		to, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &LogWriter{r: r, ctx: ctx, name: name, to: to, sum: xxh3.New()}, nil
}

func (w *LogWriter) Write(p []byte) (int, error) {
	_, _ = w.sum.Write(p) // it never fails
	w.size += int64(len(p))
	if w.to == nil {
		return len(p), nil
	}
	return w.to.Write(p)
}

// Commit makes the log appear, durably. An existing one with the same bytes is as good; one with
// other bytes stays as it is, and the error is of Kind Collision.
func (w *LogWriter) Commit() error {
	w.over = true
	if w.to != nil {
		err := w.to.Commit()
		if err == nil || tidemark.KindOf(err) != tidemark.Exists {
			return err
		}
	}
	in, err := w.r.GetLog(w.ctx, w.name)
	if err != nil {
		return err
	}
	defer in.Close()
	there := xxh3.New()
	n, err := io.Copy(there, in)
	if err != nil {
		return err
	}
	if n != w.size || there.Sum128() != w.sum.Sum128() {
		return &tidemark.Error{Kind: tidemark.Collision, Op: "archive", Object: w.name, Err: errors.New("the repository has a file of that name with different content"), Hint: "Give this server another repository: two servers archive into this one, or a server was set back and kept its timeline."}
	}
	return nil
}

// Abort discards the log. After Commit it does nothing.
func (w *LogWriter) Abort() {
	if !w.over && w.to != nil {
		w.to.Abort()
	}
	w.over = true
}

// PutLog is CreateLog, the bytes of src, and Commit.
func (r *logs) PutLog(ctx context.Context, name string, src io.Reader, c Codec) error {
	w, err := r.CreateLog(ctx, name, c)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := io.Copy(w, src); err != nil {
		return err
	}
	return w.Commit()
}

// GetLog reads a log. io.EOF comes only after all of it was read and verified: discard what was
// read before an error. Kind NotFound.
func (r *logs) GetLog(ctx context.Context, name string) (io.ReadCloser, error) {
	x, err := r.openObject(ctx, logPrefix+name)
	if err != nil {
		if tidemark.KindOf(err) == tidemark.NotFound {
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "read log", Object: name, Err: errors.New("it is not in " + r.store.String())}
		}
		return nil, err
	}
	return x, nil
}

// Logs returns the logs whose names begin with prefix, in the order of their names.
func (r *logs) Logs(ctx context.Context, prefix string) ([]Log, error) {
	var out []Log
	for i, err := range r.store.List(ctx, logPrefix+prefix) {
		if err != nil {
			return nil, err
		}
		out = append(out, Log{Name: strings.TrimPrefix(i.Name, logPrefix), Stored: i.Size, Time: i.Time})
	}
	slices.SortFunc(out, func(a, b Log) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// between returns the logs from first to last, which must be of one timeline.
func between(logs []Log, first, last string) []Log {
	dir := first[:strings.LastIndexByte(first, '/')+1]
	from, _ := slices.BinarySearchFunc(logs, first, func(l Log, name string) int { return strings.Compare(l.Name, name) })
	to := from
	for to < len(logs) && logs[to].Name <= last && strings.HasPrefix(logs[to].Name, dir) {
		to++
	}
	return logs[from:to]
}
