package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// commits has a session insert rows, one per transaction, until the test ends it; its errors after
// its server is gone do not matter.
func commits(t *testing.T, db, insert string) {
	t.Helper()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		s := testdb.NewSession(db)
		defer s.Close()
		for goesOn(stop) {
			_, _ = s.Try(insert)
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { close(stop) })
}

// atLast retries what a busy machine may spoil, and logs what is wrong each time.
func atLast(t *testing.T, try func() (wrong string)) {
	t.Helper()
	wrong := ""
	for n := range 5 {
		if wrong = try(); wrong == "" {
			return
		}
		t.Logf("try %d: %s", n+1, wrong)
	}
	t.Errorf("not in five tries: %s", wrong)
}

// checkedLive runs ha check with --json.
func checkedLive(t *testing.T, args ...string) (r measure.LiveReport, code int) {
	t.Helper()
	o := cli(t, append([]string{"ha", "check", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("exit %d: %v\n%s%s", o.code, err, o.out, o.errOut)
	}
	return r, o.code
}

func figure(t *testing.T, r measure.LiveReport, name string) measure.Figure {
	t.Helper()
	for _, f := range r.Figures {
		if strings.HasPrefix(f.Name, name) {
			return f
		}
	}
	t.Fatalf("no %s in %+v", name, r)
	return measure.Figure{}
}

// lenient are limits that even a busy machine does not exceed.
var lenient = []string{"--for=3s", "--max-wait=10m", "--max-mean-wait=10m", "--max-lag=10m", "--max-off=10000"}

func forecastOf(t *testing.T, engine, version string) string {
	t.Helper()
	scan := testdb.Written(t, "a.scan", "Log of "+engine+" "+version+"\n"+published)
	return testdb.Written(t, "forecast.json", must(t, "ha", "calculate", scan, "--disk=200MiB/s,1ms", "--network=10MiB/s,100ms", "--json").out)
}

// TestHACheckPostgres: commits wait for a real standby, which is then removed.
func TestHACheckPostgres(t *testing.T) {
	t.Parallel()
	primary := testdb.OwnPostgres(t, 17)
	db := primary.URL("postgres")
	standby := primary.Standby(t, "postgres")
	testdb.Load(t, db, strings.NewReader("CREATE TABLE waits (a int); ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf();"))
	soon(t, "the standby", func() bool {
		return strings.TrimSpace(testdb.Query(t, db, "SELECT sync_state FROM pg_stat_replication")) == "sync"
	})
	forecast := forecastOf(t, "postgres", "17")
	commits(t, db, "INSERT INTO waits VALUES (1)")
	atLast(t, func() string {
		r, code := checkedLive(t, append(lenient, db, "--forecast", forecast)...)
		log, rate, wait := figure(t, r, "log"), figure(t, r, "commits"), figure(t, r, "wait of a commit")
		if code != 0 || r.Mode != "on" || log.Measured == nil || *log.Measured <= 0 || log.Forecast == nil || *rate.Measured <= 0 || wait.Measured == nil || wait.Forecast == nil || *wait.Forecast < 0.1 || len(r.Standbys) != 1 || !strings.Contains(r.Standbys[0], "commits wait for it") || len(r.Alerts) > 0 {
			return fmt.Sprintf("exit %d: %+v", code, r)
		}
		return ""
	})
	// A limit of 0 is always exceeded.
	atLast(t, func() string {
		tight, code := checkedLive(t, append(lenient, db, "--max-mean-wait=0s")...)
		if code != 1 || len(tight.Alerts) != 1 || !strings.Contains(tight.Alerts[0], "for a standby on average, more than") {
			return fmt.Sprintf("exit %d: %q", code, tight.Alerts)
		}
		return ""
	})
	// A role that cannot see other sessions learns which privilege it lacks; a standby is refused.
	testdb.Query(t, db, "CREATE ROLE looker LOGIN PASSWORD 'secret'")
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("looker", "secret")
	if o := cli(t, "ha", "check", u.String()); o.code != 5 || !strings.Contains(o.errOut, "GRANT pg_monitor TO \"looker\"") && !strings.Contains(o.errOut, "GRANT pg_monitor TO looker") {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}
	if o := cli(t, "ha", "check", standby.URL("postgres")); o.code != 7 || !strings.Contains(o.errOut, "the server is a standby") {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}

	standby.Kill(t)
	atLast(t, func() string {
		o := cli(t, "ha", "check", db, "--for=3s", "--max-wait=500ms")
		for _, want := range []string{"! a commit waited for ", "! commits wait for a standby, but none is connected", "longest wait of a commit"} {
			if o.code != 1 || !strings.Contains(o.out, want) {
				return fmt.Sprintf("exit %d: no %q in\n%s%s", o.code, want, o.out, o.errOut)
			}
		}
		return ""
	})
	testdb.Load(t, db, strings.NewReader("SET synchronous_commit = local; ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf();"))
}

// TestHACheckMariaDB: semi-sync with a real replica; the replica stops, and semi-sync times out.
func TestHACheckMariaDB(t *testing.T) {
	t.Parallel()
	primary, replica := testdb.OwnMariaDB(t), testdb.OwnMariaDB(t)
	db := primary.NewDatabase(t, "checked")
	testdb.Load(t, replica.URL(""), strings.NewReader(fmt.Sprintf(`RESET MASTER; SET GLOBAL rpl_semi_sync_slave_enabled = 1;
		CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%d, MASTER_USER='%s', MASTER_PASSWORD='%s', MASTER_USE_GTID=slave_pos; START SLAVE;`, primary.Host, primary.Port, primary.User, primary.Password)))
	testdb.Load(t, db, strings.NewReader("CREATE TABLE waits (a int); SET GLOBAL rpl_semi_sync_master_timeout = 600000; SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_COMMIT'; SET GLOBAL rpl_semi_sync_master_enabled = 1;"))
	soon(t, "the replica", func() bool {
		return numberOf(t, db, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Rpl_semi_sync_master_clients'") >= 1
	})
	commits(t, db, "INSERT INTO waits VALUES (1)")
	forecast := forecastOf(t, "mariadb", "10.11.6-MariaDB")
	atLast(t, func() string {
		r, code := checkedLive(t, append(lenient, db, "--replica", replica.URL(""), "--forecast", forecast)...)
		wait, lag := figure(t, r, "wait of a commit"), figure(t, r, "replay lag")
		if code != 0 || r.Mode != "AFTER_COMMIT" || *figure(t, r, "log").Measured <= 0 || *figure(t, r, "commits").Measured <= 0 || wait.Measured == nil || *wait.Measured <= 0 || wait.Forecast == nil || lag.Measured == nil || *lag.Measured < 0 || len(r.Standbys) != 1 {
			return fmt.Sprintf("exit %d: %+v", code, r)
		}
		return ""
	})
	testdb.Load(t, replica.URL(""), strings.NewReader("STOP SLAVE"))
	atLast(t, func() string {
		o := cli(t, "ha", "check", db, "--for=4s", "--max-wait=1s", "--replica", replica.URL(""))
		if o.code != 1 || !strings.Contains(o.out, "! the replica is not replicating") || !strings.Contains(o.out, "! a commit waited for ") && !strings.Contains(o.out, "! commits wait for a standby, but none is connected") {
			return fmt.Sprintf("exit %d: %s%s", o.code, o.out, o.errOut)
		}
		return ""
	})
	testdb.Load(t, db, strings.NewReader("SET GLOBAL rpl_semi_sync_master_enabled = 0; SET GLOBAL rpl_semi_sync_master_timeout = 1; SET GLOBAL rpl_semi_sync_master_enabled = 1;"))
	soon(t, "a word of what was given up", func() bool {
		return strings.Contains(cli(t, "ha", "check", db, "--for=200ms").out, "! semi-synchronous replication timed out")
	})
	testdb.Load(t, db, strings.NewReader("SET GLOBAL rpl_semi_sync_master_enabled = 0"))
}

func TestHACheckBadInput(t *testing.T) {
	for _, b := range []struct {
		name string
		args []string
		code int
	}{
		{"ha-check-nothing", nil, 2},
		{"ha-check-another-server", []string{"oracle://me@db/x"}, 2},
		{"ha-check-no-forecast", []string{"postgres://me@db/x", "--forecast", "/nowhere/forecast.json"}, 6},
		{"ha-check-another-file", []string{"postgres://me@db/x", "--forecast", os.DevNull}, 15},
		{"ha-check-replica-of-postgres", []string{"postgres://me@db/x", "--replica", "postgres://me@db2/x"}, 2},
	} {
		t.Run(b.name, func(t *testing.T) { sameText(t, cli(t, append([]string{"ha", "check"}, b.args...)...), b.code, nil) })
	}
}
