package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestLinksInFoldersOfOthers: root that works in a state folder or a repository of another user
// makes and reads no file anywhere else.
func TestLinksInFoldersOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // others reach nothing through a link that they could not reach without
	}
	server := testdb.OwnPostgres(t, 16)
	source, target := server.NewDatabase(t, "a"), server.NewDatabase(t, "b")
	testdb.Query(t, source, "CREATE TABLE a (id int PRIMARY KEY)")
	dir := t.TempDir()
	link := func(folder, name string, owner int) (to string) {
		t.Helper()
		to, from := filepath.Join(dir, folder+"-"+name+"-elsewhere"), filepath.Join(dir, folder, name)
		for _, err := range []error{os.MkdirAll(filepath.Dir(from), 0o700), os.Chown(filepath.Dir(from), 4711, 4711), os.Symlink(to, from), os.Lchown(from, owner, owner)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return to
	}
	refused := func(o testdb.Outcome, at string) {
		t.Helper()
		if o.Code != 2 || !strings.Contains(o.ErrOut, "symbolic link of another user (uid 4711)") || !strings.Contains(o.ErrOut, "Look where it leads") {
			t.Errorf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
		}
		if in, err := os.ReadDir(at); err == nil && len(in) > 0 {
			t.Errorf("%s has %v", at, in)
		} else if st, err := os.Stat(at); err == nil && !st.IsDir() {
			t.Errorf("%s was made", at)
		}
	}
	copied := func(state string) testdb.Outcome {
		return testdb.Run(t, "copy", source, target, "--prep", "drop", "--state", filepath.Join(dir, state, "catalog.db"))
	}
	at := link("file", "catalog.db", 4711)
	refused(copied("file"), at)
	at = link("locks", "catalog.db.locks", 4711)
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	refused(copied("locks"), at)
	at = link("own", "catalog.db", 0)
	if o := copied("own"); o.Code != 0 {
		t.Errorf("a link of root: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if _, err := os.Stat(at); err != nil {
		t.Error(err)
	}
	repository := filepath.Join(dir, "repository")
	testdb.Must(t, "backup", "--logical", source, repository)
	folders, err := filepath.Glob(filepath.Join(repository, "*s"))
	if err != nil || len(folders) == 0 {
		t.Fatal(folders, err)
	}
	var links []string
	for _, folder := range folders { // of backups and what belongs to them
		name := filepath.Base(folder)
		if err := os.Rename(folder, filepath.Join(dir, "repository-"+name+"-elsewhere")); err != nil {
			t.Fatal(err)
		}
		link("repository", name, 4711)
		links = append(links, folder)
	}
	was, err := os.ReadDir(filepath.Join(dir, "repository-"+filepath.Base(links[0])+"-elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"backup", "--logical", source, repository}, {"verify", repository}, {"backups", repository}} {
		refused(testdb.Run(t, args...), "")
	}
	for _, l := range links {
		if err := os.Lchown(l, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	testdb.Must(t, "verify", repository)
	testdb.Must(t, "backup", "--logical", source, repository)
	now, err := os.ReadDir(filepath.Join(dir, "repository-"+filepath.Base(links[0])+"-elsewhere"))
	if err != nil || len(was) == len(now) {
		t.Errorf("%v, %v after a backup through root's link: %v", was, now, err)
	}
}
