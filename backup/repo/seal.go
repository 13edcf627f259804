package repo

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/zeebo/xxh3"
)

// MaxPiece is the maximum number of plain bytes in a unit.
const MaxPiece = 64 << 20

const (
	saltSize = 16
	idSize   = 16
	tagSize  = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What a unit is, so that none can replace one of another type.
const (
	unitPiece = 1 // of a pack
	unitIndex = 2 // a pack's index
	unitFrame = 3 // of an object that is read from its beginning
)

// A unit is what is sealed at once: bytes followed by a tag. The tag covers the stored bytes and
// all fields here, so that a unit cannot be taken for another, nor be unpacked to something else.
type unit struct {
	kind   uint8
	place  string // the backup of a piece, the object of an index or frame
	number uint64 // its number there
	codec  uint8
	last   bool // of frames: no other follows
	plain  uint32
	crc    uint32 // CRC-32C of the plain bytes
}

// A seal makes and checks the tags of one writer. Its key is derived from the repository's key and
// a random salt per writer, so each writer can number from 0 and no nonce is used twice.
type seal struct {
	repo [idSize]byte
	salt [saltSize]byte
	aead cipher.AEAD // nil: not encrypted, and the tag is a checksum
}

func newSalt() (salt [saltSize]byte) {
	_, _ = rand.Read(salt[:]) // never fails
	return salt
}

func newSeal(repo [idSize]byte, key []byte, salt [saltSize]byte) (*seal, error) {
	s := &seal{repo: repo, salt: salt}
	if key == nil {
		return s, nil
	}
	own, err := hkdf.Key(sha256.New, key, salt[:], "tidemark objects", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, err
	}
	s.aead, err = cipher.NewGCM(block)
	return s, err
}

// said returns what a tag covers besides the stored bytes.
func (s *seal) said(b []byte, u *unit) []byte {
	codec := u.codec
	if u.last {
		codec |= 0x80
	}
	b = append(b, u.kind, codec)
	b = append(b, s.repo[:]...)
	b = append(b, s.salt[:]...)
	b = binary.BigEndian.AppendUint64(b, u.number)
	b = binary.BigEndian.AppendUint32(b, u.plain)
	b = binary.BigEndian.AppendUint32(b, u.crc)
	return append(b, u.place...)
}

func nonce(u *unit) (n [12]byte) {
	n[0] = u.kind
	binary.BigEndian.PutUint64(n[4:], u.number)
	return n
}

// close encrypts b in place, and appends the tag.
func (s *seal) close(b []byte, u *unit) []byte {
	var room [160]byte
	said := s.said(room[:0], u)
	if s.aead == nil {
		tag := checksum(b, said)
		return append(b, tag[:]...)
	}
	n := nonce(u)
	return s.aead.Seal(b[:0], n[:], b, said)
}

var errTag = errors.New("its checksum is wrong")
var errCipher = errors.New("it was changed after it was written, or was written with another key")

// open verifies the tag of b and returns what precedes it, decrypted in place.
func (s *seal) open(b []byte, u *unit) ([]byte, error) {
	if len(b) < tagSize {
		return nil, fmt.Errorf("it has %d bytes, too few for its tag", len(b))
	}
	var room [160]byte
	said := s.said(room[:0], u)
	if s.aead != nil {
		n := nonce(u)
		out, err := s.aead.Open(b[:0], n[:], b, said)
		if err != nil {
			err = errCipher
		}
		return out, err
	}
	body := b[:len(b)-tagSize]
	if checksum(body, said) != [tagSize]byte(b[len(body):]) {
		return nil, errTag
	}
	return body, nil
}

// checksum is the tag without encryption: XXH3 (128 bits) of said, and of the XXH3 of the bytes.
func checksum(body, said []byte) [tagSize]byte {
	sum := xxh3.Hash128(body).Bytes()
	return xxh3.Hash128(append(said, sum[:]...)).Bytes()
}

// unpackChecked unpacks an opened unit and verifies the CRC of its plain bytes.
func unpackChecked(dst, packed []byte, u *unit) ([]byte, error) {
	if u.plain > MaxPiece {
		return dst, fmt.Errorf("it would have %d bytes, more than the limit", u.plain)
	}
	out, err := unpack(dst, packed, u.codec, int(u.plain))
	if err == nil && crc32.Checksum(out, castagnoli) != u.crc {
		err = errors.New("its content does not have the checksum of what was read: it was damaged before encryption, or compressed wrongly")
	}
	return out, err
}
