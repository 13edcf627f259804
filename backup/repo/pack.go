package repo

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// PackSize limits a pack: it ends before the first piece that would exceed it.
const PackSize = 128 << 20

// A Ref locates a piece in its backup's packs, and has what verifies it.
type Ref struct {
	Pack   uint32 // the pack's number
	Codec  uint8
	Offset int64  // of its first stored byte in the pack
	Stored uint32 // stored bytes, with the tag
	Plain  uint32 // plain bytes
	CRC    uint32 // CRC-32C of the plain bytes
	Number uint64 // its number within its session
}

// MarshalJSON writes a Ref as [pack, offset, stored, plain, crc, number, codec]: there may be
// millions.
func (r Ref) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(make([]byte, 0, 64), "[%d,%d,%d,%d,%d,%d,%d]", r.Pack, r.Offset, r.Stored, r.Plain, r.CRC, r.Number, r.Codec), nil
}

// UnmarshalJSON reads MarshalJSON's form.
func (r *Ref) UnmarshalJSON(b []byte) error {
	var v [7]uint64
	at := 0
	if len(b) == 0 || b[0] != '[' {
		return fmt.Errorf("%.20q is not a reference to a piece", b)
	}
	digits := false
	for _, c := range b[1:] {
		switch {
		case c >= '0' && c <= '9':
			v[at], digits = v[at]*10+uint64(c-'0'), true
		case c == ',' && digits && at < 6:
			at, digits = at+1, false
		case c == ']' && digits && at == 6:
			*r = Ref{Pack: uint32(v[0]), Offset: int64(v[1]), Stored: uint32(v[2]), Plain: uint32(v[3]), CRC: uint32(v[4]), Number: v[5], Codec: uint8(v[6])}
			return nil
		case c == ' ', c == '\n', c == '\t':
		default:
			return fmt.Errorf("%.20q is not a reference to a piece", b)
		}
	}
	return fmt.Errorf("%.20q is not a reference to a piece", b)
}

func (r Ref) unit(backup string) unit {
	return unit{kind: unitPiece, place: backup, number: r.Number, codec: r.Codec, plain: r.Plain, crc: r.CRC}
}

// A PackStat describes a backup's pack in its manifest.
type PackStat struct {
	Number uint32 `json:"number"`
	Size   int64  `json:"size"` // bytes of the whole object
	Salt   string `json:"salt"` // of its header, hexadecimal
	Pieces int    `json:"pieces"`
}

// A Writer writes one backup: a session, in which goroutines seal pieces and append them to packs.
// None of it is a backup before Publish.
type Writer struct {
	ID     string // the backup's
	repo   *Repo
	seal   *seal
	salt   string // of seal, in a manifest's form
	lock   *Lock
	parent string
	begun  time.Time
	pieces atomic.Uint64 // number of the next piece
	pack   atomic.Uint32 // number of the last pack

	ends atomic.Uint32 // packs begun before the last value end early (checkpoint.go)

	mu     sync.Mutex
	packs  []PackStat  // those already written
	kept   *Checkpoint // the last checkpoint; nil: none
	unsure bool        // either kept or a later checkpoint is stored

	files     filesWriter
	plain     plainTotal // guarded as files are
	published bool
}

// BeginOptions are the options of Begin.
type BeginOptions struct {
	// Parent is the backup that this one needs, if it is incremental. It must exist.
	Parent string
	// Lease is how long the lock outlives its owner; 0 means 5 minutes.
	Lease time.Duration
}

// Begin begins a backup: it gets an id, and a lock that protects its packs, and its parent, from
// removal. Publish or Abort ends it. Kind NotFound: the parent is gone.
func (r *Repo) Begin(ctx context.Context, opt BeginOptions) (*Writer, error) {
	w := &Writer{repo: r, parent: opt.Parent, begun: time.Now().UTC()}
	random := newSalt()
	w.ID = fmt.Sprintf("%s-%x", w.begun.Format("20060102-150405"), random[:4])
	spec := LockSpec{Purpose: "backup", Writes: w.ID, Lease: opt.Lease}
	if opt.Parent != "" {
		spec.Needs = []string{opt.Parent}
	}
	var err error
	if w.lock, err = r.Lock(ctx, spec); err != nil {
		return nil, err
	}
	// Only after the lock is written: writing it may have found that another process has made the
	// repository.
	if w.seal, err = newSeal(r.id, r.key, newSalt()); err != nil {
		w.lock.Release()
		return nil, err
	}
	w.salt = hex.EncodeToString(w.seal.salt[:]) // once: there may be many packs
	w.files.init(w)
	return w, nil
}

// Context is cancelled when the backup's lock is lost, with that as its cause, and when Begin's
// context is.
func (w *Writer) Context() context.Context { return w.lock.Context() }

// Parent returns the backup that this one needs, or "".
func (w *Writer) Parent() string { return w.parent }

// A Sealed piece is ready to be appended to a pack.
type Sealed struct {
	Bytes  []byte // as they are stored, with the tag
	Plain  uint32
	CRC    uint32
	Number uint64
	Codec  uint8
}

// A Sealer seals pieces. It belongs to one goroutine.
type Sealer struct {
	w    *Writer
	pack *packer
}

