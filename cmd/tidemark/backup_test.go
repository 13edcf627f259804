package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A backup that is killed leaves nothing that is listed, and hinders no other; the next
// one is whole, and what is encrypted is read by nobody without the passphrase.
func TestBackupThatIsKilled(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 14)
	url := s.NewDatabase(t, "kept")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT g AS id, md5(g::text) AS text FROM generate_series(1, 100000) g")
	dir := s.TempDir(t)
	place, secret := filepath.Join(dir, "repo"), filepath.Join(dir, "passphrase")
	if err := os.WriteFile(secret, []byte("correct horse\nthe rest does not count\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		cmd := process(t, "backup", url, place, "--passphrase-file", secret, "--max-rate", "500kB", "--progress", "none")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(100+rand.IntN(1500)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if packs, err := filepath.Glob(filepath.Join(place, "backups", "*")); err != nil || len(packs) != 0 {
			t.Fatalf("listed are %v, %v", packs, err)
		}
	}
	o := must(t, "backup", url, place, "--passphrase-file", secret, "--label", "the one")
	if !strings.Contains(o.out, "BM# ") || !strings.Contains(o.out, "MC# ") || !strings.Contains(o.errOut, "copy") {
		t.Errorf("got\n%s%s", o.out, o.errOut)
	}
	if again := must(t, "report", "last"); !strings.Contains(again.out, "BM# ") {
		t.Errorf("the report of the run is\n%s", again.out)
	}
	if o := cli(t, "restore", place, filepath.Join(dir, "other")); o.code != 4 {
		t.Errorf("without a key: exit %d\n%s", o.code, o.errOut)
	}
	if o := cli(t, "restore", place, dir, "--passphrase-file", secret); o.code != 8 || !strings.Contains(o.errOut, "is not empty") {
		t.Errorf("into a folder that is not empty: exit %d\n%s", o.code, o.errOut)
	}
	data := filepath.Join(dir, "data")
	if o := must(t, "restore", place, "latest", data, "--passphrase-file", secret); !strings.Contains(o.out, "prepare ") {
		t.Errorf("got\n%s", o.out)
	}
	copied := s.Beside(t, data)
	at := strings.Replace(url, fmt.Sprint(":", s.Port, "/"), fmt.Sprint(":", copied.Port, "/"), 1)
	if got := testdb.Query(t, at, "SELECT count(*), bool_and(text = md5(id::text)) FROM item"); got != "100000\tt" {
		t.Errorf("restored: %s", got)
	}
	if got := testdb.Query(t, at, "SELECT pg_is_in_recovery()"); got != "f" {
		t.Errorf("in recovery: %s", got)
	}
}

// What cannot be backed up or restored is refused, in a line that says what to do.
func TestBackupsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	url := s.NewDatabase(t, "refused")
	testdb.Query(t, url, "DROP ROLE IF EXISTS nobody_special; CREATE ROLE nobody_special LOGIN PASSWORD 's3cret-tide'")
	place := t.TempDir()
	few := strings.Replace(url, "//"+s.User+":", "//nobody_special:", 1)
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"backup without rights", 5, []string{"backup", few, place}},
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
		})
	}
}
