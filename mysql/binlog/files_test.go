package binlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemarkdb/tidemark"
)

// history returns a MySQL log of n files, each with two transactions.
func history(n int) [][]byte {
	var out [][]byte
	for i := range n {
		w := newWriter("8.0.33")
		w.b = w.b[:len(magic)]
		w.time += uint32(i) * 100
		w.event(kindFormat, formatBody("8.0.33", true), 0)
		w.event(kindPrevious, previousBody(uint64(2*i)), 0)
		w.transaction(uint64(2*i+1), 100*i)
		w.transaction(uint64(2*i+2), 10)
		if i < n-1 {
			w.event(kindRotate, rotateBody(logFileName(i+2)), 0)
		}
		out = append(out, w.b)
	}
	return out
}

func logFileName(n int) string { return "binlog.00000" + string(rune('0'+n)) }

func gaps(all []tidemark.LogRecord) []string {
	var out []string
	for _, r := range all {
		if r.Gap != "" {
			out = append(out, r.Gap)
		}
	}
	return out
}

// Files may be in any order, and have any names.
func TestOrder(t *testing.T) {
	logs := history(5)
	dir := t.TempDir()
	names := []string{"e.000001", "c", "backup-of-wednesday.bin", "z.000077", "a.000002"}
	var paths []string
	for i, b := range logs {
		paths = append(paths, write(t, dir, names[i], b))
	}
	rand.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	all, out := scan(t, Options{}, append(paths, paths[2])...)
	var files []string
	for _, r := range all {
		if r.File != "" {
			files = append(files, r.File)
		}
	}
	// The last file has no event with its number, and a name with another one: 2. Its GTIDs show
	// that nothing is missing.
	if out.Files != 5 || !slices.Equal(files, names) || len(gaps(all)) != 0 || out.End != "" {
		t.Errorf("%d files, %q, gaps %q, end %q, %q", out.Files, files, gaps(all), out.End, out.Findings)
	}
}

