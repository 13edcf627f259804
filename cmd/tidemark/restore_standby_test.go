package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A restored copy becomes a standby of the named server, whose password is stored only in a file.
// The backup of that standby becomes an independent server, and the output lists which of a
// standby's settings it has kept.
func TestRestoreAsAStandby(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 15)
	url := s.URL("postgres")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT 1 AS id; SELECT pg_create_physical_replication_slot('second', true)")
	place, dir := t.TempDir(), s.TempDir(t)
	must(t, "backup", url, place, "--progress", "none")
	testdb.Query(t, url, "INSERT INTO item VALUES (2)")
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, fmt.Appendf(nil, "%s:%d:*:%s:%s\n", s.Host, s.Port, s.User, s.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chown", "--reference="+dir, secret).CombinedOutput(); err != nil { // the server's user reads it
		t.Fatalf("%v: %s", err, out)
	}
	second := filepath.Join(dir, "second")
	o := must(t, "restore", place, second, "--standby", fmt.Sprintf("postgres://%s@%s:%d/?passfile=%s", s.User, s.Host, s.Port, secret), "--standby-slot", "second")
	if !strings.Contains(o.out, "it starts as a standby") {
		t.Errorf("got\n%s", o.out)
	}
	standby := s.Beside(t, second)
	at := standby.URL("postgres")
	soon(t, "what was written since the backup", func() bool {
		n, err := testdb.TryQuery(at, "SELECT count(*) FROM item")
		return err == nil && n == "2"
	})
	if got := testdb.Query(t, at, "SELECT pg_is_in_recovery(), slot_name FROM pg_stat_wal_receiver"); got != "t\tsecond" {
		t.Errorf("the standby: %s", got)
	}

	other := t.TempDir()
	must(t, "backup", at, other, "--via", "protocol", "--progress", "none")
	third := filepath.Join(dir, "third")
	o = must(t, "restore", other, third)
	if !strings.Contains(o.out, "it starts as an independent server: standby.signal was not restored; these settings were, and have no effect without it: primary_conninfo (postgresql.auto.conf), primary_slot_name (postgresql.auto.conf)") {
		t.Errorf("got\n%s", o.out)
	}
	if got := testdb.Query(t, s.Beside(t, third).URL("postgres"), "SELECT pg_is_in_recovery(), count(*) FROM item"); got != "f\t2" {
		t.Errorf("the copy of the standby: %s", got)
	}

	for _, c := range []struct {
		name string
		args []string
	}{
		{"standby with a password", []string{"restore", place, filepath.Join(dir, "x"), "--standby", "postgres://me:s3cret-tide@db1/"}},
		{"standby with a password as an option", []string{"restore", place, filepath.Join(dir, "x"), "--standby", "postgres://me@db1/?password=s3cret-tide"}},
		{"standby of something else", []string{"restore", place, filepath.Join(dir, "x"), "--standby", "db1"}},
		{"standby and a point in time", []string{"restore", place, filepath.Join(dir, "x"), "--standby", "postgres://me@db1/", "--to", "end"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := cli(t, c.args...)
			sameText(t, o, 2, c.args)
			noSecrets(t, o)
		})
	}
}
