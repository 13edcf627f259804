package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/job"
)

// largeTables fills a database with two tables that a probe can tell something by.
func largeTables(t *testing.T, url string) {
	t.Helper()
	series := "SELECT i, CONCAT('name ', i), REPEAT('x', 60), i % 1000 FROM (SELECT a.n + 1000 * b.n AS i FROM digits a, digits b WHERE b.n < "
	digits := "CREATE TABLE digits (n int PRIMARY KEY); INSERT INTO digits SELECT n FROM generate_series(0, 999) n"
	if strings.HasPrefix(url, "m") {
		digits = "CREATE TABLE digits (n int PRIMARY KEY); INSERT INTO digits WITH RECURSIVE d AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM d WHERE n < 999) SELECT n FROM d"
	}
	testdb.Query(t, url, digits)
	for table, thousands := range map[string]string{"item": "150", "part": "50"} {
		testdb.Query(t, url, "CREATE TABLE "+table+" (id int PRIMARY KEY, name varchar(40) NOT NULL, pad varchar(80), code int); INSERT INTO "+table+" "+series+thousands+") x")
		testdb.Query(t, url, "CREATE INDEX "+table+"_code ON "+table+" (code); CREATE INDEX "+table+"_name ON "+table+" (name, code)")
	}
	if strings.HasPrefix(url, "m") {
		testdb.Query(t, url, "ANALYZE TABLE item, part, digits")
	} else {
		testdb.Query(t, url, "ANALYZE")
	}
}

// tablesThere lists the tables of a database.
func tablesThere(t *testing.T, url string) string {
	t.Helper()
	if strings.HasPrefix(url, "m") {
		return testdb.Query(t, url, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1")
	}
	return testdb.Query(t, url, "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1")
}

func forecastOfCopy(t *testing.T, args ...string) (f job.Forecast) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, append([]string{"forecast", "--json"}, args...)...).out), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// Between engines: a probe leaves the source as it was and nothing on the target, says what it has
// measured; the copy that follows is compared with it, and the next forecast knows of that.
func TestForecastCommand(t *testing.T) {
	for name, way := range map[string][2]*testdb.Server{
		"postgres": {testdb.Postgres(t, 15), testdb.Postgres(t, 17)}, "mariadb to postgres": {testdb.MariaDB(t), testdb.Postgres(t, 17)},
		"postgres to mysql": {testdb.Postgres(t, 15), testdb.MySQL(t)}, "mariadb": {testdb.MariaDB(t), testdb.MariaDB(t)},
	} {
		t.Run(name, func(t *testing.T) {
			src, to := way[0].NewDatabase(t, "foretell_s"), way[1].NewDatabase(t, "foretell_t")
			largeTables(t, src)
			before := tablesThere(t, src)
			f := forecastOfCopy(t, src, to, "--probe", "4s", "--probe-size", "30MB")
			if !f.Probed || f.Tables != 3 || f.Low <= 0 || f.Low >= f.Expected || f.Expected >= f.High || len(f.Speed) < 2 || f.Speed[0].Rate <= 0 || f.Past != 0 {
				t.Errorf("%+v", f)
			}
			for i, want := range []string{"definitions", "rows", "keys, indexes and the rest"} {
				if p := f.Phases[i]; p.Name != want || p.Limit == "" {
					t.Errorf("phase %d: %+v", i, p)
				}
			}
			if after := tablesThere(t, src); after != before {
				t.Errorf("the source has other tables:\n%s\nbefore:\n%s", after, before)
			}
			if left := tablesThere(t, to); strings.TrimSpace(left) != "" {
				t.Errorf("the target has tables:\n%s", left)
			}
			out := must(t, "copy", src, to).out
			if !strings.Contains(out, "Forecast ") || !strings.Contains(out, "; it took ") {
				t.Errorf("the report does not compare:\n%s", out)
			}
			must(t, "diff", src, to)
			if again := forecastOfCopy(t, src, to, "--prep", "drop"); again.Probed || again.Past != 1 {
				t.Errorf("the next forecast does not know of the copy: %+v", again)
			}
			if again := forecastOfCopy(t, src, to, "--prep", "drop", "--probe", "3s", "--probe-size", "20MB"); !again.Probed || again.Past != 1 {
				t.Errorf("the next probe does not know of the forecast: %+v", again)
			}
			must(t, "diff", src, to)
			t.Logf("forecast %.1f s (%.1f to %.1f); %s", f.Expected, f.Low, f.High, out[strings.Index(out, "Forecast "):][:80])
		})
	}
}

