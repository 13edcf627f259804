package limits

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// manyTransactions is a procedure that changes a row in many transactions.
const manyTransactions = `CREATE PROCEDURE busy(rounds int) LANGUAGE plpgsql AS $$ BEGIN
	SET synchronous_commit = off;
	FOR i IN 1..rounds LOOP UPDATE t SET n = n + 1 WHERE id = 1; COMMIT; END LOOP; END $$`

// A stress is a stream in which one thing is slow.
type stress struct {
	name string
	args []string
	// make returns the ends of the stream, and what is done to it: first while nothing runs, then
	// beside the stream.
	make func(t *testing.T) (src, dst string, before, beside func())
	rule string // the first of the reasons
	disk bool   // it needs a slow file system
}

func table(t *testing.T, s *testdb.Server) string {
	t.Helper()
	db := s.NewDatabase(t, "limits")
	testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, s text)")
	testdb.Query(t, db, "INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i")
	testdb.Query(t, db, manyTransactions)
	return db
}

// change runs a statement beside the test.
func change(t *testing.T, db, sql string) {
	if _, err := testdb.TryQuery(db, sql); err != nil {
		t.Error(err)
	}
}

var stresses = []stress{
	{"a hot row", []string{"--apply-mode", "transactional"}, func(t *testing.T) (string, string, func(), func()) {
		s := testdb.Postgres(t, 15)
		src := table(t, s)
		return src, s.NewDatabase(t, "limits_to"), nil, func() { change(t, src, "CALL busy(150000)") }
	}, "hot-row", false},
	{"spilled memory", []string{"--capture-memory", "100kB"}, func(t *testing.T) (string, string, func(), func()) {
		s := testdb.OwnPostgres(t, 15, "-c", "logical_decoding_work_mem=64kB")
		src := table(t, s)
		return src, testdb.Postgres(t, 15).NewDatabase(t, "limits_to"), nil, func() {
			for range 4 {
				change(t, src, "UPDATE t SET s = repeat(md5(n::text), 20), n = n + 1")
			}
		}
	}, "spilled", false},
	{"the source's log", nil, func(t *testing.T) (string, string, func(), func()) {
		s := testdb.OwnPostgres(t, 15, "-c", "max_wal_size=4GB", "-c", "checkpoint_timeout=1h", "-c", "full_page_writes=off")
		at := slowly(t, s, 4<<20) // before the database, which is dropped before it ends
		src := table(t, s)
		return src, testdb.Postgres(t, 15).NewDatabase(t, "limits_to"), func() {
			// Log of changes that the stream does not want, and at its end one that it does.
			testdb.Query(t, src, "CREATE TABLE other (s text); INSERT INTO other SELECT repeat(md5(i::text), 30) FROM generate_series(1, 60000) i; DROP TABLE other")
			testdb.Query(t, src, "UPDATE t SET n = n + 1")
			s.Offline(t, func() { moveLog(t, s, at) })
		}, func() {}
	}, "source-reads", true},
}

// moveLog moves a server's log to another folder.
func moveLog(t *testing.T, s *testdb.Server, at string) {
	t.Helper()
	wal := filepath.Join(s.Dir, "pg_wal")
	if out, err := exec.Command("cp", "-a", wal+"/.", at).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.RemoveAll(wal); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at, wal); err != nil {
		t.Fatal(err)
	}
}

// TestStreamsThatAreSlow: while a stream runs, the first reason is the true one.
func TestStreamsThatAreSlow(t *testing.T) {
	for _, i := range testdb.Draw(t, len(stresses), 1) {
		x := stresses[i]
		if _, ok := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{}); !ok && x.disk {
			continue // without FUSE no disk can be made slow
		}
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			testdb.OnClock(t)
			src, dst, before, beside := x.make(t)
			name := testdb.StreamName("limits")
			args := append([]string{"replicate", src, dst, "--name", name, "--monitor-interval", "1s"}, x.args...)
			testdb.Must(t, append(args, "--until", "now")...)
			t.Cleanup(func() { testdb.Run(t, "replicate", src, dst, "--name", name, "--remove") })
			if before != nil {
				before()
			}
			stream := testdb.Command(t, args...)
			if err := stream.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = stream.Process.Kill()
				_ = stream.Wait() // it was killed
			}()
			done := make(chan struct{})
			go func() { defer close(done); beside() }()
			defer func() { <-done }()
			var rule, last string
			for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
				o := testdb.Run(t, "explain", name, "--json")
				var r struct{ Reasons []struct{ Rule string } }
				if o.Code == 0 && json.Unmarshal([]byte(o.Out), &r) == nil && len(r.Reasons) > 0 {
					if rule, last = r.Reasons[0].Rule, o.Out; rule == x.rule || slices.ContainsFunc(r.Reasons, func(y struct{ Rule string }) bool { return y.Rule == x.rule && x.rule == "spilled" }) { // a hot row may come of the same load
						return
					}
				}
			}
			t.Errorf("want %s, got %q: %s", x.rule, rule, last)
		})
	}
}

// TestBackupsThatAreSlow: what limits a backup is named.
func TestBackupsThatAreSlow(t *testing.T) {
	if _, ok := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{}); !ok {
		return // without FUSE no disk can be made slow
	}
	slow := func(t *testing.T, rate int64) string {
		at, _ := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{Stream: rate})
		return at
	}
	text := "CREATE TABLE t AS SELECT i, md5(i::text) || md5((-i)::text) s FROM generate_series(1, %d) i"
	cases := []struct {
		name  string
		limit string
		args  func(t *testing.T) []string
	}{
		{"a slow store", "Target bound", func(t *testing.T) []string {
			db := testdb.Postgres(t, 15).NewDatabase(t, "limits")
			testdb.Query(t, db, fmt.Sprintf(text, 200_000))
			return []string{db, slow(t, 4<<20), "--logical", "--parallelism", "1", "--compress", "zstd:1"}
		}},
		{"compression", "Compression bound", func(t *testing.T) []string {
			db := testdb.Postgres(t, 15).NewDatabase(t, "limits")
			testdb.Query(t, db, fmt.Sprintf(text, 300_000))
			return []string{db, t.TempDir(), "--logical", "--parallelism", "1", "--compress", "zstd:19"}
		}},
		{"few buffers", "Too few buffers limit", func(t *testing.T) []string {
			s := testdb.OwnPostgres(t, 15)
			testdb.Query(t, s.URL("postgres"), "CREATE TABLESPACE slow LOCATION '"+slowly(t, s, 4<<20)+"'") // half of the files, at half of the rate
			db := s.NewDatabase(t, "limits")
			testdb.Query(t, db, strings.Replace(fmt.Sprintf(text, 250_000), " AS ", " TABLESPACE slow AS ", 1))
			return []string{db, slow(t, 8<<20), "--compress", "none", "--parallelism", "1", "--sessions", "1", "--buffers", "1"}
		}},
	}
	for _, i := range testdb.Draw(t, len(cases), 1) {
		c := cases[i]
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			testdb.OnClock(t)
			out := testdb.Must(t, append([]string{"backup"}, c.args(t)...)...)
			var r struct{ Limit string }
			if err := json.Unmarshal([]byte(testdb.Must(t, "explain", "last", "--json")), &r); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(r.Limit, c.limit) {
				t.Errorf("want %s, got %s\n%s", c.limit, r.Limit, out)
			}
		})
	}
}
