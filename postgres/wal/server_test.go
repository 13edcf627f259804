package wal

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// loadSQL produces the log of a server in use: subtransactions, rolled back and not, prepared
// transactions, dropped tables, all kinds of indexes, vacuum, truncation, sequences, large values,
// and images after a checkpoint with each compression in turn.
const loadSQL = `
CREATE TABLE item (id int PRIMARY KEY, name text, kind int, spot point, tags int[]);
CREATE SEQUENCE nr;
INSERT INTO item SELECT g, md5(g::text), g % 100, point(g, g % 7), ARRAY[g % 5, g % 11] FROM generate_series(1, 3000) g;
CREATE INDEX ON item (name); CREATE INDEX ON item USING hash (kind); CREATE INDEX ON item USING gist (spot);
CREATE INDEX ON item USING spgist (name); CREATE INDEX ON item USING gin (tags); CREATE INDEX ON item USING brin (id);
CHECKPOINT;
UPDATE item SET kind = kind + 1 WHERE id % 3 = 0;
COPY item (id, name) FROM STDIN;
9001	one
9002	two
9003	three
\.
BEGIN; INSERT INTO item (id) VALUES (8001); SAVEPOINT a; INSERT INTO item (id) VALUES (8002); ROLLBACK TO a; SAVEPOINT b; INSERT INTO item (id) VALUES (8003); COMMIT;
BEGIN; INSERT INTO item (id) VALUES (8101); SAVEPOINT a; INSERT INTO item (id) VALUES (8102); ROLLBACK;
DO $$ BEGIN FOR i IN 1..100 LOOP BEGIN INSERT INTO item (id) VALUES (7000 + i); EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$;
SELECT nextval('nr') FROM generate_series(1, 100);
DELETE FROM item WHERE id % 5 = 0 OR id > 2000;
CREATE DATABASE made; DROP DATABASE made;
VACUUM (FREEZE) item;
CREATE TABLE large AS SELECT g, string_agg(md5((g * h)::text), '') AS t FROM generate_series(1, 20) g, generate_series(1, 400) h GROUP BY g;
TRUNCATE large;
SELECT pg_logical_emit_message(true, 'test', repeat('x', 20000));
SELECT pg_create_restore_point('here');
`

// preparedSQL ends with prepared transactions, of which the first drops a table.
const preparedSQL = `
CREATE TABLE gone (id int PRIMARY KEY, t text); INSERT INTO gone SELECT g, g FROM generate_series(1, 100) g;
SELECT count(*) FROM gone;
BEGIN; DROP TABLE gone; SAVEPOINT a; INSERT INTO item (id) VALUES (6001); SAVEPOINT b; INSERT INTO item (id) VALUES (6002); PREPARE TRANSACTION 'commit';
BEGIN; INSERT INTO item (id) VALUES (6003); SAVEPOINT b; INSERT INTO item (id) VALUES (6004); PREPARE TRANSACTION 'rollback';
`

// used returns a server whose log has everything that happened between from and to, and the numbers
// of the two prepared transactions.
func used(t testing.TB, major int) (s *testdb.Server, from, to uint64, commit, rollback uint64) {
	t.Helper()
	options := []string{"-c", "wal_keep_size=512MB", "-c", "autovacuum=off", "-c", "max_wal_size=4GB"}
	if major >= 17 {
		options = append(options, "-c", "summarize_wal=on")
	}
	s = testdb.OwnPostgres(t, major, options...)
	url := s.URL("postgres")
	from = place(t, s)
	testdb.Load(t, url, strings.NewReader(loadSQL))
	for _, method := range compressions(t, url) {
		testdb.Load(t, url, strings.NewReader("CHECKPOINT; SET wal_compression = "+method+"; UPDATE item SET name = name || 'x'; VACUUM item;"))
	}
	testdb.Load(t, url, strings.NewReader(preparedSQL))
	commit = number(t, testdb.Query(t, url, "SELECT transaction FROM pg_prepared_xacts WHERE gid = 'commit'"))
	rollback = number(t, testdb.Query(t, url, "SELECT transaction FROM pg_prepared_xacts WHERE gid = 'rollback'"))
	testdb.Load(t, url, strings.NewReader("COMMIT PREPARED 'commit'; ROLLBACK PREPARED 'rollback'; SELECT pg_switch_wal(); INSERT INTO item (id) VALUES (5001);"))
	return s, from, place(t, s), commit, rollback
}

// compressions returns the ways in which a server can compress images.
func compressions(t testing.TB, url string) []string {
	t.Helper()
	all := testdb.Query(t, url, "SELECT coalesce(array_to_string(enumvals, ','), 'on') FROM pg_settings WHERE name = 'wal_compression'")
	return slices.DeleteFunc(strings.Split(all, ","), func(m string) bool { return m == "off" || m == "on" && all != "on" })
}

