package physical

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// ManifestPath is where PostgreSQL's programs look for a backup's manifest.
const ManifestPath = "backup_manifest"

// Manifest returns backup_manifest, with which pg_verifybackup checks a restored backup, and a
// function that writes it. It is written last, after End.
func (b *Backup) Manifest() (tidemark.DataFile, func(io.Writer, iter.Seq2[tidemark.DataSum, error]) error) {
	return b.made(ManifestPath, nil).DataFile, func(to io.Writer, files iter.Seq2[tidemark.DataSum, error]) error {
		w := NewManifestWriter(to, b.e.Major, strconv.FormatUint(b.system, 10))
		for f, err := range files {
			if err == nil {
				err = w.Add(f)
			}
			if err != nil {
				return err
			}
		}
		var ranges []tidemark.DataLog
		for _, r := range b.end.ranges {
			ranges = append(ranges, tidemark.DataLog{Timeline: r.timeline, From: wal.FormatLSN(r.from), To: wal.FormatLSN(r.to)})
		}
		return w.Close(ranges)
	}
}

// A ManifestWriter writes a backup_manifest
// (https://www.postgresql.org/docs/current/backup-manifest-format.html) as files arrive, in any
// order.
type ManifestWriter struct {
	to      io.Writer
	sum     hash.Hash
	text    bytes.Buffer // not yet written
	between string
}

// manifestPiece is how many bytes are written at a time.
const manifestPiece = 64 << 10

// NewManifestWriter begins a manifest for a server of a version with a system identifier.
func NewManifestWriter(to io.Writer, major int, system string) *ManifestWriter {
	w := &ManifestWriter{to: to, sum: sha256.New(), between: "\n"}
	w.text.WriteString("{ \"PostgreSQL-Backup-Manifest-Version\": ")
	if major >= 17 {
		fmt.Fprintf(&w.text, "2,\n\"System-Identifier\": %s,\n", system)
	} else {
		w.text.WriteString("1,\n")
	}
	w.text.WriteString("\"Files\": [")
	return w
}

// Add adds a file. It leaves out WAL files, and another manifest that this one replaces.
func (w *ManifestWriter) Add(f tidemark.DataSum) error {
	if strings.HasPrefix(f.Path, logFolder+"/") || f.Path == ManifestPath {
		return nil
	}
	w.text.WriteString(w.between)
	w.between = ",\n"
	w.text.WriteString("{ ")
	if utf8.ValidString(f.Path) {
		name, _ := json.Marshal(f.Path) // a string can always be encoded
		fmt.Fprintf(&w.text, "\"Path\": %s, ", name)
	} else {
		fmt.Fprintf(&w.text, "\"Encoded-Path\": \"%x\", ", f.Path)
	}
	var sum [4]byte
	binary.LittleEndian.PutUint32(sum[:], f.CRC32C) // little-endian, as in memory on all current machines
	fmt.Fprintf(&w.text, "\"Size\": %d, \"Last-Modified\": \"%s\", \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"%x\" }",
		f.Size, f.Modified.UTC().Format("2006-01-02 15:04:05 GMT"), sum)
	if w.text.Len() < manifestPiece {
		return nil
	}
	return w.flush()
}

func (w *ManifestWriter) flush() error {
	w.sum.Write(w.text.Bytes())
	_, err := w.text.WriteTo(w.to)
	return err
}

// Close ends the manifest with the parts of the log that the backup needs, and the checksum of all
// before.
func (w *ManifestWriter) Close(ranges []tidemark.DataLog) error {
	w.text.WriteString("\n],\n\"WAL-Ranges\": [")
	w.between = "\n"
	for _, r := range ranges {
		fmt.Fprintf(&w.text, "%s{ \"Timeline\": %d, \"Start-LSN\": \"%s\", \"End-LSN\": \"%s\" }", w.between, r.Timeline, r.From, r.To)
		w.between = ",\n"
	}
	w.text.WriteString("\n],\n")
	if err := w.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w.to, "\"Manifest-Checksum\": \"%s\"}\n", hex.EncodeToString(w.sum.Sum(nil)))
	return err
}
