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

// sumsRead reads a backup_manifest as it comes, line by line
// (https://www.postgresql.org/docs/current/backup-manifest-format.html), and notes the
// sums of the files.
type sumsRead struct {
	line  []byte    // what has come of it
	parts *fileSums // with which it is compared as it comes; nil: there are none
	sums  fileSums  // of all other files
	all   hash.Hash // SHA-256 of all lines but the last
	last  []byte    // the line before
	err   error
}

// fileSums are the sizes and sums of files, by hashes of their names: 24 bytes for each.
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

// compare compares what the server has said of a file with what has come.
func (s fileSum) compare(name string, size int64, crc uint32) error {
	if s.size == size && s.crc == crc {
		return nil
	}
	return changedOnTheWay(name, fmt.Sprintf("%d bytes with the CRC-32C %08x have come, and the server has sent %d with %08x", size, crc, s.size, s.crc))
}

func changedOnTheWay(name, what string) error {
	return &tidemark.Error{Kind: tidemark.Corrupt, Op: backupOp, Object: name, Err: errors.New(what), Hint: "Something between the server's disk and here has changed it, or it was lost: look at the hosts and the network between, and back up again."}
}

func (s *fileSums) add(name string, size int64, crc uint32) {
	if s.all == nil {
		s.seed = maphash.MakeSeed()
	}
	s.all = append(s.all, fileSum{name: maphash.String(s.seed, name), size: size, crc: crc})
}

// sort has to be called when all were added, and before the first is taken.
func (s *fileSums) sort() {
	slices.SortFunc(s.all, func(a, b fileSum) int { return cmp.Compare(a.name, b.name) })
}

// take gives the sum of a file, once.
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

// left is how many were not taken.
func (s *fileSums) left() int { return len(s.all) - s.gone }

// maxLine is more than a line of a manifest has, whose longest part is a path.
const maxLine = 1 << 20

// Write implements io.Writer. What is wrong is told by finish.
func (r *sumsRead) Write(p []byte) (int, error) {
	if r.all == nil {
		r.all = sha256.New()
	}
	if len(r.line) > maxLine { // nothing of it is kept any more
		r.err = cmp.Or[error](r.err, errors.New("it has a line without an end"))
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

// read takes a line. Each file has one.
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

// finish looks whether the manifest is whole: its last line has the SHA-256 of all before.
func (r *sumsRead) finish() error {
	if r.err == nil && (len(r.line) > 0 || r.all == nil) {
		r.err = errors.New("it is cut")
	}
	if r.err == nil {
		want := hex.EncodeToString(r.all.Sum(nil))
		if !strings.Contains(string(r.last), "\"Manifest-Checksum\": \""+want+"\"") {
			r.err = errors.New("it is not as its checksum says")
		}
	}
	var own *tidemark.Error
	if r.err != nil && !errors.As(r.err, &own) {
		return &tidemark.Error{Kind: tidemark.Corrupt, Op: backupOp, Object: ManifestPath, Err: r.err, Hint: "The server has sent it so: back up again."}
	}
	return r.err
}
