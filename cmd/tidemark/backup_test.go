package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Impossible backups and restores are refused, with a line that says what to do.
func TestBackupsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	url := s.NewDatabase(t, "refused")
	testdb.Query(t, url, "DROP ROLE IF EXISTS nobody_special; CREATE ROLE nobody_special LOGIN PASSWORD 's3cret-tide'")
	place := t.TempDir()
	other := []string{t.TempDir(), t.TempDir()}
	for _, dir := range other {
		aRepository(t, dir, repo.Keys{})
	}
	few := strings.Replace(url, "//"+s.User+":", "//nobody_special:", 1)
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"backup without rights", 5, []string{"backup", few, place}},
		{"backup of files without rights", 5, []string{"backup", few, place, "--via", "files"}},
		{"backup of a folder by protocol", 2, []string{"backup", url, place, "--via", "protocol", "--data-dir", "/srv"}},
		{"backup into two repositories", 13, []string{"backup", url, other[0], other[1]}},
		{"backup into one place twice", 2, []string{"backup", url, place, "file://" + place}},
		{"backup striped over one place", 2, []string{"backup", url, place, "--stripe"}},
		{"backup striped over a repository", 13, []string{"backup", url, other[0], place, "--stripe"}},
		{"backup of MySQL", 7, []string{"backup", "mysql://me@127.0.0.1/x", place}},
		{"backup with an odd buffer", 2, []string{"backup", url, place, "--buffer-size", "100kB"}},
		{"backup with an unknown codec", 2, []string{"backup", url, place, "--compress", "rar"}},
		{"backup with an empty passphrase", 2, []string{"backup", url, place, "--passphrase-file", "/dev/null"}},
		{"restore from nowhere", 6, []string{"restore", filepath.Join(place, "nowhere"), filepath.Join(place, "data")}},
		{"restore without a backup", 6, []string{"restore", place, "latest", filepath.Join(place, "data")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := cli(t, c.args...)
			sameText(t, o, c.code, c.args)
			noSecrets(t, o)
			if c.args[0] == "backup" {
				if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
					t.Errorf("it leaves %d things in the repository's place, %v", len(left), err)
				}
			} else if c.name == "restore from nowhere" {
				aRepository(t, place, repo.Keys{}) // and nothing in it
			}
		})
	}
}

// A user who cannot read the server's files receives them over the connection, and is notified.
func TestBackupByWhoMayOnlyReplicate(t *testing.T) {
	t.Parallel()
	s := little(t)
	url := s.URL("postgres")
	testdb.Query(t, url, "CREATE ROLE only_sent LOGIN REPLICATION PASSWORD 's3cret-tide'")
	place := t.TempDir()
	o := must(t, "backup", strings.Replace(url, "//"+s.User+":", "//only_sent:", 1), place, "--checkpoint", "fast", "--progress", "none", "-v")
	if !strings.Contains(o.out, "RC# ") || !strings.Contains(o.out, "the server sends its files in one stream: the role may not read where they are") {
		t.Errorf("got\n%s", o.out)
	}
	noSecrets(t, o)
	must(t, "verify", place)
}

// Running commands are listed with their progress, and killed ones as dead.
func TestUtilities(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 16)
	url := s.NewDatabase(t, "shown")
	dir := t.TempDir()
	state := filepath.Join(dir, "catalog.db")
	if o := must(t, "utilities", "--state", state); !strings.HasPrefix(o.out, "nothing is running with this catalogue") {
		t.Errorf("got\n%s", o.out)
	}
	var cmds []*exec.Cmd
	for _, given := range [][]string{
		{"backup", url, filepath.Join(dir, "repo"), "--max-rate", "100kB", "--progress", "none"},
		{"archive", url, filepath.Join(dir, "log"), "--progress", "none"},
	} {
		cmd := process(t, append(given, "--state", state)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	type shown struct {
		Type, State, Phase, Source string
		Total, Done                int64
		Percent                    *float64
		PID                        int
	}
	look := func(is func(of map[string]shown) bool) (text string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			o := must(t, "utilities", "--state", state, "--json")
			var all []shown
			if err := json.Unmarshal([]byte(o.out), &all); err != nil {
				t.Fatalf("%v:\n%s", err, o.out)
			}
			of := map[string]shown{}
			for _, u := range all {
				of[u.Type] = u
			}
			if is(of) {
				noSecrets(t, o)
				return must(t, "utilities", "--state", state).out
			}
			if time.Now().After(deadline) {
				t.Fatalf("got\n%s", o.out)
			}
		}
	}
	text := look(func(of map[string]shown) bool {
		b, a := of["BACKUP"], of["ARCHIVE"]
		return b.State == "running" && b.Phase == "copy" && b.Done > 0 && b.Total > b.Done && b.Percent != nil && b.PID == cmds[0].Process.Pid && a.State == "running" && a.Phase == "receiving"
	})
	for _, want := range []string{"Type            = BACKUP", "State           = running", "Total work      = ", "%)", "Rate            = ", "Type            = ARCHIVE", "Phase           = receiving"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, cmd := range cmds {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	text = look(func(of map[string]shown) bool {
		return of["BACKUP"].State == "dead" && of["ARCHIVE"].State == "dead" && of["BACKUP"].Done > 0
	})
	if !strings.Contains(text, "State           = dead: its process disappeared") || strings.Contains(text, "Time remaining") {
		t.Errorf("got\n%s", text)
	}
}
