package repo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemarkdb/tidemark"
)

// How the bytes of a unit are packed; these values are stored.
const (
	codecNone = 0
	codecZstd = 1
	codecLZ4  = 2
	codecS2   = 3
)

// A Codec is how pieces are compressed: none, lz4, s2 or zstd with a level of 1 to 22, of which the
// library implements four (1, 2 to 5, 6 to 9, 10 and above). The zero value is none.
type Codec struct {
	kind  uint8
	level int
}

// S2 is the fastest one.
var S2 = Codec{kind: codecS2}

// ParseCodec parses none, lz4, s2, zstd or zstd:LEVEL.
func ParseCodec(s string) (Codec, error) {
	switch s {
	case "none":
		return Codec{}, nil
	case "lz4":
		return Codec{kind: codecLZ4}, nil
	case "s2":
		return S2, nil
	case "zstd":
		return Codec{kind: codecZstd, level: 3}, nil
	}
	if level, ok := strings.CutPrefix(s, "zstd:"); ok {
		if n, err := strconv.Atoi(level); err == nil && n >= 1 && n <= 22 {
			return Codec{kind: codecZstd, level: n}, nil
		}
	}
	return Codec{}, &tidemark.Error{Kind: tidemark.Invalid, Op: "compress", Object: s, Err: errors.New("is not a compression method"), Hint: "Choose none, lz4, s2, zstd, or zstd:1 to zstd:22."}
}

// Zstd returns the level of zstd, and false for another codec.
func (c Codec) Zstd() (level int, ok bool) { return c.level, c.kind == codecZstd }

func (c Codec) String() string {
	switch c.kind {
	case codecZstd:
		return fmt.Sprintf("zstd:%d", c.level)
	case codecLZ4:
		return "lz4"
	case codecS2:
		return "s2"
	}
	return "none"
}

// Memory returns about how many bytes of tables a compressor uses.
func (c Codec) Memory() int64 {
	switch {
	case c.kind != codecZstd:
		return 1 << 20
	case c.level < 2:
		return 3 << 20
	case c.level < 6:
		return 6 << 20
	case c.level < 10:
		return 16 << 20
	}
	return 40 << 20
}

// encoders and decoders hold the idle ones of zstd, encoders by level: their tables take a megabyte
// and more.
var (
	encoders sync.Map // int to *sync.Pool
	decoders = sync.Pool{New: func() any {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPiece), zstd.WithDecoderLowmem(true)) // valid options
		return d
	}}
)

func encodersOf(level int) *sync.Pool {
	if p, ok := encoders.Load(level); ok {
		return p.(*sync.Pool)
	}
	p, _ := encoders.LoadOrStore(level, &sync.Pool{New: func() any {
		// Units have their own checksums, and are small, so a larger window would waste memory.
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)) // valid options
		return e
	}})
	return p.(*sync.Pool)
}

// A packer compresses. It belongs to one goroutine.
type packer struct {
	codec Codec
	lz4   lz4.Compressor
	level int // of zstd, for the next until pieces
	until int
}

func newPacker(c Codec) *packer { return &packer{codec: c} }

// pack puts plain's compressed form into dst[:0] and returns the codec; what does not become
// smaller is not packed.
func (p *packer) pack(dst, plain []byte) ([]byte, uint8) {
	var out []byte
	switch p.codec.kind {
	case codecZstd:
		out = zstdPack(dst, plain, p.worth(dst, plain))
	case codecS2:
		if n := s2.MaxEncodedLen(len(plain)); n > 0 {
			out = s2.Encode(grown(dst, n), plain)
		}
	case codecLZ4:
		dst = grown(dst, lz4.CompressBlockBound(len(plain)))
		if n, err := p.lz4.CompressBlock(plain, dst); err == nil {
			out = dst[:n]
		}
	}
	if len(out) == 0 || len(out) >= len(plain) {
		return append(dst[:0], plain...), codecNone
	}
	return out, p.codec.kind
}

func zstdPack(dst, plain []byte, level int) []byte {
	pool := encodersOf(level)
	e := pool.Get().(*zstd.Encoder)
	defer pool.Put(e)
	return e.EncodeAll(plain, dst[:0])
}

const (
	sampleSize  = 64 << 10
	sampledFrom = 16 * sampleSize // smaller pieces are packed at the requested level
	sampleEach  = 8               // pieces: adjacent ones are mostly of one file
)

// worth returns the level of zstd at which to pack a piece: the requested one, or the fastest if
// the requested one does not pack a sample smaller by a fiftieth. For pages of rows it often does
// not, and numbers as text even grow with it, at three times the time.
func (p *packer) worth(dst, plain []byte) int {
	if len(plain) < sampledFrom || zstd.EncoderLevelFromZstd(p.codec.level) == zstd.SpeedFastest {
		return p.codec.level
	}
	if p.until > 0 {
		p.until--
		return p.level
	}
	p.level, p.until = p.codec.level, sampleEach-1
	sample := plain[len(plain)/2:][:sampleSize]
	fast := len(zstdPack(dst, sample, 1))
	if slow := len(zstdPack(dst, sample, p.level)); slow > fast-fast/50 {
		p.level = 1
	}
	return p.level
}

// grown returns a slice of n bytes, of dst if that is large enough.
func grown(dst []byte, n int) []byte {
	if cap(dst) < n {
		return make([]byte, n)
	}
	return dst[:n]
}

// unpack puts what was packed into dst[:0]; the result must have length bytes.
func unpack(dst, packed []byte, codec uint8, length int) ([]byte, error) {
	var err error
	switch codec {
	case codecNone:
		dst = append(dst[:0], packed...)
	case codecZstd:
		d := decoders.Get().(*zstd.Decoder)
		dst, err = d.DecodeAll(packed, grown(dst, length)[:0])
		decoders.Put(d)
	case codecS2:
		var n int
		if n, err = s2.DecodedLen(packed); err == nil && n == length {
			dst, err = s2.Decode(grown(dst, length), packed)
		}
	case codecLZ4:
		var n int
		dst = grown(dst, length)
		n, err = lz4.UncompressBlock(packed, dst)
		dst = dst[:max(n, 0)]
	default:
		err = fmt.Errorf("an unknown compression method (%d)", codec)
	}
	if err == nil && len(dst) != length {
		err = fmt.Errorf("it decompresses to %d bytes instead of %d", len(dst), length)
	}
	return dst, err
}
