package backup_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// A standby is backed up while its primary is written to, in full and then incrementally, and each
// backup is stopped and resumed. Each server is asked only for its own files: the other's have the
// same identifier.
func TestBackupOfAStandby(t *testing.T) {
	primary := testdb.OwnPostgres(t, 17, "-c", "wal_keep_size=1GB")
	url := primary.NewDatabase(t, "busy")
	testdb.Query(t, url, loadSQL)
	standby := primary.Standby(t, filepath.Base(strings.TrimSuffix(url, "?sslmode=disable")))
	l := startLoad(t, url)
	r := newRepo(t)
	stopped := func(opt backup.Options, opens int64) *backup.Result {
		t.Helper()
		stopBackup(t, standby, r, opt, opens)
		opt.Resume = backup.ResumeLast
		result, err := backUp(t.Context(), t, standby, r, opt)
		if err != nil {
			t.Fatal(err)
		}
		if m := result.Manifest; !m.Standby || len(m.Ranges) != 1 || result.Increment == nil || !result.Increment.Resumed {
			t.Errorf("the manifest is %+v: %+v, %v", m, result.Increment, result.Findings)
		}
		t.Logf("%s", result.Increment)
		return result
	}
	full := stopped(backup.Options{}, 200)
	testdb.Query(t, primary.URL("postgres"), "CHECKPOINT")
	at := testdb.Query(t, primary.URL("postgres"), "SELECT pg_current_wal_insert_lsn()")
	testdb.Query(t, standby.URL("postgres"), "DO $$ BEGIN WHILE pg_last_wal_replay_lsn() < '"+at+"' LOOP PERFORM pg_sleep(0.05); END LOOP; END $$")
	testdb.Query(t, standby.URL("postgres"), "CHECKPOINT") // so that the standby's backup begins after the end of the full one
	result := stopped(backup.Options{Basis: backup.LastFull}, 15)
	if result.Increment.Base != full.Manifest.ID || result.Manifest.Kind != repo.Incremental {
		t.Errorf("on %s there is %+v", full.Manifest.ID, result.Increment)
	}
	l.end()
	copied := standby.Beside(t, restore(t, standby, r, result.Manifest, nil))
	checkCopy(t, copied.URL(filepath.Base(strings.TrimSuffix(url, "?sslmode=disable"))), 17)

	e, err := postgres.Open(t.Context(), primary.URL("postgres"), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	src := e.Backup(physical.BackupOptions{Dir: standby.Dir})
	defer src.Close()
	if _, err := src.Begin(t.Context()); tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "the server has just made") {
		t.Errorf("the primary is asked, and the folder is the standby's: got %v", err)
	}
}
