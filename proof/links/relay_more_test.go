package links

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestRelayCertificates copies, and follows with a queue, where both sides have certificates of one
// CA instead of a secret. Those of another CA are refused.
func TestRelayCertificates(t *testing.T) {
	t.Parallel()
	src, dst, strange := postgres(t).NewDatabase(t, "src"), postgres(t).NewDatabase(t, "dst"), testdb.Certificates(t)
	testdb.Load(t, src, testdb.Sample(t, "chinook/pg.sql.zst"))
	r := &relayed{t: t, addr: testdb.FreeAddress(t), certs: testdb.Certificates(t), targets: []string{dst}}
	r.start()
	at := r.at(r.port())
	if code, out := run(t, "copy", src, dst, "--relay", strings.ReplaceAll(at, r.certs, strange)); code != 4 || !strings.Contains(out, "certificate") {
		t.Errorf("exit %d\n%s", code, out)
	}
	must(t, "copy", src, dst, "--relay", at)
	if a, b := dumped(t, src), dumped(t, dst); a != b {
		t.Fatalf("the dumps differ\n%s", difference(a, b))
	}
	stream := []string{"replicate", src, dst, "--name", "certified", "--queue", "relay:" + at, "--until", "now"}
	must(t, append(stream, "--no-copy")...)
	testdb.Query(t, src, "UPDATE artist SET name = 'X ' || name WHERE artist_id % 2 = 0; DELETE FROM playlist_track WHERE playlist_id = 1")
	must(t, stream...)
	must(t, "diff", src, dst)
	if n := testdb.Query(t, dst, "SELECT count(*) FROM artist WHERE name LIKE 'X %'"); n == "0" {
		t.Error("nothing was followed")
	}
	must(t, "replicate", src, dst, "--name", "certified", "--queue", "relay:"+at, "--remove")
}

// TestRelayDumpFiles writes a dump file through a relay, and directly: the dump programs of the
// servers say the same of both targets.
func TestRelayDumpFiles(t *testing.T) {
	t.Parallel()
	from := testdb.MariaDB(t).NewDatabase(t, "src")
	testdb.Load(t, from, testdb.Sample(t, "sakila/mysql.sql.zst"))
	file := testdb.MariaDBDump(t, from)
	for _, to := range []func(testing.TB) *testdb.Server{postgres, testdb.MariaDB} {
		near, far := to(t).NewDatabase(t, "near"), to(t).NewDatabase(t, "far")
		r := relaying(t, far)
		sameChecks(t, file, near, file, far, r)
		must(t, "copy", file, near)
		must(t, "copy", file, far, "--relay", r.at(r.port()))
		if a, b := dumped(t, near), dumped(t, far); a != b {
			t.Errorf("%s: the dumps differ\n%s", to(t).Engine, difference(a, b))
		}
	}
}

// sameChecks compares a check through a relay with a direct one.
func sameChecks(t *testing.T, src, near, from, far string, r *relayed) {
	t.Helper()
	a, direct := run(t, "check", src, near)
	b, through := run(t, "check", from, far, "--relay", r.at(r.port()))
	if direct, through = strings.ReplaceAll(direct, schema(near), "it"), strings.ReplaceAll(through, schema(far), "it"); a != b || about.ReplaceAllString(direct, "") != about.ReplaceAllString(through, "") {
		t.Errorf("directly, exit %d:\n%s\nthrough the relay, exit %d:\n%s", a, direct, b, through)
	}
}

// about matches sizes, which statistics that come in the meantime may change.
var about = regexp.MustCompile(`(about )?[0-9,.]+ (rows|[kM]?B)\b`)

// TestRelayChecks: a check through a relay says what a direct one says, of an empty target and of
// one that is not. Streams are not checked so.
func TestRelayChecks(t *testing.T) {
	t.Parallel()
	src := postgres(t).NewDatabase(t, "src")
	testdb.Load(t, src, testdb.Sample(t, "pagila/pg.sql.zst"))
	for _, to := range []func(testing.TB) *testdb.Server{postgres, testdb.MariaDB} {
		far := to(t).NewDatabase(t, "far")
		r := relaying(t, far)
		sameChecks(t, src, far, src, far, r)
		testdb.Query(t, far, "CREATE TABLE film (film_id int PRIMARY KEY)")
		testdb.Query(t, far, "INSERT INTO film VALUES (1)")
		sameChecks(t, src, far, src, far, r)
		if code, out := run(t, "check", src, far, "--replicate", "--relay", r.at(r.port())); code != 7 || !strings.Contains(out, "through a relay") {
			t.Errorf("exit %d\n%s", code, out)
		}
	}
}
