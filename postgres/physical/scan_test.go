package physical

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// tally counts the records of a log by place, up to a place, and by table.
type tally struct {
	until  uint64
	places []uint64
	bytes  map[uint32]int64
}

func (c *tally) take(r *tidemark.LogRecord) error {
	if c.until == 0 || r.Place < c.until {
		c.places = append(c.places, r.Place)
	}
	if c.bytes == nil {
		c.bytes = map[uint32]int64{}
	}
	c.bytes[r.Table] += int64(r.Size)
	return nil
}

func openURL(t *testing.T, url string) *Cluster {
	t.Helper()
	s, err := server.Open(context.Background(), url, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &Cluster{s}
}

// The scan returns what is in the server's folder, from the first segment that it still has.
func TestScanLogIsTheFiles(t *testing.T) {
	for _, major := range []int{13, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			s := testdb.OwnPostgres(t, major, "-c", "wal_keep_size=512MB", "-c", "autovacuum=off")
			testdb.Load(t, s.URL("postgres"), strings.NewReader(`
				CREATE TABLE item (id int PRIMARY KEY, t text);
				INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 40000) g;
				INSERT INTO item VALUES (0, (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 3000) g));`))
			e := openURL(t, s.URL("postgres"))
			end, err := e.LogEnd(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			fs, err := wal.Open([]string{filepath.Join(s.Dir, "pg_wal")}, wal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			live, files := tally{until: end}, tally{until: end}
			if _, err := fs.Scan(context.Background(), files.take); err != nil {
				t.Fatal(err)
			}
			scan, err := e.ScanLog(tidemark.LogRange{}).Scan(context.Background(), live.take)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(live.places, files.places) || len(live.places) < 40000 || scan.End != "" || scan.Version != fmt.Sprint(major) {
				t.Errorf("%d records, and %d in the folder; %+v", len(live.places), len(files.places), scan.End)
			}
			byName := map[string]int64{}
			for i, n := range live.bytes {
				byName[scan.Tables[i]] += n
			}
			for _, name := range []string{"public.item", "public.item_pkey (index)", "public.item (TOAST)", "pg_catalog.pg_class"} {
				if byName[name] == 0 {
					t.Errorf("nothing of %s: %v", name, slices.Sorted(maps.Keys(byName)))
				}
			}
			from, until := live.places[1000], live.places[3000]
			part := tally{}
			if scan, err = e.ScanLog(tidemark.LogRange{From: from, Until: until}).Scan(context.Background(), part.take); err != nil || !slices.Equal(part.places, live.places[1000:3000]) {
				t.Errorf("a part has %d records: %v", len(part.places), err)
			}
			if scan.From != from || scan.To != until || scan.Syncs != 0 {
				t.Errorf("from %X to %X and not from %X to %X", scan.From, scan.To, from, until)
			}
		})
	}
}

// A scan limited by time has what was written in that time, and how often it was synced.
func TestScanLogForATime(t *testing.T) {
	// If nothing is written the time passes all the same.
	e := openURL(t, testdb.Postgres(t, 15).URL("postgres"))
	scan, err := e.ScanLog(tidemark.LogRange{For: time.Second}).Scan(context.Background(), func(*tidemark.LogRecord) error { return nil })
	if err != nil || len(scan.Findings) != 1 || !strings.HasPrefix(scan.Findings[0], "the server does not count its fsyncs") {
		t.Errorf("a server with fsync off: %v, %q", err, scan.Findings)
	}
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			s := testdb.OwnPostgres(t, major, "-c", "fsync=on", "-c", "autovacuum=off")
			url := s.URL("postgres")
			testdb.Query(t, url, "CREATE TABLE item (id int); INSERT INTO item VALUES (1)")
			e := openURL(t, url)
			stop := make(chan struct{})
			wrote := make(chan int)
			go func() {
				n := 0
				for {
					select {
					case <-stop:
						wrote <- n
						return
					default:
						if _, err := testdb.TryQuery(url, "INSERT INTO item VALUES (2)"); err == nil {
							n++
						}
					}
				}
			}()
			var scan tidemark.LogScan
			var err error
			commits := 0
			for try := 0; try < 5 && err == nil && (commits == 0 || scan.Syncs == 0); try++ { // a busy machine may have written nothing
				commits = 0
				scan, err = e.ScanLog(tidemark.LogRange{For: 3 * time.Second}).Scan(context.Background(), func(r *tidemark.LogRecord) error {
					if r.Ended == tidemark.Committed {
						commits++
					}
					return nil
				})
			}
			close(stop)
			if n := testdb.From(t, "the writer's end", wrote); err != nil || commits == 0 || commits > n {
				t.Errorf("%d commits of %d: %v", commits, n, err)
			}
			if scan.Syncs == 0 || scan.SyncsFrom == 0 || scan.SyncsTo <= scan.SyncsFrom || len(scan.Findings) > 0 {
				t.Errorf("%d syncs from %X to %X, %q", scan.Syncs, scan.SyncsFrom, scan.SyncsTo, scan.Findings)
			}
		})
	}
}

