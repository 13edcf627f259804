package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestMonitorTables finds a stream's figures on the target, where they are not mistaken for the
// user's tables.
func TestMonitorTables(t *testing.T) {
	t.Parallel()
	for _, to := range []func(*testing.T) *testdb.Server{pg15, maria} {
		srv := to(t)
		t.Run(srv.Engine, func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg15(t).NewDatabase(t, "src"), srv.NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY)")
			if srv.Engine == "postgres" { // a table of an earlier version gets its missing columns
				testdb.Query(t, dst, "CREATE SCHEMA tidemark; CREATE TABLE tidemark.capmon (monitor_time timestamptz, capture text)")
			} else {
				testdb.Query(t, dst, "CREATE TABLE tidemark_capmon (monitor_time datetime(6), capture text)")
			}
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
			f.await("row of capqmon", has("SELECT count(DISTINCT sendq) FROM "+table("capqmon")+" WHERE qdepth > 0 AND mq_messages > 0 AND mq_bytes > 0 AND mqput_time > 0 AND rows_published = 1"))
			f.await("restart position", has("SELECT count(DISTINCT capture) FROM "+table("capmon")+" WHERE restart_seq > 0 AND restart_seq <= current_seq AND rows_processed = 1 AND last_eol_time >= current_log_time AND log_lag = 0"))
			f.await("no dependencies", has("SELECT count(DISTINCT recvq) FROM "+table("applymon")+" WHERE trans_applied = 1 AND key_dependencies + uniq_dependencies + ri_dependencies + trans_serialized + monster_trans = 0"))
			testdb.Query(t, dst, "UPDATE "+table("capmon")+" SET monitor_time = '2026-01-01'")
			f.await("end of old rows", has("SELECT CASE WHEN count(*) = 0 THEN 1 END FROM "+table("capmon")+" WHERE monitor_time < '2026-02-01'"))
			f.interrupt()
			equal(t, src, dst, name)
			must(t, "diff", src, dst)
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}

// TestMonitorElsewhere stores the figures of a capture, which does not connect to the target, in a
// third database, and continues while that is unavailable.
func TestMonitorElsewhere(t *testing.T) {
	t.Parallel()
	for _, to := range []func(*testing.T) *testdb.Server{pg15, mysql8} {
		srv := to(t)
		t.Run(srv.Engine, func(t *testing.T) {
			t.Parallel()
			src, board, name := maria(t).NewDatabase(t, "src"), srv.NewDatabase(t, "board"), streamName()
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY)")
			way := newProxy(t, srv)
			args := []string{"capture", src, "mysql://nobody@127.0.0.1:1/none", "--name", name, "--queue", natsServer(t), "--monitor-to"}
			if o := cli(t, append(args, "postgres://nobody@127.0.0.1:1/none")...); o.code != exitCodes[tidemark.Unreachable] {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			f := running(t, append(args, strings.Replace(board, way.to, way.addr, 1))...)
			count := map[string]string{"postgres": "SELECT count(*) FROM tidemark.", "mysql": "SELECT count(*) FROM tidemark_"}[srv.Engine]
			wrote := func(rows int) {
				t.Helper()
				f.await("figures", func() bool {
					captured, err := testdb.TryQuery(board, fmt.Sprintf("%scapmon WHERE capture = '%s' AND rows_processed >= %d AND current_seq > 0", count, name, rows))
					queued, err2 := testdb.TryQuery(board, fmt.Sprintf("%scapqmon WHERE sendq = '%s' AND rows_published >= %d AND mq_messages > 0", count, name, rows))
					return err == nil && err2 == nil && captured != "0" && queued != "0"
				})
			}
			f.says("trans/s", 1)
			testdb.Query(t, src, "INSERT INTO t VALUES (1)")
			wrote(1)
			if n, err := testdb.TryQuery(board, count+"applymon"); err == nil {
				t.Errorf("%s figures of an apply", n)
			}
			way.stop()
			f.says("continues, but its monitor tables cannot be written", 1)
			testdb.Query(t, src, "INSERT INTO t VALUES (2)")
			f.await("captured rows", func() bool { return strings.Contains(must(t, "status").out, " 2 rows captured") })
			way.start()
			f.says("monitor tables can be written again", 1)
			wrote(2)
			f.interrupt()
			// The target may get another URL, of the same kind; this half does not connect to it.
			args = append(args[:7:7], "--until", "now")
			args[2] = "mysql://nobody@127.0.0.1:2/none"
			if o := cli(t, args...); o.code != 2 || !strings.Contains(o.errOut, "--target-moved") {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			must(t, append(args, "--target-moved")...)
			must(t, args...)
			must(t, append(args, "--remove")...)
		})
	}
}
