//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// What a machine lacks for the tests is said in one sentence, before the first of them.
func TestReady(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs root on Linux, to be without it, and for a disk and a network of its own")
	}
	script, err := filepath.Abs("../install-test-deps.sh")
	if err != nil {
		t.Fatal(err)
	}
	stubs := t.TempDir()
	for _, dir := range []string{stubs, filepath.Dir(stubs)} { // who is not root enters them
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"dpkg-query": "exit 1", "sleep": "exit 0"} { // nothing is installed; bad minutes of mirrors pass
		if err := os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	small := t.TempDir()
	for _, c := range []struct {
		name, line string // of a shell whose first argument is the script
		want       []string
	}{
		{"full disk", `mount -t tmpfs -o size=1m tmpfs ` + small + ` && TMPDIR=` + small + ` "$0"`, []string{"the disk of " + small + " has 0 GB free", "TMPDIR"}},
		{"no root", `export PATH=` + stubs + `:$PATH HOME=` + small + ` TIDEMARK_TEST_CACHE=` + small + `/c GOCACHE=` + small + `/g
			chmod 777 ` + small + ` && exec setpriv --reuid 65534 --regid 65534 --clear-groups bash -s <"$0"`, []string{"Debian packages are missing, and only root can install them: run as root: apt-get install", "postgresql-15"}},
		{"no registry for Go", `TIDEMARK_TEST_CACHE=` + small + `/d GOMODCACHE=` + small + `/m GOFLAGS=-modcacherw "$0"`, []string{"Go modules in go.mod cannot be downloaded: check this machine's network", small + "/d/install.log"}},
		{"no registry for programs", `printf '#!/bin/sh\necho installed\n' >` + stubs + `/dpkg-query
			PATH=` + stubs + `:$PATH TIDEMARK_TEST_CACHE=` + small + `/f "$0"`, []string{"cannot be downloaded: check this machine's network", small + "/f/install.log"}},
	} {
		if strings.HasSuffix(c.name, "programs") && !testdb.Long() {
			continue // it asks four times
		}
		cmd := exec.Command("unshare", "--mount", "--net", "bash", "-c", c.line, script)
		cmd.Env = append(os.Environ(), "GOPROXY=http://127.0.0.1:9")
		out, err := cmd.CombinedOutput()
		text := string(out)
		if err == nil || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%s: %v", c.name, err)
		}
		for strings.HasPrefix(text, "test-deps: fetching ") {
			_, text, _ = strings.Cut(text, "\n")
		}
		if n := strings.Count(text, "\n"); n != 1 {
			t.Errorf("%s: %d lines", c.name, n)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: nothing says %q:\n%s", c.name, want, out)
			}
		}
	}
}
