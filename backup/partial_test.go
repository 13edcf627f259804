package backup_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// besideSQL fills a database that is left out later. Its rows are on disk, and VACUUM will only
// mark them as visible to all: without checksums, the log has that without the page.
const besideSQL = `CREATE TABLE beside (n int, filler text) WITH (autovacuum_enabled = off); INSERT INTO beside SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g;
	CREATE TABLE far TABLESPACE elsewhere AS SELECT * FROM beside; CREATE INDEX ON beside (n); SELECT count(*) FROM beside`

// lateVacuum marks these rows just before the backup ends.
type lateVacuum struct {
	*physical.Backup
	url string
}

func (v lateVacuum) End(ctx context.Context) (*tidemark.DataEnd, error) {
	for _, statement := range []string{"VACUUM beside", "INSERT INTO far SELECT 0, 'more'; DELETE FROM beside WHERE n % 1000 = 0"} {
		if _, err := testdb.TryQuery(v.url, statement); err != nil {
			return nil, err
		}
	}
	return v.Backup.End(ctx)
}

// restorePart restores some databases into a new folder.
func restorePart(t *testing.T, s *testdb.Server, r *repo.Repo, m *repo.Manifest, spaces map[string]string, names ...string) (dir string, left []string) {
	t.Helper()
	part, err := physical.PartOf(m.Databases, names)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(s.TempDir(t), "data")
	x, err := backup.NewRestore(r, m, backup.RestoreOptions{Dir: dir, Spaces: spaces, Leave: part.Leaves, Manifest: manifestOf,
		Finish: func(_ context.Context, dir string) error { return part.Write(dir) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := x.Status(); now.Total+x.Left() > m.Bytes || x.Left() < 20<<20 || now.Done != now.Total {
		t.Errorf("of %d bytes %d were left out, and of the others %d of %d moved", m.Bytes, x.Left(), now.Done, now.Total)
	}
	return dir, part.Left
}

// checkPart starts a server on a restore without the database beside, and checks that the other
// database is complete, and that this one can only be dropped.
func checkPart(t *testing.T, s *testdb.Server, r *repo.Repo, m *repo.Manifest, space, url, beside string, major int) {
	t.Helper()
	name := func(url string) string {
		name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '/')+1:], "?")
		return name
	}
	dir, left := restorePart(t, s, r, m, map[string]string{space: s.TempDir(t)}, name(url))
	if !slices.Equal(left, []string{name(beside)}) {
		t.Errorf("left out are %q", left)
	}
	if major == 15 {
		verify(t, s, dir)
	}
	var blocks int64
	folders, err := filepath.Glob(filepath.Join(dir, "base", fmt.Sprint(oidOf(m, name(beside)))))
	if more, _ := filepath.Glob(filepath.Join(dir, "pg_tblspc", "*", "*", fmt.Sprint(oidOf(m, name(beside))))); err != nil || len(folders) != 1 || len(more) != 1 {
		t.Fatalf("folders of it: %q %q %v", folders, more, err)
	} else {
		folders = append(folders, more...)
	}
	for _, folder := range folders {
		out, err := exec.Command("du", "-s", "-B1", folder).Output()
		n, _, _ := strings.Cut(string(out), "\t")
		used, err2 := strconv.ParseInt(n, 10, 64)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		blocks += used
	}
	if blocks > 1<<20 {
		t.Errorf("what was left out takes %d bytes of the disk", blocks)
	}
	copied := s.Beside(t, dir)
	at := strings.Replace(url, fmt.Sprint(":", s.Port, "/"), fmt.Sprint(":", copied.Port, "/"), 1)
	checkCopy(t, at, major)
	log, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if major == 13 && !strings.Contains(string(log), "contains references to invalid pages") { // otherwise nothing shows that the setting has an effect
		t.Errorf("the log speaks of no pages that were left out:\n%s", log)
	}
	gone := strings.Replace(beside, fmt.Sprint(":", s.Port, "/"), fmt.Sprint(":", copied.Port, "/"), 1)
	if got, err := testdb.TryQuery(gone, "SELECT count(*) FROM beside"); err == nil {
		t.Errorf("the database that was left out gives %s", got)
	}
	for _, statement := range []string{"DROP DATABASE " + name(beside), "ALTER SYSTEM RESET ignore_invalid_pages", "CREATE DATABASE " + name(beside)} {
		testdb.Query(t, at, statement)
	}
	testdb.Query(t, gone, "CREATE TABLE beside AS SELECT 1")
	copied.Kill(t)
	copied.Restart(t)
	checkCopy(t, at, major)
	if got := testdb.Query(t, at, "SHOW ignore_invalid_pages"); got != "off" {
		t.Errorf("ignore_invalid_pages is %s", got)
	}
}

func oidOf(m *repo.Manifest, name string) uint32 {
	for _, d := range m.Databases {
		if d.Name == name {
			return d.OID
		}
	}
	return 0
}
