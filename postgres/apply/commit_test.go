package apply

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A COMMIT that fails, in the first transaction of a session or later, is reported each time,
// nothing of it stays, and the session continues.
func TestCommitFails(t *testing.T) {
	const late = "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.v = 'same' THEN RAISE 'too late'; END IF; RETURN new; END $$; CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late(); ALTER TABLE t ENABLE ALWAYS TRIGGER late"
	for _, delay := range []time.Duration{0, 2 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			to, _, dst, groups := farGroups(t, fmt.Sprint("commit_", delay.Milliseconds()), farSchema, delay, "INSERT INTO t VALUES (1, 'same')", "INSERT INTO t VALUES (2, 'b')", "INSERT INTO t VALUES (3, 'c')")
			if delay == 0 {
				to.Target.distant = time.Hour
			}
			testdb.Query(t, dst, late)
			if _, err := to.Target.Resolve(t.Context(), groups[0]); err == nil || !strings.Contains(err.Error(), "apply: too late") {
				t.Error(err)
			}
			for _, good := range []int{1, 2} {
				for range 2 {
					if err := to.Apply(t.Context(), groups[0]); tidemark.KindOf(err) != tidemark.BadRow || !strings.Contains(err.Error(), "too late") {
						t.Error(err)
					}
				}
				if err := to.Apply(t.Context(), groups[good]); err != nil {
					t.Error(err)
				}
			}
			if got := testdb.Query(t, dst, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM t"); got != "2 3" {
				t.Error(got)
			}
		})
	}
}
