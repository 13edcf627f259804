package screens

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A mistyped name of a stream, a run or a backup: the hint names the one that is meant, and what is
// typed as it says is found. The same backup has the same kind in every list.
func TestMistypedNames(t *testing.T) {
	t.Parallel()
	server := testdb.Postgres(t, 15)
	source, target := server.NewDatabase(t, "source"), server.NewDatabase(t, "target")
	testdb.Query(t, source, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	state, repo := t.TempDir()+"/c.db", t.TempDir()+"/repo"
	name := testdb.StreamName("prod")
	typo := strings.Replace(name, "prod", "prdo", 1)
	stream := []string{"replicate", source, target, "--state", state, "--json", "--name"}
	testdb.Must(t, append(stream, name, "--until", "now")...)

	backup := testdb.Run(t, "backup", "--logical", source, repo, "--state", state, "--json")
	var last map[string]any
	for lines := bufio.NewScanner(strings.NewReader(backup.Out)); lines.Scan(); {
		last = nil
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Fatalf("%v in %q", err, lines.Text())
		}
	}
	if backup.Code != 0 || last["event"] != "report" || !strings.Contains(backup.Out, `"event":"progress"`) || strings.Contains(backup.ErrOut, "progress") {
		t.Fatalf("exit %d, the last event is %v, and progress is to be on standard output\n%s\n%s", backup.Code, last["event"], backup.Out, backup.ErrOut)
	}
	report := last["report"].(map[string]any)
	id, run := report["backup"].(string), last["run"].(string)

	for _, c := range []struct {
		what string
		args []string
		near string
	}{
		{"stream", append(stream, typo, "--remove"), name},
		{"stream to reload", []string{"sub", "reload", "public.t", "--state", state, "--name", typo}, name},
		{"run", []string{"report", run[:len(run)-1] + "_", "--state", state}, run},
		{"backup", []string{"backups", repo, "--pin", id[:len(id)-2] + "__"}, id},
	} {
		o := testdb.Run(t, c.args...)
		if o.Code != 6 || !strings.Contains(o.ErrOut, "Did you mean "+c.near+"?") {
			t.Errorf("%s: exit %d, not 6 with %s\n%s%s", c.what, o.Code, c.near, o.ErrOut, o.Out)
		}
	}
	if o := testdb.Run(t, "report", "nothing-like-it", "--state", state); o.Code != 6 || strings.Contains(o.ErrOut, "Did you mean") {
		t.Errorf("a name like no run: exit %d\n%s", o.Code, o.ErrOut)
	}

	pruned, backups := testdb.Must(t, "prune", repo, "--keep", "last=1", "--dry-run"), testdb.Must(t, "backups", repo)
	for _, out := range []string{pruned, backups} {
		if !strings.Contains(out, "logical") || strings.Contains(out, "full") {
			t.Errorf("a logical backup is listed as another kind:\n%s", out)
		}
	}

	o := testdb.Run(t, append(stream, name, "--remove")...)
	var removed struct{ Event, Stream string }
	if err := json.Unmarshal([]byte(o.Out), &removed); o.Code != 0 || err != nil || removed.Event != "removed" || removed.Stream != name || o.ErrOut != "" {
		t.Errorf("exit %d, %v: %q, %q", o.Code, err, o.Out, o.ErrOut)
	}
}
