package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// partSize is the size of parts: each object being written has at most two of them in memory.
// Amazon and Azure require at least 5 MB, Google multiples of 256 kB.
const partSize = 8 << 20

// inParts is a cloud store that writes a small object in one request, and a large one in parts,
// which appears on completion. For each upload, one goroutine calls its methods; their errors come
// from fail.
type inParts interface {
	// whole writes an object.
	whole(ctx context.Context, name string, body []byte, mode Mode) error
	// begin begins an upload, and sets its id.
	begin(ctx context.Context, up *upload) error
	// part sends the part after up.tags, of partSize bytes, and returns the server's tag for it.
	// again means that it was tried before, and may have arrived.
	part(ctx context.Context, up *upload, body []byte, again bool) (tag string, err error)
	// complete sends the last part and makes the object appear.
	complete(ctx context.Context, up *upload, last []byte, again bool) error
	// mine reports whether the object is from this upload: the answer to complete may have been
	// lost.
	mine(ctx context.Context, up *upload) bool
	// abort discards an upload.
	abort(ctx context.Context, up *upload)
	// maxParts is the maximum number of parts in an object.
	maxParts() int
}

// An upload is an object being written in parts.
type upload struct {
	name string
	mode Mode
	mark string   // distinguishes it from all other uploads
	id   string   // the server's name for it
	tags []string // of the parts already sent
	last string   // tag of the last part, once sent: complete records it, and may be retried
	size int64    // of these
	crc  uint32   // CRC-32C of these, and in complete also of the last one
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// patience is for parts: unlike a small object, which Retry can write again, a large one cannot be
// rewritten, and a cloud may be busy for a while.
var patience = &retried{opt: RetryOptions{Attempts: 8, Pause: 200 * time.Millisecond}}

func createInParts(ctx context.Context, s inParts, name string, mode Mode) (Object, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &partsObject{s: s, ctx: ctx, cancel: cancel, up: upload{name: name, mode: mode}}, nil
}

type partsObject struct {
	s      inParts
	ctx    context.Context
	cancel context.CancelFunc
	up     upload
	buf    []byte        // of the next part
	sent   chan sentPart // of the part being sent, if any
	over   bool
}

type sentPart struct {
	tag  string
	buf  []byte
	err  error
	held bool // a failed request may still be reading buf: a server may answer before it has read all
}

// fullParts holds buffers of partSize.
var fullParts = sync.Pool{New: func() any { b := make([]byte, 0, partSize); return &b }}

func (o *partsObject) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(o.buf) == partSize {
			if err := o.send(); err != nil {
				return 0, err
			}
		}
		// Small objects need no full-size buffer.
		if need := min(len(o.buf)+len(p), partSize); need > cap(o.buf) && need > partSize/8 {
			full := *fullParts.Get().(*[]byte)
			o.buf = append(full[:0], o.buf...)
		}
		k := min(len(p), partSize-len(o.buf))
		o.buf = append(o.buf, p[:k]...)
		p = p[k:]
	}
	return n, o.ctx.Err()
}

// begin begins an upload in parts.
func (o *partsObject) begin() error {
	var mark [16]byte
	_, _ = rand.Read(mark[:]) // never fails
	o.up.mark = hex.EncodeToString(mark[:])
	return patience.try(o.ctx, func() error { return o.s.begin(o.ctx, &o.up) })
}

// send starts to send buf, once the previous part was sent. The last part is left to complete.
func (o *partsObject) send() error {
	if o.up.mark == "" {
		if err := o.begin(); err != nil {
			return err
		}
	}
	if err := o.wait(); err != nil {
		return err
	}
	if len(o.up.tags)+2 > o.s.maxParts() {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "write", Object: o.up.name, Err: fmt.Errorf("an object there has at most %d parts, %d GB", o.s.maxParts(), int64(o.s.maxParts())*partSize>>30)}
	}
	sent, buf := make(chan sentPart, 1), o.buf
	o.sent, o.buf = sent, nil
	ctx := flow.Uncounted(o.ctx) // the next part is filled meanwhile
	crash.Go(func() {
		p := sentPart{buf: buf, err: errors.New("sending the part did not start")} // replaced once it has
		defer func() { sent <- p }()
		again := false
		p.err = patience.try(ctx, func() (err error) {
			p.tag, err = o.s.part(ctx, &o.up, buf, again)
			p.held = p.held || err != nil
			again = true
			return err
		})
	})
	return nil
}

// wait waits for the part being sent.
func (o *partsObject) wait() error {
	if o.sent == nil {
		return nil
	}
	p := <-o.sent
	o.sent = nil
	if p.err == nil {
		o.up.tags = append(o.up.tags, p.tag)
		o.up.size += int64(len(p.buf))
		o.up.crc = crc32.Update(o.up.crc, castagnoli, p.buf)
	}
	if cap(p.buf) == partSize && !p.held {
		p.buf = p.buf[:0]
		fullParts.Put(&p.buf)
	}
	return p.err
}

func (o *partsObject) Commit() error {
	err := o.commit()
	if err != nil {
		o.Abort()
	}
	o.over = true
	o.cancel()
	return err
}

func (o *partsObject) commit() error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	if o.up.mark == "" && len(o.buf) <= keptMost {
		return o.s.whole(o.ctx, o.up.name, o.buf, o.up.mode)
	}
	if o.up.mark == "" { // nothing else keeps enough to retry it
		if err := o.begin(); err != nil {
			return err
		}
	}
	if err := o.wait(); err != nil {
		return err
	}
	o.up.crc = crc32.Update(o.up.crc, castagnoli, o.buf)
	again := false
	return patience.try(o.ctx, func() error {
		err := o.s.complete(o.ctx, &o.up, o.buf, again)
		if kind := tidemark.KindOf(err); err != nil && again && (kind == tidemark.Exists || kind == tidemark.NotFound) && o.s.mine(o.ctx, &o.up) {
			return nil // the first attempt's answer was lost, not its work
		}
		again = true
		return err
	})
}

// lastPart sends the last part, once, to a store that completes an upload in a separate request.
func lastPart(ctx context.Context, s inParts, up *upload, last []byte) error {
	if up.last != "" {
		return nil
	}
	tag, err := s.part(ctx, up, last, false)
	if err == nil {
		up.last = tag
	}
	return err
}

func (o *partsObject) Abort() {
	if o.over {
		return
	}
	o.over = true
	o.cancel()
	_ = o.wait() // it was cancelled
	if o.up.id == "" {
		return
	}
	// Anything left is swept later.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), 30*time.Second)
	defer cancel()
	o.s.abort(ctx, &o.up)
}
