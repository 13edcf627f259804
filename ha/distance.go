package ha

import "github.com/tidemarkdb/tidemark"

// distances sums the log by its distance from the redo point of the checkpoint before it. That
// point becomes known only when the checkpoint is done, later in the log: until then the log is
// kept as chunks.
type distances struct {
	chunks []chunk
	redo   uint64 // the last known one; 0: none
	bins   [maxDistance]chunk
	known  bool
}

// A chunk is up to chunkBytes of log.
type chunk struct {
	place  uint64
	begin  int64 // microseconds since 1970; 0: unknown
	bytes  int64
	images int64
	took   int64 // microseconds
}

const (
	chunkBytes  = 1 << 20
	maxChunks   = 1 << 16 // 64 GiB without a checkpoint
	maxDistance = 20      // up to 256 GiB, and beyond
)

// middle returns the position that decides on which side of a redo point the chunk is.
func (c chunk) middle() uint64 { return c.place + uint64(c.bytes/2) }

func (d *distances) add(r *tidemark.LogRecord, now int64) {
	if r.Image > 0 {
		d.known = true
	}
	n := len(d.chunks)
	if n == 0 || r.Place-d.chunks[n-1].place >= chunkBytes {
		if n > 0 {
			d.stop(&d.chunks[n-1], now)
		}
		if n == maxChunks {
			d.countChunks(d.chunks[:n/2])
			d.chunks = append(d.chunks[:0], d.chunks[n/2:]...)
		}
		d.chunks = append(d.chunks, chunk{place: r.Place, begin: now})
		n = len(d.chunks)
	}
	c := &d.chunks[n-1]
	c.bytes += int64(r.Size)
	c.images += int64(r.Image)
}

func (d *distances) stop(c *chunk, now int64) {
	if c.begin != 0 && now > c.begin {
		c.took = now - c.begin
	}
}

// checkpoint records the redo point of a checkpoint: the log after it belongs to that checkpoint.
func (d *distances) checkpoint(redo uint64) {
	if redo == d.redo {
		return
	}
	n := 0
	for n < len(d.chunks) && d.chunks[n].middle() < redo {
		n++
	}
	d.countChunks(d.chunks[:n])
	d.chunks = append(d.chunks[:0], d.chunks[n:]...)
	d.redo = redo
}

// countChunks counts chunks by their distance from the last redo point.
func (d *distances) countChunks(chunks []chunk) {
	for _, c := range chunks {
		if d.redo == 0 || c.middle() < d.redo {
			continue
		}
		bin := 0
		for mib := (max(c.place, d.redo) - d.redo) / chunkBytes; mib > 0 && bin < maxDistance-1; mib >>= 1 {
			bin++
		}
		b := &d.bins[bin]
		b.bytes += c.bytes
		b.images += c.images
		b.took += c.took
	}
}

func (d *distances) gap() {
	d.countChunks(d.chunks)
	d.chunks, d.redo = d.chunks[:0], 0
}

// finish returns the distances, nil if the log has no page images.
func (d *distances) finish(now int64) []Distance {
	if n := len(d.chunks); n > 0 {
		d.stop(&d.chunks[n-1], now)
	}
	d.countChunks(d.chunks)
	var out []Distance
	for i, b := range d.bins {
		if b.bytes == 0 || !d.known {
			continue
		}
		x := Distance{To: chunkBytes << i, Bytes: b.bytes, ImageBytes: b.images, Seconds: float64(b.took) / 1e6}
		if i > 0 {
			x.From = chunkBytes << (i - 1)
		}
		if i == maxDistance-1 {
			x.To = 0
		}
		out = append(out, x)
	}
	return out
}
