package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestRestoredFilesOfRoot: where a restore by root leaves files to root, since the backup says that
// they were root's, it says so before it writes.
func TestRestoredFilesOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only root can give files away
	}
	server := testdb.OwnPostgres(t, 16)
	data := testdb.Query(t, server.URL("postgres"), "SHOW data_directory")
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"servers": 0o700, "roots": 0o777} {
		st, err := os.Stat(data)
		if err != nil {
			t.Fatal(err)
		}
		uid, gid := 0, 0
		if name == "servers" {
			uid, gid = -1, -1
		}
		if err := os.Chown(data, uid, gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(data, mode); err != nil {
			t.Fatal(err)
		}
		repository := filepath.Join(dir, name)
		testdb.Must(t, "backup", server.URL("postgres"), repository)
		restoreOwner(t, data, st)
		o := testdb.Run(t, "restore", repository, "latest", filepath.Join(dir, name+"-restored"))
		if says := strings.Contains(o.Out+o.ErrOut, "they will belong to root"); o.Code != 0 || says != (name == "roots") {
			t.Errorf("%s: exit %d\n%s%s", name, o.Code, o.Out, o.ErrOut)
		}
	}
}

// restoreOwner gives a folder back to whom it belonged.
func restoreOwner(t *testing.T, path string, was os.FileInfo) {
	t.Helper()
	of := was.Sys().(*syscall.Stat_t)
	if err := os.Chown(path, int(of.Uid), int(of.Gid)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, was.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
}
