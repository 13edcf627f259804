package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestStreamFailover promotes a standby in place of the source, and the stream continues from
// there: first a standby that has everything, then one that lacks what the target already has,
// which is an error and is not ignored.
func TestStreamFailover(t *testing.T) {
	t.Parallel()
	for major, queue := range map[int]string{17: "direct", 18: "durable"} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			primary := testdb.OwnPostgres(t, major)
			src, dst, name := primary.NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
			db := src[strings.LastIndex(src, "/")+1 : strings.Index(src, "?")]
			testdb.Load(t, src, strings.NewReader("CREATE TABLE item (id int PRIMARY KEY, v text)"))
			must(t, "replicate", src, dst, "--name", name, "--queue", queue, "--until", "now")
			standby := primary.Standby(t, db)
			there := standby.URL(db)
			f := running(t, "replicate", src, dst, "--name", name)
			f.follows(src, dst, "item", 1)
			f.await("copy of the slot on the standby", func() bool {
				testdb.Query(t, src, "SELECT pg_log_standby_snapshot(); INSERT INTO item SELECT 10 + count(*) FROM item")
				return testdb.Query(t, there, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'tidemark_"+name+"' AND synced AND failover AND NOT temporary") == "1"
			})
			f.follows(src, dst, "item", -1)
			o := cli(t, "replicate", there, dst, "--name", name, "--until", "now", "--source-moved")
			if o.code == 0 {
				t.Errorf("two at once\n%s", o.out)
			}
			f.interrupt()
			lost(t, there, dst, name, 2, "--source-moved if a replica has taken the source's place")
			if o := cli(t, "replicate", there, dst, "--name", name, "--until", "now", "--source-moved"); o.code == 0 || !strings.Contains(o.errOut, "standby") {
				t.Errorf("from a standby: exit %d\n%s", o.code, o.errOut)
			}
			testdb.Query(t, src, "INSERT INTO item VALUES (-2, 'on the primary')") // while the stream is down
			end := testdb.Query(t, src, "SELECT pg_current_wal_flush_lsn()")
			f.await("replay", func() bool { return testdb.Query(t, there, "SELECT pg_last_wal_replay_lsn() >= '"+end+"'") == "t" })
			primary.Kill(t)
			testdb.Query(t, there, "SELECT pg_promote(wait_seconds => 280)")
			testdb.Query(t, there, "INSERT INTO item VALUES (-3, 'on the standby')")
			must(t, "replicate", there, dst, "--name", name, "--until", "now", "--source-moved")
			if n := testdb.Query(t, dst, "SELECT count(*) FROM item WHERE id < -1"); n != "2" {
				t.Errorf("%s of the last rows came", n)
			}
			testdb.Query(t, there, "UPDATE item SET v = 'again'")
			equal(t, there, dst, name) // the catalogue knows the new source by now

			// The old primary comes back with transactions that the new one lacks.
			primary.Restart(t)
			o = cli(t, "replicate", src, dst, "--name", name, "--until", "now", "--source-moved")
			if o.code != 11 || !strings.Contains(o.errOut, "timeline 1") {
				t.Errorf("back to the old primary: exit %d\n%s", o.code, o.errOut)
			}
			must(t, "replicate", there, dst, "--name", name, "--source-moved", "--remove") // the refused command is in the catalogue
			primary.Kill(t)
			primary.Restart(t)
		})
	}
}
