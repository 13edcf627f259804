package backup

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A restore processes the lists in windows: as many files, or parts of files, as fit into memory.
// The parts of a window are fetched in pack order. While workers process one window the next is
// filled, so that no worker waits. Lists are nearly in pack order, so few pieces are fetched twice.

// windowMost is how many files, or parts, a window holds: at 150 bytes each, 20 MB.
const windowMost = 1 << 17

// windowsMost is how many windows exist at the same time.
const windowsMost = 2

// A window is what is restored at the same time.
type window struct {
	files []target
	parts []part
	left  atomic.Int64 // parts not written yet, plus one while some are not handed out
	sums  bool         // some file's checksum can be compared only when all its parts are written
}

// A task is parts of a window that are near each other in a pack.
type task struct {
	w     *window
	parts []part
}

// restoreAll hands out everything to restore, one window at a time.
func (x *Restore) restoreAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var filling crash.Group
	defer filling.Wait()
	defer cancel()
	x.free = make(chan *window, windowsMost)
	for range windowsMost {
		x.free <- new(window)
	}
	full := make(chan *window)
	var failed error
	filling.Go(func() {
		defer close(full)
		failed = x.fill(ctx, full)
	})
	for w := range full {
		parts := w.parts
		if x.over != nil {
			x.enter("compare")
			var err error
			if parts, err = x.compare(ctx, w); err != nil {
				return err
			}
			x.enter("copy")
		}
		w.left.Store(int64(len(parts)) + 1)
		if err := x.handOut(ctx, w, parts); err != nil {
			return err
		}
		if err := x.written(w, 1); err != nil {
			return err
		}
	}
	return failed
}

// fill fills windows.
func (x *Restore) fill(ctx context.Context, full chan<- *window) error {
	var w *window
	give := func() error {
		w.inPackOrder()
		select {
		case full <- w:
		case <-ctx.Done():
		}
		w = nil
		return ctx.Err()
	}
	err := x.each(ctx, func(t target, parts []part) error {
		if w != nil && (len(w.files) >= x.windowMost || len(w.parts)+len(parts) > x.windowMost) {
			if err := give(); err != nil {
				return err
			}
		}
		if w == nil {
			select {
			case w = <-x.free:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for i := range parts {
			parts[i].file = int32(len(w.files))
		}
		w.files, w.parts = append(w.files, t), append(w.parts, parts...)
		w.sums = w.sums || t.shared(parts)
		return nil
	})
	if err == nil && w != nil {
		err = give()
	}
	return err
}

// written counts down parts of a window. After the last one the window can be reused.
func (x *Restore) written(w *window, parts int) error {
	if w.left.Add(-int64(parts)) > 0 {
		return nil
	}
	if w.sums {
		w.inFileOrder()
		if err := w.eachFile(compareSum); err != nil {
			return err
		}
	}
	if x.made != nil {
		if err := x.made.add(w); err != nil {
			return err
		}
	}
	clear(w.files) // the names
	w.files, w.parts, w.sums = w.files[:0], w.parts[:0], false
	x.free <- w // there is room for all
	return nil
}

// shared reports whether neither the lists nor a single part tell if a file's checksum is right.
func (t *target) shared(parts []part) bool {
	if t.layered {
		return len(t.layers) > 0
	}
	return !t.whole && !t.left && slices.ContainsFunc(parts, func(p part) bool { return !p.alone })
}

// compareSum compares the checksum of a file that is completely written.
func compareSum(_ int, t *target, parts []part) error {
	if !t.shared(parts) {
		return nil
	}
	if !t.layered {
		if sum := sumOf(parts, t.size); sum != t.crc {
			return wrongFile(t.name, repo.WrongSum(sum, t.crc))
		}
		return nil
	}
	for _, l := range t.layers {
		if sum := l.sumOf(parts); sum != l.crc {
			return wrongFile(t.name, repo.WrongSum(sum, l.crc))
		}
	}
	return nil
}

// sumOf combines the checksums of the layer's parts.
func (l *layerSum) sumOf(parts []part) (sum uint32) {
	var own []part
	for i := range parts {
		if parts[i].level == l.level {
			own = append(own, parts[i])
		}
	}
	if l.zeros {
		return sumOf(own, l.size)
	}
	for i := range own {
		sum = repo.CombineCRC(sum, own[i].crc, int64(own[i].length))
	}
	return sum
}

// inPackOrder sorts parts by their position in the packs.
func (w *window) inPackOrder() {
	slices.SortFunc(w.parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.ref.Pack, b.ref.Pack), cmp.Compare(a.ref.Offset, b.ref.Offset), cmp.Compare(a.skip, b.skip))
	})
}

