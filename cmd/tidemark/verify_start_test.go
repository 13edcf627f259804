package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// writeAt overwrites part of a server's file.
func writeAt(t *testing.T, path string, at int64, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte(text), at)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A backup is restored, started, checked and removed again; faults in it are named.
func TestRestoreAndStart(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 18, "-c", "max_prepared_transactions=5", "-c", "autovacuum=off")
	url := s.NewDatabase(t, "tried")
	space := s.TempDir(t)
	testdb.Query(t, url, "CREATE TABLESPACE apart LOCATION '"+space+"'")
	testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY, t text) TABLESPACE apart")
	testdb.Query(t, url, "INSERT INTO item SELECT g, repeat('x', 300) FROM generate_series(1, 2000) g")
	testdb.Query(t, url, "CREATE TABLE other AS SELECT g AS id FROM generate_series(1, 2000) g")
	testdb.Query(t, url, "CREATE INDEX other_id ON other (id)")
	testdb.Load(t, url, strings.NewReader("BEGIN; UPDATE item SET t = '' WHERE id = 7; PREPARE TRANSACTION 'left open';"))
	t.Cleanup(func() { testdb.Query(t, url, "ROLLBACK PREPARED 'left open'") })
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.Pid))
	if err != nil {
		t.Fatal(err)
	}
	place, work := filepath.Join(t.TempDir(), "repo"), s.TempDir(t)
	verify := func(more ...string) outcome {
		return cli(t, append([]string{"verify", place, "--restore-and-start", "--work-dir", work, "--server-program", program}, more...)...)
	}
	must(t, "backup", url, place, "--progress", "none")
	o := verify()
	said := regexp.MustCompile(`restored: [^\n]*\nstarted with [^\n]* \(18\.[^\n]*\): recovered up to 0/[0-9A-F]+ in [^;]*; \d+ B-tree indexes and \d+ tables of 4 databases checked by amcheck, [\d,]+ pages of [\d,]+ files by their checksums\nno faults;`)
	if o.code != 0 || !said.MatchString(o.out) || !strings.Contains(o.errOut, "recover\namcheck\npages\n") {
		t.Fatalf("exit %d\n%s%s", o.code, o.out, o.errOut)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("%d things are left, %v", len(left), err)
	}

	for _, name := range []string{"item", "other_id"} {
		testdb.Query(t, url, "CHECKPOINT")
		writeAt(t, filepath.Join(s.Dir, testdb.Query(t, url, "SELECT pg_relation_filepath('"+name+"')")), 2*8192+5000, "rotten")
	}
	if o := cli(t, "backup", url, place, "--progress", "none", "--damaged", "note"); o.code != 16 {
		t.Fatalf("exit %d\n%s", o.code, o.errOut)
	}
	o = verify("latest", "--json")
	var rep startedReport
	if err := json.Unmarshal([]byte(o.out), &rep); err != nil || o.code != 18 || rep.Start.Indexes < 300 || rep.Start.Tables < 150 || rep.Start.Pages < 1000 || rep.Files == 0 {
		t.Fatalf("exit %d, %v\n%s%s", o.code, err, o.out, o.errOut)
	}
	all := strings.Join(rep.Start.Damages, "\n") + "\n"
	for _, want := range []string{`tried\S*\.item: invalid page in block 2 .*\n`, `tried\S*\.item_pkey: .*\n`, `tried\S*\.other_id: invalid page in block 2 .*\n`,
		`pg_tblspc/\S+ block 2: its checksum is wrong\n`, `base/\S+ block 2: its checksum is wrong\n`} {
		if !regexp.MustCompile(want).MatchString(all) || len(rep.Start.Damages) != 5 {
			t.Errorf("%s is not in\n%s", want, all)
		}
	}
	t.Run("does not start", func(t *testing.T) {
		dir, work := filepath.Join(s.TempDir(t), "data"), s.TempDir(t)
		must(t, "restore", place, dir, "--tablespace-map", space+"="+filepath.Join(work, "apart"), "--progress", "none")
		logs, err := filepath.Glob(filepath.Join(dir, "pg_wal", "0*"))
		if err != nil || len(logs) == 0 {
			t.Fatal(err)
		}
		for _, l := range logs {
			if err := os.Remove(l); err != nil {
				t.Fatal(err)
			}
		}
		rep, err := physical.Trial{Dir: dir, Work: work, Program: program, Major: 18}.Run(t.Context())
		if err != nil || len(rep.Damages) != 1 || !strings.HasPrefix(rep.Damages[0], "the server does not recover: could not locate required checkpoint record") {
			t.Errorf("%v %+v", err, rep)
		}
	})
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"no program", 6, []string{"verify", place, "--restore-and-start", "--server-program", "/bin/true"}},
		{"no folder", 5, []string{"verify", place, "--restore-and-start", "--work-dir", "/none", "--server-program", program}},
	} {
		o := cli(t, c.args...)
		if o.code != c.code {
			t.Errorf("%s: exit %d\n%s", c.name, o.code, o.errOut)
		}
	}
}
