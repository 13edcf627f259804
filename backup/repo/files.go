package repo

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	"github.com/tidemarkdb/tidemark"
)

// listSize is the target size of a piece of the list of files.
const listSize = 1 << 20

// A filesWriter writes the list of a backup's files: lines of JSON in pieces, in packs of their
// own, so that millions of files need no memory.
type filesWriter struct {
	mu    sync.Mutex
	w     *Writer
	seal  *Sealer
	pack  *Pack
	text  []byte // of the current group
	room  []byte
	now   group
	past  []group
	refs  []Ref
	count int64
	bytes int64
	plain int64
	err   error // the first one; nothing is added after it
}

// A group is what was listed together: whole lines.
type group struct {
	refs                []Ref    // of its text
	packs               []uint32 // that have the text, or pieces of the files
	count, bytes, plain int64
}

// in records that a pack has something of the group.
func (g *group) in(pack uint32) {
	// Files listed in sequence are mostly in the same packs.
	if n := len(g.packs); (n == 0 || g.packs[n-1] != pack) && !slices.Contains(g.packs, pack) {
		g.packs = append(g.packs, pack)
	}
}

func (l *filesWriter) init(w *Writer) {
	l.w = w
	l.seal = w.Sealer(Codec{kind: codecZstd, level: 3})
	l.pack = w.NewPack(w.Context())
}

// AddFile adds a file to the backup's list. The pieces of its extents may still be in an open pack.
// It may be called concurrently; order does not matter.
func (w *Writer) AddFile(f File) error {
	line, err := json.Marshal(f)
	if err != nil {
		return &tidemark.Error{Op: "back up", Object: string(f.Path), Kind: tidemark.Bug, Err: err}
	}
	l := &w.files
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(append(l.text, line...), '\n')
	l.now.count++
	l.now.bytes += f.Size
	if f.Object != nil {
		w.plain.objects++
		w.plain.stored += f.Object.Stored
	}
	for _, e := range f.Extents {
		l.now.plain += int64(e.Length)
		l.now.in(e.Ref.Pack)
	}
	if len(l.text) >= listSize {
		l.flush()
	}
	return l.err
}

// flush makes a group of the text: one piece, except for a file of very many extents.
func (l *filesWriter) flush() {
	if len(l.text) == 0 || l.err != nil {
		return
	}
	for len(l.text) > 0 {
		n := min(len(l.text), MaxPiece)
		var s Sealed
		if s, l.err = l.seal.Seal(l.room, l.text[:n]); l.err != nil {
			return
		}
		l.room = s.Bytes
		var ref Ref
		if ref, l.err = l.pack.Append(s); l.err != nil {
			return
		}
		l.now.refs = append(l.now.refs, ref)
		l.now.in(ref.Pack)
		l.text = append(l.text[:0], l.text[n:]...)
	}
	l.refs = append(l.refs, l.now.refs...)
	l.count, l.bytes, l.plain = l.count+l.now.count, l.bytes+l.now.bytes, l.plain+l.now.plain
	l.past, l.now = append(l.past, l.now), group{}
}

// Listed yields what AddFile has received so far, read back from its packs.
func (w *Writer) Listed(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		m, more, err := w.files.soFar()
		if err != nil {
			yield(File{}, err)
			return
		}
		for f, err := range w.repo.files(ctx, m, more) {
			if !yield(f, err) {
				return
			}
		}
	}
}

// soFar ends the current pack of the lists, if any, so that it can be read. more is what is in no
// piece yet.
func (l *filesWriter) soFar() (m *Manifest, more []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.pack.Close()
	}
	m = &Manifest{ID: l.w.ID, Count: l.count + l.now.count, Lists: slices.Clone(l.refs)}
	of := map[uint32]bool{}
	for _, ref := range m.Lists {
		of[ref.Pack] = true
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for _, p := range l.w.packs {
		if of[p.Number] {
			m.Packs = append(m.Packs, p)
		}
	}
	slices.SortFunc(m.Packs, comparePacks)
	return m, bytes.Clone(l.text), l.err
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
