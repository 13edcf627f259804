package backup_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/physical"
	"github.com/tidemarkdb/tidemark/store"
)

// newRepo makes a repository in a folder.
func newRepo(t *testing.T) *repo.Repo {
	t.Helper()
	return newRepoIn(t, t.TempDir())
}

func newRepoIn(t *testing.T, dir string) *repo.Repo {
	t.Helper()
	place, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { place.Close() })
	r, err := repo.Create(t.Context(), place, repo.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// backUp backs up a server.
func backUp(ctx context.Context, t *testing.T, s *testdb.Server, r *repo.Repo, opt backup.Options) (*backup.Result, error) {
	t.Helper()
	e, err := postgres.Open(ctx, s.URL("postgres"), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	src := e.Backup(physical.BackupOptions{Label: "a test's"})
	defer src.Close()
	return backUpFrom(ctx, t, src, r, opt)
}

func backUpFrom(ctx context.Context, t *testing.T, src backup.Server, r *repo.Repo, opt backup.Options) (*backup.Result, error) {
	t.Helper()
	job, err := backup.New(src, r, opt)
	if err != nil {
		t.Fatal(err)
	}
	out, err := job.Run(ctx)
	if now := job.Status(); err == nil && now.Percent != 100 {
		t.Errorf("at its end %+v", now)
	}
	return out, err
}

// restore restores the backup into a new folder.
func restore(t *testing.T, s *testdb.Server, r *repo.Repo, m *repo.Manifest, spaces map[string]string) string {
	t.Helper()
	dir := filepath.Join(s.TempDir(t), "data")
	x, err := backup.NewRestore(r, m, backup.RestoreOptions{Dir: dir, Spaces: spaces})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("restore:\n%s", x.Report())
	return dir
}

// A load runs while a backup is made. Each transaction adds 1 to a row of account and records that
// in journal, so that at every log position an account has as much as the journal records.
type load struct {
	stop context.CancelFunc
	wg   sync.WaitGroup
}

const loadSQL = `
	CREATE EXTENSION amcheck;
	CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, filler text NOT NULL) WITH (fillfactor = 70);
	INSERT INTO account SELECT g, 0, repeat('x', 200) FROM generate_series(1, 20000) g;
	CREATE INDEX ON account (n);
	CREATE TABLE journal (n serial PRIMARY KEY, account int NOT NULL);
	CREATE TABLE large AS SELECT g AS id, md5(g::text) AS text FROM generate_series(1, 100000) g;
	CREATE INDEX ON large (text);
	CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
	INSERT INTO unlogged SELECT generate_series(1, 1000);
	CREATE SEQUENCE rounds`

func startLoad(t *testing.T, url string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stop: cancel}
	run := func(statement func(n int) string) {
		l.wg.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				if _, err := testdb.TryQuery(url, statement(n)); err != nil && ctx.Err() == nil {
					t.Errorf("load: %v", err)
					return
				}
			}
		})
	}
	run(func(n int) string {
		var b strings.Builder
		for i := range 20 {
			id := (n*20+i)*7919%20000 + 1
			fmt.Fprintf(&b, "BEGIN; UPDATE account SET n = n + 1 WHERE id = %d; INSERT INTO journal (account) VALUES (%d); COMMIT;", id, id)
		}
		return b.String() + "SELECT nextval('rounds')"
	})
	run(func(n int) string { // files that are created, grow, are truncated and removed
		return fmt.Sprintf(`CREATE TABLE passing_%[1]d AS SELECT g, repeat('y', 100) FROM generate_series(1, 20000) g;
			TRUNCATE passing_%[1]d; INSERT INTO passing_%[1]d SELECT g, 'z' FROM generate_series(1, 100) g; DROP TABLE passing_%[1]d;
			CREATE TEMP TABLE t AS SELECT generate_series(1, 1000); DROP TABLE t; CHECKPOINT`, n)
	})
	t.Cleanup(l.end)
	for deadline := time.Now().Add(5 * time.Minute); testdb.Query(t, url, "SELECT last_value > 2 FROM rounds") != "t"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the load does not get going")
		}
	}
	return l
}

func (l *load) end() { l.stop(); l.wg.Wait() }

// checkCopy checks that a restored server equals the original at some moment.
func checkCopy(t *testing.T, url string, major int) {
	t.Helper()
	testdb.Query(t, url, `SELECT bt_index_check(i.indexrelid, i.indrelid >= 16384) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisvalid`)
	if major >= 14 {
		if bad := testdb.Query(t, url, `SELECT c.oid::regclass, v.* FROM pg_class c, verify_heapam(c.oid) v WHERE c.relkind IN ('r', 't', 'm') AND c.relpersistence = 'p'`); bad != "" {
			t.Errorf("amcheck finds:\n%s", bad)
		}
	}
	if bad := testdb.Query(t, url, `SELECT id, n, (SELECT count(*) FROM journal WHERE account = id) FROM account
		WHERE n <> (SELECT count(*) FROM journal WHERE account = id) LIMIT 5`); bad != "" {
		t.Errorf("accounts that are not as the journal says:\n%s", bad)
	}
	if got := testdb.Query(t, url, "SELECT count(*), count(DISTINCT id), bool_and(text = md5(id::text)), (SELECT count(*) FROM unlogged) FROM large"); got != "100000\t100000\tt\t0" {
		t.Errorf("large and unlogged: %s", got)
	}
}

