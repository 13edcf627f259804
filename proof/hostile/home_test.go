package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// inHome runs the program with a home folder, and without another place for its catalogue.
func inHome(t *testing.T, home string, args ...string) (string, int) {
	t.Helper()
	cmd := testdb.Command(t, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "XDG_STATE_HOME=") || strings.HasPrefix(v, "TIDEMARK_STATE=")
	})
	cmd.Env = append(cmd.Env, "HOME="+home)
	out, err := cmd.CombinedOutput()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestReadingMakesNothing: commands that read leave an empty home as it is, and none makes one that
// does not exist, such as that of nobody.
func TestReadingMakesNothing(t *testing.T) {
	t.Parallel()
	empty, missing := t.TempDir(), filepath.Join(t.TempDir(), "nonexistent")
	for line, code := range map[string]int{"runs": 0, "utilities": 0, "status": 0, "report last": 6, "explain last": 6, "bundle last": 6, "set agents=2 --name a": 6, "peek --name a": 6, "exceptions --name a": 6, "sub start x.y --name a": 6} {
		args := strings.Fields(line)
		if out, got := inHome(t, empty, args...); got != code || strings.Contains(out, "panic") {
			t.Errorf("%s: exit %d, want %d\n%s", line, got, code, out)
		}
		if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
			t.Fatalf("%s has made %v", line, left)
		}
		if out, got := inHome(t, missing, args...); got != 2 || !strings.Contains(out, "the home folder does not exist") {
			t.Errorf("%s without a home: exit %d\n%s", line, got, out)
		}
	}
	if out, got := inHome(t, missing, "copy", "postgres://x@127.0.0.1:1/a", "postgres://x@127.0.0.1:1/b"); got != 2 || !strings.Contains(out, "--state") {
		t.Errorf("copy without a home: exit %d\n%s", got, out)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the home folder was made")
	}
}
