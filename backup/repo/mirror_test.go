package repo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// tree returns the files below a folder except locks.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each place of a mirror is the same repository, byte for byte, and sufficient for a restore. A new
// place joins, an unavailable place is left out, and another repository is rejected.
func TestMirrors(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	id := must(age.GenerateX25519Identity())
	keys := Keys{Recipients: []string{id.Recipient().String()}, Identities: id.String()}
	at := func(names ...string) (out []store.Store) {
		for _, name := range names {
			if !strings.Contains(name, ":") {
				name = filepath.Join(dir, name)
			}
			out = append(out, must(store.Open(ctx, name, store.Options{Attempts: 1})))
		}
		return out
	}
	const away = "azblob://nobody/x?endpoint=http://127.0.0.1:1/x"
	t.Setenv("AZURE_STORAGE_KEY", "eA==")
	if _, err := OpenMirror(ctx, at("a", away), keys); tidemark.KindOf(err) != tidemark.Unreachable || err == nil {
		t.Fatalf("a mirror was made without one of its places: %v", err)
	}
	r := must(OpenMirror(ctx, at("a", "b"), keys))
	m, want, err := backUp(ctx, r, "", "zstd", 1)
	if err != nil {
		t.Fatal(err)
	}
	a := tree(t, filepath.Join(dir, "a"))
	if diff := cmp.Diff(a, tree(t, filepath.Join(dir, "b"))); diff != "" || len(a) < 3 {
		t.Errorf("the places differ, or have nothing: %d files", len(a))
	}
	for _, name := range []string{"a", "b"} {
		one := must(Open(ctx, at(name)[0], keys))
		got, _, err := read(ctx, one, must(one.Manifest(ctx, m.ID)))
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: other files come back: %v", name, err)
		}
	}

	// A third place, and an unavailable one: no new backup builds on what they lack.
	r = must(OpenMirror(ctx, at("c", away, "a"), keys))
	if !r.Mirror().IsLost(1) || r.Mirror().IsLost(0) {
		t.Errorf("%+v", r.Mirror().Shares())
	}
	if ids := must(r.IDs(ctx)); len(ids) != 0 {
		t.Errorf("all places have %v", ids)
	}
	time.Sleep(time.Millisecond)
	if m, _, err = backUp(ctx, r, "", "zstd", 2); err != nil {
		t.Fatal(err)
	}
	if ids := must(must(Open(ctx, at("a")[0], keys)).IDs(ctx)); len(ids) != 2 {
		t.Errorf("the first place has %v", ids)
	}
	if ids := must(must(Open(ctx, at("c")[0], keys)).IDs(ctx)); len(ids) != 1 || ids[0] != m.ID {
		t.Errorf("the new place has %v", ids)
	}

	must(Create(ctx, at("other")[0], keys))
	if _, err := OpenMirror(ctx, at("a", "other"), keys); tidemark.KindOf(err) != tidemark.Collision || err == nil {
		t.Errorf("another repository was taken for a mirror: %v", err)
	}
	if _, err := OpenMirror(ctx, at("a", "b"), Keys{Identities: must(age.GenerateX25519Identity()).String()}); tidemark.KindOf(err) != tidemark.Denied || err == nil {
		t.Errorf("it was opened with another key: %v", err)
	}
}

// A place whose lock is considered dead, and whose parts are removed, is lost; the backup is in the
// other.
func TestMirrorLosesALock(t *testing.T) {
	ctx := t.Context()
	dirs := []string{t.TempDir(), t.TempDir()}
	var places []store.Store
	for _, d := range dirs {
		places = append(places, must(store.Open(ctx, d, store.Options{})))
	}
	r := must(OpenMirror(ctx, places, Keys{}))
	w := must(r.Begin(ctx, BeginOptions{}))
	locks := must(filepath.Glob(filepath.Join(dirs[0], "locks", "*")))
	if len(locks) != 1 || len(must(filepath.Glob(filepath.Join(dirs[1], "locks", "*")))) != 1 {
		t.Fatalf("the first place has the locks %v", locks)
	}
	if err := os.Remove(locks[0]); err != nil {
		t.Fatal(err)
	}
	m, err := w.Publish(ctx, Manifest{Engine: "postgres"})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Mirror().IsLost(0) || tidemark.KindOf(r.Mirror().Shares()[0].Lost) != tidemark.Lost {
		t.Errorf("%+v", r.Mirror().Shares())
	}
	for i, want := range []int{0, 1} {
		if ids := must(must(Open(ctx, places[i], Keys{})).IDs(ctx)); len(ids) != want {
			t.Errorf("place %d has %v", i, ids)
		}
	}
	if left := must(filepath.Glob(filepath.Join(dirs[1], "locks", "*"))); len(left) != 0 {
		t.Errorf("%s has left the locks %v", m.ID, left)
	}
	// Of both, the backup is.
	w = must(r.Begin(ctx, BeginOptions{}))
	for _, lock := range must(filepath.Glob(filepath.Join(dirs[1], "locks", "*"))) {
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Publish(ctx, Manifest{Engine: "postgres"}); tidemark.KindOf(err) != tidemark.Lost || err == nil {
		t.Errorf("it was published without a lock: %v", err)
	}
	_ = w.Abort(ctx)
}

// A place that another process makes another repository between the opening and the first write
// does not join the mirror: the backup does not begin.
func TestMirrorOfAPlaceThatAnotherTakes(t *testing.T) {
	ctx := t.Context()
	places := []store.Store{must(store.Open(ctx, t.TempDir(), store.Options{})), must(store.Open(ctx, t.TempDir(), store.Options{}))}
	r := must(OpenMirror(ctx, places, Keys{}))
	must(Create(ctx, places[1], Keys{}))
	if _, err := r.Begin(ctx, BeginOptions{}); tidemark.KindOf(err) != tidemark.Collision || err == nil {
		t.Errorf("a backup began in two repositories: %v", err)
	}
}
