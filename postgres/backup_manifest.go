package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
)

// ManifestPath is where PostgreSQL's programs look for what a backup should consist of.
const ManifestPath = "backup_manifest"

// Manifest writes backup_manifest, with which pg_verifybackup checks a restored backup
// (https://www.postgresql.org/docs/current/backup-manifest-format.html). It is the last
// thing that is written: End has to be before.
func (b *Backup) Manifest(files []tidemark.DataSum) tidemark.MadeFile {
	var w bytes.Buffer
	w.WriteString("{ \"PostgreSQL-Backup-Manifest-Version\": ")
	if b.e.major >= 17 {
		fmt.Fprintf(&w, "2,\n\"System-Identifier\": %d,\n", b.system)
	} else {
		w.WriteString("1,\n")
	}
	w.WriteString("\"Files\": [")
	between := "\n"
	for _, f := range files {
		if strings.HasPrefix(f.Path, logFolder+"/") {
			continue
		}
		w.WriteString(between)
		between = ",\n"
		w.WriteString("{ ")
		if utf8.ValidString(f.Path) {
			name, _ := json.Marshal(f.Path) // a string has always a form
			fmt.Fprintf(&w, "\"Path\": %s, ", name)
		} else {
			fmt.Fprintf(&w, "\"Encoded-Path\": \"%x\", ", f.Path)
		}
		var sum [4]byte
		binary.LittleEndian.PutUint32(sum[:], f.CRC32C) // as it lies in the memory of the machines that there are
		fmt.Fprintf(&w, "\"Size\": %d, \"Last-Modified\": \"%s\", \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"%x\" }",
			f.Size, f.Modified.UTC().Format("2006-01-02 15:04:05 GMT"), sum)
	}
	w.WriteString("\n],\n\"WAL-Ranges\": [")
	between = "\n"
	for _, r := range b.end.ranges {
		fmt.Fprintf(&w, "%s{ \"Timeline\": %d, \"Start-LSN\": \"%s\", \"End-LSN\": \"%s\" }", between, r.timeline, formatLSN(r.from), formatLSN(r.to))
		between = ",\n"
	}
	w.WriteString("\n],\n")
	sum := sha256.Sum256(w.Bytes())
	fmt.Fprintf(&w, "\"Manifest-Checksum\": \"%s\"}\n", hex.EncodeToString(sum[:]))
	return b.made(ManifestPath, w.Bytes())
}
