package bulk

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

func TestWhatSessionsDo(t *testing.T) {
	for _, s := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
		t.Run(s.Engine, func(t *testing.T) {
			url := s.NewDatabase(t, "waits")
			e := open(t, url, server.Options{})
			testdb.Query(t, url, "CREATE TABLE t (i int)")
			exec := func(lane int, sql string) (ended chan error) {
				ended = make(chan error, 1)
				go func() { ended <- e.Exec(context.WithoutCancel(t.Context()), lane, []string{sql}) }()
				return ended
			}
			doing := func(lane int, kinds ...tidemark.WaitKind) tidemark.Wait {
				t.Helper()
				var found tidemark.Wait
				testdb.Within(t, fmt.Sprintf("lane %d doing %v", lane, kinds), func() bool {
					waits, err := e.Doing(t.Context(), tidemark.WriteSide)
					if err != nil {
						t.Fatal(err)
					}
					i := slices.IndexFunc(waits, func(w tidemark.Wait) bool { return w.Lane == lane && slices.Contains(kinds, w.Kind) })
					if i >= 0 {
						found = waits[i]
					}
					return i >= 0
				})
				return found
			}
			holder := testdb.NewSession(url)
			defer holder.Close()
			for _, sql := range []string{"BEGIN", "SELECT * FROM t"} {
				if _, err := holder.Try(sql); err != nil {
					t.Fatal(err)
				}
			}
			waits := exec(2, "ALTER TABLE t ADD k int")
			if w := doing(2, tidemark.WaitLock); w.Event != "Waiting for table metadata lock" {
				t.Errorf("a session that waits for a lock: %+v", w)
			}
			if _, err := holder.Try("ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			if err := testdb.From(t, "the end of the ALTER", waits); err != nil {
				t.Fatal(err)
			}
			doing(2, tidemark.WaitNetwork)   // it is idle
			naps := exec(2, "DO SLEEP(600)") // until it is found
			var w tidemark.Wait
			testdb.Within(t, "sleep", func() bool { // before it sleeps it is executing
				w = doing(2, tidemark.WaitUnknown)
				return w.Event == "User sleep"
			})
			if e.MariaDB != (w.Thread != 0) {
				t.Errorf("a session that sleeps: %+v", w)
			}
			testdb.Query(t, url, "KILL "+testdb.Query(t, url, "SELECT id FROM information_schema.processlist WHERE info = 'DO SLEEP(600)' AND db = DATABASE()"))
			if err := testdb.From(t, "the end of the sleep", naps); tidemark.KindOf(err) != tidemark.Transient {
				t.Error(err)
			}
		})
	}
}

// Where the performance schema is on, waits for rows and files are known.
func TestWhatThePerformanceSchemaKnows(t *testing.T) {
	srv := testdb.OwnMySQL(t, "--performance-schema=ON")
	url := srv.NewDatabase(t, "waits")
	e := open(t, url, server.Options{})
	testdb.Query(t, url, "CREATE TABLE t (i INT PRIMARY KEY, s VARCHAR(200))")
	testdb.Query(t, url, "INSERT INTO t VALUES (1, 'a')")
	holder := testdb.NewSession(url)
	defer holder.Close()
	for _, sql := range []string{"BEGIN", "UPDATE t SET s = 'b'"} {
		if _, err := holder.Try(sql); err != nil {
			t.Fatal(err)
		}
	}
	found := map[tidemark.WaitKind]float64{}
	during := func(sql string) {
		ended := make(chan error, 1)
		go func() { ended <- e.Exec(context.WithoutCancel(t.Context()), 1, []string{sql}) }()
		release := time.After(time.Second)
		for {
			waits, err := e.Doing(t.Context(), tidemark.WriteSide)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for _, w := range waits {
				found[w.Kind] += w.Share
				sum += w.Share
			}
			if sum > 1.0001 {
				t.Fatalf("shares of one session add up to %v: %v", sum, waits)
			}
			select {
			case <-release:
				holder.Close()
			case err := <-ended:
				if err != nil {
					t.Fatal(err)
				}
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	during("UPDATE t SET s = 'c'")
	if found[tidemark.WaitLock] < 1 {
		t.Errorf("a second of waiting for a row: %v", found)
	}
	for range 300 {
		testdb.Query(t, url, "INSERT IGNORE INTO t SELECT FLOOR(RAND() * 1e9), REPEAT('x', 200) FROM t LIMIT 100")
	}
	clear(found)
	for range 8 {
		during("INSERT IGNORE INTO t SELECT FLOOR(RAND() * 1e9), REPEAT('x', 200) FROM t LIMIT 20000")
	}
	if found[tidemark.WaitLogSync]+found[tidemark.WaitDisk]+found[tidemark.WaitDataWrite]+found[tidemark.WaitTemp] == 0 {
		t.Errorf("inserts waited for no file: %v", found)
	}
}
