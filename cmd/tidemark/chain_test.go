package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// The backups of a chain are distinguished, kept while others need them, verified, and restored:
// into a new folder, and over one with older, damaged or half-restored content.
func TestChainOfBackups(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 14)
	url := s.NewDatabase(t, "chained")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT g AS id, md5(g::text) AS text FROM generate_series(1, 40000) g; CREATE TABLE other AS SELECT 1 AS n")
	dir := s.TempDir(t)
	place := filepath.Join(dir, "repo")
	rows := func(url string) string {
		return testdb.Query(t, url, "SELECT count(*), sum(hashtext(i::text)), (SELECT count(*) FROM other) FROM item i")
	}
	change := func(n int) {
		testdb.Query(t, url, fmt.Sprintf("UPDATE item SET text = 'changed %[1]d' WHERE id %% 1000 = %[1]d; INSERT INTO other SELECT %[1]d", n))
	}
	o := must(t, "backup", url, place, "--incremental", "--progress", "none")
	if !strings.Contains(o.out, "this is a full backup: there is no earlier backup of this cluster") {
		t.Errorf("the first one says\n%s", o.out)
	}
	var ids []string
	for n, kind := range []string{"--incremental", "--delta", "--delta"} {
		change(n)
		o = must(t, "backup", url, place, kind, "--progress", "none")
		if !strings.Contains(o.out, "\nincremental on 2") || !strings.Contains(o.out, " pages checked, ") {
			t.Errorf("%s says\n%s", kind, o.out)
		}
	}
	want := rows(url)
	for line := range strings.Lines(must(t, "backups", place).out) {
		if id, rest, _ := strings.Cut(line, " "); strings.HasPrefix(id, "2") {
			if ids = append(ids, id); strings.Contains(rest, "incremental on ") != (len(ids) > 1) {
				t.Errorf("of backup %d: %s", len(ids), line)
			}
		}
	}
	if len(ids) != 4 {
		t.Fatalf("listed are %v", ids)
	}
	if o := must(t, "verify", place); !strings.Contains(o.out, "4 backups") || !strings.Contains(o.out, "no faults") {
		t.Errorf("verify says\n%s", o.out)
	}
	if o := must(t, "prune", place, "--keep", "last=1"); strings.Count(o.out, "needed by "+ids[3]) != 3 {
		t.Errorf("prune says\n%s", o.out)
	}
	data := filepath.Join(dir, "data")
	must(t, "restore", place, ids[1], data)
	lived := s.Beside(t, data)
	at := strings.Replace(url, fmt.Sprint(":", s.Port, "/"), fmt.Sprint(":", lived.Port, "/"), 1)
	testdb.Query(t, at, "DROP TABLE other; DELETE FROM item WHERE id < 20000; CREATE TABLE more AS SELECT generate_series(1, 10000); CHECKPOINT")
	refusedOver(t, s, place, ids[3], data)
	lived.Kill(t)
	if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil {
		t.Fatal(err)
	}
	o = must(t, "restore", place, ids[3], data, "--delta", "-v")
	if !strings.Contains(o.out, "over existing files: ") || !strings.Contains(o.out, "compare ") {
		t.Errorf("restore --delta says\n%s", o.out)
	}
	lived.Restart(t)
	if got := rows(at); got != want {
		t.Errorf("restored over: %s, and there were %s", got, want)
	}
	if err := os.Remove(filepath.Join(place, "backups", ids[2])); err != nil {
		t.Fatal(err)
	}
	if o := cli(t, "verify", place); o.code != 18 || !strings.Contains(o.out, "it needs "+ids[2]+", which is missing or damaged") {
		t.Errorf("without one of the chain: exit %d\n%s%s", o.code, o.out, o.errOut)
	}
	if o := cli(t, "restore", place, ids[3], filepath.Join(dir, "never")); o.code != 11 || !strings.Contains(o.errOut, "its parent "+ids[2]+" is gone") {
		t.Errorf("without one of the chain: exit %d\n%s", o.code, o.errOut)
	}
	if o := must(t, "backup", url, place, "--delta", "--progress", "none"); !strings.Contains(o.out, "its parent "+ids[2]+" is gone") && !strings.Contains(o.out, "incremental on "+ids[1]) {
		t.Errorf("on a chain that is not whole: %s", o.out)
	}
}

// refusedOver checks which folders are not overwritten.
func refusedOver(t *testing.T, s *testdb.Server, place, id, running string) {
	t.Helper()
	dir := s.TempDir(t)
	plain := filepath.Join(dir, "plain")
	other := filepath.Join(dir, "other")
	for name, text := range map[string]string{filepath.Join(plain, "letter"): "dear", filepath.Join(other, "PG_VERSION"): "14", filepath.Join(other, "global", "pg_control"): "what was it"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"restore over a running server", 8, []string{"restore", place, id, running, "--delta"}},
		{"restore over a folder of letters", 8, []string{"restore", place, id, plain, "--delta"}},
		{"restore over a folder of letters by force", 8, []string{"restore", place, id, plain, "--delta", "--force"}},
		{"restore over something damaged", 8, []string{"restore", place, id, other, "--delta"}},
		{"backup incremental and delta", 2, []string{"backup", s.URL("postgres"), place, "--incremental", "--delta"}},
		{"backup on nothing", 6, []string{"backup", s.URL("postgres"), place, "--parent", "20010101-000000-00000000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := cli(t, c.args...)
			sameText(t, o, c.code, c.args)
		})
	}
	must(t, "restore", place, id, other, "--delta", "--force")
}
