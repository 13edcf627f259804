package repo

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/store"
)

// Every object but the repository's own file begins with a header:
//
//	8  "TIDEMARK"
//	1  'P' a pack, 'O' an object of frames
//	1  version of the format
//	1  0 not encrypted, 1 AES-256-GCM
//	1  0
//	4  length of the name
//	16 the repository's id
//	16 salt
//	.. the object's whole name
//	8  XXH3 (64 bits) of all before
const (
	magic      = "TIDEMARK"
	kindPack   = 'P'
	kindObject = 'O'

	formatVersion = 1
	headerSize    = 56 // without the name
)

func (r *objects) header(kind byte, name string, salt [saltSize]byte) []byte {
	b := make([]byte, 0, headerSize+len(name))
	b = append(b, magic...)
	b = append(b, kind, formatVersion, r.cipher(), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, r.id[:]...)
	b = append(b, salt[:]...)
	b = append(b, name...)
	return binary.BigEndian.AppendUint64(b, xxh3.Hash(b))
}

func (r *objects) cipher() byte {
	if r.key == nil {
		return 0
	}
	return 1
}

// readHeader checks a header and returns its salt.
func (r *objects) readHeader(b []byte, kind byte, name string) (salt [saltSize]byte, err error) {
	if len(b) != headerSize+len(name) {
		return salt, fmt.Errorf("it is truncated within its header")
	}
	body := b[:len(b)-8]
	salt = [saltSize]byte(b[32:48])
	switch {
	case string(b[:8]) != magic:
		return salt, errors.New("it does not have the header of a repository object")
	case b[9] != formatVersion && xxh3.Hash(body) == binary.BigEndian.Uint64(b[len(body):]):
		return salt, errVersion
	case xxh3.Hash(body) != binary.BigEndian.Uint64(b[len(body):]) || string(body[48:]) != name:
		return salt, errors.New("its header is damaged, or belongs to another object")
	case b[8] != kind, b[10] != r.cipher(), b[11] != 0, binary.BigEndian.Uint32(b[12:]) != uint32(len(name)):
		return salt, errors.New("its header is that of another kind of object")
	case [idSize]byte(b[16:32]) != r.id:
		return salt, errors.New("it belongs to another repository")
	}
	return salt, nil
}

var errVersion = errors.New("it was written in a newer format")

// damaged describes what is wrong with an object. The store's errors stay unchanged.
func damaged(name string, err error) error {
	var own *tidemark.Error
	switch {
	case err == nil, errors.As(err, &own), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errVersion):
		return &tidemark.Error{Op: "read", Object: name, Kind: tidemark.Unsupported, Hint: "Use the version of tidemark that wrote it, or a newer one.", Err: err}
	}
	return &tidemark.Error{Op: "read", Object: name, Kind: tidemark.Corrupt, Hint: "Run tidemark verify: it lists what else is damaged, and which backups need it.", Err: err}
}

// A frame of an object:
//
//	4  bytes that follow behind these 13, with the tag
//	4  plain bytes
//	4  CRC-32C of these
//	1  codec; with 0x80 the last frame
//	.. stored bytes, tag
const (
	frameHeader = 13
	frameSize   = 1 << 20 // plain bytes of all frames but the last
)

// An objectWriter writes an object of frames, several of which are packed at the same time: the
// writer of a log waits for it, and has nothing else to do meanwhile.
type objectWriter struct {
	name  string
	to    store.Object
	seal  *seal
	codec Codec
	open  *frame   // being filled
	queue []*frame // being packed, in order
	n     uint64
	size  int64 // stored so far
}

// A frame on its way into an object.
type frame struct {
	plain  []byte
	sealed []byte
	unit   unit
	pack   packer
	work   *crash.Group // seals it
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func (r *objects) createObject(ctx context.Context, name string, mode store.Mode, c Codec) (*objectWriter, error) {
	if err := r.make(ctx); err != nil {
		return nil, err
	}
	s, err := newSeal(r.id, r.key, newSalt())
	if err != nil {
		return nil, err
	}
	to, err := r.store.Create(ctx, name, mode)
	if err != nil {
		return nil, err
	}
	w := &objectWriter{name: name, to: to, seal: s, codec: c}
	head := r.header(kindObject, name, s.salt)
	w.size = int64(len(head))
	if _, err := to.Write(head); err != nil {
		to.Abort()
		return nil, err
	}
	return w, nil
}

func (w *objectWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if w.open != nil && len(w.open.plain) == frameSize {
			if err := w.flush(false); err != nil {
				return 0, err
			}
		}
		f := w.frame()
		k := min(len(p), frameSize-len(f.plain))
		f.plain = append(f.plain, p[:k]...)
		p = p[k:]
	}
	return n, nil
}

// frame returns the frame to fill.
func (w *objectWriter) frame() *frame {
	if w.open == nil {
		w.open = frames.Get().(*frame)
		w.open.plain = w.open.plain[:0]
	}
	return w.open
}

