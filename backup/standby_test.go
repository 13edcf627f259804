package backup_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
)

// A standby is backed up while its primary is written to. And of the two, each is asked
// for its own files only: those of the other have the same identifier.
func TestBackupOfAStandby(t *testing.T) {
	primary := testdb.OwnPostgres(t, 17)
	url := primary.NewDatabase(t, "busy")
	testdb.Query(t, url, loadSQL)
	standby := primary.Standby(t, filepath.Base(strings.TrimSuffix(url, "?sslmode=disable")))
	l := startLoad(t, url)
	r := newRepo(t)
	result, err := backUp(t.Context(), t, standby, r, backup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !result.Manifest.Standby || len(result.Manifest.Ranges) != 1 {
		t.Errorf("the manifest is %+v", result.Manifest)
	}
	l.end()
	copied := standby.Beside(t, restore(t, standby, r, result.Manifest, nil))
	checkCopy(t, copied.URL(filepath.Base(strings.TrimSuffix(url, "?sslmode=disable"))), 17)

	e, err := postgres.Open(t.Context(), primary.URL("postgres"), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	src := e.Backup(postgres.BackupOptions{Dir: standby.Dir})
	defer src.Close()
	if _, err := src.Begin(t.Context()); tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "the server has just made") {
		t.Errorf("the primary is asked, and the folder is the standby's: got %v", err)
	}
}
