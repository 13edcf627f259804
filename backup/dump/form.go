package dump

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// Names of a backup's objects, except those of rows.
const (
	descriptionPath = "description.jsonl.zst"
	beforePath      = "before.sql.zst"
	afterPath       = "after.sql.zst"
	shellPath       = "restore.sh"
	readmePath      = "README.txt"
	identityPath    = "identity.age"
	sumsPath        = "SHA256SUMS"
)

// Rows are a range's rows in one object. A range may have its rows in several consecutive objects;
// one without rows has none.
type Rows struct {
	Path   string         `json:"path"`   // of the object, without .age
	Move   int            `json:"move"`   // index of its move
	Range  tidemark.Range `json:"range"`  // as it was read
	Rows   int64          `json:"rows"`   //
	Bytes  int64          `json:"bytes"`  // of text
	Packed int64          `json:"packed"` // of the object, before it is encrypted
}

// head is the first line of the description.
type head struct {
	Form     int               `json:"form"` // of the description: 1
	Engine   string            `json:"engine"`
	Version  string            `json:"version"`
	Major    int               `json:"major"`
	Name     string            `json:"name,omitempty"`
	Charset  string            `json:"charset,omitempty"`
	Collate  string            `json:"collate,omitempty"`
	Position tidemark.Position `json:"position"`
	Text     string            `json:"text"` // of rows: COPY text or LOAD DATA
}

const form = 1

// A line of the description has exactly one of these.
type line struct {
	Head    *head             `json:"dump,omitempty"`
	Table   *tidemark.Table   `json:"table,omitempty"`
	Native  *tidemark.Object  `json:"native,omitempty"`
	Finding *tidemark.Finding `json:"finding,omitempty"`
	Move    *moved            `json:"move,omitempty"`
	Rows    *Rows             `json:"rows,omitempty"`
}

// moved lists which columns of a table the rows have, in their order.
type moved struct {
	Table   tidemark.TableID  `json:"table"`
	Columns []string          `json:"columns"`
	Filter  []tidemark.Filter `json:"filter,omitempty"`
}

// FormatOf returns the text format for rows of an engine.
func FormatOf(name string) tidemark.Format { return engine.Of(name).Text }

// rowsPath returns the path of a range's nth object. It includes the table's name, for people,
// unless the repository hides names.
func rowsPath(r *tidemark.Range, m *tidemark.Move, n int, open bool) string {
	number := fmt.Sprintf("data/%06d-%04d", r.ID, n)
	if !open {
		return number + ".zst"
	}
	id := m.From.TableID
	if r.Part != nil && r.Part.Table.Name != "" {
		id = r.Part.Table
	}
	return fmt.Sprintf("%s.%s.%s.zst", number, plainName(id.Schema), plainName(id.Name))
}

// plainName keeps the characters of a name that every place accepts.
func plainName(name string) string {
	name = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '-'
	}, name)
	return name[:min(len(name), 35)]
}

// newEncoder makes a zstd encoder. Frames have checksums, so that other programs notice damage too.
// Each frame is one batch, so a larger window would waste memory.
func newEncoder(level int) *zstd.Encoder {
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)) // valid options
	return e
}

// storedFrame appends text as a zstd frame without compression (RFC 8878): its size, the blocks as
// they are, and the checksum.
func storedFrame(dst, text []byte) []byte {
	const (
		sized  = 2<<6 | 1<<5 | 1<<2 // four bytes of size, no window but that, and a checksum
		blocks = 128 << 10          // at most
	)
	dst = binary.LittleEndian.AppendUint32(append(dst, 0x28, 0xb5, 0x2f, 0xfd, sized), uint32(len(text)))
	sum := uint32(xxhash.Sum64(text))
	for last := false; !last; {
		n := min(len(text), blocks)
		head := uint32(n) << 3
		if last = n == len(text); last {
			head |= 1
		}
		dst = append(append(dst, byte(head), byte(head>>8), byte(head>>16)), text[:n]...)
		text = text[n:]
	}
	return binary.LittleEndian.AppendUint32(dst, sum)
}