// inFileOrder sorts parts by their position in the files.
func (w *window) inFileOrder() {
	slices.SortFunc(w.parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.at, b.at))
	})
}

// eachFile passes give the files with their parts, which must be in file order.
func (w *window) eachFile(give func(n int, t *target, parts []part) error) error {
	parts := w.parts
	for i := range w.files {
		n := 0
		for n < len(parts) && parts[n].file == int32(i) {
			n++
		}
		if err := give(i, &w.files[i], parts[:n]); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// A madeList is the engine's own list of the files, for a restore that combines several backups or
// leaves out files: no backup has that list. It is written to a temporary name, since the backup
// may have a file of the final one.
type madeList struct {
	x    *Restore
	name string
	path string
	f    *os.File
	out  *bufio.Writer
	mu   sync.Mutex
	list FileList
}

// makeList begins the list.
func (x *Restore) makeList() error {
	if len(x.chain) == 1 && x.opt.Leave == nil || x.opt.Manifest == nil {
		return nil
	}
	m := &madeList{x: x}
	name, begin := x.opt.Manifest(x.m)
	m.name, m.path = name, x.place(name)
	mode := 0o600 | x.mode&0o040 // like the server's own files: also for users who may read the folder
	var err error
	if m.f, err = os.OpenFile(m.path+notYet, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, os.FileMode(mode).Perm()); err != nil {
		return writeFailed(m.path+notYet, err)
	}
	x.made = m
	if err := x.own(m.f, mode); err != nil {
		return writeFailed(m.path+notYet, err)
	}
	m.out = bufio.NewWriterSize(m.f, 64<<10)
	m.list = begin(m.out)
	return nil
}

// add lists the files of a window that are completely written, with the checksums of combined
// files.
func (m *madeList) add(w *window) error {
	w.inFileOrder()
	m.mu.Lock()
	defer m.mu.Unlock()
	return w.eachFile(func(_ int, t *target, parts []part) error {
		if t.name == m.name {
			return nil // the new list replaces it
		}
		if t.layered {
			t.crc = sumOf(parts, t.size)
		}
		return writeFailed(m.path+notYet, m.list.Add(tidemark.DataSum{Path: t.name, Size: t.size, Modified: time.Unix(0, t.modified), CRC32C: t.crc}))
	})
}

// end completes the list, and renames it into place.
func (m *madeList) end() error {
	err := m.list.Close()
	if ferr := m.out.Flush(); err == nil {
		err = ferr
	}
	if cerr := m.f.Close(); err == nil {
		err = cerr
	}
	m.f = nil
	if err == nil {
		err = os.Rename(m.path+notYet, m.path)
	}
	return writeFailed(m.path, err)
}

// sumOf combines the CRC-32Cs of a file's parts, in order, with those of the zeros between.
func sumOf(parts []part, size int64) (sum uint32) {
	at := int64(0)
	zeros := func(to int64) {
		if to > at {
			sum = repo.CombineCRC(sum, repo.ZerosCRC(to-at), to-at)
		}
	}
	for _, p := range parts {
		zeros(p.at)
		sum = repo.CombineCRC(sum, p.crc, int64(p.length))
		at = p.at + int64(p.length)
	}
	zeros(size)
	return sum
}
