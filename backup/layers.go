package backup

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	sorted "github.com/tidemarkdb/tidemark/internal/spool"
)

// A file of an incremental backup is combined from layers: what this backup has of it, below that
// what its parent has and this one does not, and so on, down to a backup that has the whole file.
// Which byte comes from which layer is determined before anything is written, so that nothing is
// written twice: layers are laid from the newest down, and each supplies only what fills gaps of
// those above. A layer also has the length up to which those below it count, since the file may
// have been truncated in between.

// A layered file is one some of whose layers are not laid yet.
type layered struct {
	level int     // of the last layer: index in the chain
	limit int64   // bytes up to which the layers below count
	have  []reach // what the layers above have, in order and without overlap
}

// A reach is a part of a file: from is included, to is not.
type reach struct{ from, to int64 }

// lay lays a layer: it passes put the parts that the layers above do not have.
func (l *layered) lay(f *repo.File, level int, put func(e *repo.Extent, from reach)) {
	l.level = level
	var added []reach
	above := l.have
	for i := range f.Extents {
		e := &f.Extents[i]
		at, end := e.At, min(e.At+int64(e.Length), l.limit)
		for at < end {
			for len(above) > 0 && above[0].to <= at {
				above = above[1:]
			}
			until := end
			if len(above) > 0 {
				until = min(end, above[0].from)
			}
			if until > at {
				put(e, reach{at, until})
				added = append(added, reach{at, until})
			}
			if until == end {
				break
			}
			at = above[0].to
		}
	}
	l.have = union(l.have, added)
	if f.Blocks != nil {
		l.limit = min(l.limit, f.Blocks.Truncate*int64(f.Blocks.PageSize))
	}
}

// union merges two lists that do not overlap.
func union(a, b []reach) []reach {
	if len(a) == 0 || len(b) == 0 {
		return joined(append(a, b...))
	}
	out := make([]reach, 0, len(a)+len(b))
	out = append(append(out, a...), b...)
	slices.SortFunc(out, func(x, y reach) int { return cmp.Compare(x.from, y.from) })
	return joined(out)
}

// joined merges adjacent reaches.
func joined(all []reach) []reach {
	out := all[:0]
	for _, r := range all {
		if n := len(out); n > 0 && out[n-1].to == r.from {
			out[n-1].to = r.to
		} else {
			out = append(out, r)
		}
	}
	return out
}

// There may be millions of files and parts, so nothing is kept per file. The lists are read twice:
// to determine the work (plan), and to do it (window.go). Files that this backup has whole come in
// the order of its list. What the chain's lists have about the others is sorted, in a file if it is
// large: by file, then from the newest backup on. Files are numbered in the order of the lowest
// list, which keeps together what is together in the packs.

// layersMemory is how much of the layers is kept in memory.
const layersMemory = 24 << 20

// A pathNumber is the number of a file whose layers are wanted.
type pathNumber struct {
	path xxh3.Uint128 // its hash
	n    uint32       // unnumbered: not found yet in a list below
}

const unnumbered = 1<<32 - 1

func (a pathNumber) compare(b pathNumber) int { return compareSums(a.path, b.path) }

