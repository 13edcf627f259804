// Package limits makes one thing slow at a time, and looks whether the program names it.
package limits

import (
	"encoding/json"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// small is the options of a server with so little cache that tables come from the disk.
var small = []string{"-c", "shared_buffers=1MB", "-c", "max_wal_size=4GB", "-c", "checkpoint_timeout=1h", "-c", "bgwriter_lru_maxpages=0", "-c", "autovacuum=off"}

// A bottleneck is a copy of a table with an index in which one thing is slow.
type bottleneck struct {
	name string
	rows int
	// slow returns the URLs of source and target, and further options.
	slow func(t *testing.T, rows int) (from, to string, args []string)
	rule string // the first of the reasons, or several
	role string // whose I/O it is
	kind string // the largest part of that I/O, or several
	disk bool   // it needs a slow file system
}

// fill makes the table on a server.
func fill(t *testing.T, s *testdb.Server, rows int, in string) string {
	t.Helper()
	db := s.NewDatabase(t, "limits")
	testdb.Query(t, db, "CREATE TABLE t (id int, s text, n int)"+in)
	testdb.Query(t, db, fmt.Sprintf("INSERT INTO t SELECT i, repeat(md5(i::text), 6), i %% 1000 FROM generate_series(1, %d) i", rows))
	testdb.Query(t, db, "CREATE INDEX ts ON t (s)")
	return db
}

// slowly mounts a new folder of a server at a path on a slow file system.
func slowly(t *testing.T, s *testdb.Server, rate int64) string {
	t.Helper()
	at, ok := testdb.SlowFolder(t, s.TempDir(t), testdb.Slow{Stream: rate})
	if !ok {
		t.Fatal("TestBottlenecks has found FUSE, and there is none")
	}
	return at
}

var bottlenecks = []bottleneck{
	{"the link to the target", 30_000, func(t *testing.T, rows int) (string, string, []string) {
		s := testdb.Postgres(t, 15)
		u, err := url.Parse(s.NewDatabase(t, "limits_to"))
		if err != nil {
			t.Fatal(err)
		}
		u.Host = "127.0.0.1:" + testdb.SlowWire(t, u.Port(), 3<<20)
		return fill(t, s, rows, ""), u.String(), nil
	}, "network", "Writer", "network", false},
	{"the target's log", 30_000, func(t *testing.T, rows int) (string, string, []string) {
		to := testdb.OwnPostgres(t, 15, "-c", "max_wal_size=4GB", "-c", "checkpoint_timeout=1h")
		to.Offline(t, func() {
			moveLog(t, to, slowly(t, to, 4<<20))
		})
		return fill(t, testdb.Postgres(t, 15), rows, ""), to.NewDatabase(t, "limits_to"), nil
	}, "log-syncs", "Writer", "log writes, log syncs", true},
	{"the source's disk", 30_000, func(t *testing.T, rows int) (string, string, []string) {
		from := testdb.OwnPostgres(t, 15, small...)
		testdb.Query(t, from.URL("postgres"), "CREATE TABLESPACE slow LOCATION '"+slowly(t, from, 6<<20)+"'")
		db := fill(t, from, rows, "")
		testdb.Query(t, db, "ALTER TABLE t SET TABLESPACE slow")
		return db, testdb.Postgres(t, 15).NewDatabase(t, "limits_to"), nil
	}, "data-reads", "Reader", "data reads", true},
	{"the target's disk", 30_000, func(t *testing.T, rows int) (string, string, []string) {
		to := testdb.OwnPostgres(t, 15, small...)
		testdb.Query(t, to.URL("postgres"), "CREATE TABLESPACE slow LOCATION '"+slowly(t, to, 4<<20)+"'")
		db := to.NewDatabase(t, "limits_to")
		testdb.Query(t, db, "CREATE TABLE t (id int, s text, n int) TABLESPACE slow")
		return fill(t, testdb.Postgres(t, 15), rows, ""), db, []string{"--prep", "keep"}
	}, "data-writes data-reads", "Writer", "data writes", true}, // ANALYZE reads as slowly as COPY writes
	{"sorting on disk", 60_000, func(t *testing.T, rows int) (string, string, []string) {
		to := testdb.OwnPostgres(t, 15, "-c", "temp_tablespaces=slow", "-c", "max_wal_size=4GB")
		testdb.Query(t, to.URL("postgres"), "CREATE TABLESPACE slow LOCATION '"+slowly(t, to, 8<<20)+"'")
		return fill(t, testdb.Postgres(t, 15), rows, ""), to.NewDatabase(t, "limits_to"), []string{"--index-memory", "1MB", "--index-workers", "0"}
	}, "temporary-io", "Finisher", "temporary I/O", true},
	{"processors", 300_000, func(t *testing.T, rows int) (string, string, []string) {
		s := testdb.Postgres(t, 15)
		db := fill(t, s, rows, "")
		stop := make(chan struct{})
		t.Cleanup(func() { close(stop) })
		for range 4 * runtime.NumCPU() {
			go func() {
				for n := 0; ; n++ {
					if n%1_000_000 == 0 {
						select {
						case <-stop:
							return
						default:
						}
					}
				}
			}()
		}
		return db, s.NewDatabase(t, "limits_to"), nil
	}, "processors-full", "", "", false},
}

// TestBottlenecks: the first reason is the true one, with the server's own words for it.
func TestBottlenecks(t *testing.T) {
	for _, i := range testdb.Draw(t, len(bottlenecks), 2) {
		b := bottlenecks[i]
		if _, ok := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{}); !ok && b.disk {
			continue // without FUSE no disk can be made slow
		}
		t.Run(strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) {
			testdb.OnClock(t)
			from, to, args := b.slow(t, b.rows)
			out := testdb.Must(t, append([]string{"copy", from, to, "--lanes", "1"}, args...)...)
			var x struct {
				Limit   string
				Reasons []struct {
					Rule     string
					Evidence []string
				}
				Servers struct {
					Roles []struct {
						Role  string
						Parts []struct {
							Kind string
							Time int64 `json:"time_ns"`
						}
					}
				}
			}
			if err := json.Unmarshal([]byte(testdb.Must(t, "explain", "last", "--json")), &x); err != nil {
				t.Fatal(err)
			}
			if len(x.Reasons) == 0 || !strings.Contains(b.rule, x.Reasons[0].Rule) {
				t.Errorf("want %s first, got %+v\n%s", b.rule, x.Reasons, out)
			}
			for _, r := range x.Servers.Roles {
				if r.Role == b.role && !strings.Contains(b.kind, r.Parts[0].Kind) {
					t.Errorf("most of the %ss' I/O is %s, want %s: %+v\n%s", r.Role, r.Parts[0].Kind, b.kind, r.Parts, out)
				}
			}
		})
	}
}