// Without a probe, and without a copy before, it is said how little is known; nothing is written.
func TestForecastWithoutProbe(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src, to := rowsIn(t, srv, "guess_s", "1000"), srv.NewDatabase(t, "guess_t")
	f := forecastOfCopy(t, src, to)
	if f.Probed || f.High < 4*f.Low || f.Past != 0 || f.Tables != 1 {
		t.Errorf("%+v", f)
	}
	if out := must(t, "forecast", src, to).out; !strings.Contains(out, "in four of five cases") || !strings.Contains(out, "--probe 60s tells more") {
		t.Error(out)
	}
	if left := tablesThere(t, to); strings.TrimSpace(left) != "" {
		t.Errorf("the target has tables:\n%s", left)
	}
	if out := must(t, "report", "last").out; !strings.Contains(out, "PHASE") {
		t.Error(out)
	}
}

// What a probe refuses, each in a sentence: small tables, tables of others under its names, missing
// privileges, a dump file.
func TestForecastBadInput(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src, to := srv.NewDatabase(t, "bad_s"), srv.NewDatabase(t, "bad_t")
	testdb.Query(t, src, "CREATE TABLE small (i int PRIMARY KEY); INSERT INTO small VALUES (1)")
	refused := func(want string, args ...string) {
		t.Helper()
		o := cli(t, append([]string{"forecast"}, args...)...)
		if o.code == 0 || !strings.Contains(o.errOut, want) || !strings.Contains(o.errOut, "hint: ") {
			t.Errorf("%v: exit %d, not %q: %s", args, o.code, want, o.errOut)
		}
	}
	refused("the tables are too small to tell", src, to, "--probe", "5s")
	refused("a dump file cannot be foretold", "file:/tmp/x.sql", to)
	largeTables(t, src)
	testdb.Query(t, to, "CREATE TABLE tidemark_probe_2 (i int); INSERT INTO tidemark_probe_2 VALUES (7)")
	refused("tidemark_probe_2: it exists, and is no scratch table of a forecast", src, to, "--probe", "5s")
	if testdb.Query(t, to, "SELECT i FROM tidemark_probe_2") != "7" {
		t.Error("somebody else's table was changed")
	}
	testdb.Query(t, to, "DROP TABLE tidemark_probe_2; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	poor := role(t, srv, to, "poor_foreteller", "")
	refused("may not create", src, poor, "--probe", "5s")
	if left := tablesThere(t, to); strings.TrimSpace(left) != "" {
		t.Errorf("the target has tables:\n%s", left)
	}
}

// A probe that is killed leaves scratch tables; the next one finds and removes them.
func TestForecastKilled(t *testing.T) {
	for engine, srv := range map[string]*testdb.Server{"postgres": testdb.Postgres(t, 15), "mariadb": testdb.MariaDB(t)} {
		t.Run(engine, func(t *testing.T) {
			src, to := srv.NewDatabase(t, "killed_s"), srv.NewDatabase(t, "killed_t")
			largeTables(t, src)
			cmd := process(t, "forecast", src, to, "--probe", "10m", "--probe-size", "100GB")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); !strings.Contains(tablesThere(t, to), "tidemark_probe_1"); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the probe creates no table")
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if !strings.Contains(tablesThere(t, to), "tidemark_probe_1") {
				t.Fatal("the killed probe has left nothing")
			}
			forecastOfCopy(t, src, to, "--probe", "3s", "--probe-size", "20MB")
			if left := tablesThere(t, to); strings.Contains(left, "probe") {
				t.Errorf("the target has tables:\n%s", left)
			}
		})
	}
}
