package binlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
)

// A bodyReader reads the rest of an event, and sums it up.
type bodyReader struct {
	r    io.Reader
	left uint32
	sum  uint32
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(uint64(len(p)), uint64(b.left))])
	b.left -= uint32(n)
	b.sum = crc32.Update(b.sum, crc32.IEEETable, p[:n])
	if err == io.EOF && b.left > 0 {
		err = io.ErrUnexpectedEOF
	} else if err == io.EOF {
		err = nil
	}
	return n, err
}

// cutAt makes an error for an event that ends too early; any other error stays unchanged.
func cutAt(err error, have, size uint64) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	return damaged("only %d of its %d bytes are there", have, size)
}

// chunk returns memory for reading skipped data.
func (s *Scanner) chunk() []byte {
	if s.passed == nil {
		s.passed = make([]byte, 64<<10)
	}
	return s.passed
}

// An inner is the content of a compressed transaction.
type inner struct {
	end    tidemark.LogEnd
	begun  uint32
	xa     string // the identifier of an XA transaction
	tables []uint32
	bytes  []uint64
	at     map[uint32]int // index of a table in both
	shares []tidemark.TableShare
}

// maxInner limits how much of a compressed transaction is unpacked: more than MySQL packs into one.
const maxInner = 2 << 30

// payload reads a compressed transaction (MySQL): fields of a kind, a length and a value, and after
// the one of kind 0 events without checksums. Damaged content merely stays unknown: the caller
// checks the checksum of the event.
func (s *Scanner) payload(in io.Reader) {
	x := &s.inner
	if x.at == nil {
		x.at = map[uint32]int{}
	}
	clear(x.at)
	*x = inner{end: tidemark.Committed, tables: x.tables[:0], bytes: x.bytes[:0], shares: x.shares[:0], at: x.at}
	if s.buffer == nil {
		s.buffer = bufio.NewReaderSize(nil, 64<<10)
	}
	s.buffer.Reset(in)
	method, err := ReadPayloadHead(s.buffer)
	if err != nil {
		s.find("A compressed transaction is damaged, or in an unknown format; its tables are not counted.")
		return
	}
	var events io.Reader = s.buffer
	switch method {
	case PayloadPlain:
	case PayloadZstd:
		if s.zstd == nil {
			s.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(1<<27))
		}
		if err == nil {
			err = s.zstd.Reset(s.buffer)
		}
		events = s.zstd
	default:
		err = errors.New("unknown method")
	}
	if s.events == nil {
		s.events = bufio.NewReaderSize(nil, 128<<10)
	}
	if err == nil {
		s.events.Reset(io.LimitReader(events, maxInner))
		err = s.innerEvents(s.events)
	}
	if err != nil {
		s.find("A compressed transaction is damaged, or in an unknown format; its tables are not counted.")
	}
}

// Compression methods of the events in a transaction.
const (
	PayloadZstd  = 0
	PayloadPlain = 255
)

// ErrPayloadHead is the error of a malformed head.
var ErrPayloadHead = errors.New("a long field")

// ReadPayloadHead reads the fields before the events of a compressed transaction, and returns their
// compression method. Errors of in are returned unchanged.
func ReadPayloadHead(in io.ByteReader) (method uint64, err error) {
	const end, isMethod = 0, 2
	for {
		kind, err := readLenenc(in)
		if err != nil || kind == end {
			return method, err
		}
		size, err := readLenenc(in)
		if err == nil && size > 9 {
			err = ErrPayloadHead
		}
		if err != nil {
			return 0, err
		}
		value, err := readLenenc(in)
		if err != nil {
			return 0, err
		}
		if kind == isMethod {
			method = value
		}
	}
}

// readLenenc reads a length-encoded integer of the protocol.
func readLenenc(in io.ByteReader) (uint64, error) {
	first, err := in.ReadByte()
	size := 0
	switch first {
	case 0xfc:
		size = 2
	case 0xfd:
		size = 3
	case 0xfe:
		size = 8
	default:
		return uint64(first), err
	}
	var n uint64
	for i := range size {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		n |= uint64(b) << (8 * i)
	}
	return n, nil
}

// innerEvents reads the events of a compressed transaction.
func (s *Scanner) innerEvents(in *bufio.Reader) error {
	x := &s.inner
	for {
		head, err := in.Peek(headerSize)
		if len(head) == 0 && err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		kind, size := head[4], binary.LittleEndian.Uint32(head[9:])
		if size < headerSize {
			return errors.New("an event without a size")
		}
		if at := binary.LittleEndian.Uint32(head); at != 0 && (at < x.begun || x.begun == 0) {
			x.begun = at
		}
		ev, err := in.Peek(int(min(size, 80<<10)))
		if err != nil {
			return err
		}
		body := ev[headerSize:]
		switch {
		case kind == kindTableMap:
			x.add(s.tableMap(body), size)
		case kind >= kindWrite && kind <= kindDelete, kind == kindPartial:
			x.add(s.rowsOf(body), size)
		case kind == kindQuery:
			switch v, id := readVerb(readQuery(body)); v {
			case verbXABegin:
				x.xa = string(id)
			case verbRollback:
				x.end = tidemark.RolledBack
			}
		case kind == kindXAPrepare && len(body) > 0 && body[0] == 0:
			x.end = tidemark.Prepared
		}
		for left := int(size); left > 0; {
			n, err := in.Discard(min(left, 1<<20))
			if left -= n; err != nil {
				return err
			}
		}
	}
}

func (x *inner) add(table, size uint32) {
	if i, ok := x.at[table]; ok {
		x.bytes[i] += uint64(size)
		return
	}
	x.at[table] = len(x.tables)
	x.tables, x.bytes = append(x.tables, table), append(x.bytes, uint64(size))
}

// share assigns each table its share of the stored bytes.
func (x *inner) share(rec *tidemark.LogRecord) {
	if len(x.tables) == 0 {
		return
	}
	rec.Table = x.tables[0]
	if len(x.tables) == 1 {
		return
	}
	sum, left := uint64(0), rec.Size
	for _, b := range x.bytes {
		sum += b
	}
	for i, t := range x.tables {
		part := uint32(float64(rec.Size) * (float64(x.bytes[i]) / float64(sum)))
		part = min(part, left)
		left -= part
		x.shares = append(x.shares, tidemark.TableShare{Table: t, Size: part})
	}
	x.shares[0].Size += left
	rec.Shares = x.shares
}

// inflate returns the beginning of a statement that MariaDB has compressed: a byte with the method,
// the length in the number of bytes that it gives, and zlib data.
func inflate(p []byte) []byte {
	if len(p) < 1 || len(p) < 1+int(p[0]&7) {
		return nil
	}
	if p[0] == 0 {
		return p[1:]
	}
	z, err := zlib.NewReader(bytes.NewReader(p[1+int(p[0]&7):]))
	if err != nil {
		return nil
	}
	defer z.Close()
	out := make([]byte, 512)
	n, _ := io.ReadFull(z, out)
	return out[:n]
}
