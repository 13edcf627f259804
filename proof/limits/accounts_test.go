package limits

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// An account is what the I/O of workers consisted of.
type account struct {
	Servers struct {
		Servers []struct{ On string }
		Roles   []struct {
			Role, On string
			IO       int64 `json:"io_ns"`
			Parts    []struct {
				Kind string
				Time int64 `json:"time_ns"`
			}
		}
		Notes []string
	}
}

// parse reads an account from a report, which may follow events.
func parse(t *testing.T, report string) (a account) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(report)); d.More(); {
		a = account{}
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range a.Servers.Roles {
		sum := int64(0)
		for _, p := range r.Parts {
			sum += p.Time
		}
		if sum != r.IO {
			t.Errorf("parts of the %ss add up to %d of %d ns", r.Role, sum, r.IO)
		}
	}
	return a
}

// largest returns where the I/O of a role was, and its largest part apart from some.
func (a account) largest(role string, besides ...string) (on, kind string) {
	for _, r := range a.Servers.Roles {
		if r.Role == role {
			for _, p := range r.Parts {
				if !slices.Contains(besides, p.Kind) {
					return r.On, p.Kind
				}
			}
		}
	}
	return "", ""
}

// slowTable makes a server with a table on a slow disk, as far as it is not in its cache.
func slowTable(t *testing.T, rows int) (s *testdb.Server, db string) {
	t.Helper()
	s = testdb.OwnPostgres(t, 16, small...)
	testdb.Query(t, s.URL("postgres"), "CREATE TABLESPACE slow LOCATION '"+slowly(t, s, 8<<20)+"'")
	db = s.NewDatabase(t, "limits")
	testdb.Query(t, db, fmt.Sprintf("CREATE TABLE t TABLESPACE slow AS SELECT i, md5(i::text) || md5((-i)::text) s FROM generate_series(1, %d) i", rows))
	return s, db
}

// TestBackupsOfSlowFiles: what the workers of a backup of files wait for is named, whether they
// read and write the files themselves or the server sends them.
func TestBackupsOfSlowFiles(t *testing.T) {
	at, ok := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{Stream: 16 << 20})
	if !ok {
		return // without FUSE no disk can be made slow
	}
	syncs, _ := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{Sync: time.Second / 2})
	_, db := slowTable(t, 200_000)
	for _, c := range []struct {
		name, role, on, kind string
		args                 []string
	}{
		{"files that are read here", "Reader", "source", "data reads", []string{t.TempDir(), "--via", "files"}},
		{"files that the server sends", "Receiver", "source", "data reads", []string{t.TempDir(), "--via", "protocol"}},
		{"a server that is held back", "Receiver", "source", "throttling", []string{t.TempDir(), "--via", "protocol", "--max-rate", "4MB"}},
		{"syncs of a repository", "Writer", "repository", "syncs", []string{syncs, "--via", "files"}},
		{"a repository", "Writer", "repository", "data writes", []string{at, "--via", "files", "--compress", "none"}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			testdb.OnClock(t)
			out := testdb.Must(t, append([]string{"backup", db}, c.args...)...)
			a := parse(t, testdb.Must(t, "explain", "last", "--json"))
			if len(a.Servers.Servers) != 1 || a.Servers.Servers[0].On != "source" {
				t.Errorf("counters %+v", a.Servers.Servers)
			}
			// The second receiver, that of the log, waits for more of it.
			if on, kind := a.largest(c.role, "no new log"); on != c.on || kind != c.kind {
				t.Errorf("want %s: %+v\n%s", c.kind, a, out)
			}
		})
	}
}

// TestComparisonsThatAreSlow: what either side of a comparison waits for is named, whether rows are
// read or hashed by the servers; not with --sample=off.
func TestComparisonsThatAreSlow(t *testing.T) {
	if _, ok := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{}); !ok {
		return // without FUSE no disk can be made slow
	}
	_, db := slowTable(t, 200_000)
	near := testdb.Postgres(t, 15).NewDatabase(t, "limits_to")
	testdb.Must(t, "copy", db, near)
	for _, c := range []struct {
		name, role, on string
		args           []string
	}{
		{"hashed on the source", "Source reader", "source", []string{db, near}},
		{"read from the source", "Source reader", "source", []string{db, near, "--read-rows"}},
		{"hashed on the target", "Target reader", "target", []string{near, db}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			testdb.OnClock(t)
			out := testdb.Must(t, append([]string{"diff", "--json"}, c.args...)...)
			a := parse(t, out)
			if on, kind := a.largest(c.role); on != c.on || kind != "data reads" || len(a.Servers.Servers) != 2 {
				t.Errorf("want data reads of the %s: %s", c.role, out)
			}
		})
	}
	if out := testdb.Must(t, "diff", db, near, "--verbose"); !strings.Contains(out, "Source reader I/O") || !strings.Contains(out, "Target reader I/O") {
		t.Errorf("diff --verbose:\n%s", out)
	}
	if out := testdb.Must(t, "diff", db, near, "--json", "--sample=off"); strings.Contains(out, `"servers"`) {
		t.Errorf("with --sample=off: %s", out)
	}
}

// TestQueuesThatAreSlow: the report says whether a durable queue waits for writes or for syncs.
func TestQueuesThatAreSlow(t *testing.T) {
	if _, ok := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{}); !ok {
		return // without FUSE no disk can be made slow
	}
	for _, c := range []struct {
		kind string
		slow testdb.Slow
	}{
		{"data writes", testdb.Slow{Stream: 6 << 20}},
		{"syncs", testdb.Slow{Sync: time.Second / 4}},
	} {
		t.Run(strings.ReplaceAll(c.kind, " ", "_"), func(t *testing.T) {
			testdb.OnClock(t)
			s := testdb.Postgres(t, 15)
			src, dst := table(t, s), s.NewDatabase(t, "limits_to")
			at, _ := testdb.SlowFolder(t, t.TempDir(), c.slow)
			name := testdb.StreamName("limits")
			args := []string{"replicate", src, dst, "--name", name, "--queue", "durable", "--queue-dir", at + "/queue"}
			testdb.Must(t, append(args, "--until", "now")...)
			t.Cleanup(func() { testdb.Run(t, append(args, "--remove")...) })
			for range 20 {
				testdb.Query(t, src, "UPDATE t SET s = repeat(md5(random()::text), 20), n = n + 1")
			}
			out := testdb.Must(t, append(args, "--until", "now")...)
			a := parse(t, testdb.Must(t, "explain", name, "--json"))
			if on, kind := a.largest("Queue"); on != "queue" || kind != c.kind {
				t.Errorf("want %s: %+v\n%s", c.kind, a, out)
			}
		})
	}
}

// TestWaitsMayBeForbidden: a backup by a user who may not see sessions names what to grant, and
// continues.
func TestWaitsMayBeForbidden(t *testing.T) {
	s := testdb.OwnPostgres(t, 16)
	db := s.NewDatabase(t, "limits")
	testdb.Query(t, db, "CREATE TABLE t AS SELECT i, md5(i::text) s FROM generate_series(1, 300000) i; CREATE ROLE poor LOGIN REPLICATION PASSWORD 's3cret-p'; REVOKE SELECT ON pg_stat_activity FROM PUBLIC")
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("poor", "s3cret-p")
	out := testdb.Must(t, "backup", u.String(), t.TempDir(), "--via", "protocol", "--max-rate", "10MB")
	if !strings.Contains(out, "GRANT SELECT ON pg_stat_activity TO ") || !strings.Contains(out, "Receiver I/O") {
		t.Error(out)
	}
}
