package dump

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
)

// frameLimit limits the text of a frame, which is one batch: see Writer.
const frameLimit = 2 * tidemark.PieceSize

// frames reads the text of rows frame by frame: each is unpacked into the caller's memory at once,
// and its checksum verified before any byte of it is used.
type frames struct {
	d    *Dump
	path string
	from io.ReadCloser
	in   *bufio.Reader
	dec  *zstd.Decoder
	raw  []byte // a frame as it is stored
}

func (d *Dump) frames(ctx context.Context, rows *Rows) (*frames, error) {
	from, err := d.openStored(ctx, rows.Path)
	if err != nil {
		return nil, err
	}
	return &frames{d: d, path: rows.Path, from: from, in: bufio.NewReaderSize(from, 256<<10), dec: decoders.Get().(*zstd.Decoder)}, nil
}

func (f *frames) close() error {
	if f.dec != nil {
		decoders.Put(f.dec)
		f.dec = nil
	}
	return f.from.Close()
}

// next unpacks a frame into dst[:0]. io.EOF comes after the object was read to its end and
// verified; any other end is an error of Kind Corrupt.
func (f *frames) next(dst []byte) ([]byte, error) {
	if _, err := f.in.Peek(1); err != nil {
		if err == io.EOF {
			return dst[:0], io.EOF
		}
		return dst[:0], f.d.damaged(f.path, err)
	}
	err := f.read()
	if err == nil {
		dst, err = f.dec.DecodeAll(f.raw, dst[:0])
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errors.New("it is truncated: its end is missing")
	}
	return dst, f.d.damaged(f.path, err)
}

// read reads the next stored frame into raw. RFC 8878 defines its length: a header, blocks that
// each begin with their length, and a checksum.
func (f *frames) read() error {
	head, err := f.in.Peek(zstd.HeaderMaxSize)
	if err != nil && err != io.EOF {
		return err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return err
	}
	if h.Skippable || !h.HasCheckSum || h.HasFCS && h.FrameContentSize > frameLimit {
		return errors.New("it has a frame that is not in a backup's format")
	}
	f.raw = f.raw[:0]
	if err := f.readMore(h.HeaderSize); err != nil {
		return err
	}
	for last := false; !last; {
		if err := f.readMore(3); err != nil {
			return err
		}
		b := f.raw[len(f.raw)-3:]
		block := uint32(b[0]) | uint32(binary.LittleEndian.Uint16(b[1:]))<<8
		n := int(block >> 3)
		switch block >> 1 & 3 {
		case 1: // one repeated byte
			n = 1
		case 3:
			return errors.New("it has a block of an unknown kind")
		}
		if last = block&1 == 1; last {
			n += 4 // the checksum
		}
		if len(f.raw)+n > frameLimit+frameLimit/8 {
			return fmt.Errorf("it has a frame of more than %d bytes", frameLimit)
		}
		if err := f.readMore(n); err != nil {
			return err
		}
	}
	return nil
}

// readMore reads n more bytes into raw.
func (f *frames) readMore(n int) error {
	at := len(f.raw)
	if cap(f.raw) < at+n {
		f.raw = append(make([]byte, 0, max(2*cap(f.raw), at+n, 256<<10)), f.raw...)
	}
	f.raw = f.raw[:at+n]
	_, err := io.ReadFull(f.in, f.raw[at:])
	return err
}
