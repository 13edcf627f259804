package peers

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// No command waits for a named pipe that nobody opens, or reads a device to its end: files are
// regular ones.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.sql")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, filepath.Join(folder, "shop.t.sql")); err != nil {
		t.Fatal(err)
	}
	target := testdb.MariaDB(t).NewDatabase(t, "special")
	with := func(name string) string {
		return "postgres://tm@127.0.0.1:1/x?sslmode=verify-ca&" + name + "=" + url.QueryEscape(pipe)
	}
	for _, args := range [][]string{
		{"copy", pipe, target}, {"check", pipe, target}, {"copy", "/dev/zero", target}, {"copy", folder, target}, {"check", folder, target}, {"copy", target, target, "--config", pipe}, {"copy", target, target, "--config", "/dev/zero"},
		{"copy", "mysql://tm@127.0.0.1:1/x", target, "--password-file", pipe}, {"backup", "--logical", target, dir + "/repo", "--identity", pipe}, {"backups", dir, "--passphrase-file", "/dev/zero"},
		{"check", with("sslkey") + "&sslcert=x", target}, {"check", with("sslrootcert"), target}, {"check", with("passfile"), target}, {"check", with("servicefile"), target},
		{"check", "mysql://tm@127.0.0.1:1/x?tls=true&tls-ca=" + pipe, target}, {"check", "db2://tm@127.0.0.1:1/X?tls-ca=/dev/zero", target}, {"relay", "--secret-file", pipe},
	} {
		if text := endure(t, nil, usual, args...); !strings.Contains(text, "not a regular file") {
			t.Errorf("%q: %s", args, text)
		}
	}
}

// Files of keys and passwords that others can read are refused, as by ssh and libpq.
func TestFilesThatOthersCanRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte("127.0.0.1:1:x:tm:"+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lines := [][]string{
		{"check", "postgres://tm@127.0.0.1:1/x?sslmode=disable&passfile=" + file, "mysql://127.0.0.1:1/x"}, {"check", "postgres://tm@127.0.0.1:1/x?sslkey=" + file + "&sslcert=" + file, "mysql://127.0.0.1:1/x"},
		{"check", "mysql://tm@127.0.0.1:1/x", "mysql://127.0.0.1:1/x", "--password-file", file}, {"check", "mysql://tm@127.0.0.1:1/x?tls=true&tls-cert=" + file + "&tls-key=" + file, "mysql://127.0.0.1:1/x"},
		{"backups", dir + "/repo", "--identity", file}, {"backups", dir + "/repo", "--passphrase-file", file}, {"relay", "--secret-file", file}, {"backups", "sftp://tm@127.0.0.1:1/x?key=" + file + "&known_hosts=" + hosts},
	}
	const why = "others can read"
	for _, mode := range []os.FileMode{0o644, 0o604, 0o660, 0o600} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		for _, args := range lines {
			if args[0] == "relay" && mode == 0o600 { // it would listen
				continue
			}
			if text := endure(t, nil, usual, args...); strings.Contains(text, why) == (mode == 0o600) {
				t.Errorf("%o: %q: %s", mode, args, text)
			}
		}
	}
}
