package testdb

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Sample opens a file of the sample databases, such as "pagila/pg.sql.zst",
// and decompresses it by its name. They are not part of the project: the test
// is skipped where TIDEMARK_SAMPLES does not say where they are and no folder
// above has them in shared/data.
func Sample(tb testing.TB, name string) io.ReadCloser {
	tb.Helper()
	dir := samples()
	if dir == "" {
		tb.Skip("set TIDEMARK_SAMPLES to the folder of the sample databases")
	}
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		tb.Fatalf("testdb: sample: %v", err)
	}
	if !strings.HasSuffix(name, ".zst") {
		return f
	}
	d, err := zstd.NewReader(bufio.NewReader(f))
	if err != nil {
		f.Close()
		tb.Fatalf("testdb: sample %s: %v", name, err)
	}
	return &decompressed{d.IOReadCloser(), f}
}

type decompressed struct {
	io.ReadCloser
	file *os.File
}

func (d *decompressed) Close() error {
	_ = d.ReadCloser.Close() // never fails
	return d.file.Close()
}

// samples returns the folder of the sample databases, or "".
func samples() string {
	if dir := os.Getenv("TIDEMARK_SAMPLES"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	for err == nil {
		found := filepath.Join(dir, "shared", "data")
		if _, err := os.Stat(filepath.Join(found, "README.md")); err == nil {
			return found
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}
