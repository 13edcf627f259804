package wal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// lines returns the contents of a set in the form of pg_wal_summary_contents, for comparison.
func (c *Changes) lines() map[string]bool {
	out := map[string]bool{}
	for f, x := range c.forks {
		name := fmt.Sprintf("%d/%d/%d/%d", f.Space, f.Database, f.Relation, f.Number)
		if x.limit != NoLimit {
			out[fmt.Sprintf("%s %d t", name, x.limit)] = true
		}
		for _, page := range c.Pages(f, 0, NoLimit, 1<<30) {
			out[fmt.Sprintf("%s %d f", name, page)] = true
		}
	}
	return out
}

// sameAsSummaries compares the changes found by a scan of the log, and those read from the server's
// summary files, with what the server itself reports about these files.
func sameAsSummaries(t *testing.T, s *testdb.Server) {
	t.Helper()
	url := s.URL("postgres")
	redo := testdb.Query(t, url, "CHECKPOINT; SELECT redo_lsn FROM pg_control_checkpoint()")
	for begun := time.Now(); testdb.Query(t, url, "SELECT coalesce(max(end_lsn) >= '"+redo+"', false) FROM pg_available_wal_summaries()") != "t"; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatal("the server does not get its log summarised")
		}
	}
	system := testdb.Query(t, url, "SELECT system_identifier FROM pg_control_system()")
	total := 0
	for row := range strings.Lines(testdb.Query(t, url, "SELECT tli, start_lsn - '0/0', end_lsn - '0/0', format('%s%s%s.summary', lpad(to_hex(tli), 8, '0'), lpad(to_hex((start_lsn - '0/0')::bigint), 16, '0'), lpad(to_hex((end_lsn - '0/0')::bigint), 16, '0')) FROM pg_available_wal_summaries() WHERE end_lsn <= '"+redo+"'")) {
		f := strings.Fields(row)
		name := strings.ToUpper(strings.TrimSuffix(f[3], ".summary")) + ".summary"
		from, to := number(t, f[1]), number(t, f[2])
		if p, ok := ParseSummaryName(name); !ok || p.From != from || p.To != to || fmt.Sprint(p.Timeline) != f[0] {
			t.Errorf("%s is read as %+v", name, p)
		}
		want := map[string]bool{}
		for line := range strings.Lines(testdb.Query(t, url, fmt.Sprintf("SELECT format('%%s/%%s/%%s/%%s %%s %%s', reltablespace, reldatabase, relfilenode, relforknumber, relblocknumber, is_limit_block) FROM pg_wal_summary_contents(%s, '0/0'::pg_lsn + %d, '0/0'::pg_lsn + %d)", f[0], from, to))) {
			want[strings.TrimSpace(line)] = true
		}
		total += len(want)
		in, err := os.Open(filepath.Join(s.Dir, "pg_wal", "summaries", name))
		if err != nil {
			t.Fatal(err)
		}
		read := NewChanges()
		if err := read.AddSummary(in); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		in.Close()
		compare(t, name+", read", read.lines(), want)
		scanned := NewChanges()
		_, err = scanned.Scan(t.Context(), stretchOf(s, system, from, to))
		if err != nil {
			t.Errorf("the log from %X to %X: %v", from, to, err)
		}
		compare(t, name+", scanned", scanned.lines(), want)
	}
	if total < 1000 {
		t.Errorf("the summaries have only %d pages and limits", total)
	}
}

// stretchOf returns a part of a server's log, read from pg_wal.
func stretchOf(s *testdb.Server, system string, from, to uint64) Stretch {
	const segment = 16 << 20
	return Stretch{From: from, Until: to, System: system, Segments: int((to-1)/segment-from/segment) + 1,
		Open: func(n int) (io.ReadCloser, error) {
			return os.Open(filepath.Join(s.Dir, "pg_wal", SegmentName(1, from+uint64(n)*segment, segment)))
		}}
}

func compare(t *testing.T, what string, got, want map[string]bool) {
	t.Helper()
	n := 0
	for line := range want {
		if !got[line] {
			if n++; n < 10 {
				t.Errorf("%s: missing: %s", what, line)
			}
		}
	}
	for line := range got {
		if !want[line] {
			if n++; n < 10 {
				t.Errorf("%s: too much: %s", what, line)
			}
		}
	}
}
