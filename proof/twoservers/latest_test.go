// Package twoservers proves that backups of two servers in one repository are never mixed up.
package twoservers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A pair is two servers and the repository with backups of both.
type pair struct {
	one, two       *testdb.Server
	urlOne, urlTwo string
	repo           string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{one: testdb.OwnPostgresSegments(t, 15, 1), two: testdb.OwnPostgresSegments(t, 16, 1)} // with equal versions they would be copies with the same identifier
	p.urlOne, p.urlTwo = p.one.URL("postgres"), p.two.URL("postgres")
	p.repo = filepath.Join(p.one.TempDir(t), "repo")
	return p
}

// refused runs a command line that must end with code, and whose output must contain says.
func refused(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	o := testdb.Run(t, args...)
	if o.Code != code || !strings.Contains(o.ErrOut, says) {
		t.Errorf("tidemark %q: exit %d, want %d and %q\n%s%s", args, o.Code, code, says, o.ErrOut, o.Out)
	}
}

var idLine = regexp.MustCompile(`backup (\d{8}-\d{6}-[0-9a-f]{8}) `)

func backedUp(t *testing.T, args ...string) string {
	t.Helper()
	out := testdb.Must(t, append(append([]string{"backup"}, args...), "--progress", "none")...)
	found := idLine.FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no id in\n%s", out)
	}
	return found[1]
}

func system(t *testing.T, url string) string {
	t.Helper()
	return testdb.Query(t, url, "SELECT system_identifier FROM pg_control_system()")
}

// restoredSystem restores into a folder and reads from pg_controldata which server the data belongs
// to.
func (p *pair) restoredSystem(t *testing.T, args ...string) string {
	t.Helper()
	dir := filepath.Join(p.one.TempDir(t), "data")
	testdb.Must(t, append([]string{"restore", p.repo, "latest", dir, "--progress", "none"}, args...)...)
	out, err := p.one.Tool(t, "pg_controldata", dir)
	found := regexp.MustCompile(`system identifier: +(\d+)`).FindStringSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("pg_controldata: %v\n%s", err, out)
	}
	return found[1]
}

func TestLatestNeverCrossesServers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	one, two := system(t, p.urlOne), system(t, p.urlTwo)
	if one == two {
		t.Fatal("both servers have one system identifier")
	}
	backedUp(t, p.urlOne, p.repo)
	refused(t, 13, "it has backups of another server", "backup", p.urlTwo, p.repo)
	refused(t, 13, "it has backups of another server", "backup", p.urlTwo, p.repo, "--via", "protocol")
	refused(t, 13, "it has backups of another server", "backup", p.urlTwo, p.repo, "--incremental")
	refused(t, 2, "another server", "archive", p.urlTwo, p.repo, "--slot", "s", "--slot-use", "make")
	if n := testdb.Query(t, p.urlTwo, "SELECT count(*) FROM pg_replication_slots"); n != "0" {
		t.Errorf("a refused archive has left %s slots", n)
	}
	if got := p.restoredSystem(t); got != one {
		t.Errorf("latest is of %s, and the only backup of %s", got, one)
	}
	named := backedUp(t, p.urlTwo, p.repo, "--server", "two")
	refused(t, 13, "the repository has another server of that name", "backup", p.urlOne, p.repo, "--server", "two")
	second := backedUp(t, p.urlTwo, p.repo) // the repository knows it by now
	delta := testdb.Must(t, "backup", p.urlTwo, p.repo, "--delta", "--progress", "none")
	if !strings.Contains(delta, "incremental on "+second) || !strings.Contains(delta, " of two (") {
		t.Errorf("got\n%s\nof %s and %s", delta, named, second)
	}
	backedUp(t, p.urlOne, p.repo)

	data := filepath.Join(p.one.TempDir(t), "data")
	for _, args := range [][]string{
		{"restore", p.repo, data}, {"restore", p.repo, "latest", data}, {"restore", p.repo, data, "--to", "end"},
		{"restore", p.repo, data, "--to", "immediate"}, {"restore", p.repo, data, "--to", time.Now().Add(time.Hour).Format(time.RFC3339)},
		{"restore", p.repo, data, "--standby", "postgres://x@h:1/"}, {"restore", p.repo, data, "--database", "postgres"},
		{"verify", p.repo, "latest"}, {"verify", p.repo, "--restore-and-start"}, {"backups", p.repo, "--pin", "latest"},
	} {
		refused(t, 2, "there are backups of 2 servers", args...)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("a refused restore has made its folder: %v", err)
	}
	for server, want := range map[string]string{"two": two, two: two, one: one, "127.0.0.1:1": ""} {
		if want == "" {
			refused(t, 6, "there is no such backup", "restore", p.repo, data, "--server", server)
		} else if got := p.restoredSystem(t, "--server", server); got != want {
			t.Errorf("--server %s brings %s and not %s", server, got, want)
		}
	}
	out := testdb.Must(t, "verify", p.repo, "latest", "--server", "two")
	if !strings.Contains(out, "no faults") {
		t.Error(out)
	}
	list := testdb.Must(t, "backups", p.repo)
	for _, want := range []string{one, two, "two ("} {
		if !strings.Contains(list, want) {
			t.Errorf("backups does not name %s:\n%s", want, list)
		}
	}
}

