package physical

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// sumsRead reads a backup_manifest as it arrives, line by line
// (https://www.postgresql.org/docs/current/backup-manifest-format.html), and records the checksums
// of the files.
type sumsRead struct {
	line  []byte    // the part of it that has arrived
	parts *fileSums // compared with it as it arrives; nil: there are none
	sums  fileSums  // of all other files
	all   hash.Hash // SHA-256 of all lines but the last
	last  []byte    // the previous line
	err   error
}

// fileSums are the sizes and checksums of files, by hashes of their names: 24 bytes for each.
type fileSums struct {
	all  []fileSum
	seed maphash.Seed
	gone int // how many were taken
}

type fileSum struct {
	name  uint64
	size  int64
	crc   uint32
	taken bool
}

// compare compares the server's record of a file with what has arrived.
func (s fileSum) compare(name string, size int64, crc uint32) error {
	if s.size == size && s.crc == crc {
		return nil
	}
	return changedOnTheWay(name, fmt.Sprintf("received %d bytes with CRC-32C %08x, and the server sent %d with %08x", size, crc, s.size, s.crc))
}

func changedOnTheWay(name, what string) error {
	return &tidemark.Error{Kind: tidemark.Corrupt, Op: backupOp, Object: name, Err: errors.New(what), Hint: "It was changed or lost between the server's disk and here: check both hosts and the network, then back up again."}
}

func (s *fileSums) add(name string, size int64, crc uint32) {
	if s.all == nil {
		s.seed = maphash.MakeSeed()
	}
	s.all = append(s.all, fileSum{name: maphash.String(s.seed, name), size: size, crc: crc})
}

// sort must be called after all sums were added, and before the first is taken.
func (s *fileSums) sort() {
	slices.SortFunc(s.all, func(a, b fileSum) int { return cmp.Compare(a.name, b.name) })
}

// take returns the sum of a file, once.
func (s *fileSums) take(name string) (sum fileSum, ok bool) {
	if s == nil || s.all == nil {
		return sum, false
	}
	i, ok := slices.BinarySearchFunc(s.all, maphash.String(s.seed, name), func(f fileSum, name uint64) int { return cmp.Compare(f.name, name) })
	if !ok || s.all[i].taken {
		return sum, false
	}
	s.all[i].taken = true
	s.gone++
	return s.all[i], true
}

// left returns how many were not taken.
func (s *fileSums) left() int { return len(s.all) - s.gone }

// maxLine exceeds any line of a manifest, whose longest part is a path.
const maxLine = 1 << 20

// Write implements io.Writer. finish returns the errors.
func (r *sumsRead) Write(p []byte) (int, error) {
	if r.all == nil {
		r.all = sha256.New()
	}
	if len(r.line) > maxLine { // from here on nothing is kept
		r.err = cmp.Or[error](r.err, errors.New("it has a line that does not end"))
		return len(p), nil
	}
	r.line = append(r.line, p...)
	rest := r.line
	for {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			break
		}
		if err := r.read(rest[:end]); err != nil && r.err == nil {
			r.err = err
		}
		r.all.Write(r.last)
		r.last = append(r.last[:0], rest[:end]...)
		rest = rest[end:]
	}
	r.line = append(r.line[:0], rest...)
	return len(p), nil
}

// read parses a line. Each file has one.
func (r *sumsRead) read(line []byte) error {
	text := bytes.TrimSuffix(bytes.TrimSpace(line), []byte(","))
	if !bytes.HasPrefix(text, []byte("{ \"Path\"")) && !bytes.HasPrefix(text, []byte("{ \"Encoded-Path\"")) {
		return nil
	}
	var f struct {
		Path      string
		Encoded   string `json:"Encoded-Path"`
		Size      int64
		Algorithm string `json:"Checksum-Algorithm"`
		Checksum  string
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	if f.Encoded != "" {
		name, err := hex.DecodeString(f.Encoded)
		if err != nil {
			return err
		}
		f.Path = string(name)
	}
	sum, err := hex.DecodeString(f.Checksum)
	if err != nil || len(sum) != 4 || f.Algorithm != "CRC32C" {
		return fmt.Errorf("%s has no CRC-32C but %s %q", f.Path, f.Algorithm, f.Checksum)
	}
	said := fileSum{size: f.Size, crc: binary.LittleEndian.Uint32(sum)}
	if part, ok := r.parts.take(f.Path); ok {
		return said.compare(f.Path, part.size, part.crc)
	}
	r.sums.add(f.Path, said.size, said.crc)
	return nil
}

// finish checks whether the manifest is complete: its last line has the SHA-256 of all before.
func (r *sumsRead) finish() error {
	if r.err == nil && (len(r.line) > 0 || r.all == nil) {
		r.err = errors.New("it is truncated")
	}
	if r.err == nil {
		want := hex.EncodeToString(r.all.Sum(nil))
		if !strings.Contains(string(r.last), "\"Manifest-Checksum\": \""+want+"\"") {
			r.err = errors.New("its checksum is wrong")
		}
	}
	var own *tidemark.Error
	if r.err != nil && !errors.As(r.err, &own) {
		return &tidemark.Error{Kind: tidemark.Corrupt, Op: backupOp, Object: ManifestPath, Err: r.err, Hint: "The server sent it like this: back up again."}
	}
	return r.err
}
