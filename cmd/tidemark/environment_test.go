package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Each option can be set in the environment: a flag overrides it, and it overrides the task file.
func TestEnvironment(t *testing.T) {
	const ends = "source: postgres://me@127.0.0.1:1/a\ntarget: postgres://me@127.0.0.1:1/b\noptions:\n  lanes: 3\n"
	task := testdb.Written(t, "task.yaml", ends)
	t.Setenv("TIDEMARK_LANES", "many")
	o := cli(t, "copy", "--config", task)
	if o.code != 2 || !strings.Contains(o.errOut, `read environment TIDEMARK_LANES: "many" must be a whole number`) || !strings.Contains(o.errOut, "--lanes") {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}
	if o := cli(t, "copy", "--config", task, "-j", "2"); o.code != 3 {
		t.Errorf("a flag: exit %d: %s", o.code, o.errOut)
	}
	t.Setenv("TIDEMARK_LANES", "4")
	t.Setenv("TIDEMARK_CONFIG", task)
	t.Setenv("TIDEMARK_JSON", "on")
	if o := cli(t, "copy"); o.code != 3 || !strings.HasPrefix(o.errOut, `{"event":"error","kind":"unreachable"`) {
		t.Errorf("a task file of the environment: exit %d: %s", o.code, o.errOut)
	}
	t.Setenv("TIDEMARK_SINCE", "long ago") // an option of another command
	if o := cli(t, "runs"); o.code != 0 || o.out != "[]\n" && !strings.HasPrefix(o.out, "[\n") {
		t.Errorf("exit %d: %s%s", o.code, o.errOut, o.out)
	}
}

// Databases are shown by the names that users know, in arguments and in task files, and no output
// contains a password.
func TestAddresses(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.WriteFile(filepath.Join(home, ".my.cnf"), []byte("[client]\nuser=me\npassword=s3cret-tide\nhost=127.0.0.1\nport=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	passwords := testdb.Written(t, "passwords", "*:*:*:*:s3cret-tide\n")
	for _, x := range []struct {
		code int
		says string
		args []string
	}{
		{3, "postgres://me@127.0.0.1:1/a", []string{"copy", "host=127.0.0.1 port=1 dbname=a user=me password=s3cret-tide", "postgres://me@127.0.0.1:1/b"}},
		{3, "mysql://me@127.0.0.1:1/a", []string{"copy", "mysql:///a", "postgres://me@127.0.0.1:1/b"}},
		{3, "postgres://me@127.0.0.1:1/a", []string{"copy", "--config", testdb.Written(t, "task.yaml", "source: host=127.0.0.1 port=1 dbname=a user=me\ntarget: mysql:///b\n"), "--password-file", passwords}},
		{6, "/nowhere", []string{"copy", "postgres://me@127.0.0.1:1/a", "mysql:///b", "--password-file", "/nowhere"}},
		{2, "the engine is unclear", []string{"copy", "me:s3cret-tide@old/shop", "mysql:///b"}},
		{2, "no group old", []string{"diff", "mysql:///a?group=old", "mysql:///b"}},
		{3, "postgres://me@127.0.0.1:1/a", []string{"backup", "host=127.0.0.1 port=1 dbname=a user=me", filepath.Join(home, "repo"), "--password-file", passwords}},
		{3, "mysql://me@127.0.0.1:1/a", []string{"exceptions", "mysql:///a"}},
	} {
		o := cli(t, x.args...)
		if o.code != x.code || !strings.Contains(o.errOut, x.says) {
			t.Errorf("%v: exit %d: %s", x.args, o.code, o.errOut)
		}
		noSecrets(t, o)
	}
}
