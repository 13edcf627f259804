package physical

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const changesPage = 8192

// A snapshot holds a server's files at rest, as a backup that begins then lists them.
type snapshot struct {
	b     *Backup
	begun time.Time
	files map[string]tidemark.DataFile
	bytes map[string][]byte
}

// snap begins a backup of a server and reads all of its files.
func snap(t *testing.T, s *testdb.Server) *snapshot {
	t.Helper()
	p := &snapshot{b: openURL(t, s.URL("postgres")).Backup(BackupOptions{}), begun: time.Now(), files: map[string]tidemark.DataFile{}, bytes: map[string][]byte{}}
	t.Cleanup(p.b.Close)
	set, err := p.b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for f := range set.Files.All() {
		if f.Dir {
			continue
		}
		in, err := p.b.Open(&f)
		if err != nil {
			t.Fatal(err)
		}
		p.files[f.Path] = f
		if p.bytes[f.Path], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		in.Close()
	}
	return p
}

// earlier ends the backup, and makes it the one that a later backup builds on.
func (p *snapshot) earlier(t *testing.T) tidemark.DataSince {
	t.Helper()
	end, err := p.b.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.b.Close()
	return tidemark.DataSince{Checksums: p.b.checksums, Begun: p.begun, Ranges: end.Ranges,
		Was: func(path string) (tidemark.DataFile, bool) { f, ok := p.files[path]; return f, ok }}
}

// A merge counts what an incremental backup takes of files whose current contents are in p.
type merge struct {
	whole, pages, kept int // whole files; single pages of other files; pages kept from the earlier backup
	wrong              []string
}

// over applies changes to an earlier snapshot, and compares the result with the current files.
func (p *snapshot) over(was *snapshot) (m merge) {
	for _, path := range slices.Sorted(maps.Keys(p.bytes)) {
		f, now := p.files[path], p.bytes[path]
		change := p.b.Changed(&f)
		if change.Whole {
			m.whole++
			continue
		}
		old := was.bytes[path]
		for at := 0; at < len(now); at += changesPage {
			n, page := uint32(at/changesPage), now[at:at+changesPage]
			_, listed := slices.BinarySearch(change.Pages, n)
			if listed || change.Newer != nil && (n >= change.Limit || change.Newer(page)) {
				m.pages++
				continue
			}
			m.kept++
			merged := make([]byte, changesPage)
			if n < change.Limit && at < len(old) {
				copy(merged, old[at:])
			}
			if !bytes.Equal(merged, page) && !p.harmless(path, merged, page) {
				m.wrong = append(m.wrong, fmt.Sprintf("%s block %d of %d, limit %d, lsn %X, was %X", path, n, len(now)/changesPage, change.Limit, pagePlace(page), pagePlace(merged)))
			}
		}
	}
	return m
}

// spgistMagic is at offset 24 of the first page of an SP-GiST index. That page records, without
// logging it, which pages the index used last (access/spgist_private.h).
const spgistMagic = 0xBA0BABEE

// harmless reports whether two pages differ only in what a crash may lose: hints, if they are not
// logged, and that a page was initialized but not used yet.
func (p *snapshot) harmless(path string, merged, page []byte) bool {
	switch {
	case len(bytes.Trim(merged, "\x00")) == 0:
		return pagePlace(page) == 0
	case binary.LittleEndian.Uint32(page[24:]) == spgistMagic:
		return bytes.Equal(merged[:8], page[:8])
	}
	return !p.b.hints && !strings.HasSuffix(path, "_vm") && hinted(merged, page)
}

// hinted reports whether two pages differ only in hints, as far as their headers show: the LSN,
// where there is room, and whether the visibility map has a bit for it.
func hinted(a, b []byte) bool {
	return bytes.Equal(a[:8], b[:8]) && a[10]&pageAllVisible == b[10]&pageAllVisible && bytes.Equal(a[12:18], b[12:18])
}

func pagePlace(page []byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(page))<<32 | uint64(binary.LittleEndian.Uint32(page[4:]))
}