func TestScanLogRefusals(t *testing.T) {
	s := testdb.OwnPostgres(t, 15, "-c", "autovacuum=off", "-c", "max_wal_size=32MB")
	url := s.URL("postgres")
	for range 4 { // the server removes segments that it does not need
		testdb.Load(t, url, strings.NewReader("CREATE TABLE item AS SELECT g FROM generate_series(1, 20000) g; DROP TABLE item; SELECT pg_switch_wal(); CHECKPOINT;"))
	}
	testdb.Query(t, url, "CREATE ROLE plain LOGIN PASSWORD '"+s.Password+"'; CREATE ROLE sender LOGIN REPLICATION PASSWORD '"+s.Password+"'")
	as := func(role string) *Cluster {
		return openURL(t, strings.Replace(url, s.User+":", role+":", 1))
	}
	none := func(*tidemark.LogRecord) error { return nil }
	own := fmt.Errorf("enough")
	for what, c := range map[string]struct {
		role string
		r    tidemark.LogRange
		emit func(*tidemark.LogRecord) error
		kind tidemark.Kind
		says string
	}{
		"gone":           {s.User, tidemark.LogRange{From: 0x1000028}, none, tidemark.Lost, "has already been removed"},
		"backwards":      {s.User, tidemark.LogRange{From: 0x2000000, Until: 0x1000000}, none, tidemark.Invalid, "is empty"},
		"no replication": {"plain", tidemark.LogRange{For: time.Second}, none, tidemark.Forbidden, "replication"},
		"no monitor":     {"sender", tidemark.LogRange{}, none, tidemark.Forbidden, "pg_ls_waldir"},
		"enough":         {s.User, tidemark.LogRange{}, func(*tidemark.LogRecord) error { return own }, tidemark.Bug, "enough"},
	} {
		_, err := as(c.role).ScanLog(c.r).Scan(context.Background(), c.emit)
		if err == nil || tidemark.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || tidemark.HintOf(err) == "" && c.kind != tidemark.Bug {
			t.Errorf("%s: %v (%v, hint %q)", what, err, tidemark.KindOf(err), tidemark.HintOf(err))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := as("sender").ScanLog(tidemark.LogRange{For: time.Hour}).Scan(ctx, none); tidemark.KindOf(err) != tidemark.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// A standby sends what it has of its primary's log.
func TestScanLogOfAStandby(t *testing.T) {
	t.Parallel()
	primary := testdb.OwnPostgres(t, 17, "-c", "wal_keep_size=512MB", "-c", "autovacuum=off")
	standby := primary.Standby(t, "postgres")
	testdb.Query(t, primary.URL("postgres"), "CREATE TABLE item AS SELECT g FROM generate_series(1, 20000) g")
	from, e := openURL(t, primary.URL("postgres")), openURL(t, standby.URL("postgres"))
	end, err := from.LogEnd(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, standby.URL("postgres"), fmt.Sprintf("DO $$ BEGIN WHILE pg_last_wal_replay_lsn() < '%s' LOOP PERFORM pg_sleep(0.05); END LOOP; END $$", wal.FormatLSN(end)))
	there, here := tally{until: end}, tally{until: end}
	if _, err := from.ScanLog(tidemark.LogRange{}).Scan(context.Background(), there.take); err != nil {
		t.Fatal(err)
	}
	if _, err := e.ScanLog(tidemark.LogRange{}).Scan(context.Background(), here.take); err != nil {
		t.Fatal(err)
	}
	if len(here.places) < 20000 || !slices.Equal(here.places, there.places[len(there.places)-len(here.places):]) {
		t.Errorf("%d records of the standby, %d of the primary", len(here.places), len(there.places))
	}
}
