package main

import (
	"math"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestSet changes options of a running stream, which continues with them.
func TestSet(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 15)
	src, dst, name := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst"), streamName()
	testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY)")
	if o := cli(t, "set", "agents=3", "--name", name); o.code != 6 || !strings.Contains(o.errOut, "no stream of that name is running") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	f := running(t, "replicate", src, dst, "--name", name, "--queue", "durable")
	f.says("trans/s", 1)
	f.follows(src, dst, "t", 1)
	for text, why := range map[string]string{"agents": "is not OPTION=VALUE", "queue=direct": "can be set", "agents=0": "from 1 to 128"} {
		if o := cli(t, "set", text, "--name", name); o.code != 2 || !strings.Contains(o.errOut, why) {
			t.Errorf("set %s: exit %d\n%s", text, o.code, o.errOut)
		}
	}
	must(t, "set", "agents=3", "commit-count=7", "--name", name)
	f.says("continues with agents=3 commit-count=7\n", 1)
	agents := func(n string) func() bool {
		return func() bool {
			o := cli(t, "status", "--name", name, "--json")
			return strings.Contains(o.out, `"agents": `+n+",")
		}
	}
	f.await("3 agents", agents("3"))
	f.follows(src, dst, "t", 2)
	if o := must(t, "set", "--name", name); o.out != name+": agents=3 commit-count=7\n" {
		t.Errorf("set says %q", o.out)
	}
	must(t, "set", "conflict=ignore", "--name", name)
	f.says("continues with agents=3 commit-count=7 conflict=ignore", 1)
	testdb.Query(t, dst, "INSERT INTO t VALUES (3)")
	testdb.Query(t, src, "INSERT INTO t VALUES (3)")
	f.follows(src, dst, "t", 4)
	f.await("exception", func() bool { return strings.Contains(cli(t, "exceptions", dst).out, "DUPLICATE") })
	must(t, "set", "queue-size=64MB", "--name", name)
	f.await("smaller queue", func() bool {
		var all []screen.StreamState
		decode(t, must(t, "status", "--name", name, "--json").out, &all)
		last := all[0].Last
		return last != nil && last.QueueBytes > 0 && math.Abs(float64(last.QueueBytes)/last.QueuePercent*100-64<<20) < 1<<20
	})
	f.interrupt()
	// The next process starts with its own options.
	f = running(t, "replicate", src, dst, "--name", name)
	f.await("16 agents", agents("16"))
	f.follows(src, dst, "t", 5)
	f.interrupt()
	equal(t, src, dst, name)
	must(t, "replicate", src, dst, "--name", name, "--remove")
}