// changesBefore creates what exists when the earlier backup is made; %s is a folder of a
// tablespace.
const changesBefore = `
CREATE TABLESPACE side LOCATION '%s';
CREATE TABLE kept AS SELECT g AS id, md5(g::text) AS t FROM generate_series(1, 30000) g; VACUUM kept;
CREATE TABLE changed (id int PRIMARY KEY, name text, kind int, spot point, tags int[]);
INSERT INTO changed SELECT g, md5(g::text), g %% 100, point(g, g %% 7), ARRAY[g %% 5, g %% 11] FROM generate_series(1, 3000) g;
CREATE INDEX ON changed (name); CREATE INDEX ON changed USING hash (kind); CREATE INDEX ON changed USING gist (spot);
CREATE INDEX ON changed USING spgist (name); CREATE INDEX ON changed USING gin (tags); CREATE INDEX ON changed USING brin (id);
VACUUM changed;
CREATE TABLE cut AS SELECT g AS id, md5(g::text) AS t FROM generate_series(1, 30000) g; VACUUM cut;
CREATE TABLE regrown AS TABLE cut; VACUUM regrown;
CREATE TABLE emptied AS TABLE cut;
CREATE TABLE rewritten AS TABLE cut;
CREATE TABLE dropped AS TABLE cut;
CREATE TABLE prepared AS TABLE cut;
CREATE TABLE moved AS TABLE cut;
CREATE TABLE hinted AS TABLE cut;
CREATE TABLE visible AS SELECT g AS id FROM generate_series(1, 20000) g;
CREATE TABLE cleared AS SELECT g AS id, repeat('x', 100) AS t FROM generate_series(1, 20000) g; VACUUM cleared;
CREATE UNLOGGED TABLE unlogged AS TABLE cut;
CREATE TABLE logged AS TABLE cut;
CREATE TABLE frozen (id int, t text);
CREATE SEQUENCE nr;
CREATE DATABASE old; CREATE DATABASE again; CREATE DATABASE wanders;
CREATE TABLE large AS SELECT g, string_agg(md5((g * h)::text), '') AS t FROM generate_series(1, 20) g, generate_series(1, 400) h GROUP BY g;
SELECT count(*) FROM kept;
`

// changesBetween makes the changes between the two backups.
const changesBetween = `
UPDATE changed SET name = name || 'x', kind = kind + 1 WHERE id %% 50 = 0; DELETE FROM changed WHERE id %% 77 = 0;
DELETE FROM cut WHERE id > 3000; VACUUM cut;
DELETE FROM regrown WHERE id > 3000; VACUUM regrown;
COPY regrown FROM PROGRAM 'seq -f "%%.0f" 1 3000 | sed "s/$/\t$(printf %%0100d 0)/"'; -- from 16 on it leaves pages of zeros at the end
TRUNCATE emptied; INSERT INTO emptied SELECT g, 'new' FROM generate_series(1, 9000) g;
VACUUM FULL rewritten;
DROP TABLE dropped; CREATE TABLE dropped AS TABLE kept;
BEGIN; DROP TABLE prepared; CREATE TABLE made (id int); INSERT INTO made VALUES (1); PREPARE TRANSACTION 'drops';
BEGIN; CREATE TABLE unmade AS TABLE kept; PREPARE TRANSACTION 'makes';
COMMIT PREPARED 'drops'; ROLLBACK PREPARED 'makes';
ALTER TABLE moved SET TABLESPACE side;
SELECT count(*) FROM hinted;
VACUUM visible;
UPDATE cleared SET t = 'y' WHERE id = 7;
ALTER TABLE unlogged SET LOGGED; ALTER TABLE logged SET UNLOGGED;
BEGIN; TRUNCATE frozen; COPY frozen FROM PROGRAM 'seq -f "%%.0f" 1 5000 | sed "s/$/\tx/"' WITH (FREEZE); COMMIT;
SELECT nextval('nr') FROM generate_series(1, 100);
DELETE FROM large WHERE g > 5; VACUUM large; VACUUM FREEZE kept;
DROP DATABASE again; CREATE DATABASE again %s TEMPLATE old;
CREATE DATABASE copied TEMPLATE old %s;
ALTER DATABASE wanders SET TABLESPACE side;
CHECKPOINT;
`

