package backup_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// haveSent backs up a server that sends its files.
func haveSent(ctx context.Context, t *testing.T, url string, r *repo.Repo, opt backup.Options, how physical.BaseBackupOptions) (*backup.Result, error) {
	t.Helper()
	e, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	src := e.BaseBackup(how)
	defer src.Close()
	return backUpFrom(ctx, t, src, r, opt)
}

// replicator returns the URL of a role that has only REPLICATION.
func replicator(t *testing.T, s *testdb.Server, url string) string {
	t.Helper()
	testdb.Query(t, url, "CREATE ROLE sender LOGIN REPLICATION PASSWORD 'sent'")
	return strings.Replace(url, "//"+s.User+":"+s.Password+"@", "//sender:sent@", 1)
}

// cutOnce ends sessions of the server as soon as one matches those.
func cutOnce(t *testing.T, url, those string) {
	for t.Context().Err() == nil {
		if n, err := testdb.TryQuery(url, "SELECT count(pg_terminate_backend(pid)) FROM "+those); err == nil && n != "0" {
			return
		}
	}
}

func TestBackupThatIsSent(t *testing.T) {
	majors := []int{13, 15, 18} // 14 behaves like 13, 16 and 17 like 15
	if os.Getenv("TIDEMARK_VERSIONS") == "all" {
		majors = []int{13, 14, 15, 16, 17, 18}
	}
	for _, major := range majors {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			s := testdb.OwnPostgres(t, major, "-c", "allow_in_place_tablespaces=on", "-c", "wal_keep_size=1GB") // a slot is dropped with the session that is cut
			url := s.NewDatabase(t, "busy")
			testdb.Query(t, url, loadSQL)
			space := s.TempDir(t)
			testdb.Query(t, url, "CREATE TABLESPACE elsewhere LOCATION '"+space+"'")
			testdb.Query(t, url, "CREATE TABLE spaced TABLESPACE elsewhere AS SELECT generate_series(1, 5000) AS id")
			testdb.Query(t, url, "CREATE TABLESPACE inside LOCATION ''") // in the data folder
			testdb.Query(t, url, "CREATE TABLE spaced_inside TABLESPACE inside AS SELECT generate_series(1, 4000) AS id")
			from := replicator(t, s, url)
			l := startLoad(t, url)
			r := newRepo(t)
			before := testdb.Query(t, url, "SELECT count(*) FROM journal")
			if major == 15 {
				go cutOnce(t, url, "pg_stat_replication WHERE state = 'streaming'") // the log continues in another session
			}
			result, err := haveSent(t.Context(), t, from, r, backup.Options{Parallelism: 3, BufferSize: 128 << 10}, physical.BaseBackupOptions{Rate: 16 << 20})
			if err != nil {
				t.Fatal(err)
			}
			l.end()
			t.Logf("findings %v\n%s", result.Findings, result.Report)
			if !strings.Contains(result.Report.String(), "RC# ") || hasWarning(result.Findings, "checksums are off") != (major < 18) || hasWarning(result.Findings, "slot") {
				t.Errorf("findings %v, report\n%s", result.Findings, result.Report)
			}
			if n := testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots"); n != "0" {
				t.Errorf("%s slots are left", n)
			}
			other := s.TempDir(t)
			dir := restore(t, s, r, result.Manifest, map[string]string{space: other})
			if major == 15 {
				verify(t, s, dir)
			}
			checkLeftOut(t, dir)
			copied := s.Beside(t, dir)
			at := strings.Replace(url, fmt.Sprint(":", s.Port, "/"), fmt.Sprint(":", copied.Port, "/"), 1)
			checkCopy(t, at, major)
			if got := testdb.Query(t, at, "SELECT (SELECT count(*) FROM spaced), (SELECT count(*) FROM spaced_inside)"); got != "5000\t4000" {
				t.Errorf("in the tablespaces: %s rows", got)
			}
			if got := testdb.Query(t, at, "SELECT count(*) >= "+before+" FROM journal"); got != "t" {
				t.Errorf("it has less than the %s transactions that were committed before the backup", before)
			}
		})
	}
}