func TestFolderAndIndex(t *testing.T) {
	logs := history(3)
	dir := t.TempDir()
	for i, b := range logs {
		write(t, dir, logFileName(i+1), b)
	}
	relay := newWriter("8.0.33")
	relay.event(kindRotate, rotateBody("binlog.000001"), flagArtificial)
	write(t, dir, "host-relay-bin.000002", relay.b)
	write(t, dir, "aria_log.00000001", []byte("nothing of ours"))
	write(t, dir, "ib_logfile0", []byte("nothing of ours"))
	write(t, dir, "notes.000001", []byte("nothing of ours"))
	write(t, dir, "binlog.index", []byte("./binlog.000001\n./binlog.000002\n/var/lib/elsewhere/binlog.000003\n"))
	all, out := scan(t, Options{}, dir)
	if out.Files != 3 || len(gaps(all)) != 0 || len(out.Findings) != 2 || !strings.Contains(strings.Join(out.Findings, " "), "host-relay-bin.000002 was skipped: it is a relay log.") {
		t.Errorf("folder: %d files, %q, %q", out.Files, gaps(all), out.Findings)
	}
	again, out := scan(t, Options{}, filepath.Join(dir, "binlog.index"))
	if out.Files != 3 || len(again) != len(all) || len(out.Findings) != 0 {
		t.Errorf("index: %d files, %d records, %q", out.Files, len(again), out.Findings)
	}
	for name, text := range map[string]string{"empty.index": "\n", "binary.index": "a\x00b\n"} {
		if _, err := Open([]string{write(t, dir, name, []byte(text))}, Options{}); tidemark.KindOf(err) != tidemark.BadInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func packed(t *testing.T, kind string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch kind {
	case "gz":
		w := gzip.NewWriter(&out)
		_, _ = w.Write(b)
		_ = w.Close()
	case "zst":
		w, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(b)
		_ = w.Close()
	case "lz4":
		w := lz4.NewWriter(&out)
		_, _ = w.Write(b)
		_ = w.Close()
	}
	return out.Bytes()
}

// Compressed files read the same as uncompressed ones, even if their names do not show it.
func TestPackedFiles(t *testing.T) {
	logs := history(4)
	plain, dir := t.TempDir(), t.TempDir()
	for i, b := range logs {
		write(t, plain, logFileName(i+1), b)
		if kind := []string{"gz", "zst", "lz4", ""}[i]; kind != "" {
			write(t, dir, logFileName(i+1)+"."+kind, packed(t, kind, b))
		} else {
			write(t, dir, logFileName(i+1), b)
		}
	}
	want, _ := scan(t, Options{}, plain)
	got, out := scan(t, Options{}, dir)
	if len(got) != len(want) || out.End != "" || len(gaps(got)) != 0 {
		t.Fatalf("%d records, not %d; %q %q", len(got), len(want), out.End, gaps(got))
	}
	// A file that exists in both forms is read once.
	write(t, dir, logFileName(2), logs[1])
	if got, out = scan(t, Options{}, dir); len(got) != len(want) || len(out.Findings) != 1 || !strings.Contains(out.Findings[0], "binlog.000002.zst was skipped") {
		t.Errorf("%d records, %q", len(got), out.Findings)
	}
	// A truncated file yields what it has.
	b := packed(t, "gz", logs[3])
	_, out = scan(t, Options{}, write(t, t.TempDir(), "binlog.000004.gz", b[:len(b)-30]))
	if !strings.Contains(out.End, "binlog.000004.gz ends at offset ") || !strings.Contains(out.End, "unexpected EOF") {
		t.Errorf("cut: %q", out.End)
	}
}

// Missing files are detected from the files' content, whatever their names.
func TestGaps(t *testing.T) {
	logs := history(4)
	dir := t.TempDir()
	cut := logs[1][:len(logs[1])-100]
	renamed := newWriter("10.11.6-MariaDB")
	renamed.event(kindMariaList, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"), 0)
	renamed.event(kindMariaGTID, mariaBody(6, 1, 0), 0)
	renamed.event(kindQuery, queryBody("CREATE TABLE a (a int)"), 0)
	other := newWriter("10.11.6-MariaDB")
	other.event(kindMariaList, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00"), 0)
	for _, c := range []struct {
		name  string
		files map[string][]byte
		want  []string
	}{
		{"whole", map[string][]byte{"a.000001": logs[0], "a.000002": logs[1]}, nil},
		{"by Rotate", map[string][]byte{"a.000001": logs[0], "a.000003": logs[2]}, []string{"a.000001 continues in binlog.000002, and a.000003 follows"}},
		{"by GTIDs", map[string][]byte{"a": logs[0], "b": logs[3]}, []string{"b begins after 6 GTIDs, and 2 were seen up to it"}},
		{"by number", map[string][]byte{"a.000004": logs[3], "a.000006": logs[3]}, []string{"a.000006 follows a.000004: files are missing between"}},
		{"cut", map[string][]byte{"a.000002": cut, "a.000003": logs[2]}, []string{"a.000002 ends at offset 714: the event there cannot be read, only 16 of the 19 bytes of its header are there"}},
		{"MariaDB", map[string][]byte{"a.000002": renamed.b, "a.000003": other.b}, []string{"a.000003 begins after GTID 0-7-9, and the last seen before it is 0-7-6"}},
	} {
		sub := filepath.Join(dir, c.name)
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		var paths []string
		for name, b := range c.files {
			paths = append(paths, write(t, sub, name, b))
		}
		all, _ := scan(t, Options{}, paths...)
		got := gaps(all)
		if len(got) != len(c.want) || len(got) > 0 && !strings.HasPrefix(got[0], c.want[0]) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// Two histories of one server that has restarted its numbers.
func TestTwoHistories(t *testing.T) {
	old, fresh := history(3), history(5)
	dir := t.TempDir()
	paths := []string{write(t, dir, "binlog.000003", old[2]), write(t, dir, "x.000001", fresh[3]), write(t, dir, "x.000002", fresh[4])}
	all, out := scan(t, Options{}, paths[1], paths[2], paths[0])
	if all[0].File != "binlog.000003" || len(gaps(all)) != 0 || len(out.Findings) != 1 {
		t.Errorf("%q %q %q", all[0].File, gaps(all), out.Findings)
	}
	w := newWriter("8.0.33")
	w.b = w.b[:len(magic)]
	w.time += 100000
	w.event(kindFormat, formatBody("8.0.33", true), 0)
	w.event(kindPrevious, previousBody(0), 0)
	w.transaction(1, 5)
	all, out = scan(t, Options{}, paths[0], write(t, dir, "binlog.000001", w.b))
	if all[0].File != "binlog.000003" || len(out.Findings) != 1 || len(gaps(all)) != 1 {
		t.Errorf("%q %q %q", all[0].File, out.Findings, gaps(all))
	}
}

// The command gets each name before the file is opened, and may remove the previous file.
func TestRetrieve(t *testing.T) {
	logs := history(3)
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "it's \"here\"")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for i, b := range logs {
		write(t, from, logFileName(i+1), b)
		paths = append(paths, filepath.Join(dir, logFileName(i+1)))
	}
	slices.Reverse(paths)
	fetch := write(t, t.TempDir(), "fetch.sh", []byte(`cd "`+from+`" && rm -f "$(dirname "$1")"/binlog.* && cp "$(basename "$1")" "$1" && echo "$1" >>log`))
	all, out := scan(t, Options{Retrieve: "sh " + fetch}, paths...)
	if out.Files != 3 || len(gaps(all)) != 0 || out.End != "" {
		t.Errorf("%d files, %q, %q", out.Files, gaps(all), out.End)
	}
	log, err := os.ReadFile(filepath.Join(from, "log"))
	if err != nil || strings.Count(string(log), "\n") != 3 {
		t.Errorf("%q %v", log, err)
	}
	for _, command := range []string{"echo no such archive >&2; false", "true"} {
		f, err := Open([]string{filepath.Join(dir, "binlog.000009")}, Options{Retrieve: command})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Scan(context.Background(), func(*tidemark.LogRecord) error { return nil })
		switch {
		case command == "true" && tidemark.KindOf(err) != tidemark.NotFound:
			t.Errorf("%v", err)
		case command != "true" && (tidemark.KindOf(err) != tidemark.Invalid || !strings.HasSuffix(err.Error(), "exit status 1: no such archive")):
			t.Errorf("%v", err)
		}
	}
}