// zeros counts pages of zeros in a table of the database postgres.
func (p *snapshot) zeros(t *testing.T, s *testdb.Server, table string) (n int) {
	t.Helper()
	path := testdb.Query(t, s.URL("postgres"), "SELECT pg_relation_filepath('"+table+"')")
	for page := range slices.Chunk(p.bytes[path], changesPage) {
		if bytes.Equal(page, make([]byte, changesPage)) {
			n++
		}
	}
	return n
}

// A way to find changes. It must find that at least the given number of pages is unchanged.
type way struct {
	name string
	kept int
	find func() bool
}

// ways are all that a server offers.
func ways(t *testing.T, b *Backup, since tidemark.DataSince) []way {
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	text, _, err := b.Since(t.Context(), since)
	must(err)
	if !strings.Contains(text, "log") {
		t.Errorf("it was found by %s", text)
	}
	read := func(p logPlan) func() bool {
		return func() bool {
			changed, err := b.readLog(t.Context(), p)
			must(err)
			b.logged = changed
			return err == nil
		}
	}
	out := []way{{"log", 4000, read(b.planLog(nil))}, {"pages", 1900, func() bool {
		b.since.Begun = since.Begun.Add(2 * databaseSlack) // the databases' folders are as new as the server
		must(b.byPages(t.Context()))
		return true
	}}}
	if b.e.Major >= 17 {
		out = append(out, way{"summaries", 4000, func() bool {
			p := b.planLog(b.summaries())
			for begun := time.Now(); p.bytes() > 0 && time.Since(begun) < 2*time.Minute; p = b.planLog(b.summaries()) {
				time.Sleep(50 * time.Millisecond)
			}
			if p.bytes() > 0 {
				t.Errorf("the server has no summaries of %v", p.scans)
			}
			return read(p)()
		}})
	}
	return out
}

// TestChangesAreAll compares the changes found in each way with the real ones: everything that is
// not found must be unchanged.
func TestChangesAreAll(t *testing.T) {
	type server struct {
		major  int
		logged bool // hints are logged
	}
	servers := []server{{13, true}, {15, false}, {18, true}}
	if os.Getenv("TIDEMARK_VERSIONS") == "all" {
		servers = append(servers, server{13, false}, server{14, true}, server{16, true}, server{17, false})
	}
	for _, x := range servers {
		t.Run(fmt.Sprintf("%d, hints logged %t", x.major, x.logged), func(t *testing.T) {
			t.Parallel()
			options := []string{"-c", "autovacuum=off", "-c", "wal_keep_size=1GB", "-c", fmt.Sprintf("wal_log_hints=%t", x.logged)}
			if x.major >= 17 {
				options = append(options, "-c", "summarize_wal=on")
			}
			s := testdb.OwnPostgres(t, x.major, options...)
			url := s.URL("postgres")
			testdb.Load(t, url, strings.NewReader(fmt.Sprintf(changesBefore, s.TempDir(t))))
			was := snap(t, s)
			since := was.earlier(t)
			number, strategy := "", ""
			if x.major >= 15 {
				number = "OID " + testdb.Query(t, url, "SELECT oid FROM pg_database WHERE datname = 'again'") + " STRATEGY file_copy"
				strategy = "STRATEGY wal_log"
			}
			testdb.Load(t, url, strings.NewReader(fmt.Sprintf(changesBetween, number, strategy)))
			now := snap(t, s)
			now.b.hints = x.logged // harmless needs this
			for _, way := range ways(t, now.b, since) {
				if way.find() {
					if n := now.zeros(t, s, "regrown"); x.major >= 16 && n == 0 {
						t.Error("no page of zeros is where others were before")
					}
					m := now.over(was)
					t.Logf("%s: %d files whole, %d pages, %d kept", way.name, m.whole, m.pages, m.kept)
					if len(m.wrong) > 0 || m.kept < way.kept {
						t.Errorf("%s: %d pages are kept, of which have changed: %d: %.3000s", way.name, m.kept, len(m.wrong), strings.Join(m.wrong, "\n"))
					}
				}
			}
		})
	}
}
