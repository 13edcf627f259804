package main

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestMonitorTables finds a stream's figures on the target, where nobody takes them for
// tables of the user.
func TestMonitorTables(t *testing.T) {
	t.Parallel()
	for _, to := range []func(*testing.T) *testdb.Server{pg15, maria} {
		srv := to(t)
		t.Run(srv.Engine, func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg15(t).NewDatabase(t, "src"), srv.NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY)")
			f := running(t, "replicate", src, dst, "--name", name, "--queue", "durable", "--monitor-tables")
			f.says("trans/s", 1)
			f.follows(src, dst, "t", 1)
			table := func(name string) string {
				if srv.Engine == "postgres" {
					return "tidemark." + name
				}
				return "tidemark_" + name
			}
			has := func(sql string) func() bool {
				return func() bool {
					n, err := testdb.TryQuery(dst, sql)
					return err == nil && n == "1"
				}
			}
			f.await("row of applymon", has("SELECT count(DISTINCT recvq) FROM "+table("applymon")+" WHERE trans_applied = 1 AND rows_applied = 1 AND end2end_latency > 0 AND recvq = '"+name+"'"))
			f.await("row of capmon", has("SELECT count(DISTINCT trans_processed) FROM "+table("capmon")+" WHERE trans_processed = 1 AND current_log_time IS NOT NULL"))
			f.await("row of capqmon", has("SELECT count(DISTINCT sendq) FROM "+table("capqmon")+" WHERE mq_messages > 0"))
			testdb.Query(t, dst, "UPDATE "+table("capmon")+" SET monitor_time = '2026-01-01'")
			f.await("end of old rows", has("SELECT CASE WHEN count(*) = 0 THEN 1 END FROM "+table("capmon")+" WHERE monitor_time < '2026-02-01'"))
			f.interrupt()
			equal(t, src, dst, name)
			must(t, "diff", src, dst)
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}
