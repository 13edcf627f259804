package repo

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark/internal/spool"
)

// backupCheck verifies one backup. Its lists of files tell where in the packs each file's bytes
// should be; this is sorted in pack order. Then each pack is read from beginning to end, piece
// after piece, and what the pieces contain is taken out of the files' checksums, until nothing is
// left of these. It needs 4 bytes of memory per file, and 24 per file of which it has only pages.
type backupCheck struct {
	v     *verifier
	m     *Manifest
	needs []string

	absent []uint32      // packs that are missing or damaged
	spans  *spool.Sorter // of all extents, and of the pieces of the lists
	crcs   []uint32      // by index in the lists: the rest of a file's checksum
	unsaid []uint32      // a bit per index in the lists: part of the file was unreadable, so its checksum is not judged
	pages  names         // files that the parent must have
	broken bool          // the lists are broken, which was reported
}

// A span is an extent within a pack.
type span struct {
	ref    Ref
	skip   uint32
	length uint32
	file   uint32 // index in the lists; ofLists: a piece of these themselves
	behind int64  // bytes after it that the file's checksum covers
}

const ofLists = 1<<32 - 1

// spanSize is the size of a span's record, which begins with its sort key.
const spanSize = 53

func (s *span) record(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, s.ref.Pack)
	b = binary.BigEndian.AppendUint64(b, uint64(s.ref.Offset))
	b = binary.BigEndian.AppendUint32(b, s.skip)
	b = binary.BigEndian.AppendUint32(b, s.length)
	b = binary.BigEndian.AppendUint32(b, s.file)
	b = binary.BigEndian.AppendUint64(b, uint64(s.behind))
	b = binary.BigEndian.AppendUint32(b, s.ref.Stored)
	b = binary.BigEndian.AppendUint32(b, s.ref.Plain)
	b = binary.BigEndian.AppendUint32(b, s.ref.CRC)
	b = binary.BigEndian.AppendUint64(b, s.ref.Number)
	return append(b, s.ref.Codec)
}

func packOf(record []byte) uint32 { return binary.BigEndian.Uint32(record) }

func spanOf(b []byte) (s span) {
	four, eight := binary.BigEndian.Uint32, binary.BigEndian.Uint64
	s.ref = Ref{Pack: four(b), Offset: int64(eight(b[4:])), Stored: four(b[32:]), Plain: four(b[36:]), CRC: four(b[40:]), Number: eight(b[44:]), Codec: b[52]}
	s.skip, s.length, s.file, s.behind = four(b[12:]), four(b[16:]), four(b[20:]), int64(eight(b[24:]))
	return s
}

// verifyMemory is how much memory spans use before they go to a file.
const verifyMemory = 24 << 20

func (b *backupCheck) name() string { return manifestName(b.m.ID) }

// checkPacks checks that the packs exist.
func (b *backupCheck) checkPacks(ctx context.Context) error {
	const missing = -1
	sizes := make([]int64, len(b.m.Packs))
	for i := range sizes {
		sizes[i] = missing
	}
	for i, err := range b.v.r.store.List(ctx, "packs/"+b.m.ID+"/") {
		if err != nil {
			return err
		}
		if n, ok := b.packNamed(i.Name); ok {
			sizes[n] = i.Size
		} else {
			b.v.left(i.Name, "the backup does not have it")
		}
	}
	for i, p := range b.m.Packs {
		name := packName(b.m.ID, p.Number)
		switch {
		case sizes[i] == missing:
			b.v.damage(name, b.needs, b.v.r.absent(name))
		case sizes[i] != p.Size:
			b.v.damage(name, b.needs, fmt.Errorf("it has %d bytes instead of %d", sizes[i], p.Size))
		default:
			continue
		}
		b.absent = append(b.absent, p.Number)
	}
	return nil
}

// packNamed returns the index of the pack with an object name.
func (b *backupCheck) packNamed(object string) (at int, ok bool) {
	n, ok := packNumber(object)
	if !ok || packName(b.m.ID, n) != object {
		return 0, false
	}
	return slices.BinarySearchFunc(b.m.Packs, PackStat{Number: n}, comparePacks)
}

