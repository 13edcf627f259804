package lookahead

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// --resume last resumes the last run between the two given ends, whatever has run between other
// ends since.
func TestResumeLastOfThePair(t *testing.T) {
	t.Parallel()
	server := testdb.Postgres(t, 17)
	src, tgt, third := server.NewDatabase(t, "last"), server.NewDatabase(t, "last"), server.NewDatabase(t, "last")
	testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); CREATE TABLE b (id int); INSERT INTO b VALUES (1), (1)")
	testdb.Query(t, tgt, "CREATE TABLE b (id int UNIQUE)")
	state := "--state=" + filepath.Join(t.TempDir(), "c.db")
	if out := testdb.Run(t, "copy", src, tgt, state); out.Code == 0 {
		t.Fatalf("the first run has not failed:\n%s", out.Out)
	}
	testdb.Must(t, "copy", src, third, state)
	out := testdb.Run(t, "copy", src, third, state, "--resume", "last")
	if out.Code != 2 || !strings.Contains(out.ErrOut, "already finished") {
		t.Errorf("the finished pair: %d\n%s", out.Code, out.ErrOut)
	}
	testdb.Query(t, tgt, "ALTER TABLE b DROP CONSTRAINT b_id_key")
	testdb.Must(t, "copy", src, tgt, state, "--resume", "last")
	if got := strings.TrimSpace(testdb.Query(t, tgt, "SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)")); got != "3" {
		t.Errorf("%s rows are on the target, want 3", got)
	}
	out = testdb.Run(t, "copy", third, tgt, state, "--resume", "last")
	if out.Code != 6 || !strings.Contains(out.ErrOut, "there is no copy from") {
		t.Errorf("a pair without a run: %d\n%s", out.Code, out.ErrOut)
	}
}
