package wal

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"
	"strings"
)

// A Summary is a file of pg_wal/summaries, in which servers since version 17 record what a part of
// the log changes.
type Summary struct {
	Name     string
	Timeline uint32
	From, To uint64
}

// ParseSummaryName reads the name of a summary.
func ParseSummaryName(name string) (s Summary, ok bool) {
	digits, found := strings.CutSuffix(name, ".summary")
	b, err := hex.DecodeString(digits)
	if !found || err != nil || len(b) != 20 {
		return s, false
	}
	be := func(b []byte) (n uint64) {
		for _, x := range b {
			n = n<<8 | uint64(x)
		}
		return n
	}
	s = Summary{Name: name, Timeline: uint32(be(b[:4])), From: be(b[4:12]), To: be(b[12:])}
	return s, s.From < s.To
}

// Cover returns, in order, the summaries that cover the log of a timeline from a position without a
// gap, and the position that they reach.
func Cover(all []Summary, timeline uint32, from, until uint64) (use []Summary, to uint64) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Summary) int { return strings.Compare(a.Name, b.Name) })
	to = from
	for _, s := range all {
		if s.Timeline == timeline && s.From <= to && s.To > to && to < until {
			use, to = append(use, s), s.To
		}
	}
	return use, to
}

const (
	summaryMagic = 0x652b137b // common/blkreftable.c
	summaryEntry = 24
)

// summaryReader reads a summary's numbers and computes its checksum so far.
type summaryReader struct {
	in  *bufio.Reader
	crc hash.Hash32
	buf [2 * chunkList]byte
}

func (r *summaryReader) take(n int) ([]byte, error) {
	b := r.buf[:n]
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, errors.New("it is truncated")
	}
	_, _ = r.crc.Write(b) // never fails
	return b, nil
}

// AddSummary adds the changes in a summary. After an error, such as ErrTooMany, the added changes
// are useless.
func (c *Changes) AddSummary(file io.Reader) error {
	r := &summaryReader{in: bufio.NewReaderSize(file, 64<<10), crc: crc32.New(castagnoli)}
	b, err := r.take(4)
	if err != nil {
		return err
	}
	if le.Uint32(b) != summaryMagic {
		return fmt.Errorf("it begins with %08X and not with %08X", le.Uint32(b), summaryMagic)
	}
	for {
		if b, err = r.take(summaryEntry); err != nil {
			return err
		}
		if [summaryEntry]byte(b) == [summaryEntry]byte{} {
			break
		}
		f := Fork{Space: le.Uint32(b), Database: le.Uint32(b[4:]), Relation: le.Uint32(b[8:]), Number: b[12]}
		if fork := le.Uint32(b[12:]); fork > InitFork {
			return fmt.Errorf("it has a fork %d", fork)
		}
		limit, chunks := le.Uint32(b[16:]), le.Uint32(b[20:])
		if chunks > chunkPages {
			return fmt.Errorf("it has %d chunks of one fork", chunks)
		}
		c.cut(f, limit)
		if err := c.addChunks(r, f, int(chunks)); err != nil {
			return err
		}
		if err := c.fits(); err != nil {
			return err
		}
	}
	want := r.crc.Sum32()
	if b, err = r.take(4); err != nil {
		return err
	}
	if le.Uint32(b) != want {
		return fmt.Errorf("its checksum is %08X, not %08X as recorded", want, le.Uint32(b))
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("it continues after its end")
	}
	return nil
}

// addChunks adds the chunks of a fork: first the count of numbers in each, then the numbers. A
// chunk whose list would take as much as a bitmap is stored as a bitmap.
func (c *Changes) addChunks(r *summaryReader, f Fork, n int) error {
	var sizes []uint16
	for range n {
		b, err := r.take(2)
		if err != nil {
			return err
		}
		sizes = append(sizes, le.Uint16(b))
	}
	for i, size := range sizes {
		if size > chunkList {
			return fmt.Errorf("it has a chunk of %d", size)
		}
		b, err := r.take(2 * int(size))
		if err != nil {
			return err
		}
		first := uint32(i) * chunkPages
		for at := 0; at < len(b); at += 2 {
			word := uint32(le.Uint16(b[at:]))
			if size < chunkList {
				c.mark(f, first+word)
				continue
			}
			for bit := range uint32(16) {
				if word>>bit&1 != 0 {
					c.mark(f, first+uint32(at)*8+bit)
				}
			}
		}
	}
	return nil
}