func (b *backupCheck) run(ctx context.Context) error {
	b.spans = spool.NewSorter(cmp.Or(b.v.opt.memory, verifyMemory))
	defer b.spans.Close()
	if err := b.readLists(ctx); err != nil {
		return err
	}
	if err := each(ctx, b.v.opt.Workers, b.feed, b.pack); err != nil {
		return err
	}
	if err := b.checkSums(ctx); err != nil {
		return err
	}
	if err := b.checkPlain(ctx); err != nil {
		return err
	}
	return b.checkParent(ctx)
}

// readLists records what the lists contain.
func (b *backupCheck) readLists(ctx context.Context) error {
	var record []byte
	var failed error
	add := func(s span) {
		record = s.record(record[:0])
		if err := b.spans.Add(record); failed == nil {
			failed = err
		}
	}
	for _, ref := range b.m.Lists {
		add(span{ref: ref, file: ofLists})
	}
	err := b.files(ctx, func(n uint32, f *File) error {
		b.v.out.Files++
		if f.Blocks != nil {
			b.pages.add(string(f.Path), 0)
		}
		if b.crcs = append(b.crcs, b.expected(n, f, add)); n%32 == 0 {
			b.unsaid = append(b.unsaid, 0)
		}
		wrong := f.Fault()
		if wrong != nil || f.Type != "" || f.Object != nil {
			b.leaveOut(n)
		}
		return wrong
	})
	return cmp.Or(failed, err)
}

// expected returns what a file's extents must contribute to its checksum, and adds the extents. A
// checksum is linear: it is the exclusive or of those of the extents, each extended with zeros for
// what follows it, in whatever order they are read.
func (b *backupCheck) expected(n uint32, f *File, add func(span)) uint32 {
	left, at := f.CRC, int64(0)
	of := f.Size
	if f.Blocks != nil {
		of = 0
		for _, e := range f.Extents {
			of += int64(e.Length)
		}
	}
	zeros := func(to int64) {
		if f.Blocks == nil && to > at {
			left ^= CombineCRC(ZerosCRC(to-at), 0, of-to)
		}
	}
	for _, e := range f.Extents {
		zeros(e.At)
		if f.Blocks == nil {
			at = e.At
		}
		at += int64(e.Length)
		add(span{e.Ref, e.Skip, e.Length, n, max(of-at, 0)})
	}
	zeros(of)
	return left
}

// files calls do for each file, with its index in the lists; an error of do is damage of the file.
func (b *backupCheck) files(ctx context.Context, do func(n uint32, f *File) error) error {
	n := uint32(0)
	for f, err := range b.v.r.Files(ctx, b.m) {
		if err != nil && b.broken {
			return nil
		}
		if err != nil {
			b.broken = true
			return b.v.wrong(b.name(), b.needs, err)
		}
		if err := do(n, &f); err != nil {
			b.v.damage(b.name(), b.needs, fmt.Errorf("file %s: %w", f.Path, err))
		}
		n++
	}
	return nil
}

// A packWork is a pack to read, with the sorted records of the spans in it.
type packWork struct {
	PackStat
	spans []byte
}

// feed passes give the packs.
func (b *backupCheck) feed(give func(packWork) bool) error {
	left, unknown := b.m.Packs, -1
	var spans []byte
	until := func(pack uint64) bool { // hands out the packs before this one
		for len(left) > 0 && uint64(left[0].Number) < pack {
			if !give(packWork{left[0], spans}) {
				return false
			}
			left, spans = left[1:], nil
		}
		return true
	}
	for record, err := range b.spans.Sorted() {
		if err != nil {
			return err
		}
		pack := packOf(record)
		if !until(uint64(pack)) {
			return nil
		}
		if len(left) == 0 || left[0].Number != pack {
			b.leaveOut(spanOf(record).file)
			if unknown != int(pack) {
				b.v.damage(b.name(), b.needs, fmt.Errorf("files refer to pack %d, which it does not have", pack))
			}
			unknown = int(pack)
			continue
		}
		spans = append(spans, record...)
	}
	until(1 << 32)
	return nil
}

