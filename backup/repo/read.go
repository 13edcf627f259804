package repo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// An Opener opens the pieces of one backup. It belongs to one goroutine.
type Opener struct {
	r      *Repo
	m      *Manifest
	last   openPack
	stored []byte
}

// openPack is the state for one pack.
type openPack struct {
	stat PackStat
	seal *seal
	head int // bytes of its header
}

// Opener makes one for the pieces of a backup's packs.
func (r *Repo) Opener(m *Manifest) *Opener { return &Opener{r: r, m: m} }

// pack returns a pack's state, valid until the next call for another pack. There may be very many,
// with the same salt within a session, so only one is kept.
func (o *Opener) pack(n uint32) (*openPack, error) {
	p := &o.last
	if p.seal != nil && p.stat.Number == n {
		return p, nil
	}
	s := o.m.pack(n)
	if s == nil {
		return nil, errors.New("the manifest has no such pack")
	}
	if p.seal == nil || p.stat.Salt != s.Salt {
		salt, err := hex.DecodeString(s.Salt)
		if err == nil && len(salt) != saltSize {
			err = errors.New("its salt is invalid")
		}
		if err != nil {
			return nil, err
		}
		if p.seal, err = newSeal(o.r.id, o.r.key, [saltSize]byte(salt)); err != nil {
			return nil, err
		}
	}
	p.stat, p.head = *s, headerSize+len(packName(o.m.ID, n))
	return p, nil
}

// Open decrypts and unpacks a piece's stored bytes into dst, of which only the capacity counts.
// stored is changed. Kind Corrupt names the pack and the piece's position.
func (o *Opener) Open(dst []byte, ref Ref, stored []byte) ([]byte, error) {
	p, err := o.pack(ref.Pack)
	if err == nil && len(stored) != int(ref.Stored) {
		err = fmt.Errorf("it has %d bytes instead of %d", len(stored), ref.Stored)
	}
	if err == nil {
		dst, err = o.open(p, dst, ref, stored)
	}
	return dst, o.damaged(ref, err)
}

func (o *Opener) open(p *openPack, dst []byte, ref Ref, stored []byte) ([]byte, error) {
	u := ref.unit(o.m.ID)
	packed, err := p.seal.open(stored, &u)
	if err != nil {
		return dst, err
	}
	return unpackChecked(dst, packed, &u)
}

func (o *Opener) damaged(ref Ref, err error) error {
	if err == nil {
		return nil
	}
	return damaged(packName(o.m.ID, ref.Pack), fmt.Errorf("piece %d at %d: %w", ref.Number, ref.Offset, err))
}

// Piece reads and opens one piece.
func (o *Opener) Piece(ctx context.Context, dst []byte, ref Ref) ([]byte, error) {
	if ref.Stored > MaxPiece+MaxPiece/8 {
		return dst, o.damaged(ref, errors.New("its length is damaged"))
	}
	in, err := o.r.ReadPack(ctx, o.m, ref.Pack, ref.Offset, int64(ref.Stored))
	if err != nil {
		return dst, err
	}
	defer in.Close()
	o.stored = grown(o.stored, int(ref.Stored))
	n, err := io.ReadFull(in, o.stored)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return dst, err
	}
	return o.Open(dst, ref, o.stored[:n])
}

// ReadPack reads stored bytes of a pack: adjacent pieces can be read in one call.
func (r *Repo) ReadPack(ctx context.Context, m *Manifest, pack uint32, offset, length int64) (io.ReadCloser, error) {
	return r.store.Read(ctx, packName(m.ID, pack), offset, length)
}
