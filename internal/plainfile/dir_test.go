package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestLinksOfOthers: what root does in a folder of somebody else stays there. Links of root lead
// anywhere, and so does one that is the folder itself.
func TestLinksOfOthers(t *testing.T) {
	if !guarded() {
		return // others follow what they can reach
	}
	base := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(names ...string) string { return filepath.Join(append([]string{base}, names...)...) }
	must(os.MkdirAll(at("real", "sub"), 0o700))
	must(os.Mkdir(at("elsewhere"), 0o700))
	must(os.WriteFile(at("elsewhere", "file"), []byte("secret"), 0o600))
	must(os.Symlink("real", at("named")))
	must(os.Lchown(at("named"), 4711, 4711)) // the user has named it
	for name, to := range map[string]string{"folder": at("elsewhere"), "relative": "../elsewhere", "file": at("elsewhere", "file"), "dangling": at("elsewhere", "new"), "inside": "sub"} {
		must(os.Symlink(to, at("real", "ours-"+name)))
		must(os.Symlink(to, at("real", name)))
		must(os.Lchown(at("real", name), 4711, 4711))
	}
	d := Dir(at("named"))
	open := func(flag int) func(string) error {
		return func(name string) error {
			f, err := d.OpenFile(name, flag, 0o600)
			if err == nil {
				f.Close()
			}
			return err
		}
	}
	write := open(os.O_WRONLY | os.O_CREATE | os.O_APPEND)
	for what, act := range map[string]func(string) error{
		"read":   func(name string) error { _, err := d.ReadFile(name); return err },
		"write":  write,
		"create": open(os.O_WRONLY | os.O_CREATE | os.O_EXCL),
		"stat":   func(name string) error { _, err := d.Stat(name); return err },
		"mkdir":  func(name string) error { return d.MkdirAll(name, 0o700) },
		"remove": d.Remove,
		"rename": func(name string) error { return d.Rename(name, "other") },
		"link":   func(name string) error { return d.Link(name, "other") },
	} {
		for _, name := range []string{"folder/file", "relative/file", "inside/file", "sub/../folder/file"} {
			if err := act(name); !errors.Is(err, ErrLink) {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
	}
	for _, name := range []string{"file", "dangling", "folder"} {
		if err := write(name); !errors.Is(err, ErrLink) {
			t.Errorf("write %s: %v", name, err)
		}
		if err := open(os.O_WRONLY | os.O_CREATE | os.O_EXCL)(name); !errors.Is(err, fs.ErrExist) {
			t.Errorf("create %s: %v", name, err)
		}
	}
	if _, err := os.Stat(at("elsewhere", "new")); err == nil {
		t.Error("a file was made elsewhere")
	}
	if err := d.NoLinks(); !errors.Is(err, ErrLink) {
		t.Errorf("links: %v", err)
	}
	for _, name := range []string{"ours-folder/file", "ours-relative/file", "ours-file"} {
		if text, err := d.ReadFile(name); string(text) != "secret" {
			t.Errorf("read %s: %q, %v", name, text, err)
		}
	}
	must(write("ours-dangling"))
	must(d.MkdirAll("ours-inside/a/b", 0o700))
	must(d.WriteFile("ours-inside/a/b/c", nil))
	must(d.Rename("sub/a/b/c", "d"))
	for _, name := range []string{"real/sub/a/b/d", "elsewhere/new"} {
		if _, err := os.Stat(at(name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.ReadFile("nothing/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is missing: %v", err)
	}
}