// pack verifies a pack.
func (b *backupCheck) pack(ctx context.Context, p packWork) error {
	name := packName(b.m.ID, p.Number)
	if _, absent := slices.BinarySearch(b.absent, p.Number); absent {
		b.miss(p.spans)
		return nil // reported already
	}
	pieces, plain, err := b.readPack(ctx, p)
	b.v.progress(p.Size)
	b.v.mu.Lock()
	b.v.out.Packs++
	b.v.out.Pieces += pieces
	b.v.out.Plain += plain
	b.v.mu.Unlock()
	return b.v.wrong(name, b.needs, damaged(name, err))
}

// miss records that the files of these spans cannot be judged.
func (b *backupCheck) miss(spans []byte) {
	for ; len(spans) > 0; spans = spans[spanSize:] {
		b.leaveOut(spanOf(spans).file)
	}
}

// leaveOut excludes a file's checksum from the result.
func (b *backupCheck) leaveOut(file uint32) {
	if file != ofLists {
		atomic.OrUint32(&b.unsaid[file/32], 1<<(file%32))
	}
}

// readPack reads a pack; it reports only the first of several damages, but counts what is in sound
// pieces.
func (b *backupCheck) readPack(ctx context.Context, p packWork) (pieces, plain int64, err error) {
	name := packName(b.m.ID, p.Number)
	spans := p.spans
	defer func() { b.miss(spans) }()
	o := b.v.r.Opener(b.m)
	op, err := o.pack(p.Number)
	if err != nil {
		return 0, 0, err
	}
	entries, end, err := b.index(ctx, op)
	if err != nil {
		return 0, 0, err
	}
	in, err := b.v.r.store.Read(ctx, name, 0, end)
	if err != nil {
		return 0, 0, err
	}
	defer in.Close()
	buf := bufio.NewReaderSize(in, int(min(end, 256<<10)))
	head := make([]byte, op.head)
	if _, err := io.ReadFull(buf, head); err != nil {
		return 0, 0, cut(err)
	}
	salt, err := b.v.r.readHeader(head, kindPack, name)
	if err == nil && salt != op.seal.salt {
		err = errors.New("its salt differs from the one in the manifest")
	}
	if err != nil {
		return 0, 0, err
	}
	var first error
	var room, out []byte
	for _, ref := range entries {
		room = grown(room, int(ref.Stored))
		if _, err := io.ReadFull(buf, room); err != nil {
			return pieces, plain, cut(err)
		}
		var perr error
		out, perr = o.open(op, out, ref, room)
		for len(spans) > 0 {
			s := spanOf(spans)
			if s.ref.Offset > ref.Offset {
				break
			}
			if s.ref != ref {
				perr = errors.Join(perr, fmt.Errorf("the piece at %d is not the one that a file refers to", s.ref.Offset))
			}
			if perr != nil {
				b.leaveOut(s.file)
			} else {
				b.count(&s, out)
			}
			spans = spans[spanSize:]
		}
		if perr != nil && first == nil {
			first = fmt.Errorf("piece %d at %d: %w", ref.Number, ref.Offset, perr)
		}
		pieces++
		plain += int64(ref.Plain)
	}
	if len(spans) > 0 && first == nil {
		first = fmt.Errorf("there is no piece at %d, to which a file refers", spanOf(spans).ref.Offset)
	}
	if pieces != int64(p.Pieces) && first == nil {
		first = fmt.Errorf("it has %d pieces instead of %d", pieces, p.Pieces)
	}
	return pieces, plain, first
}

// count takes an extent out of its file's checksum.
func (b *backupCheck) count(s *span, plain []byte) {
	switch {
	case s.file == ofLists:
	case uint64(s.skip)+uint64(s.length) > uint64(len(plain)):
		b.leaveOut(s.file)
	default:
		sum := CombineCRC(crc32.Checksum(plain[s.skip:s.skip+s.length], castagnoli), 0, s.behind)
		for at := &b.crcs[s.file]; ; {
			if was := atomic.LoadUint32(at); atomic.CompareAndSwapUint32(at, was, was^sum) {
				break
			}
		}
	}
}