// The archived log of one server is not used for points in time of the other.
func TestArchiveNeverCrossesServers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	segment := func(s *testdb.Server, url string) string {
		name := testdb.Query(t, url, "SELECT pg_walfile_name(pg_current_wal_lsn())")
		testdb.Query(t, url, "SELECT pg_switch_wal()")
		return filepath.Join(s.Dir, "pg_wal", name)
	}
	push := func(s *testdb.Server, url string) []string {
		return []string{"archive", "push", p.repo, segment(s, url)}
	}
	backedUp(t, p.urlOne, p.repo)
	refused(t, 13, "the repository has backups of", push(p.two, p.urlTwo)...)
	testdb.Must(t, push(p.one, p.urlOne)...)
	backedUp(t, p.urlTwo, p.repo, "--server", "two")
	refused(t, 13, "the archive belongs to one with", push(p.two, p.urlTwo)...)
	data := filepath.Join(p.one.TempDir(t), "data")
	refused(t, 6, "it is of the server with the system identifier", "restore", p.repo, data, "--server", "two", "--to", "end")
	refused(t, 6, "it is of the server with the system identifier", "restore", p.repo, data, "--server", "two", "--to", "0/F0000000")
	standby := p.restoredStandby(t)
	if strings.Contains(standby, "archive") {
		t.Errorf("a standby of the second server is to fetch the first one's log:\n%s", standby)
	}

	// An archive alone also identifies the repository's owner.
	p.repo += "-archive"
	testdb.Query(t, p.urlOne, "CREATE TABLE IF NOT EXISTS logical (id int PRIMARY KEY)")
	testdb.Must(t, "backup", p.urlOne, p.repo, "--logical", "--progress", "none")
	testdb.Must(t, push(p.one, p.urlOne)...)
	refused(t, 13, "it has the log of another server", "backup", p.urlTwo, p.repo)
	backedUp(t, p.urlOne, p.repo)
}

