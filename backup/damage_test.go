package backup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// rot damages block 7 of the table item behind the server's back.
func rot(t *testing.T, s *testdb.Server, url string) {
	t.Helper()
	file := filepath.Join(s.Dir, testdb.Query(t, url, "SELECT pg_relation_filepath('item')"))
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("rotten"), 7*8192+5000); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A page damaged on disk is named, and either stops the backup or is noted.
func TestDamagedPageIsNamed(t *testing.T) {
	s := testdb.OwnPostgres(t, 18) // its pages have checksums
	url := s.NewDatabase(t, "damaged")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT g, repeat('x', 300) FROM generate_series(1, 1000) g")
	testdb.Query(t, url, "CHECKPOINT")
	rot(t, s, url)
	r := newRepo(t)
	_, err := backUp(t.Context(), t, s, r, backup.Options{})
	if tidemark.KindOf(err) != tidemark.Corrupt || !strings.Contains(err.Error(), "public.item (base/") || !strings.Contains(err.Error(), "block 7:") {
		t.Fatalf("got %v", err)
	}
	if ids, err := r.IDs(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("listed are %v, %v", ids, err)
	}
	result, err := backUp(t.Context(), t, s, r, backup.Options{KeepDamaged: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Damaged) != 1 || !strings.HasSuffix(result.Damaged[0], "block 7") || len(result.Manifest.Notes) != 1 {
		t.Errorf("damaged: %v, notes %v", result.Damaged, result.Manifest.Notes)
	}
}
