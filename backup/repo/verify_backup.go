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

	"github.com/zeebo/xxh3"
)

// backupCheck reads one backup. First its lists of files say where in the packs each file's bytes
// should be; then each pack is read from its beginning to its end, piece after piece, and what
// is in the pieces is counted towards the files; at last each file's checksum is put together.
// It needs about 40 bytes of memory for each extent.
type backupCheck struct {
	v     *verifier
	m     *Manifest
	needs []string

	spans  map[uint32][]span // by pack
	sums   []uint32          // of the extents, in the order of the lists
	read   []bool            // likewise: the extent's piece was there
	blocks map[Path]bool     // files that the parent has to have
}

// A span is an extent within a pack.
type span struct {
	ref    Ref
	skip   uint32
	length uint32
	slot   int // in sums; -1: a piece of the lists themselves
}

func (b *backupCheck) name() string { return manifestName(b.m.ID) }

func (b *backupCheck) run(ctx context.Context) error {
	b.spans = map[uint32][]span{}
	b.blocks = map[Path]bool{}
	for _, ref := range b.m.Lists {
		b.spans[ref.Pack] = append(b.spans[ref.Pack], span{ref: ref, slot: -1})
	}
	n := 0
	err := b.files(ctx, func(f *File) error {
		for _, e := range f.Extents {
			b.spans[e.Ref.Pack] = append(b.spans[e.Ref.Pack], span{e.Ref, e.Skip, e.Length, n})
			n++
		}
		b.v.out.Files++
		if f.Blocks != nil {
			b.blocks[f.Path] = true
		}
		return checkExtents(f)
	})
	if err != nil {
		return err
	}
	b.sums, b.read = make([]uint32, n), make([]bool, n)
	if err := b.v.each(ctx, len(b.m.Packs), b.pack); err != nil {
		return err
	}
	for pack := range b.spans {
		if !slices.ContainsFunc(b.m.Packs, func(p PackStat) bool { return p.Number == pack }) {
			b.v.damage(b.name(), b.needs, fmt.Errorf("files are said to be in pack %d, which it does not have", pack))
		}
	}
	if err := b.checkSums(ctx); err != nil {
		return err
	}
	return b.checkParent(ctx)
}

// files calls do for each file; an error of do is damage of the file.
func (b *backupCheck) files(ctx context.Context, do func(*File) error) error {
	for f, err := range b.v.r.Files(ctx, b.m) {
		if err != nil {
			return b.v.wrong(b.name(), b.needs, err)
		}
		if err := do(&f); err != nil {
			b.v.damage(b.name(), b.needs, fmt.Errorf("file %s: %w", f.Path, err))
		}
	}
	return nil
}

// checkExtents looks whether a file's extents make sense.
func checkExtents(f *File) error {
	end := int64(0)
	for _, e := range f.Extents {
		switch {
		case e.At < end:
			return errors.New("two extents overlap")
		case e.At+int64(e.Length) > f.Size:
			return errors.New("an extent is beyond its end")
		case uint64(e.Skip)+uint64(e.Length) > uint64(e.Ref.Plain):
			return errors.New("an extent is beyond the end of its piece")
		case f.Blocks != nil && (f.Blocks.PageSize <= 0 || e.At%int64(f.Blocks.PageSize) != 0 || int64(e.Length)%int64(f.Blocks.PageSize) != 0):
			return errors.New("an extent is not made of pages")
		}
		end = e.At + int64(e.Length)
	}
	return nil
}

// pack reads the i-th pack.
func (b *backupCheck) pack(ctx context.Context, i int) error {
	p := b.m.Packs[i]
	name := packName(b.m.ID, p.Number)
	if b.v.objects[name] != p.Size {
		return nil // said already
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

// readPack reads a pack; of several damages in it the first is told, and what lies in sound
// pieces is counted all the same.
func (b *backupCheck) readPack(ctx context.Context, p PackStat) (pieces, plain int64, err error) {
	name := packName(b.m.ID, p.Number)
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
		err = errors.New("its salt is not the one that the manifest has")
	}
	if err != nil {
		return 0, 0, err
	}
	spans := b.spans[p.Number]
	slices.SortFunc(spans, func(x, y span) int { return cmp.Compare(x.ref.Offset, y.ref.Offset) })
	var first error
	var room, out []byte
	for _, ref := range entries {
		room = grown(room, int(ref.Stored))
		if _, err := io.ReadFull(buf, room); err != nil {
			return pieces, plain, cut(err)
		}
		var perr error
		out, perr = o.open(op, out, ref, room)
		n := 0
		for n < len(spans) && spans[n].ref.Offset <= ref.Offset {
			if s := spans[n]; s.ref != ref {
				perr = errors.Join(perr, fmt.Errorf("at %d there is another piece than the one that a file says", s.ref.Offset))
			} else if perr == nil {
				b.count(s, out)
			}
			n++
		}
		spans = spans[n:]
		if perr != nil && first == nil {
			first = fmt.Errorf("piece %d at %d: %w", ref.Number, ref.Offset, perr)
		}
		pieces++
		plain += int64(ref.Plain)
	}
	if len(spans) > 0 && first == nil {
		first = fmt.Errorf("there is no piece at %d, where a file says that one is", spans[0].ref.Offset)
	}
	if pieces != int64(p.Pieces) && first == nil {
		first = fmt.Errorf("it has %d pieces instead of %d", pieces, p.Pieces)
	}
	return pieces, plain, first
}

// count notes the checksum of an extent. Slots are each of one goroutine.
func (b *backupCheck) count(s span, plain []byte) {
	if s.slot >= 0 && uint64(s.skip)+uint64(s.length) <= uint64(len(plain)) {
		b.sums[s.slot] = crc32.Checksum(plain[s.skip:s.skip+s.length], castagnoli)
		b.read[s.slot] = true
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
		return nil, 0, errors.New("its trailer does not fit")
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
		return nil, 0, errors.New("its index does not fit its pieces")
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

// checkSums compares files with their checksums, of those of which all pieces were sound.
func (b *backupCheck) checkSums(ctx context.Context) error {
	n := 0
	return b.files(ctx, func(f *File) error {
		crc, end, whole := uint32(0), int64(0), true
		for _, e := range f.Extents {
			if f.Blocks == nil && e.At > end {
				crc = CombineCRC(crc, ZerosCRC(e.At-end), e.At-end)
			}
			crc = CombineCRC(crc, b.sums[n], int64(e.Length))
			whole = whole && b.read[n]
			end = e.At + int64(e.Length)
			n++
		}
		if f.Blocks == nil && f.Size > end {
			crc = CombineCRC(crc, ZerosCRC(f.Size-end), f.Size-end)
		}
		if whole && f.Type == "" && crc != f.CRC {
			return fmt.Errorf("its bytes have the checksum %08x instead of %08x", crc, f.CRC)
		}
		return nil
	})
}

// checkParent looks whether the parent has the files that this backup has blocks of.
func (b *backupCheck) checkParent(ctx context.Context) error {
	parent := b.v.manifests[b.m.Parent]
	if len(b.blocks) == 0 || b.m.Parent != "" && parent == nil {
		return nil // nothing, or said already
	}
	if parent != nil {
		for f, err := range b.v.r.Files(ctx, parent) {
			if err != nil {
				return b.v.wrong(manifestName(parent.ID), b.needs, err)
			}
			delete(b.blocks, f.Path)
		}
	}
	for path := range b.blocks {
		b.v.damage(b.name(), b.needs, fmt.Errorf("file %s: the parent does not have it", path))
	}
	return nil
}
