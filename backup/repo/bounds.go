package repo

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// maxFile is the maximum size of a file in a backup, in bytes.
const maxFile = 1 << 50

// check reports impossible entries in a list of files: a restore creates files and buffers of these
// sizes, below these paths.
func (f *File) check() error {
	p := string(f.Path)
	switch {
	case p == "" || strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) || p != path.Clean(p) || p == ".." || strings.HasPrefix(p, "../"):
		return fmt.Errorf("%.200q is not a path below the data folder", p)
	case f.Size < 0 || f.Size > maxFile:
		return fmt.Errorf("%.200q has %d bytes", p, f.Size)
	case f.Blocks != nil && (f.Blocks.PageSize <= 0 || f.Blocks.PageSize > MaxPiece || f.Blocks.Truncate < 0 || f.Blocks.Truncate > maxFile/int64(f.Blocks.PageSize)):
		return fmt.Errorf("%.200q has %d pages of %d bytes", p, f.Blocks.Truncate, f.Blocks.PageSize)
	}
	for i := range f.Extents {
		if err := f.Extents[i].check(); err != nil {
			return fmt.Errorf("%.200q: %w", p, err)
		}
	}
	return nil
}

// Fault reports why a listed file cannot be restored as it was, as far as the lists tell: verify
// names it, and a restore refuses the backup before it writes anything.
func (f *File) Fault() error {
	if f.Type != "" && f.Type != Folder {
		return fmt.Errorf("it is a %q, which this version cannot restore", f.Type)
	}
	if err := checkExtents(f); err != nil {
		return err
	}
	if sum, known := f.sumOfPieces(); known && sum != f.CRC {
		return WrongSum(sum, f.CRC)
	}
	return nil
}

// WrongSum is the error of a file all of whose pieces are sound, but whose checksum differs.
func WrongSum(is, want uint32) error {
	return fmt.Errorf("its bytes have the checksum %08x instead of %08x", is, want)
}

// sumOfPieces returns the file's checksum by those of its pieces, unless it shares a piece with
// others: that piece's checksum says nothing of its part.
func (f *File) sumOfPieces() (sum uint32, known bool) {
	if f.Type != "" || f.Object != nil {
		return 0, false
	}
	at := int64(0)
	zeros := func(to int64) {
		if f.Blocks == nil && to > at {
			sum = CombineCRC(sum, ZerosCRC(to-at), to-at)
		}
	}
	for i := range f.Extents {
		e := &f.Extents[i]
		if !e.Whole() {
			return 0, false
		}
		zeros(e.At)
		sum = CombineCRC(sum, e.Ref.CRC, int64(e.Length))
		at = e.At + int64(e.Length)
	}
	zeros(f.Size)
	return sum, true
}

// Length returns how many of the file's bytes its extents have.
func (f *File) Length() (n int64) {
	for i := range f.Extents {
		n += int64(f.Extents[i].Length)
	}
	return n
}

// Whole reports whether an extent is all of its piece.
func (e *Extent) Whole() bool { return e.Skip == 0 && e.Length == e.Ref.Plain }

// checkExtents checks that a file's extents are plausible.
func checkExtents(f *File) error {
	end := int64(0)
	for _, e := range f.Extents {
		switch {
		case e.At < end:
			return errors.New("two extents overlap")
		case e.At+int64(e.Length) > f.Size:
			return errors.New("an extent is beyond the end of the file")
		case uint64(e.Skip)+uint64(e.Length) > uint64(e.Ref.Plain):
			return errors.New("an extent is beyond the end of its piece")
		case f.Blocks != nil && (f.Blocks.PageSize <= 0 || e.At%int64(f.Blocks.PageSize) != 0 || int64(e.Length)%int64(f.Blocks.PageSize) != 0):
			return errors.New("an extent does not consist of whole pages")
		}
		end = e.At + int64(e.Length)
	}
	return nil
}

func (e *Extent) check() error {
	switch {
	case e.At < 0 || e.At > maxFile:
		return fmt.Errorf("an extent is at the invalid offset %d", e.At)
	case uint64(e.Skip)+uint64(e.Length) > uint64(e.Ref.Plain):
		return errors.New("the end is beyond that of the piece")
	}
	return e.Ref.check()
}

func (r *Ref) check() error {
	if r.Plain > MaxPiece || r.Stored > MaxPiece+MaxPiece/8 || r.Offset < 0 {
		return fmt.Errorf("there is no piece of %d bytes, %d stored, at %d", r.Plain, r.Stored, r.Offset)
	}
	return nil
}

// check reports impossible values in a manifest.
func (m *Manifest) check() error {
	if m.Count < 0 || m.Bytes < 0 || m.Plain < 0 || m.Stored < 0 || m.PageSize < 0 || m.PageSize > MaxPiece || m.LogSize < 0 || m.LogSize > 1<<30 {
		return errors.New("its counts are invalid")
	}
	for i := range m.Packs {
		if m.Packs[i].Size < 0 {
			return fmt.Errorf("pack %d has %d bytes", m.Packs[i].Number, m.Packs[i].Size)
		}
	}
	for i := range m.Lists {
		if err := m.Lists[i].check(); err != nil {
			return err
		}
	}
	return nil
}
