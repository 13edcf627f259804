package misuse

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTargetAwayForLongerThanFiveAttempts: a target that is away for as long as a crash recovery takes is waited for, and
// the screen says for how long still.
func TestTargetAwayForLongerThanFiveAttempts(t *testing.T) {
	t.Parallel()
	src := many(t, testdb.MariaDB(t), 40000)
	target := testdb.OwnPostgres(t, 15)
	dst := target.NewDatabase(t, "dst")
	p := start(t, "copy", src, dst, "--lanes", "1", "--range-size", "256kB")
	soon(t, "rows are there", func() bool {
		got, err := testdb.TryQuery(dst, "SELECT 1 FROM loose LIMIT 1")
		return p.over() || err == nil && got == "1"
	})
	target.Offline(t, func() {
		soon(t, "more than five attempts", func() bool { return p.over() || strings.Count(p.text(), "trying again for another 4m") > 6 })
	})
	if code := p.wait(); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.text())
	}
	testdb.Must(t, "diff", src, dst)
}
