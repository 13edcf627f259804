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
