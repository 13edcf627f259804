package physical

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// TestChangesOverPromotion finds what has changed on a standby that was promoted since, in its two
// timelines, also since two backups of which one was unfinished; and refuses a backup of what its
// primary did alone.
func TestChangesOverPromotion(t *testing.T) {
	t.Parallel()
	primary := testdb.OwnPostgres(t, 18, "-c", "autovacuum=off", "-c", "wal_keep_size=1GB", "-c", "summarize_wal=on")
	standby := primary.Standby(t, "postgres")
	fill := func(s *testdb.Server, tables ...string) {
		for _, table := range tables {
			testdb.Load(t, s.URL("postgres"), strings.NewReader(fmt.Sprintf("CREATE TABLE %s AS SELECT g AS id, repeat('x', 100) AS t FROM generate_series(1, 20000) g; VACUUM %[1]s; CHECKPOINT;", table)))
		}
	}
	follow := func() {
		at := testdb.Query(t, primary.URL("postgres"), "SELECT pg_current_wal_insert_lsn()")
		testdb.Query(t, standby.URL("postgres"), "DO $$ BEGIN WHILE pg_last_wal_replay_lsn() < '"+at+"' LOOP PERFORM pg_sleep(0.05); END LOOP; END $$")
	}
	fill(primary, "kept", "before", "after")
	follow()
	was := snap(t, standby)
	since := was.earlier(t)
	if _, _, err := was.b.Since(t.Context(), since); tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "the standby has not advanced since") {
		t.Errorf("a backup on itself: %v", err)
	}
	testdb.Load(t, primary.URL("postgres"), strings.NewReader("DELETE FROM before WHERE id % 999 = 0; CHECKPOINT;"))
	follow()
	part, merged := halfOf(t, standby, was, testdb.Query(t, primary.URL("postgres"), "SELECT pg_relation_filepath('before')"))
	testdb.Load(t, primary.URL("postgres"), strings.NewReader("DELETE FROM kept WHERE id % 7777 = 0; CHECKPOINT;"))
	follow()
	if got := testdb.Query(t, standby.URL("postgres"), "SELECT pg_promote(true, 300)"); got != "t" {
		t.Fatalf("promoted: %s", got)
	}
	testdb.Load(t, standby.URL("postgres"), strings.NewReader("DELETE FROM after WHERE id > 5000; VACUUM after;"))
	fill(primary, "alone")
	alone := snap(t, primary).earlier(t)
	now := snap(t, standby)
	if _, _, err := now.b.Since(t.Context(), alone); tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "the server has left timeline 1 at ") {
		t.Errorf("what the primary did alone: %v", err)
	}
	now.b.hints = true
	for _, way := range ways(t, now.b, since) {
		if way.find() {
			m := now.over(was)
			t.Logf("%s: %d files whole, %d pages, %d kept", way.name, m.whole, m.pages, m.kept)
			if len(m.wrong) > 0 || m.kept < way.kept/2 {
				t.Errorf("%s: %d pages are kept, of which have changed: %d: %.3000s", way.name, m.kept, len(m.wrong), strings.Join(m.wrong, "\n"))
			}
		}
	}
	for _, way := range []Way{ByLog, ByPages} {
		now.b.opt.Way = way
		part, base := part, since
		part.Begun, base.Begun, part.Base = part.Begun.Add(2*databaseSlack), base.Begun.Add(2*databaseSlack), &base // the databases' folders are as new as the server
		text, _, err := now.b.Since(t.Context(), part)
		if err != nil || strings.Count(text, "of each page") != map[Way]int{ByPages: 2}[way] {
			t.Fatalf("%s: %s, %v", way, text, err)
		}
		now.b.hints = true
		m := now.over(merged)
		t.Logf("%s, since two: %d files whole, %d pages, %d kept", way, m.whole, m.pages, m.kept)
		if len(m.wrong) > 0 || m.kept < 1500 {
			t.Errorf("%s: %d pages are kept, of which have changed: %d: %.3000s", way, m.kept, len(m.wrong), strings.Join(m.wrong, "\n"))
		}
	}
}