func TestBackupOfABusyServer(t *testing.T) {
	for _, major := range []int{13, 15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			s := testdb.OwnPostgres(t, major, "-c", "allow_in_place_tablespaces=on")
			if major == 15 {
				s.Offline(t, func() {
					if _, err := s.Tool(t, "pg_checksums", "--enable", "--no-sync", "-D", s.Dir); err != nil {
						t.Fatal(err)
					}
				})
			}
			url := s.NewDatabase(t, "busy")
			testdb.Query(t, url, loadSQL)
			space := s.TempDir(t)
			testdb.Query(t, url, "CREATE TABLESPACE elsewhere LOCATION '"+space+"'")
			testdb.Query(t, url, "CREATE TABLE spaced TABLESPACE elsewhere AS SELECT generate_series(1, 5000) AS id")
			beside := s.NewDatabase(t, "beside")
			testdb.Query(t, beside, besideSQL)
			testdb.Query(t, url, "CREATE TABLESPACE inside LOCATION ''") // in the data folder
			testdb.Query(t, url, "CREATE TABLE spaced_inside TABLESPACE inside AS SELECT generate_series(1, 4000) AS id")
			l := startLoad(t, url)
			r := newRepo(t)
			codec, err := repo.ParseCodec("zstd:1")
			if err != nil {
				t.Fatal(err)
			}
			before := testdb.Query(t, url, "SELECT count(*) FROM journal")
			e, err := postgres.Open(t.Context(), s.URL("postgres"), postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			src := e.Backup(physical.BackupOptions{})
			defer src.Close()
			result, err := backUpFrom(t.Context(), t, lateVacuum{src, beside}, r, backup.Options{Codec: codec, Parallelism: 3})
			if err != nil {
				t.Fatal(err)
			}
			l.end()
			t.Logf("%d files gone, findings %v\n%s", result.GoneN, result.Findings, result.Report)
			checkTimes(t, result.Report)
			if hasWarning(result.Findings, "checksums are off") != (major == 13) {
				t.Errorf("findings: %v", result.Findings)
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
			if link, err := os.Readlink(filepath.Join(dir, "pg_tblspc", testdb.Query(t, at, "SELECT oid FROM pg_tablespace WHERE spcname = 'elsewhere'"))); link != other {
				t.Errorf("the tablespace is at %s, %v", link, err)
			}
			if got := testdb.Query(t, at, "SELECT count(*) >= "+before+" FROM journal"); got != "t" {
				t.Errorf("it has less than the %s transactions that were committed before the backup", before)
			}
			if major < 18 {
				checkPart(t, s, r, result.Manifest, space, url, beside, major)
			}
		})
	}
}

// verify checks a restored folder with PostgreSQL's own program.
func verify(t *testing.T, s *testdb.Server, dir string) {
	t.Helper()
	if out, err := s.Tool(t, "pg_verifybackup", dir); err != nil {
		t.Errorf("pg_verifybackup: %v\n%s", err, out)
	}
}

func hasWarning(findings []tidemark.Finding, text string) bool {
	for _, f := range findings {
		if strings.Contains(f.Text, text) {
			return true
		}
	}
	return false
}

// checkTimes checks that the lines of the table add up, and returns how far a role is from the
// time of the phases: its worker that differs least, since load on the machine may delay the
// start of one.
func checkTimes(t *testing.T, r backup.Report) (off, wall time.Duration) {
	t.Helper()
	for _, p := range r.Phases {
		if p.Name == "copy" || p.Name == "end" || p.Name == "log" {
			wall += p.Took
		}
	}
	for _, role := range r.Workers.Roles {
		least := wall
		for n, w := range role.Workers {
			if sum := w.IO + w.Working + w.WaitBuffer + w.WaitWork; sum != w.Total {
				t.Errorf("%s %d: its times come to %v of %v", role.Name, n, sum, w.Total)
			}
			least = min(least, (w.Total - wall).Abs())
		}
		off = max(off, least)
	}
	return off, wall
}

// checkLeftOut checks that files that belong in no backup are absent.
func checkLeftOut(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"postmaster.pid", "postmaster.opts", "tablespace_map", "recovery.signal", "standby.signal"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is in the backup: %v", name, err)
		}
	}
	for _, name := range []string{"pg_replslot", "pg_dynshmem", "pg_notify", "pg_subtrans", "pg_stat_tmp", "pg_wal/archive_status"} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil || len(entries) > 0 {
			t.Errorf("%s has %d entries: %v", name, len(entries), err)
		}
	}
	err := filepath.Walk(filepath.Join(dir, "base"), func(path string, info os.FileInfo, err error) error {
		if base := filepath.Base(path); strings.HasPrefix(base, "t") || strings.HasPrefix(base, "pg_internal.init") || strings.HasPrefix(base, "pgsql_tmp") {
			t.Errorf("%s is in the backup", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	inits, err := filepath.Glob(filepath.Join(dir, "base", "*", "*_init"))
	if err != nil || len(inits) == 0 {
		t.Errorf("no init fork of an unlogged table is there: %v", err)
	}
	for _, init := range inits {
		if _, err := os.Stat(strings.TrimSuffix(init, "_init")); !os.IsNotExist(err) {
			t.Errorf("the rows of %s are in the backup: %v", init, err)
		}
	}
}
