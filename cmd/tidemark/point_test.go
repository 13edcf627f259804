package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// mark is a moment in a server's log, in all forms of specifying it.
type mark struct{ position, gtid, time string }

// marked writes a row to table t of a source, and returns the log position after it and before
// anything written later. Times in MySQL's log are whole seconds.
func marked(t *testing.T, srv *testdb.Server, url string, id int) (m mark) {
	t.Helper()
	testdb.Query(t, url, fmt.Sprintf("INSERT INTO t VALUES (%d)", id))
	if srv.Engine == "postgres" {
		m.position = testdb.Query(t, url, "SELECT pg_current_wal_insert_lsn()")
		m.time = testdb.Query(t, url, "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
		return m
	}
	at := strings.Split(testdb.Query(t, url, "SHOW MASTER STATUS"), "\t")
	m.position = at[0] + ":" + at[1]
	m.gtid = testdb.Query(t, url, "SELECT @@gtid_binlog_pos")
	m.time = time.Now().UTC().Format("2006-01-02T15:04:05Z")
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1050 * time.Millisecond)))
	return m
}

// TestReplicatePoints starts and ends streams at log positions, GTIDs and times.
func TestReplicatePoints(t *testing.T) {
	t.Parallel()
	for _, from := range []func(*testing.T) *testdb.Server{pg15, ownMariaDB} {
		srv, to := from(t), pg15(t)
		t.Run(srv.Engine, func(t *testing.T) {
			src, dst, name := srv.NewDatabase(t, "src"), to.NewDatabase(t, "dst"), streamName()
			for _, url := range []string{src, dst} {
				testdb.Query(t, url, "CREATE TABLE t (id int PRIMARY KEY)")
			}
			args := []string{"replicate", src, dst, "--name", name, "--prep", "keep"}
			if srv.Engine == "postgres" {
				if o := cli(t, append(args, "--from", "0/1")...); o.code != 6 || !strings.Contains(o.errOut, "pg_create_logical_replication_slot") {
					t.Errorf("exit %d\n%s", o.code, o.errOut)
				}
				testdb.Query(t, src, "CREATE PUBLICATION tidemark_"+name+" FOR TABLE t WITH (publish_via_partition_root = true)")
				testdb.Query(t, src, "SELECT pg_create_logical_replication_slot('tidemark_"+name+"', 'pgoutput')")
			}
			zero := marked(t, srv, src, 0)
			testdb.Query(t, dst, "INSERT INTO t VALUES (0)")
			var marks []mark
			for id := range 5 {
				marks = append(marks, marked(t, srv, src, id+1))
			}
			holds := func(last int, more ...string) {
				t.Helper()
				must(t, append(args, more...)...)
				if got := testdb.Query(t, dst, "SELECT max(id) || ' ' || count(*) FROM t"); got != fmt.Sprintf("%d %d", last, last+1) {
					t.Errorf("with %v the target has up to %s, not %d", more, got, last)
				}
			}
			holds(1, "--from", zero.position, "--until", marks[0].position)
			holds(2, "--until", marks[1].time)
			if srv.Engine != "postgres" {
				holds(3, "--until", marks[2].gtid)
			}
			holds(4, "--until", marks[3].position, "--queue", "direct")
			later := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano) // nothing is written before then
			holds(5, "--until", later)
			must(t, append(args, "--remove")...)
			if srv.Engine == "postgres" {
				return
			}
			for _, m := range []string{marks[2].gtid, strings.Replace(marks[2].time, "Z", ".9Z", 1)} {
				testdb.Query(t, dst, "DELETE FROM t WHERE id > 3")
				holds(5, "--from", m, "--until", "now", "--queue", "durable")
				must(t, append(args, "--remove")...)
			}
			if o := cli(t, append(args, "--from", "binlog")...); o.code != 2 || !strings.Contains(o.errOut, "is not now, a time or a log position") {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			if o := cli(t, append(args, "--from", "16/B374D848")...); o.code != 2 || !strings.Contains(o.errOut, "is not a log position") {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
		})
	}
}

// TestStopAfter pauses a stream after its copy, once, as DMS's task settings say.
func TestStopAfter(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ key, says, rows string }{
		{"StopTaskCachedChangesNotApplied", "stopped after the copy, as requested", "1"},
		{"StopTaskCachedChangesApplied", "stopped once the changes that came during the copy were applied, as requested", "2"},
	} {
		t.Run(x.key, func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
			for _, url := range []string{src, dst} {
				testdb.Query(t, url, "CREATE TABLE t (id int PRIMARY KEY)")
			}
			testdb.Query(t, src, "INSERT INTO t VALUES (1)")
			// The copy has its snapshot, and waits for this lock until a change follows that
			// snapshot.
			conn, err := pgx.Connect(t.Context(), dst)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			exec := func(sql string) {
				t.Helper()
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			exec("BEGIN")
			exec("LOCK TABLE t IN SHARE MODE")
			args := []string{"replicate", src, dst, "--name", name, "--prep", "keep", "--task-settings", testdb.Written(t, "settings.json", `{"FullLoadSettings": {"`+x.key+`": true}}`)}
			f := running(t, args...)
			f.await("copy", func() bool {
				return testdb.Query(t, dst, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 't'::regclass") == "t"
			})
			testdb.Query(t, src, "INSERT INTO t VALUES (2)")
			exec("COMMIT")
			f.ends(0, "stopped: stream "+name+": "+x.says+". The same command resumes it.")
			if n := testdb.Query(t, dst, "SELECT count(*) FROM t"); n != x.rows {
				t.Errorf("the target has %s rows, want %s", n, x.rows)
			}
			testdb.Query(t, src, "INSERT INTO t VALUES (3)")
			g := running(t, args...)
			g.await("row 3", func() bool { return testdb.Query(t, dst, "SELECT count(*) FROM t") == "3" })
			g.interrupt() // it did not stop unprompted
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}