// halfOf returns an unfinished backup that has every other file, but not the file without, which
// has changed since an earlier backup; and the earlier snapshot below with these files over it.
func halfOf(t *testing.T, s *testdb.Server, below *snapshot, without string) (tidemark.DataSince, *snapshot) {
	t.Helper()
	p := snap(t, s)
	at, err := p.b.Place(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.b.Close()
	merged := &snapshot{bytes: maps.Clone(below.bytes)}
	has := map[string]tidemark.DataFile{}
	for i, path := range slices.Sorted(maps.Keys(p.files)) {
		if i%2 == 0 && path != without {
			has[path], merged.bytes[path] = p.files[path], p.bytes[path]
		}
	}
	return tidemark.DataSince{Unfinished: true, Checksums: p.b.checksums, Begun: p.begun, Ranges: []tidemark.DataLog{at},
		Was: func(path string) (tidemark.DataFile, bool) { f, ok := has[path]; return f, ok }}, merged
}

// TestWaysThatAreNotThere finds changes when the way that would read least is unavailable.
func TestWaysThatAreNotThere(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 17, "-c", "autovacuum=off", "-c", "wal_keep_size=1GB")
	url := s.URL("postgres")
	testdb.Load(t, url, strings.NewReader("CREATE TABLE item AS SELECT g AS id, repeat('x', 100) AS t FROM generate_series(1, 20000) g"))
	was := snap(t, s)
	since := was.earlier(t)
	testdb.Load(t, url, strings.NewReader("DELETE FROM item WHERE id % 999 = 0; SELECT pg_switch_wal();"))
	now := snap(t, s)
	archive := func(_ context.Context, name string) (io.ReadCloser, error) {
		in, err := os.Open(filepath.Join(s.Dir, "pg_wal", filepath.Base(name)))
		if err != nil || filepath.Dir(name) != "00000001" {
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "read the archive", Object: name}
		}
		return in, nil
	}
	folder, relations := now.b.dir, now.b.relations
	elsewhere := filepath.Join(t.TempDir(), "pg_wal", "summaries")
	if err := os.MkdirAll(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, way, finding string
		set                func(since *tidemark.DataSince)
	}{
		{"log", "the log from ", "set summarize_wal = on", func(*tidemark.DataSince) {}},
		{"archive", "the log from ", "there is no", func(since *tidemark.DataSince) {
			since.Log = archive
			now.b.dir = filepath.Dir(filepath.Dir(elsewhere))
		}},
		{"none", "the LSN of each page ", "the server has not kept ", func(*tidemark.DataSince) {}},
		{"much", "the LSN of each page ", "and all pages have 1 kB", func(*tidemark.DataSince) {
			now.b.relations, now.b.dir = 1000, folder
			now.b.start += littleLog
		}},
		{"damaged summary", "the log from ", "it begins with ", func(since *tidemark.DataSince) {
			now.b.start -= littleLog
			now.b.relations, now.b.dir = relations, filepath.Dir(filepath.Dir(elsewhere))
			since.Log = archive
			name := fmt.Sprintf("00000001%016X%016X.summary", now.b.after, now.b.start)
			if err := os.WriteFile(filepath.Join(elsewhere, name), bytes.Repeat([]byte{1}, 100), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			since := since
			x.set(&since)
			way, findings, err := now.b.Since(t.Context(), since)
			if err != nil || !strings.HasPrefix(way, x.way) {
				t.Errorf("%q: %v", way, err)
			}
			text := fmt.Sprint(findings)
			if x.name == "archive" {
				text += "there is no" // no fault to report
			}
			if !strings.Contains(text, x.finding) {
				t.Errorf("findings %s", text)
			}
			now.b.hints = false // they are not logged
			if m := now.over(was); len(m.wrong) > 0 {
				t.Errorf("%d pages have changed: %.1000s", len(m.wrong), strings.Join(m.wrong, "\n"))
			}
		})
	}
	now.b.dir = folder
	for _, x := range []struct {
		name, want string
		since      tidemark.DataSince
	}{
		{"checksums", "the checksums of pages were switched on or off since", tidemark.DataSince{Checksums: true, Ranges: since.Ranges}},
		{"no log", "it does not record its WAL range", tidemark.DataSince{}},
		{"timeline", "the history of the server's timeline 1 is not known: no such file", tidemark.DataSince{Ranges: []tidemark.DataLog{{Timeline: 2, From: "0/1", To: "0/2"}}}},
		{"later", "it ends at FFFF/0, and this one would begin before that, at ", tidemark.DataSince{Ranges: []tidemark.DataLog{{Timeline: 1, From: "0/1", To: "FFFF/0"}}}},
		{"place", `its WAL range is malformed: from "0/1" to "here"`, tidemark.DataSince{Ranges: []tidemark.DataLog{{Timeline: 1, From: "0/1", To: "here"}}}},
	} {
		if _, _, err := now.b.Since(t.Context(), x.since); tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), ": "+x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// TestMinimalLog refuses a log that omits the contents of newly created relations.
func TestMinimalLog(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 13, "-c", "autovacuum=off", "-c", "wal_keep_size=1GB")
	was := snap(t, s)
	since := was.earlier(t)
	for _, level := range []string{"minimal", "replica"} {
		testdb.Load(t, s.URL("postgres"), strings.NewReader("ALTER SYSTEM SET wal_level = "+level+"; ALTER SYSTEM SET max_wal_senders = 0;"))
		s.Kill(t)
		s.Restart(t)
		testdb.Load(t, s.URL("postgres"), strings.NewReader("CREATE TABLE made_"+level+" AS SELECT g AS id, repeat('x', 100) AS t FROM generate_series(1, 20000) g"))
	}
	now := snap(t, s)
	now.b.hints = false
	way, findings, err := now.b.Since(t.Context(), since)
	if err != nil || !strings.HasPrefix(way, "the LSN of each page ") || !strings.Contains(fmt.Sprint(findings), "wal_level was minimal for a time") {
		t.Errorf("%s: %v, %v", way, findings, err)
	}
	if m := now.over(was); len(m.wrong) > 0 {
		t.Errorf("%d pages have changed: %.1000s", len(m.wrong), strings.Join(m.wrong, "\n"))
	}
	if _, err := now.b.readLog(t.Context(), now.b.planLog([]wal.Summary{})); err == nil {
		t.Error("the log is taken")
	}
}
