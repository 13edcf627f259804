package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestStreamSourceReplaced kills streams during traffic, and then their source; a replica replaces
// it. One stream has a durable queue, with changes that the target lacks.
func TestStreamSourceReplaced(t *testing.T) {
	t.Parallel()
	a, b := testdb.OwnMariaDB(t), testdb.OwnMariaDB(t, "--log-slave-updates=ON")
	testdb.Query(t, a.URL(""), "CREATE DATABASE moved") // which is removed with the server
	src, there := a.URL("moved"), b.URL("moved")
	testdb.Load(t, src, strings.NewReader(ledger))
	testdb.Query(t, b.URL(""), fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='%s', MASTER_PASSWORD='%s', MASTER_USE_GTID=slave_pos; START SLAVE", a.Port, a.User, a.Password))
	type one struct{ dst, name, queue string }
	var streams []one
	var at []*following
	for i, queue := range []string{"direct", "durable"} {
		s := one{pg15(t).NewDatabase(t, fmt.Sprint("dst", i)), streamName(), queue}
		must(t, "replicate", src, s.dst, "--name", s.name, "--queue", queue, "--until", "now")
		streams, at = append(streams, s), append(at, running(t, "replicate", src, s.dst, "--name", s.name))
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { trade(t, src, 7, stop); close(done) }()
	for i, s := range streams {
		before := testdb.Query(t, s.dst, "SELECT count(*) FROM history")
		at[i].await("progress", func() bool { return testdb.Query(t, s.dst, "SELECT count(*) FROM history") != before })
		if err := at[i].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = at[i].Wait() // it was killed
	}
	time.Sleep(300 * time.Millisecond) // time for a change that no stream has seen
	close(stop)
	testdb.From(t, "the writer's end", done)
	all := testdb.Query(t, src, "SELECT @@gtid_binlog_pos")
	if got := testdb.Query(t, there, "SELECT MASTER_GTID_WAIT('"+all+"', 280)"); got != "0" {
		t.Fatalf("the replica has not come up to %s: %s", all, got)
	}
	a.Kill(t)
	testdb.Query(t, there, "STOP SLAVE; RESET SLAVE ALL; UPDATE branch SET total = total + 1; INSERT INTO history (id) VALUES (-1)")
	for _, s := range streams {
		if o := cli(t, "replicate", there, s.dst, "--name", s.name, "--until", "now"); o.code != 2 || !strings.Contains(o.errOut, "--source-moved") {
			t.Errorf("exit %d\n%s", o.code, o.errOut)
		}
		must(t, "replicate", there, s.dst, "--name", s.name, "--source-moved", "--until", "now")
		equal(t, there, s.dst, s.name)
		testdb.Query(t, there, "FLUSH BINARY LOGS; UPDATE branch SET total = total + 1")
		must(t, "replicate", there, s.dst, "--name", s.name, "--until", "now")
		equal(t, there, s.dst, s.name)
		testdb.Query(t, there, "UPDATE branch SET total = total + 1")
		gtid, total := testdb.Query(t, there, "SELECT @@gtid_binlog_pos"), testdb.Query(t, there, "SELECT sum(total) FROM branch")
		for range 2 { // first it is the last in the log, then it is applied already
			must(t, "replicate", there, s.dst, "--name", s.name, "--until", gtid)
			if got := testdb.Query(t, s.dst, "SELECT sum(total) FROM branch"); got != total {
				t.Errorf("until %s the target has %s, the source had %s", gtid, got, total)
			}
			testdb.Query(t, there, "UPDATE branch SET total = total + 1")
		}
	}
}