func place(t testing.TB, s *testdb.Server) uint64 {
	t.Helper()
	text := testdb.Query(t, s.URL("postgres"), "SELECT pg_current_wal_insert_lsn() - '0/0'")
	return number(t, text)
}

func number(t testing.TB, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A sum is a line of pg_waldump --stats.
type sum struct{ count, record, image int64 }

// TestTotalsAreTheServers compares the totals by resource manager with those of PostgreSQL's own
// programs: pg_waldump of 15, and the extension pg_walinspect since 16.
func TestTotalsAreTheServers(t *testing.T) {
	for _, major := range []int{13, 14, 15, 16, 17, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			s, from, to, commit, rollback := used(t, major)
			fs, err := Open([]string{filepath.Join(s.Dir, "pg_wal")}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[uint8]sum{}
			ends := map[uint64]tidemark.LogRecord{}
			assigned, checkpoints, lists := 0, 0, 0
			scan, err := fs.Scan(context.Background(), func(r *tidemark.LogRecord) error {
				if r.Gap != "" {
					t.Errorf("a gap at %X: %s", r.Place, r.Gap)
				}
				if r.Place < from || r.Place >= to {
					return nil
				}
				x := got[r.Class]
				x.count++
				x.record += int64(r.Size) - int64(r.Pad) - int64(r.Image)
				x.image += int64(r.Image)
				got[r.Class] = x
				if r.Ended == tidemark.Committed || r.Ended == tidemark.RolledBack {
					end := *r
					end.Children = slices.Clone(r.Children)
					ends[r.Tx] = end
				}
				if r.Ended == tidemark.StillOpen && len(r.Children) > 0 {
					assigned += len(r.Children)
				}
				if r.Redo > 0 {
					checkpoints++
				}
				if r.Open != nil {
					lists++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if scan.Version != fmt.Sprint(major) || scan.End != "" || scan.To < to {
				t.Errorf("version %s to %X of %X: %s", scan.Version, scan.To, to, scan.End)
			}
			if id := testdb.Query(t, s.URL("postgres"), "SELECT system_identifier FROM pg_control_system()"); id != scan.System {
				t.Errorf("system %s, the server says %s", scan.System, id)
			}
			named := map[string]sum{}
			for class, x := range got {
				named[scan.Classes[class]] = x
			}
			if want := stats(t, s, major, from, to); want != nil && !maps.Equal(named, want) {
				t.Errorf("by resource manager:\n%v\nthe server's own program says\n%v", named, want)
			}
			if e := ends[commit]; e.Ended != tidemark.Committed || len(e.Children) != 2 || !e.Exact {
				t.Errorf("the prepared transaction %d, which was committed: %+v", commit, e)
			}
			if e := ends[rollback]; e.Ended != tidemark.RolledBack || len(e.Children) != 1 {
				t.Errorf("the prepared transaction %d, which was rolled back: %+v", rollback, e)
			}
			if major >= 17 {
				sameAsSummaries(t, s)
			}
			hundred := 0
			for _, e := range ends {
				if len(e.Children) == 100 && e.Ended == tidemark.Committed {
					hundred++
				}
			}
			if hundred != 1 || assigned < 64 || checkpoints < 2 || lists < 2 {
				t.Errorf("%d transactions with 100 below, %d assigned, %d checkpoints, %d lists", hundred, assigned, checkpoints, lists)
			}
		})
	}
}

// stats returns the result of the server's own program; nil if it has none.
func stats(t *testing.T, s *testdb.Server, major int, from, to uint64) map[string]sum {
	t.Helper()
	out := map[string]sum{}
	add := func(name, count, record, image string) {
		if n := int64(number(t, count)); n > 0 {
			out[name] = sum{n, int64(number(t, record)), int64(number(t, image))}
		}
	}
	switch {
	case major == 15:
		cmd := exec.Command("/usr/lib/postgresql/15/bin/pg_waldump", "--stats", "-p", filepath.Join(s.Dir, "pg_wal"), "-s", FormatLSN(from), "-e", FormatLSN(to))
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("pg_waldump: %v", err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(strings.NewReplacer("(", " ", ")", " ").Replace(line))
			if len(f) == 9 && slices.Contains(managers, f[0]) {
				add(f[0], f[1], f[3], f[5])
			}
		}
	case major > 15:
		text := testdb.Query(t, s.URL("postgres"), "CREATE EXTENSION pg_walinspect; SELECT \"resource_manager/record_type\", count, record_size, fpi_size FROM pg_get_wal_stats('"+FormatLSN(from)+"', '"+FormatLSN(to)+"')")
		for line := range strings.Lines(text) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			add(f[0], f[1], f[2], f[3])
		}
	default:
		return nil
	}
	if len(out) < 10 {
		t.Fatalf("the server's own program says only %v", out)
	}
	return out
}

// updated returns a server whose log has small changes, mostly to pages that were changed before.
func updated(b *testing.B) (s *testdb.Server, from, to uint64) {
	s, from, _, _, _ = used(b, 15)
	testdb.Load(b, s.URL("postgres"), strings.NewReader(`
		CREATE TABLE account (id int PRIMARY KEY, balance int, filler char(84));
		INSERT INTO account SELECT g, 0, '' FROM generate_series(1, 100000) g;
		DO $$ BEGIN FOR i IN 1..200000 LOOP UPDATE account SET balance = balance + i WHERE id = 1 + i * 7919 % 100000; IF i % 5 = 0 THEN COMMIT; END IF; END LOOP; END $$;`))
	return s, from, place(b, s)
}

// BenchmarkScan reads the log of a real server, held in memory.
func BenchmarkScan(b *testing.B) {
	s, _, _ := updated(b)
	fs, err := Open([]string{filepath.Join(s.Dir, "pg_wal")}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	var records, bytes int64
	b.ReportAllocs()
	begun := cpuTime(b)
	for b.Loop() {
		records = 0
		scan, err := fs.Scan(context.Background(), func(*tidemark.LogRecord) error { records++; return nil })
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(scan.Bytes)
		bytes += scan.Bytes
	}
	b.ReportMetric(float64(records), "records")
	b.ReportMetric(float64(bytes)/1e6/(cpuTime(b)-begun).Seconds(), "MB/CPU-s") // hardly affected by a busy machine
}

// BenchmarkChanges collects the pages that the same log changes.
func BenchmarkChanges(b *testing.B) {
	s, from, to := updated(b)
	stretch := stretchOf(s, testdb.Query(b, s.URL("postgres"), "SELECT system_identifier FROM pg_control_system()"), from, to)
	var bytes int64
	b.ReportAllocs()
	begun := cpuTime(b)
	for b.Loop() {
		read, err := NewChanges().Scan(b.Context(), stretch)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(read)
		bytes += read
	}
	b.ReportMetric(float64(bytes)/1e6/(cpuTime(b)-begun).Seconds(), "MB/CPU-s")
}

// cpuTime returns the processor time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestPromotion scans the folders of a promoted standby and of its primary, which kept writing:
// those later records are not in the history of the new timeline.
func TestPromotion(t *testing.T) {
	t.Parallel()
	primary := testdb.OwnPostgres(t, 18, "-c", "wal_keep_size=512MB", "-c", "autovacuum=off")
	standby := primary.Standby(t, "postgres")
	insert := func(s *testdb.Server, n int) {
		testdb.Query(t, s.URL("postgres"), fmt.Sprintf("INSERT INTO item SELECT g, repeat('x', 500) FROM generate_series(1, %d) g", n))
	}
	testdb.Query(t, primary.URL("postgres"), "CREATE TABLE item (id int, t text)")
	insert(primary, 20000)
	testdb.Query(t, standby.URL("postgres"), fmt.Sprintf("DO $$ BEGIN WHILE pg_last_wal_replay_lsn() - '0/0' < %d LOOP PERFORM pg_sleep(0.05); END LOOP; END $$", place(t, primary)))
	if got := testdb.Query(t, standby.URL("postgres"), "SELECT pg_promote(true, 300)"); got != "t" {
		t.Fatalf("promoted: %s", got)
	}
	insert(primary, 60000)
	insert(standby, 40000)
	end := place(t, standby)
	alone := mustScan(t, filepath.Join(standby.Dir, "pg_wal"))
	both := mustScan(t, filepath.Join(primary.Dir, "pg_wal"), filepath.Join(standby.Dir, "pg_wal"))
	if alone.To < end || alone.End != "" || len(alone.gaps) > 0 {
		t.Errorf("the standby's alone: to %X of %X, %q, gaps %q", alone.To, end, alone.End, alone.gaps)
	}
	before := slices.Index(both.places, alone.places[0]) // the standby's log may begin later
	if before < 0 || len(both.gaps) > 0 || !slices.Equal(both.places[before:][:len(alone.places)], alone.places) {
		t.Errorf("both have %d records, %d of them before the standby's %d; gaps %q", len(both.places), before, len(alone.places), both.gaps)
	}
	if i := slices.IndexFunc(both.Findings, func(f string) bool { return strings.Contains(f, "timeline 1 ended before it, when timeline 2 began") }); i < 0 {
		t.Errorf("findings %q", both.Findings)
	}
}
