package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/job/workload"
)

// A load writes what it reports: the rows that are left are those inserted less those deleted, on
// each engine; its tables go at the end, and those of others stay.
func TestLoad(t *testing.T) {
	for name, srv := range map[string]*testdb.Server{"postgres": testdb.Postgres(t, 15), "mariadb": testdb.MariaDB(t), "mysql": testdb.MySQL(t)} {
		t.Run(name, func(t *testing.T) {
			url := srv.NewDatabase(t, "load")
			var r workload.Report
			if err := json.Unmarshal([]byte(must(t, "load", url, "--for", "3s", "--connections", "3", "--rows", "4", "--mix", "60:20:20", "--tables", "2", "--types", "int,bigint,decimal,text,long,time", "--columns", "7", "--keep", "--json").out), &r); err != nil {
				t.Fatal(err)
			}
			if r.Transactions == 0 || r.Failed > 0 || r.Inserted == 0 || r.Updated == 0 || r.Deleted == 0 || r.Latency.P50 <= 0 || r.Latency.P99 < r.Latency.P50 || len(r.Tables) != 2 || len(r.Each) == 0 {
				t.Errorf("%+v", r)
			}
			if n := r.Inserted + r.Updated + r.Deleted; n != 4*r.Transactions {
				t.Errorf("%d changes in %d transactions of 4", n, r.Transactions)
			}
			var left, most int64
			if err := json.Unmarshal([]byte(testdb.Query(t, url, "SELECT (SELECT count(*) FROM tidemark_load_1) + (SELECT count(*) FROM tidemark_load_2)")), &left); err != nil {
				t.Fatal(err)
			}
			// Up to one transaction of each session may be committed when the time is over, and is
			// not counted.
			if most = r.Inserted - r.Deleted; left < most-3*4 || left > most+3*4 {
				t.Errorf("%d rows are there, %d were reported", left, most)
			}
			o := cli(t, "load", url, "--for", "1s")
			if o.code == 0 || !strings.Contains(o.errOut, "an earlier load has left it") {
				t.Errorf("exit %d: %s", o.code, o.errOut)
			}
			out := must(t, "load", url, "--for", "2s", "--again", "--rate", "20", "--connections", "2").out
			if !strings.Contains(out, "of 20.0 asked for") || !strings.Contains(out, "at p99") {
				t.Error(out)
			}
			if out := must(t, "report", "last").out; !strings.Contains(out, "at p99") {
				t.Error(out)
			}
			if left := tablesThere(t, url); strings.Contains(left, "load_1") {
				t.Errorf("its table is left: %s", left)
			}
			testdb.Query(t, url, "CREATE TABLE tidemark_load_3 (i int); INSERT INTO tidemark_load_3 VALUES (7)")
			o = cli(t, "load", url, "--for", "1s", "--tables", "3", "--again")
			if o.code == 0 || !strings.Contains(o.errOut, "is no table of a load") || testdb.Query(t, url, "SELECT i FROM tidemark_load_3") != "7" {
				t.Errorf("exit %d: %s", o.code, o.errOut)
			}
		})
	}
	for _, args := range [][]string{{"--mix", "0:1:1"}, {"--mix", "x"}, {"--types", "int,nothing"}, {"--rate", "-1"}} {
		if o := cli(t, append([]string{"load", "postgres://localhost:1/x"}, args...)...); o.code != 2 || !strings.Contains(o.errOut, "hint: ") {
			t.Errorf("%v: exit %d: %s", args, o.code, o.errOut)
		}
	}
}