// A standby also sends its files, except those that make it a standby.
func TestBackupThatAStandbySends(t *testing.T) {
	t.Parallel()
	primary := testdb.OwnPostgres(t, 15)
	url := primary.NewDatabase(t, "busy")
	testdb.Query(t, url, loadSQL)
	name := filepath.Base(strings.TrimSuffix(url, "?sslmode=disable"))
	standby := primary.Standby(t, name)
	l := startLoad(t, url)
	r := newRepo(t)
	result, err := haveSent(t.Context(), t, standby.URL("postgres"), r, backup.Options{}, physical.BaseBackupOptions{Rate: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	l.end()
	if !result.Manifest.Standby || len(result.Manifest.Ranges) != 1 {
		t.Errorf("the manifest is %+v", result.Manifest)
	}
	dir := restore(t, standby, r, result.Manifest, nil)
	verify(t, standby, dir)
	checkLeftOut(t, dir)
	checkCopy(t, standby.Beside(t, dir).URL(name), 15)
}

// A page damaged on the server's disk is named, and either stops the backup or is noted. And a
// session that is cut ends the backup, with nothing listed.
func TestSentWithDamageAndWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 18) // its pages have checksums
	url := s.NewDatabase(t, "damaged")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT g, repeat('x', 300) FROM generate_series(1, 1000) g")
	testdb.Query(t, url, "CHECKPOINT")
	r := newRepo(t)
	listed := func() {
		t.Helper()
		if ids, err := r.IDs(t.Context()); err != nil || len(ids) != 0 {
			t.Errorf("listed are %v, %v", ids, err)
		}
	}
	go cutOnce(t, url, "pg_stat_progress_basebackup WHERE phase = 'streaming database files' AND backup_streamed > 1000000")
	_, err := haveSent(t.Context(), t, s.URL("postgres"), r, backup.Options{}, physical.BaseBackupOptions{Rate: 1 << 20}) // slow enough not to end earlier
	if tidemark.KindOf(err) != tidemark.Lost || !strings.Contains(err.Error(), "the session in which the server sends its files is gone") {
		t.Errorf("the session was cut: got %v", err)
	}
	listed()

	rot(t, s, url)
	_, err = haveSent(t.Context(), t, s.URL("postgres"), r, backup.Options{}, physical.BaseBackupOptions{})
	if tidemark.KindOf(err) != tidemark.Corrupt || !strings.Contains(err.Error(), "public.item (base/") || !strings.Contains(err.Error(), "block 7:") {
		t.Fatalf("got %v", err)
	}
	listed()
	result, err := haveSent(t.Context(), t, s.URL("postgres"), r, backup.Options{KeepDamaged: true}, physical.BaseBackupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Damaged) != 1 || !strings.HasSuffix(result.Damaged[0], "block 7") || len(result.Manifest.Notes) != 1 {
		t.Errorf("damaged: %v, notes %v", result.Damaged, result.Manifest.Notes)
	}
}

// A server of version 17 or later sends what has changed since an earlier backup, and the combined
// chain equals the original. One that does not summarize its WAL is backed up in full.
func TestIncrementalThatIsSent(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 18)
	url := s.NewDatabase(t, "busy")
	summarize := func(value string) {
		t.Helper()
		testdb.Query(t, url, "ALTER SYSTEM SET summarize_wal = "+value)
		testdb.Query(t, url, "SELECT pg_reload_conf()")
		for deadline := time.Now().Add(5 * time.Minute); testdb.Query(t, url, "SELECT current_setting('summarize_wal')") != value; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the server does not heed summarize_wal")
			}
		}
	}
	summarize("on")
	testdb.Query(t, url, loadSQL)
	space := s.TempDir(t)
	testdb.Query(t, url, "CREATE TABLESPACE elsewhere LOCATION '"+space+"'")
	testdb.Query(t, url, "CREATE TABLE spaced TABLESPACE elsewhere AS SELECT generate_series(1, 5000) AS id")
	testdb.Query(t, url, "CREATE TABLE cut AS SELECT g FROM generate_series(1, 50000) g")
	r := newRepo(t)
	opt := backup.Options{Parallelism: 3, BufferSize: 128 << 10, Basis: backup.LastAny}
	result, err := haveSent(t.Context(), t, url, r, opt, physical.BaseBackupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if result.Manifest.Kind != repo.Full || !hasWarning(result.Findings, "there is no earlier backup") {
		t.Errorf("the first: %s, findings %v", result.Manifest.Kind, result.Findings)
	}
	full := result.Manifest
	l := startLoad(t, url)
	for i := range 2 {
		testdb.Query(t, url, fmt.Sprintf("DELETE FROM cut WHERE g > %d", 20000-i*10000))
		testdb.Query(t, url, "VACUUM cut") // which truncates the file
		testdb.Query(t, url, fmt.Sprintf("UPDATE spaced SET id = id WHERE id = %d; INSERT INTO cut VALUES (0)", i))
		if result, err = haveSent(t.Context(), t, url, r, opt, physical.BaseBackupOptions{}); err != nil {
			t.Fatal(err)
		}
		m := result.Manifest
		if m.Kind == repo.Incremental && m.Plain > full.Plain*3/4 {
			testdb.OnClock(t) // the slower the machine, the more the load has changed meanwhile
		}
		if m.Kind != repo.Incremental || m.Plain > full.Plain*3/4 || result.Increment == nil || result.Increment.Stored == 0 {
			t.Errorf("%s with %d bytes, on a full one of %d; %v, findings %v", m.Kind, m.Plain, full.Plain, result.Increment, result.Findings)
		}
	}
	l.end()
	other := s.TempDir(t)
	dir := restore(t, s, r, result.Manifest, map[string]string{space: other})
	if label, err := os.ReadFile(filepath.Join(dir, "backup_label")); err != nil || strings.Contains(string(label), "INCREMENTAL") {
		t.Errorf("backup_label is %q, %v", label, err)
	}
	copied := s.Beside(t, dir)
	at := strings.Replace(url, fmt.Sprint(":", s.Port, "/"), fmt.Sprint(":", copied.Port, "/"), 1)
	checkCopy(t, at, 18)
	if got := testdb.Query(t, at, "SELECT (SELECT count(*) FROM spaced), (SELECT count(*) FROM cut)"); got != "5000\t10002" {
		t.Errorf("restored: %s", got)
	}

	summarize("off")
	if result, err = haveSent(t.Context(), t, url, r, opt, physical.BaseBackupOptions{}); err != nil {
		t.Fatal(err)
	}
	if result.Manifest.Kind != repo.Full || !hasWarning(result.Findings, "does not summarize its WAL") {
		t.Errorf("without summaries: %s, findings %v", result.Manifest.Kind, result.Findings)
	}
}
