package lag

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// tuned is a DMS settings file in which no setting has DMS's default.
const tuned = `{"ChangeProcessingTuning": {"BatchApplyPreserveTransaction": false, "BatchApplyTimeoutMin": 2, "BatchApplyTimeoutMax": 60, "BatchApplyMemoryLimit": 1000,
	"BatchSplitSize": 500, "MinTransactionSize": 2000, "CommitTimeout": 5, "MemoryLimitTotal": 96, "MemoryKeepTime": 90, "StatementCacheSize": 100},
	"ErrorBehavior": {"ApplyErrorInsertPolicy": "SUSPEND_TABLE", "ApplyErrorUpdatePolicy": "SUSPEND_TABLE", "ApplyErrorDeletePolicy": "SUSPEND_TABLE"},
	"StreamBufferSettings": {"StreamBufferCount": 5}, "ControlTablesSettings": {"StatusTableEnabled": true}}`

// TestSettings gives a stream DMS's settings: each is listed, or takes effect.
func TestSettings(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 15)
	src, dst := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, n int); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1, 1)")
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(tuned), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"replicate", src, dst, "--name", "dms", "--task-settings", file, "--until", "now"}
	for range 2 { // the second run has no copy, and no plan
		o := testdb.Run(t, args...)
		if o.Code != 0 {
			t.Fatalf("exit %d\n%s", o.Code, o.ErrOut)
		}
		for _, key := range []string{"BatchApplyPreserveTransaction", "BatchApplyTimeoutMin", "BatchApplyTimeoutMax", "BatchApplyMemoryLimit", "BatchSplitSize", "MinTransactionSize",
			"CommitTimeout", "MemoryKeepTime", "StatementCacheSize", "StreamBufferCount", "StatusTableEnabled"} {
			if strings.Count(o.ErrOut, key+": ") != 1 {
				t.Errorf("%s is not listed once:\n%s", key, o.ErrOut)
			}
		}
		if strings.Contains(o.ErrOut, "MemoryLimitTotal") || strings.Contains(o.ErrOut, "ApplyError") {
			t.Errorf("what counts is listed:\n%s", o.ErrOut)
		}
	}
	testdb.Query(t, dst, "DELETE FROM a")
	testdb.Query(t, src, "UPDATE a SET n = 2; INSERT INTO b VALUES (2)")
	if o := testdb.Run(t, args...); o.Code != 0 {
		t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
	}
	if got := testdb.Query(t, dst, "SELECT id FROM b"); got != "2" {
		t.Errorf("b has %q", got)
	}
	if out := testdb.Must(t, "sub", "--name", "dms"); !strings.Contains(out, "public.a  stopped") || !strings.Contains(out, "public.b  active") {
		t.Errorf("the tables are\n%s", out)
	}
	testdb.Must(t, append(args[:5:5], "--remove")...)
}