// restoredStandby restores the second server's backup as a standby, and returns its settings.
func (p *pair) restoredStandby(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(p.one.TempDir(t), "data")
	testdb.Must(t, "restore", p.repo, dir, "--server", "two", "--standby", "postgres://x@h:1/", "--progress", "none")
	text, err := os.ReadFile(filepath.Join(dir, "postgresql.auto.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// For logical backups, latest crosses neither servers nor databases, and means those of the
// target's kind of server.
func TestLatestNeverCrossesDatabases(t *testing.T) {
	t.Parallel()
	pg, maria := testdb.Postgres(t, 15), testdb.MariaDB(t)
	repo := filepath.Join(t.TempDir(), "repo")
	urls := map[string]string{}
	for _, n := range []string{"a", "b"} {
		urls[n] = pg.NewDatabase(t, "latest_"+n)
		testdb.Query(t, urls[n], "CREATE TABLE whose AS SELECT '"+n+"'::text AS v")
		testdb.Must(t, "backup", urls[n], repo, "--logical", "--progress", "none")
	}
	to := func() string { return pg.NewDatabase(t, "latest_to") }
	refused(t, 2, "there are backups of several databases", "restore", repo, to())
	for n, url := range urls {
		name, target := testdb.Query(t, url, "SELECT current_database()"), to()
		o := testdb.Run(t, "restore", repo, target, "--database", name, "--progress", "none")
		if got := testdb.Query(t, target, "SELECT v FROM whose"); o.Code != 0 || got != n || !strings.Contains(o.ErrOut, "/"+name) {
			t.Errorf("--database %s brings %s: exit %d\n%s%s", name, got, o.Code, o.Out, o.ErrOut)
		}
	}
	m := maria.NewDatabase(t, "latest_m")
	testdb.Query(t, m, "CREATE TABLE whose (v varchar(10))")
	testdb.Must(t, "backup", m, repo, "--logical", "--server", "shop", "--progress", "none")
	refused(t, 2, "there are backups of several databases", "restore", repo, to()) // of the target's kind
	refused(t, 13, "the repository has another server of that name", "backup", urls["a"], repo, "--logical", "--server", "shop")
	for _, args := range [][]string{{}, {"latest"}, {"latest", "--server", "shop"}} {
		url := maria.NewDatabase(t, "latest_n")
		whole := append([]string{"restore", repo}, args[:min(len(args), 1)]...)
		testdb.Must(t, append(append(whole, url, "--progress", "none"), args[min(len(args), 1):]...)...)
		if got := testdb.Query(t, url, "SELECT count(*) FROM whose"); got != "0" {
			t.Errorf("%q: %s rows", args, got)
		}
	}
	// MySQL and MariaDB are one kind.
	own := testdb.MySQL(t).NewDatabase(t, "latest_my")
	testdb.Must(t, "restore", repo, "latest", own, "--progress", "none")
	if got := testdb.Query(t, own, "SELECT count(*) FROM whose"); got != "0" {
		t.Errorf("%s rows", got)
	}
}

// A backup of a server's files beside logical ones of another: each target gets what fits it.
func TestLatestOfTheForm(t *testing.T) {
	t.Parallel()
	p := &pair{one: testdb.Postgres(t, 15)}
	p.urlOne, p.repo = p.one.URL("postgres"), filepath.Join(p.one.TempDir(t), "repo")
	maria := testdb.MariaDB(t)
	db := maria.NewDatabase(t, "form")
	testdb.Query(t, db, "CREATE TABLE whose (v varchar(10)); INSERT INTO whose VALUES ('m')")
	backedUp(t, p.urlOne, p.repo, "--server", "pg")
	testdb.Must(t, "backup", db, p.repo, "--logical", "--progress", "none")
	if got, want := p.restoredSystem(t), system(t, p.urlOne); got != want {
		t.Errorf("latest is of %s, not %s", got, want)
	}
	for _, to := range []string{maria.NewDatabase(t, "form_m"), p.one.NewDatabase(t, "form_p")} { // one of another kind, where there is no other
		testdb.Must(t, "restore", p.repo, "latest", to, "--progress", "none")
		if got := testdb.Query(t, to, "SELECT v FROM whose"); got != "m" {
			t.Errorf("%s has %q", to, got)
		}
	}
	testdb.Must(t, "verify", p.repo, "latest", "--restore-and-start", "--work-dir", p.one.TempDir(t), "--progress", "none")
}
