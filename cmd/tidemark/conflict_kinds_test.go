package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestConflictOfEachKind: conflicting inserts, updates and deletes have separate actions, also
// under the policies of a DMS file.
func TestConflictOfEachKind(t *testing.T) {
	t.Parallel()
	pg := testdb.Postgres(t, 15)
	for _, to := range []*testdb.Server{pg, testdb.MariaDB(t)} {
		t.Run(to.Engine, func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg.NewDatabase(t, "src"), to.NewDatabase(t, "dst"), streamName()
			args := []string{"replicate", src, dst, "--name", name, "--until", "now", "--state", filepath.Join(t.TempDir(), "c.db")}
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, x varchar(9)); INSERT INTO a VALUES (1, 'a'), (2, 'b'), (3, 'c')")
			must(t, args...)
			defer must(t, append(args, "--remove")...)
			testdb.Query(t, dst, "INSERT INTO a VALUES (5, 't')")
			testdb.Query(t, dst, "DELETE FROM a WHERE id < 3")
			testdb.Query(t, src, "INSERT INTO a VALUES (5, 's')")
			testdb.Query(t, src, "UPDATE a SET x = 'A' WHERE id = 1")
			o := must(t, append(args, "--conflict", "insert=force,update=ignore")...)
			if got := testdb.Query(t, dst, "SELECT id, x FROM a ORDER BY id"); got != "3\tc\n5\ts" {
				t.Errorf("the target has\n%s\n%s", got, o.out)
			}
			testdb.Query(t, src, "DELETE FROM a WHERE id = 2")
			if o := cli(t, append(args, "--conflict", "insert=force,update=ignore")...); o.code == 0 || !strings.Contains(o.errOut, "a delete matched 0 rows") {
				t.Errorf("a delete is not named, and the stream ends with %d\n%s", o.code, o.errOut)
			}
			file := filepath.Join(t.TempDir(), "settings.json")
			if err := os.WriteFile(file, []byte(`{"ErrorBehavior": {"ApplyErrorInsertPolicy": "STOP_TASK", "ApplyErrorDeletePolicy": "IGNORE_RECORD"}, "PostgreSQLSettings": {"HeartbeatEnable": true}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			must(t, append(args, "--task-settings", file)...)
			testdb.Query(t, dst, "INSERT INTO a VALUES (6, 't')")
			testdb.Query(t, src, "INSERT INTO a VALUES (6, 's')")
			if o := cli(t, append(args, "--task-settings", file)...); o.code == 0 {
				t.Errorf("STOP_TASK of inserts did not stop:\n%s", o.out)
			}
			for _, verb := range []string{"diff", "repair", "check"} { // each reports how it interprets the file
				o := cli(t, verb, src, dst, "--task-settings", file)
				if !strings.Contains(o.out+o.errOut, "PostgreSQLSettings.HeartbeatEnable") {
					t.Errorf("%s says nothing of HeartbeatEnable:\n%s%s", verb, o.out, o.errOut)
				}
			}
		})
	}
}
