package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/holdings"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

var keysOfS3 sync.Once

// s3Bucket creates a bucket and returns the URL of a place in it, and the folder where the server
// keeps it.
func s3Bucket(t *testing.T, bucket string) (url, dir string) {
	t.Helper()
	s := testdb.S3(t)
	keysOfS3.Do(func() {
		os.Setenv("AWS_ACCESS_KEY_ID", s.User) // for all tests: they run in parallel
		os.Setenv("AWS_SECRET_ACCESS_KEY", s.Password)
	})
	dir = filepath.Join(s.Dir, bucket)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // the server runs as another user
		t.Fatal(err)
	}
	return fmt.Sprintf("s3://%s/main?endpoint=%s:%d&tls=off&region=us-east-1", bucket, s.Host, s.Port), filepath.Join(dir, "main")
}

func have(t *testing.T, pattern ...string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A repository is striped over a folder and a bucket: full, incremental and logical backups are
// spread over both, and restore from either URL. If one of them is missing nothing is done; its new
// location can be given.
func TestBackupStripedOverSeveralPlaces(t *testing.T) {
	t.Parallel()
	s := little(t)
	url := s.URL("postgres")
	testdb.Query(t, url, "ALTER SYSTEM SET wal_keep_size = '256MB'") // so that the oldest segment is older than the backups, and there is no gap
	testdb.Query(t, url, "SELECT pg_reload_conf()")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT g AS id, md5(g::text) AS text FROM generate_series(1, 20000) g; ALTER TABLE item ADD PRIMARY KEY (id); CHECKPOINT")
	near := filepath.Join(t.TempDir(), "near")
	far, farDir := s3Bucket(t, "striped")

	rep := reported(t, "backup", url, near, far, "--stripe", "--sessions", "2", "--buffer-size", "64kB")
	if len(rep.Targets) != 2 || rep.Targets[0].Written == 0 || rep.Targets[1].Written == 0 || rep.Targets[0].Written+rep.Targets[1].Written < rep.Stored {
		t.Errorf("of %d bytes the places have got %+v", rep.Stored, rep.Targets)
	}
	if len(have(t, near, "packs/*/*")) == 0 || len(have(t, farDir, "packs/*/*")) == 0 || len(have(t, near, "backups/*")) != 1 || len(have(t, farDir, "backups/*")) != 0 {
		t.Errorf("%s has %v, and the bucket %v", near, have(t, near, "*/*"), have(t, farDir, "*/*"))
	}
	testdb.Query(t, url, "UPDATE item SET text = 'changed' WHERE id % 100 = 0; CHECKPOINT")
	if rep = reported(t, "backup", url, far, "--incremental"); rep.Increment == nil || len(rep.Targets) != 2 {
		t.Errorf("%+v", rep.Increment)
	}
	must(t, "backup", url, near, "--logical", "--include", "public.item", "--progress", "none")
	for _, place := range []string{near, far} {
		if o := must(t, "verify", place); !strings.Contains(o.out, "no faults") {
			t.Errorf("%s:\n%s", place, o.out)
		}
	}
	wal := have(t, s.Dir, "pg_wal", "0000*")
	var list holdings.List
	if err := json.Unmarshal([]byte(must(t, "backups", far, "--json").out), &list); err != nil || len(list.Backups) != 3 || len(list.Places) != 2 || list.Places[0] != "file://"+near {
		t.Fatalf("%v: %+v", err, list)
	}
	dir := filepath.Join(s.TempDir(t), "restored")
	must(t, "restore", far, "latest", dir, "--progress", "none")
	if n := testdb.Query(t, s.Beside(t, dir).URL("postgres"), "SELECT count(*) FROM item WHERE text = 'changed'"); n != "200" {
		t.Errorf("%s changed rows are restored", n)
	}
	must(t, "restore", far, list.Backups[2].ID, url, "--target-schema", "again", "--progress", "none")
	if n := testdb.Query(t, url, "SELECT count(*) FROM again.item WHERE text = 'changed'"); n != "200" {
		t.Errorf("%s rows came back", n)
	}

	// The folder has moved.
	moved := near + "-moved"
	if err := os.Rename(near, moved); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", far}, {"backup", url, far}, {"prune", far, "--keep", "last=1"}, {"archive", "push", far, wal[0]}} {
		if o := cli(t, args...); o.code != 6 || !strings.Contains(o.errOut, "open repository "+near+": place 1 of the 2 that the repository is striped over is missing: there is no repository") || !strings.Contains(o.errOut, "--stripe-place") {
			t.Errorf("tidemark %v: exit %d\n%s", args, o.code, o.errOut)
		}
	}
	must(t, "verify", far, "--stripe-place", moved)
	must(t, "archive", "push", far, wal[0], "--stripe-place", moved)
	dir += "-2"
	must(t, "restore", far, list.Backups[0].ID, dir, "--progress", "none", "--stripe-place", moved, "--standby", "postgres://repl@127.0.0.1:1/")
	conf, err := os.ReadFile(filepath.Join(dir, "postgresql.auto.conf"))
	if err != nil || !strings.Contains(string(conf), far) || !strings.Contains(string(conf), "--stripe-place ''"+moved) {
		t.Errorf("the server cannot fetch its log: %v\n%s", err, conf)
	}
	must(t, "backup", url, moved, far, "--stripe", "--delta", "--progress", "none")
	must(t, "prune", far, "--keep", "last=1")
	if o := must(t, "verify", moved); !strings.Contains(o.out, "no faults") || strings.Contains(o.out, "left over") {
		t.Errorf("after prune:\n%s", o.out)
	}

	// Data lost in one place is found, and the place is named.
	packs := have(t, farDir, "packs/*/*")
	if err := os.Remove(packs[0]); err != nil {
		t.Fatal(err)
	}
	name, _ := filepath.Rel(farDir, packs[0])
	if o := cli(t, "verify", moved); o.code != 18 || !strings.Contains(o.out, filepath.ToSlash(name)+": it is missing in s3://striped/main") {
		t.Errorf("exit %d\n%s", o.code, o.out)
	}
}

// A place that is a hundred times slower than the other does not slow down the backup: it gets as
// much as it can take, and is named.
func TestStripeWithASlowPlace(t *testing.T) {
	t.Parallel()
	s := little(t)
	ssh := testdb.SSH(t)
	const rate = 64 << 10
	slow := sftpPlace(t, ssh, testdb.SlowWire(t, fmt.Sprint(ssh.Port), rate), "stripe")
	rep := reported(t, "backup", s.URL("postgres"), t.TempDir(), slow, "--stripe", "--compress", "none", "--buffer-size", "64kB", "--sessions", "2")
	alone := float64(rep.Stored) / rate // seconds
	if took := rep.Report.Took().Seconds(); took > alone/2 {
		t.Errorf("it took %.1f s, and %.1f s if the slow place had got all", took, alone)
	}
	if rep.Targets[1].Written == 0 || rep.Targets[1].Written > rep.Stored/2 {
		t.Errorf("of %d bytes the slow place has got %d", rep.Stored, rep.Targets[1].Written)
	}
	if !slices.ContainsFunc(rep.Advice, func(a string) bool {
		return strings.HasPrefix(a, "sftp://") && strings.Contains(a, "/stripe is the slowest of the places: a session writes 0.")
	}) {
		t.Errorf("it does not say which place is slow: %q", rep.Advice)
	}
}