// flush starts packing the current frame, and writes those already packed.
func (w *objectWriter) flush(last bool) error {
	f := w.frame()
	f.unit = unit{kind: unitFrame, place: w.name, number: w.n, last: last, plain: uint32(len(f.plain))}
	f.pack.codec, f.pack.until, f.work = w.codec, 0, new(crash.Group)
	w.open, w.queue = nil, append(w.queue, f)
	w.n++
	f.work.Go(func() {
		f.unit.crc = crc32.Checksum(f.plain, castagnoli)
		f.sealed, f.unit.codec = f.pack.pack(f.sealed, f.plain)
		f.sealed = w.seal.close(f.sealed, &f.unit)
	})
	most := min(runtime.GOMAXPROCS(0), 4) // frames at once: this bounds their memory
	if last {
		most = 0
	}
	for len(w.queue) > most {
		if err := w.put(); err != nil {
			return err
		}
	}
	return nil
}

// put writes the first frame of the queue.
func (w *objectWriter) put() error {
	f := w.queue[0]
	f.work.Wait()
	w.queue = w.queue[1:]
	defer frames.Put(f)
	var head [frameHeader]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(f.sealed)))
	binary.BigEndian.PutUint32(head[4:], f.unit.plain)
	binary.BigEndian.PutUint32(head[8:], f.unit.crc)
	head[12] = f.unit.codec
	if f.unit.last {
		head[12] |= 0x80
	}
	w.size += int64(len(head) + len(f.sealed))
	if _, err := w.to.Write(head[:]); err != nil {
		return err
	}
	_, err := w.to.Write(f.sealed)
	return err
}

func (w *objectWriter) Commit() error {
	if err := w.flush(true); err != nil {
		w.to.Abort()
		return err
	}
	return w.to.Commit()
}

func (w *objectWriter) Abort() { w.to.Abort() }

// writeObject writes a small object in one call.
func (r *objects) writeObject(ctx context.Context, name string, mode store.Mode, text []byte) error {
	w, err := r.createObject(ctx, name, mode, Codec{kind: codecZstd, level: 3})
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		w.Abort()
		return err
	}
	return w.Commit()
}

// An objectReader reads the plain bytes of an object. io.EOF comes only after the last frame, if
// nothing follows it.
type objectReader struct {
	name   string
	from   io.ReadCloser
	in     *bufio.Reader
	seal   *seal
	stored []byte
	plain  []byte // room
	left   []byte // of plain, not returned yet
	n      uint64
	err    error // io.EOF after the last frame
}

func (r *objects) openObject(ctx context.Context, name string) (*objectReader, error) {
	from, err := r.store.Read(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(from, 16<<10)
	head := make([]byte, headerSize+len(name))
	n, err := io.ReadFull(in, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil // readHeader reports it
	}
	var salt [saltSize]byte
	if err == nil {
		salt, err = r.readHeader(head[:n], kindObject, name)
	}
	var s *seal
	if err == nil {
		s, err = newSeal(r.id, r.key, salt)
	}
	if err != nil {
		_ = from.Close() // the first error counts
		return nil, damaged(name, err)
	}
	return &objectReader{name: name, from: from, in: in, seal: s}, nil
}

func (x *objectReader) Read(p []byte) (int, error) {
	for len(x.left) == 0 {
		if x.err != nil {
			return 0, x.err
		}
		if err := x.next(); err != nil {
			x.err = damaged(x.name, err)
		}
	}
	n := copy(p, x.left)
	x.left = x.left[n:]
	return n, nil
}

// next reads a frame.
func (x *objectReader) next() error {
	var head [frameHeader]byte
	if _, err := io.ReadFull(x.in, head[:]); err != nil {
		return cut(err)
	}
	u := unit{kind: unitFrame, place: x.name, number: x.n, last: head[12]&0x80 != 0, codec: head[12] &^ 0x80,
		plain: binary.BigEndian.Uint32(head[4:]), crc: binary.BigEndian.Uint32(head[8:])}
	stored := binary.BigEndian.Uint32(head[:])
	if stored > frameSize+tagSize || u.plain > frameSize {
		return fmt.Errorf("frame %d: its lengths are damaged", x.n)
	}
	x.stored = grown(x.stored, int(stored))
	if _, err := io.ReadFull(x.in, x.stored); err != nil {
		return cut(err)
	}
	packed, err := x.seal.open(x.stored, &u)
	if err == nil {
		x.plain, err = unpackChecked(x.plain, packed, &u)
	}
	if err != nil {
		return fmt.Errorf("frame %d: %w", x.n, err)
	}
	x.left = x.plain
	x.n++
	if u.last {
		if _, err := x.in.ReadByte(); err != io.EOF {
			if err == nil {
				err = errors.New("it has data after its end")
			}
			x.left = nil
			return err
		}
		x.err = io.EOF
	}
	return nil
}

// cut describes an object that ends too early.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("it is truncated: its end is missing")
	}
	return err
}

func (x *objectReader) Close() error { return x.from.Close() }

// readObject reads a small object in one call; limit bounds its plain bytes.
func (r *objects) readObject(ctx context.Context, name string, limit int64) ([]byte, error) {
	x, err := r.openObject(ctx, name)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	b, err := io.ReadAll(io.LimitReader(x, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = damaged(name, fmt.Errorf("it has more than %d bytes", limit))
	}
	return b, err
}