// index reads a pack's index: its pieces in order, and where they end.
func (b *backupCheck) index(ctx context.Context, p *openPack) (entries []Ref, end int64, err error) {
	name := packName(b.m.ID, p.stat.Number)
	tail, err := b.readAt(ctx, name, p.stat.Size-trailerSize, trailerSize)
	if err != nil {
		return nil, 0, err
	}
	if xxh3.Hash(tail[:12]) != binary.BigEndian.Uint64(tail[12:]) {
		return nil, 0, errors.New("its trailer is damaged")
	}
	stored := int64(binary.BigEndian.Uint32(tail))
	u := unit{kind: unitIndex, place: name, number: uint64(p.stat.Number), plain: binary.BigEndian.Uint32(tail[4:]), crc: binary.BigEndian.Uint32(tail[8:])}
	end = p.stat.Size - trailerSize - stored
	if end < int64(p.head) || stored != int64(u.plain)+tagSize || u.plain%entrySize != 0 {
		return nil, 0, errors.New("its trailer does not match its index")
	}
	sealed, err := b.readAt(ctx, name, end, stored)
	if err != nil {
		return nil, 0, err
	}
	text, err := p.seal.open(sealed, &u)
	if err == nil && crc32.Checksum(text, castagnoli) != u.crc {
		err = errTag
	}
	if err != nil {
		return nil, 0, fmt.Errorf("its index: %w", err)
	}
	at := int64(p.head)
	for ; len(text) > 0; text = text[entrySize:] {
		r := Ref{Pack: p.stat.Number, Offset: at, Number: binary.BigEndian.Uint64(text), Stored: binary.BigEndian.Uint32(text[8:]),
			Plain: binary.BigEndian.Uint32(text[12:]), CRC: binary.BigEndian.Uint32(text[16:]), Codec: text[20]}
		entries = append(entries, r)
		at += int64(r.Stored)
	}
	if at != end {
		return nil, 0, errors.New("its index does not match its pieces")
	}
	return entries, end, nil
}

func (b *backupCheck) readAt(ctx context.Context, name string, at, n int64) ([]byte, error) {
	if at < 0 {
		return nil, errors.New("it is too short")
	}
	in, err := b.v.r.store.Read(ctx, name, at, n)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := make([]byte, n)
	_, err = io.ReadFull(in, out)
	if err != nil {
		err = cut(err)
	}
	return out, err
}

// checkSums names the files whose pieces are all sound, but whose checksum differs.
func (b *backupCheck) checkSums(ctx context.Context) error {
	wrong := func(n uint32) bool {
		return int(n) < len(b.crcs) && b.crcs[n] != 0 && b.unsaid[n/32]&(1<<(n%32)) == 0
	}
	for n := range b.crcs {
		if wrong(uint32(n)) {
			return b.files(ctx, func(n uint32, f *File) error {
				if wrong(n) {
					return WrongSum(f.CRC^b.crcs[n], f.CRC)
				}
				return nil
			})
		}
	}
	return nil
}

// checkParent checks that the parent has the files of which this backup has blocks.
func (b *backupCheck) checkParent(ctx context.Context) error {
	parent := b.v.manifests[b.m.Parent]
	if len(b.pages.all) == 0 || b.m.Parent != "" && parent == nil {
		return nil // no parent, or reported already
	}
	found := 0
	for parent != nil {
		m, err := b.v.r.Manifest(ctx, parent.ID)
		if err != nil {
			return b.v.wrong(manifestName(parent.ID), b.needs, err)
		}
		for f, err := range b.v.r.Files(ctx, m) {
			if err != nil {
				return b.v.wrong(manifestName(m.ID), b.needs, err)
			}
			if at := b.pages.find(string(f.Path)); at != nil && *at == 0 {
				*at = 1
				found++
			}
		}
		if parent.Kind != Partial {
			break
		}
		parent = b.v.manifests[parent.Parent] // what an unfinished parent did not reach, its own parent has
	}
	if found == len(b.pages.all) {
		return nil
	}
	return b.files(ctx, func(_ uint32, f *File) error {
		if f.Blocks != nil && *b.pages.find(string(f.Path)) == 0 {
			return errors.New("the parent does not have it")
		}
		return nil
	})
}
