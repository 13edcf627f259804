package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemarkdb/tidemark"
)

// helloBzip2 is "hello\n" compressed with bzip2.
const helloBzip2 = "BZh91AY&SY\xc1\xc0\x80\xe2\x00\x00\x01A\x00\x00\x10\x02D\xa0\x000\xcd\x00\xc3F)\x97\x17rE8P\x90\xc1\xc0\x80\xe2"

func pack(t *testing.T, kind, text string) string {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch kind {
	case "gz":
		w = gzip.NewWriter(&out)
	case "zst":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	case "lz4":
		w = lz4.NewWriter(&out)
	case "bz2":
		return helloBzip2
	default:
		return text
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Open detects the compression from a file's content.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []string{"", "gz", "zst", "lz4", "bz2"} {
		name := filepath.Join(dir, "file"+kind)
		b := pack(t, kind, "hello\n")
		if err := os.WriteFile(name, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(name)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		got, err := io.ReadAll(f)
		if string(got) != "hello\n" || err != nil || f.Packed != (kind != "") {
			t.Errorf("%s: %q %v, packed %v", kind, got, err, f.Packed)
		}
		tail, err := f.Tail(3)
		if want := map[bool]string{false: "lo\n", true: ""}[f.Packed]; string(tail) != want || err != nil {
			t.Errorf("%s: tail %q %v", kind, tail, err)
		}
		f.Close()
		if kind == "" || kind == "bz2" {
			continue
		}
		if err := os.WriteFile(name, []byte(b[:len(b)-2]), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err = Open(name); err == nil {
			_, err = io.ReadAll(f)
			f.Close()
		}
		if tidemark.KindOf(err) != tidemark.BadInput {
			t.Errorf("%s, cut: %v", kind, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "none")); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("none: %v", err)
	}
	if _, err := Open(dir); tidemark.KindOf(err) != tidemark.BadInput || !strings.HasSuffix(err.Error(), "it is a folder") {
		t.Errorf("folder: %v", err)
	}
	for name, want := range map[string]string{"a.gz": "a", "a.1.ZST": "a.1", "a.lz4": "a", "a.bz2": "a", "a.xz": "a.xz", "gz": "gz"} {
		if got := Plain(name); got != want {
			t.Errorf("Plain(%s) = %s", name, got)
		}
	}
}

func TestFetch(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	name := filepath.Join(t.TempDir(), "with 'quotes' and $HOME")
	if err := Fetch(ctx, "touch", name); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
	err := Fetch(ctx, "echo first >&2; echo gone >&2; exit 3;", name)
	if tidemark.KindOf(err) != tidemark.Invalid || !strings.HasSuffix(err.Error(), ": exit status 3: gone") || tidemark.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	cancel()
	if err := Fetch(ctx, "sleep 60;", name); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := Fetch(ctx, "", name); err != nil {
		t.Errorf("no command: %v", err)
	}
}
