package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// TestLinks: a folder of objects that an administrator has put on another disk is written, read and
// listed through its link, which outlives the last object and an aborted one. Root follows no link
// of anybody else.
func TestLinks(t *testing.T) {
	t.Parallel()
	base, ctx := t.TempDir(), t.Context()
	at := func(name string) string { return filepath.Join(base, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"real", "disk", "secret"} {
		must(os.Mkdir(at(dir), 0o700))
	}
	must(os.Symlink("real", at("named")))
	must(os.Symlink(at("disk"), at("real/logs")))
	s, err := Open(ctx, at("named"), Options{Attempts: 1})
	must(err)
	defer s.Close()
	put := func(name string, end func(Object) error) error {
		o, err := s.Create(ctx, name, Replace)
		if err != nil {
			return err
		}
		return end(o)
	}
	names := func(prefix string) (out []string) {
		for i, err := range s.List(ctx, prefix) {
			must(err)
			out = append(out, i.Name)
		}
		return out
	}
	abort := func(o Object) error { o.Abort(); return nil }
	must(put("first", abort))
	must(put("logs/x", abort))
	must(put("logs/x", Object.Commit))
	must(put("logs/y", Object.Commit))
	must(s.Delete(ctx, "logs/x"))
	if n := names("logs/"); len(n) != 1 || n[0] != "logs/y" {
		t.Fatalf("%v", n)
	}
	must(s.Delete(ctx, "logs/y"))
	must(put("logs/z", Object.Commit))
	must(put("top", Object.Commit))
	if _, err := os.Stat(at("disk/z")); err != nil || len(names("")) == 0 {
		t.Fatal(err, names(""))
	}
	if os.Geteuid() != 0 {
		return
	}
	must(os.WriteFile(at("secret/file"), nil, 0o600))
	must(os.Symlink(at("secret"), at("real/theirs")))
	must(os.Symlink(at("secret/file"), at("real/object")))
	must(os.Lchown(at("real/theirs"), 4711, 4711))
	must(os.Lchown(at("real/object"), 4711, 4711))
	for what, err := range map[string]error{
		"create": put("theirs/new", Object.Commit),
		"delete": s.Delete(ctx, "theirs/file"),
		"folder": func() error { _, err := s.Read(ctx, "theirs/file", 0, -1); return err }(),
		"file":   func() error { _, err := s.Read(ctx, "object", 0, -1); return err }(),
		"stat":   func() error { _, err := s.Stat(ctx, "object"); return err }(),
		"list": func() (err error) {
			for _, err = range s.List(ctx, "theirs/") {
			}
			return err
		}(),
	} {
		var e *tidemark.Error
		if !errors.As(err, &e) || e.Kind != tidemark.Invalid || e.Hint != plainfile.LinkHint {
			t.Errorf("%s: %v", what, err)
		}
	}
	if in, err := os.ReadDir(at("secret")); err != nil || len(in) != 1 {
		t.Errorf("%v, %v", in, err)
	}
}