// Sealer makes one.
func (w *Writer) Sealer(c Codec) *Sealer { return &Sealer{w: w, pack: newPacker(c)} }

// Bound returns the capacity of dst for which Seal of n bytes never allocates.
func (*Sealer) Bound(n int) int { return n + n/100 + 1024 }

// Seal seals a piece of up to MaxPiece bytes: it takes its checksum, compresses and encrypts it,
// and appends its tag, in dst, of which only the capacity counts. The caller keeps plain.
func (s *Sealer) Seal(dst, plain []byte) (Sealed, error) {
	if len(plain) > MaxPiece {
		return Sealed{}, &tidemark.Error{Kind: tidemark.Bug, Op: "seal", Err: fmt.Errorf("a piece of %d bytes is too large", len(plain))}
	}
	u := unit{kind: unitPiece, place: s.w.ID, number: s.w.pieces.Add(1) - 1, plain: uint32(len(plain)), crc: crc32.Checksum(plain, castagnoli)}
	dst, u.codec = s.pack.pack(dst, plain)
	dst = s.w.seal.close(dst, &u)
	return Sealed{Bytes: dst, Plain: u.plain, CRC: u.crc, Number: u.number, Codec: u.codec}, nil
}

// A Pack appends pieces to packs in sequence. It belongs to one goroutine.
type Pack struct {
	w       *Writer
	ctx     context.Context
	to      store.Object // nil: none is open
	number  uint32
	ends    uint32 // Writer.ends when it was begun
	size    int64
	entries []byte
	pieces  int
}

// NewPack makes a Pack; its objects are written under ctx.
func (w *Writer) NewPack(ctx context.Context) *Pack { return &Pack{w: w, ctx: ctx} }

// packName returns the name of a pack's object.
func packName(backup string, number uint32) string {
	return fmt.Sprintf("packs/%s/%08d", backup, number)
}

const entrySize = 21
const trailerSize = 4 + 4 + 4 + 8

// Append appends a piece. It first ends the pack if that is full or a checkpoint requests it. The
// piece is permanent only once Close has returned nil. After an error, the Pack and the pieces of
// the open pack are unusable.
func (p *Pack) Append(s Sealed) (Ref, error) {
	if p.to != nil && (p.size+int64(len(s.Bytes)) > PackSize || p.ends != p.w.ends.Load()) {
		if err := p.Close(); err != nil {
			return Ref{}, err
		}
	}
	if p.to == nil {
		if err := p.begin(); err != nil {
			return Ref{}, err
		}
	}
	ref := Ref{Pack: p.number, Codec: s.Codec, Offset: p.size, Stored: uint32(len(s.Bytes)), Plain: s.Plain, CRC: s.CRC, Number: s.Number}
	if _, err := p.to.Write(s.Bytes); err != nil {
		p.Abort()
		return Ref{}, err
	}
	p.size += int64(len(s.Bytes))
	p.pieces++
	p.entries = binary.BigEndian.AppendUint64(p.entries, s.Number)
	p.entries = binary.BigEndian.AppendUint32(p.entries, ref.Stored)
	p.entries = binary.BigEndian.AppendUint32(p.entries, s.Plain)
	p.entries = binary.BigEndian.AppendUint32(p.entries, s.CRC)
	p.entries = append(p.entries, s.Codec)
	return ref, nil
}

func (p *Pack) begin() error {
	p.ends = p.w.ends.Load()
	to, number, err := p.w.createPack(p.ctx)
	if err != nil {
		return err
	}
	head := p.w.repo.header(kindPack, packName(p.w.ID, number), p.w.seal.salt)
	if _, err := to.Write(head); err != nil {
		to.Abort()
		return err
	}
	p.to, p.number, p.size, p.entries, p.pieces = to, number, int64(len(head)), p.entries[:0], 0
	return nil
}

// Close ends the open pack, if any: it writes the index, then commits.
func (p *Pack) Close() error {
	if p.to == nil {
		return nil
	}
	name := packName(p.w.ID, p.number)
	u := unit{kind: unitIndex, place: name, number: uint64(p.number), plain: uint32(len(p.entries)), crc: crc32.Checksum(p.entries, castagnoli)}
	end := p.w.seal.close(p.entries, &u)
	stored := len(end)
	end = binary.BigEndian.AppendUint32(end, uint32(stored))
	end = binary.BigEndian.AppendUint32(end, u.plain)
	end = binary.BigEndian.AppendUint32(end, u.crc)
	end = binary.BigEndian.AppendUint64(end, xxh3.Hash(end[stored:]))
	p.entries = end[:0]
	if _, err := p.to.Write(end); err != nil {
		p.Abort()
		return err
	}
	to := p.to
	p.to = nil
	if err := to.Commit(); err != nil {
		return err
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.packs = append(p.w.packs, PackStat{Number: p.number, Size: p.size + int64(len(end)), Salt: p.w.salt, Pieces: p.pieces})
	return nil
}

// Abort discards the open pack. After Close it does nothing.
func (p *Pack) Abort() {
	if p.to != nil {
		p.to.Abort()
		p.to = nil
	}
}
