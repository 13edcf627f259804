package relay

import (
	"net"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A packed connection carries a zstd stream in each direction. It has no goroutines of its own:
// closing it is closing the connection below.
type packed struct {
	net.Conn
	mu sync.Mutex // of enc
	in *zstd.Decoder
	to *zstd.Encoder
}

// window is how far back compression looks, in bytes. It is what a connection costs in memory, a
// few times over; rows repeat within much less.
const window = 1 << 20

func pack(c net.Conn) (net.Conn, error) {
	in, err := zstd.NewReader(c, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, err
	}
	to, err := zstd.NewWriter(c, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	return &packed{Conn: c, in: in, to: to}, nil
}

func (p *packed) Read(b []byte) (int, error) { return p.in.Read(b) }

// Write sends b at once: nobody waits for more.
func (p *packed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.to.Write(b)
	if err == nil {
		err = p.to.Flush()
	}
	return n, err
}
