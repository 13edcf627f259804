package repo

import (
	"encoding/json"
	"sync"

	"github.com/tidemarkdb/tidemark"
)

// listSize is how large a piece of the list of files becomes.
const listSize = 1 << 20

// A filesWriter keeps the list of a backup's files: lines of JSON in pieces, in a pack of their
// own, so that millions of files need no memory.
type filesWriter struct {
	mu    sync.Mutex
	w     *Writer
	seal  *Sealer
	pack  *Pack
	text  []byte
	room  []byte
	refs  []Ref
	count int64
	bytes int64
	plain int64
	err   error // the first one; nothing is added after it
}

func (l *filesWriter) init(w *Writer) {
	l.w = w
	l.seal = w.Sealer(Codec{kind: codecZstd, level: 3})
	l.pack = w.NewPack(w.Context())
}

// AddFile adds a file to the backup's list. The pieces of its extents may still be in an open
// pack. Many goroutines may call it; order does not matter.
func (w *Writer) AddFile(f File) error {
	line, err := json.Marshal(f)
	if err != nil {
		return &tidemark.Error{Op: "back up", Object: string(f.Path), Kind: tidemark.Bug, Err: err}
	}
	l := &w.files
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(append(l.text, line...), '\n')
	l.count++
	l.bytes += f.Size
	for _, e := range f.Extents {
		l.plain += int64(e.Length)
	}
	if len(l.text) >= listSize {
		l.flush()
	}
	return l.err
}

// flush makes pieces of the text.
func (l *filesWriter) flush() {
	for len(l.text) > 0 && l.err == nil {
		n := min(len(l.text), listSize)
		var s Sealed
		if s, l.err = l.seal.Seal(l.room, l.text[:n]); l.err != nil {
			return
		}
		l.room = s.Bytes
		var ref Ref
		if ref, l.err = l.pack.Append(s); l.err != nil {
			return
		}
		l.refs = append(l.refs, ref)
		l.text = append(l.text[:0], l.text[n:]...)
	}
}

func (l *filesWriter) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	if l.err == nil {
		l.err = l.pack.Close()
	}
	return l.err
}

func (l *filesWriter) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pack.Abort()
}
