package backup

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemarkdb/tidemark/backup/repo"
)

// TestModesArePermissions: a list that somebody has forged makes no program of root's.
func TestModesArePermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	x := &Restore{}
	x.opt.Dir = dir
	forged := uint32(fs.ModeSetuid | fs.ModeSetgid | 0o755)
	if err := x.makeFolders([]repo.File{{Path: ".", Mode: forged}, {Path: "base", Mode: forged}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := x.create(filepath.Join(dir, "program"), forged, func(*os.File) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "base", "program"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode()&^fs.ModeDir != 0o755 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
}
