package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// rowsIn returns a database with n rows in table t.
func rowsIn(t *testing.T, srv *testdb.Server, name string, n string) string {
	t.Helper()
	url := srv.NewDatabase(t, name)
	testdb.Query(t, url, "CREATE TABLE t (i int PRIMARY KEY, s text); INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, "+n+") i")
	return url
}

// Two runs side by side: what the user and the servers had differently comes first, everything else
// is named as the same; a run without an account is refused.
func TestReportOfTwoRuns(t *testing.T) {
	a, b := testdb.Postgres(t, 15), testdb.Postgres(t, 17)
	src := rowsIn(t, a, "two_s", "20000")
	for _, to := range []struct {
		url  string
		more []string
	}{{a.NewDatabase(t, "two_a"), []string{"--lanes", "1"}}, {b.NewDatabase(t, "two_b"), []string{"--lanes", "2"}}} {
		must(t, append([]string{"copy", src, to.url}, to.more...)...)
	}
	var runs []struct{ ID string }
	if err := json.Unmarshal([]byte(must(t, "runs", "--json").out), &runs); err != nil || len(runs) != 2 {
		t.Fatalf("%v, %d runs", err, len(runs))
	}
	var v screen.Versus
	if err := json.Unmarshal([]byte(must(t, "report", runs[1].ID, runs[0].ID, "--json").out), &v); err != nil {
		t.Fatal(err)
	}
	pair := func(all []screen.Pair, what string) (p screen.Pair) {
		for _, x := range all {
			if x.What == what {
				p = x
			}
		}
		return p
	}
	if p := pair(v.Differs, "--lanes"); p.A != "1" || p.B != "2" {
		t.Errorf("lanes: %+v of %+v", p, v.Differs)
	}
	if v.Differs[0].What != "--lanes" {
		t.Errorf("what the user has set does not come first: %+v", v.Differs)
	}
	if p := pair(v.Differs, "target server"); !strings.HasPrefix(p.A, "postgres 15") || !strings.HasPrefix(p.B, "postgres 17") {
		t.Errorf("target server: %+v", p)
	}
	if p := pair(v.Same, "source server"); !strings.HasPrefix(p.A, "postgres 15") {
		t.Errorf("source server: %+v", p)
	}
	if p := pair(v.Speed, "rows"); p.A != "20,000" || p.B != p.A || p.Ratio != 1 {
		t.Errorf("rows: %+v", p)
	}
	if p := pair(v.Tables, "public.t"); p.A == "" || p.B == "" {
		t.Errorf("tables: %+v", v.Tables)
	}
	out := must(t, "report", runs[1].ID, runs[0].ID).out
	if i, j, k := strings.Index(out, "DIFFERS"), strings.Index(out, "SPEED"), strings.Index(out, "The same in both:"); i < 0 || i > j || j > k {
		t.Errorf("what differs is not first:\n%s", out)
	}
	if o := cli(t, "report", runs[0].ID, runs[1].ID, "--history"); o.code != 2 || !strings.Contains(o.errOut, "are for one run") {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}
	if o := cli(t, "report", runs[0].ID, "--watch"); o.code != 2 || !strings.Contains(o.errOut, "is not running: it is done") {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}
}

// A run is watched while it waits for a lock: its workers' times are there, and the watch ends with
// the run.
func TestReportWatch(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src, to := rowsIn(t, srv, "watch_s", "20000"), srv.NewDatabase(t, "watch_t")
	testdb.Query(t, to, "CREATE TABLE t (i int PRIMARY KEY, s text)")
	holder := testdb.NewSession(to)
	defer holder.Close()
	for _, sql := range []string{"BEGIN", "INSERT INTO t VALUES (10000)"} {
		if _, err := holder.Try(sql); err != nil {
			t.Fatal(err)
		}
	}
	copied := make(chan outcome, 1)
	go func() { copied <- cli(t, "copy", src, to, "--prep", "keep", "--lanes", "1", "--lock-wait", "5m") }()
	for end := time.Now().Add(time.Minute); !strings.Contains(cli(t, "utilities").out, "Phase           = rows"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the copy does not move rows")
		}
	}
	watched := make(chan outcome, 1)
	go func() { watched <- cli(t, "report", "last", "--watch", "--json") }()
	select {
	case o := <-watched:
		t.Fatalf("the watch has ended before the run: exit %d: %s%s", o.code, o.out, o.errOut)
	case <-time.After(3 * time.Second): // it is longer than one look; nothing else is expected of it
	}
	if _, err := holder.Try("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if o := testdb.From(t, "the end of the copy", copied); o.code != 0 {
		t.Fatalf("copy: exit %d: %s", o.code, o.errOut)
	}
	o := testdb.From(t, "the end of the watch", watched)
	if o.code != 0 {
		t.Fatalf("exit %d: %s", o.code, o.errOut)
	}
	var line struct {
		Event string
		Work  struct {
			Phase   string
			Workers struct {
				Roles []struct {
					Name    string
					Workers []struct {
						IO int64 `json:"io_ns"`
					}
				}
			}
		}
	}
	first, _, _ := strings.Cut(o.out, "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || line.Event != "workers" || line.Work.Phase != "rows" {
		t.Fatalf("%v: %s", err, first)
	}
	names := map[string]int{}
	for _, r := range line.Work.Workers.Roles {
		names[r.Name] += len(r.Workers)
	}
	if names["Reader"] != 1 || names["Writer"] != 1 || names["Finisher"] == 0 {
		t.Errorf("workers %v in %s", names, first)
	}
}
