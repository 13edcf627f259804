package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// cached returns the total size of a folder's large files, and how many of those bytes are in the
// system's cache.
func cached(t *testing.T, folder string) (bytes, resident int64) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || info.Size() < 1<<20 {
			return err
		}
		m, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		defer unix.Munmap(m)
		page := os.Getpagesize()
		in := make([]byte, (len(m)+page-1)/page)
		if _, _, errno := syscall.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
			return errno
		}
		for _, p := range in {
			resident += int64(p&1) * int64(page)
		}
		bytes += info.Size()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes, resident
}

// evict removes a folder's files from the cache.
func evict(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A backup with --direct-io leaves nothing that it has read and written in the system's cache, and
// neither does a restore; without it, a backup leaves nothing of what it has read, if the system
// supports that (Linux 6.14). The restored data is right.
func TestDirectIOPassesTheCacheBy(t *testing.T) {
	t.Parallel()
	s := little(t)
	url := s.URL("postgres")
	disk := t.TempDir() // the server's own folder may be on another one
	space := filepath.Join(disk, "space")
	if err := os.Mkdir(space, 0o700); err != nil {
		t.Fatal(err)
	}
	for dir := disk; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("chown", "--reference", s.Dir, space).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testdb.Query(t, url, "CREATE TABLESPACE ondisk LOCATION '"+space+"'")
	testdb.Query(t, url, "CREATE TABLE large WITH (autovacuum_enabled = off) TABLESPACE ondisk AS SELECT g, (SELECT string_agg(md5((g * 30 + i)::text), '') FROM generate_series(1, 30) i) FROM generate_series(1, 20000) g")
	want := testdb.Query(t, url, "SELECT count(*), md5(string_agg(t.text, '' ORDER BY g)) FROM large t (g, text)")
	testdb.Query(t, url, "CHECKPOINT") // otherwise the server would write pages with hint bits later
	evict(t, space)
	if bytes, in := cached(t, space); bytes < 18<<20 || in > bytes/10 {
		t.Logf("%d of %d bytes cannot be taken out of the cache: no disk is below it", in, bytes)
		return
	}
	const few = 2 << 20
	place := filepath.Join(disk, "repo")
	must(t, "backup", url, place, "--compress", "none", "--direct-io", "--progress", "none")
	if bytes, in := cached(t, space); in > few {
		t.Errorf("of what was read, %d of %d bytes are in the cache", in, bytes)
	}
	if bytes, in := cached(t, place); bytes < 18<<20 || in > few {
		t.Errorf("of what was written, %d of %d bytes are in the cache", in, bytes)
	}
	to, data := filepath.Join(disk, "space2"), filepath.Join(disk, "data")
	must(t, "restore", place, data, "--tablespace-map", space+"="+to, "--direct-io", "--progress", "none")
	for _, folder := range []string{to, place} {
		if bytes, in := cached(t, folder); bytes < 18<<20 || in > few {
			t.Errorf("restored: %d of %d bytes in %s are in the cache", in, bytes, folder)
		}
	}
	at := s.Beside(t, data).URL("postgres")
	if got := testdb.Query(t, at, "SELECT count(*), md5(string_agg(t.text, '' ORDER BY g)) FROM large t (g, text)"); got != want {
		t.Errorf("restored %s, not %s", got, want)
	}
	for try := 0; ; try++ { // the system keeps pages that are in use at that moment, for example by its own readahead on a busy machine
		evict(t, space)
		must(t, "backup", url, place, "--progress", "none")
		bytes, in := cached(t, space)
		if !knowsOnce(t, space) || in <= few {
			break
		}
		if try == 5 {
			t.Fatalf("without --direct-io %d of %d bytes are in the cache", in, bytes)
		}
	}
}

// knowsOnce reports whether files in folder can be read without leaving them in the cache.
func knowsOnce(t *testing.T, folder string) bool {
	t.Helper()
	f, err := os.CreateTemp(folder, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer os.Remove(f.Name())
	if _, err := f.Write(make([]byte, 8192)); err != nil {
		t.Fatal(err)
	}
	const dontCache = 0x80
	_, err = unix.Preadv2(int(f.Fd()), [][]byte{make([]byte, 8192)}, 0, dontCache)
	return err == nil
}
