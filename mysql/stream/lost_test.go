package stream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// journaled opens an engine whose streams remember the log in a file. With anew, Freeze begins it.
func journaled(t *testing.T, url, path string, anew bool) *Engine {
	t.Helper()
	e := open(t, url, server.Options{})
	e.Journal(path)
	if anew {
		if err := e.Hold(t.Context(), testdb.StreamName("journal"), nil); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// TestResetIsNoticed resets the binlog and repeats the same work, so that the new log has a
// transaction boundary wherever the old one had. It tests the view's place, a place that a stream
// has reached, and one in a file that began while it ran.
func TestResetIsNoticed(t *testing.T) {
	for _, srv := range []*testdb.Server{testdb.OwnMySQL(t), testdb.OwnMariaDB(t)} {
		t.Run(srv.Engine, func(t *testing.T) {
			url, path := srv.NewDatabase(t, "reset"), filepath.Join(t.TempDir(), "logs", "s.log")
			testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY)")
			reset := "RESET MASTER; INSERT INTO item VALUES (1); INSERT INTO item VALUES (2); "
			clear := "SET sql_log_bin = 0; DELETE FROM item"
			testdb.Query(t, url, reset+clear)
			e := journaled(t, url, path, true)
			pos, err := e.Freeze(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			again := func(sql string) {
				t.Helper()
				time.Sleep(1100 * time.Millisecond) // a log is identified by the second in which it began
				testdb.Query(t, url, reset+sql+clear)
			}
			lost := func(after uint64) {
				t.Helper()
				_, err := tryFollow(t, journaled(t, url, path, false), after)
				if tidemark.KindOf(err) != tidemark.Lost || !strings.Contains(err.Error(), "is not the one that the stream has read") {
					t.Errorf("at %s: %v", server.PlaceText(after), err)
				}
			}
			more := "INSERT INTO item VALUES (3); FLUSH BINARY LOGS; INSERT INTO item VALUES (4); "
			testdb.Query(t, url, more+clear)
			txs := follow(t, journaled(t, url, path, false), pos.Place)
			if len(txs) != 2 || txs[1].Place>>32 != pos.Place>>32+1 {
				t.Fatalf("%d transactions", len(txs))
			}
			if got := follow(t, journaled(t, url, path, false), txs[1].End); len(got) != 0 {
				t.Error("a log that was not reset")
			}
			again(more)
			for _, after := range []uint64{pos.Place, txs[0].End, txs[1].End} {
				lost(after)
			}
			// Without a journal the same place looks the same, and the reset goes unnoticed.
			if got := follow(t, open(t, url, server.Options{}), txs[0].End); len(got) != 1 {
				t.Errorf("%d transactions: the boundaries are not those of before, so this test tests nothing", len(got))
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestJournalIsWhole reads journals that a machine crash has truncated, and invalid ones.
func TestJournalIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.log")
	j, err := readJournal(path)
	if err != nil || len(j.head) != 0 {
		t.Fatal(j, err)
	}
	for n := range uint32(2) {
		if err := j.putHead(n+1, logHead{n + 1, 1700000000 + n, 7}); err != nil {
			t.Fatal(err)
		}
	}
	j.close()
	whole, _ := os.ReadFile(path)
	for cut := range len(whole) {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := readJournal(path)
		if err != nil || len(j.head) != strings.Count(string(whole[:cut]), "\n") {
			t.Errorf("%q: %v, %v", whole[:cut], j, err)
		}
		if err := j.putHead(9, logHead{9, 9, 9}); err != nil {
			t.Fatal(err)
		}
		j.close()
		if j, err = readJournal(path); err != nil || j.head[9] != (logHead{9, 9, 9}) {
			t.Errorf("%q, and one more: %v, %v", whole[:cut], j, err)
		}
	}
	for _, text := range []string{"F 1 2 3\n", "G 1 2 3 4\n", "F 1 2 3 x\n", "F 1 2 3 4294967296\n", "\n", "T x 1 a:1\n", "T 5 a:1\n", "R\n", "S 5\n", "B\n", "U 1 2\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readJournal(path); err == nil || !strings.Contains(err.Error(), "not in its format") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
