package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestHAPlanSettingsArePasted pastes a plan's output, in its order and verbatim, into a server and
// its standby: commits wait for that standby, and no commit blocks.
func TestHAPlanSettingsArePasted(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 15)
	url := s.URL("postgres")
	const name = "North.one"
	var p ha.Plan
	o := must(t, "ha", "plan", "--scan", testdb.Written(t, "a.scan", postgresScan), "--disk=200MiB/s,1ms", "--network="+name+"=1Gbit/s,1ms", "--simulate=0s", "--progress=none", "--json")
	if err := json.Unmarshal([]byte(o.out), &p); err != nil {
		t.Fatal(err)
	}
	on := slices.IndexFunc(p.Modes, func(a ha.Advice) bool { return a.Mode == "on" })
	data := filepath.Join(s.TempDir(t), "data")
	var standby *testdb.Server
	paste := func(dir, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("\n" + text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, block := range p.Modes[on].Settings {
		switch {
		case strings.HasPrefix(block.Where, "SQL, primary"):
			testdb.Query(t, url, block.Text)
		case strings.HasPrefix(block.Where, "postgresql.conf, standby"):
			if out, err := s.Tool(t, "pg_basebackup", "-D", data, "-d", url); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if out, err := exec.Command("sh", "-c", `touch "$1/standby.signal" && chown --reference="$1" "$1/standby.signal"`, "sh", data).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			paste(data, strings.Replace(block.Text, "host=... user=...", fmt.Sprintf("host=%s port=%d user=%s password=%s", s.Host, s.Port, s.User, s.Password), 1))
			standby = s.Beside(t, data)
			soon(t, "the standby", func() bool {
				return testdb.Query(t, url, "SELECT application_name, state FROM pg_stat_replication") == name+"\tstreaming"
			})
		case strings.HasPrefix(block.Where, "postgresql.conf, primary, last"):
			paste(s.Dir, block.Text)
			testdb.Query(t, url, "SELECT pg_reload_conf()")
		case strings.HasPrefix(block.Where, "postgresql.conf, primary"):
			s.Offline(t, func() { paste(s.Dir, block.Text) })
		case !strings.HasPrefix(block.Where, "/etc/sysctl.d"):
			t.Fatalf("where is %q?", block.Where)
		}
		// However much has been pasted, commits continue.
		testdb.Query(t, url, "CREATE TABLE IF NOT EXISTS pasted (); ALTER TABLE pasted ADD COLUMN c"+fmt.Sprint(len(block.Text))+" int")
	}
	soon(t, "a synchronous standby", func() bool { return testdb.Query(t, url, "SELECT sync_state FROM pg_stat_replication") == "sync" })
	testdb.Query(t, url, "CREATE TABLE waited ()")
	if got := testdb.Query(t, url, "SELECT slot_name, active FROM pg_replication_slots") + " " + testdb.Query(t, standby.URL("postgres"), "SELECT count(*) FROM pg_tables WHERE tablename = 'waited'"); got != "north_one\tt 1" {
		t.Errorf("slot, and the table on the standby: %s", got)
	}
	if n := testdb.Query(t, url, "SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"); n != "0" {
		t.Errorf("%s settings that the server does not take", n)
	}
}