// plan reads the chain's lists of files and determines the work.
func (x *contents) plan(ctx context.Context) (folders []repo.File, err error) {
	var open []pathNumber
	var parts []part
	for f, err := range x.repo.Files(ctx, x.m) {
		if err != nil {
			return nil, err
		}
		if !filepath.IsLocal(filepath.FromSlash(string(f.Path))) {
			return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "restore", Object: string(f.Path), Err: errors.New("this system has no files of such a name"), Hint: "Restore it on a system like the server's."}
		}
		if err := f.Fault(); err != nil && !x.leaves(&f) {
			return nil, wrongFile(string(f.Path), err)
		}
		if f.Type == repo.Folder {
			if f.Path == "." {
				x.mode = f.Mode
			}
			folders = append(folders, f)
			continue
		}
		if f.Blocks != nil && !x.leaves(&f) {
			open = append(open, pathNumber{xxh3.HashString128(string(f.Path)), unnumbered})
			continue
		}
		var t target
		t, parts = x.whole(&f, parts[:0])
		x.todo.add(&t, parts)
	}
	if len(open) > 0 {
		if err := x.readLayers(ctx, open); err != nil {
			return nil, err
		}
		if err := x.eachLayered(func(t target, parts []part) error { x.todo.add(&t, parts); return nil }); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(folders, func(a, b repo.File) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return folders, nil
}

// todo is the work to do.
type todo struct {
	files, bytes int64
	parts        int64          // of these files
	left         int64          // bytes of files that are left out
	aside        int64          // bytes of the files that are created before their parts are written,
	before       bool           // and whether there is at least one
	stored       uint32         // bytes of the largest piece, as it is stored,
	plain        uint32         // and unpacked
	names        []xxh3.Uint128 // hashes of the files' paths, sorted; only for a restore over existing files
	named        bool
}

func (d *todo) add(t *target, parts []part) {
	d.files++
	d.parts += int64(len(parts))
	for i := range parts {
		p := &parts[i]
		d.bytes += int64(p.length)
		d.stored, d.plain = max(d.stored, p.ref.Stored), max(d.plain, p.ref.Plain)
	}
	if !t.whole {
		d.before = true
	}
	switch {
	case t.left:
		d.left += t.size
	case !t.whole:
		d.aside += t.size
	}
	if d.named {
		d.names = append(d.names, xxh3.HashString128(t.name))
	}
}

// leaves reports whether a file is left out.
func (x *contents) leaves(f *repo.File) bool {
	return x.opt.Leave != nil && x.opt.Leave(string(f.Path))
}

// whole returns a file that this backup has whole, or that is left out.
func (x *contents) whole(f *repo.File, parts []part) (target, []part) {
	if x.leaves(f) {
		return target{name: string(f.Path), size: f.Size, mode: f.Mode, modified: f.MTime, crc: repo.ZerosCRC(f.Size), left: true}, parts
	}
	t := target{name: string(f.Path), size: f.Size, mode: f.Mode, modified: f.MTime, crc: f.CRC}
	for i := range f.Extents {
		e := &f.Extents[i]
		if end := min(e.At+int64(e.Length), f.Size); e.At < end {
			parts = append(parts, partOf(e, len(x.chain)-1, reach{e.At, end}))
		}
	}
	t.whole = covers(parts, t.size)
	return t, parts
}

// covers reports whether one part is the whole file.
func covers(parts []part, size int64) bool {
	return len(parts) == 1 && parts[0].at == 0 && int64(parts[0].length) == size
}

func partOf(e *repo.Extent, level int, r reach) part {
	return part{ref: e.Ref, level: int32(level), at: r.from, skip: e.Skip + uint32(r.from-e.At), length: uint32(r.to - r.from), alone: e.Whole()}
}

// readLayers sorts the list entries of files of which this backup has only pages.
func (x *contents) readLayers(ctx context.Context, open []pathNumber) error {
	slices.SortFunc(open, pathNumber.compare)
	x.layers = sorted.NewSorter(x.layersMemory)
	next := uint32(0)
	var record []byte
	for level, m := range x.chain {
		top := level == len(x.chain)-1
		for f, err := range x.repo.Files(ctx, m) {
			if err != nil {
				return err
			}
			if f.Type != "" || top && f.Blocks == nil {
				continue
			}
			i, ok := slices.BinarySearchFunc(open, pathNumber{path: xxh3.HashString128(string(f.Path))}, pathNumber.compare)
			if !ok {
				continue
			}
			if open[i].n == unnumbered && top {
				return x.notBelow(level, string(f.Path))
			}
			if err := f.Fault(); err != nil && !top {
				return wrongFile(string(f.Path), fmt.Errorf("in backup %s: %w", m.ID, err))
			}
			if open[i].n == unnumbered {
				open[i].n = next
				next++
			}
			record = layerRecord(record[:0], open[i].n, level, top, &f)
			if err := x.layers.Add(record); err != nil {
				return err
			}
		}
	}
	return nil
}

// layerRecord encodes a list entry: the file's number, the level from the newest on, and the rest.
// The newest record also has the file's final attributes.
func layerRecord(b []byte, n uint32, level int, top bool, f *repo.File) []byte {
	b = binary.BigEndian.AppendUint32(b, n)
	b = binary.BigEndian.AppendUint32(b, ^uint32(level))
	if top {
		b = binary.AppendUvarint(b, uint64(len(f.Path)))
		b = append(b, f.Path...)
		b = binary.AppendUvarint(b, uint64(f.Mode))
		b = binary.AppendVarint(b, f.MTime)
	}
	b = binary.AppendUvarint(b, uint64(f.Size))
	b = binary.AppendUvarint(b, uint64(f.CRC))
	if f.Blocks == nil {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(f.Blocks.PageSize))
		b = binary.AppendUvarint(b, uint64(f.Blocks.Truncate))
	}
	for i := range f.Extents {
		e := &f.Extents[i]
		for _, v := range [...]uint64{uint64(e.At), uint64(e.Length), uint64(e.Skip), uint64(e.Ref.Pack), uint64(e.Ref.Offset), uint64(e.Ref.Stored), uint64(e.Ref.Plain), uint64(e.Ref.CRC), e.Ref.Number, uint64(e.Ref.Codec)} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

// readLayer decodes a record. extents is reused for the result.
func readLayer(b []byte, top int, extents []repo.Extent) (n uint32, level int, f repo.File) {
	number := func() uint64 {
		v, k := binary.Uvarint(b)
		b = b[k:]
		return v
	}
	n, level = binary.BigEndian.Uint32(b), int(^binary.BigEndian.Uint32(b[4:]))
	b = b[8:]
	if level == top {
		k := number()
		f.Path, b = repo.Path(b[:k]), b[k:]
		f.Mode = uint32(number())
		v, k2 := binary.Varint(b)
		f.MTime, b = v, b[k2:]
	}
	f.Size, f.CRC = int64(number()), uint32(number())
	if size := number(); size > 0 {
		f.Blocks = &repo.Blocks{PageSize: int(size), Truncate: int64(number())}
	}
	for f.Extents = extents[:0]; len(b) > 0; {
		f.Extents = append(f.Extents, repo.Extent{At: int64(number()), Length: uint32(number()), Skip: uint32(number()),
			Ref: repo.Ref{Pack: uint32(number()), Offset: int64(number()), Stored: uint32(number()), Plain: uint32(number()), CRC: uint32(number()), Number: number(), Codec: uint8(number())}})
	}
	return n, level, f
}

// eachLayered passes give the files combined from layers. parts are valid until give returns.
func (x *contents) eachLayered(give func(t target, parts []part) error) error {
	if x.layers == nil {
		return nil
	}
	top := len(x.chain) - 1
	var t target
	var l *layered // nil: all layers of the file are laid
	var parts []part
	var extents []repo.Extent
	for record, err := range x.layers.Sorted() {
		if err != nil {
			return err
		}
		_, level, f := readLayer(record, top, extents)
		extents = f.Extents
		if level == top {
			if l != nil {
				return x.notBelow(l.level, t.name)
			}
			t = target{name: string(f.Path), size: f.Size, mode: f.Mode, modified: f.MTime, layered: true} // windows keep its sums
			l, parts = &layered{level: top + 1, limit: f.Size}, parts[:0]
		}
		if l == nil {
			continue // of an older file that had the same name
		}
		for l.level--; l.level > level && x.chain[l.level].Kind == repo.Partial; l.level-- {
			// That backup was unfinished: what it lacks, the backup below has.
		}
		if l.level != level {
			return x.notBelow(l.level+1, t.name)
		}
		before, shared := len(parts), false
		l.lay(&f, level, func(e *repo.Extent, r reach) {
			parts = append(parts, partOf(e, level, r))
			shared = shared || !e.Whole()
		})
		if shared && bytesOf(parts[before:]) == f.Length() { // all of it is read; whole pieces were compared in the lists
			t.layers = append(t.layers, layerSum{int32(level), f.CRC, f.Size, f.Blocks == nil})
		}
		if f.Blocks == nil {
			t.whole, l = covers(parts, t.size), nil
			if err := give(t, parts); err != nil {
				return err
			}
		}
	}
	if l != nil {
		return x.notBelow(l.level, t.name)
	}
	return nil
}

func bytesOf(parts []part) (n int64) {
	for i := range parts {
		n += int64(parts[i].length)
	}
	return n
}

// wrongFile is the error of a file whose bytes are not those that were backed up.
func wrongFile(path string, err error) error {
	return &tidemark.Error{Kind: tidemark.Corrupt, Op: "restore", Object: path, Err: err, Hint: "Restore another backup; tidemark verify names the damaged ones."}
}

// each passes give all files to restore, with all their parts.
func (x *contents) each(ctx context.Context, give func(t target, parts []part) error) error {
	var parts []part
	for f, err := range x.repo.Files(ctx, x.m) {
		if err != nil {
			return err
		}
		if f.Type != "" || f.Blocks != nil && !x.leaves(&f) {
			continue
		}
		var t target
		t, parts = x.whole(&f, parts[:0])
		if err := give(t, parts); err != nil {
			return err
		}
	}
	return x.eachLayered(give)
}

// notBelow is the error of a file that has no layer below a level.
func (x *contents) notBelow(level int, path string) error {
	err := &tidemark.Error{Op: "restore", Object: path, Kind: tidemark.Corrupt, Hint: "Run tidemark verify.", Err: errors.New("no backup in the chain has the whole file")}
	if level > 0 {
		err.Err = errors.New("the backup has only some of its pages, and its parent backup " + x.chain[level-1].ID + " does not have the file")
	}
	return err
}

// readChain reads the manifests of the backups that the restore needs.
func (x *contents) readChain(ctx context.Context) error {
	if x.m.Kind == repo.Partial {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: x.m.ID, Err: errors.New("the backup is not finished"), Hint: "Finish it with tidemark backup --resume, or restore another one: tidemark backups lists them."}
	}
	chain, err := x.repo.Chain(ctx, x.m.ID)
	if err != nil {
		return err
	}
	for i := 1; i < len(chain); i++ {
		if err := chain[i].Follows(chain[i-1]); err != nil {
			return &tidemark.Error{Kind: tidemark.Corrupt, Op: "restore", Object: chain[i].ID, Err: err, Hint: "Restore another backup."}
		}
	}
	x.chain, x.m = chain, chain[len(chain)-1]
	return nil
}
