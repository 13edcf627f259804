package misuse

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestFewConnections: a copy that requests more sessions than a server has continues with fewer,
// also while other programs come and go, and reports it; all rows, keys and indexes arrive.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func() *testdb.Server{
		"postgres": func() *testdb.Server { return testdb.OwnPostgres(t, 15, "-c", "max_connections=18") },
		"mariadb":  func() *testdb.Server { return testdb.OwnMariaDB(t, "--max-connections=16") },
	} {
		t.Run(name, func(t *testing.T) {
			s := server()
			src, dst := many(t, s, 10000), s.NewDatabase(t, "dst")
			check := []string{"SELECT a, b FROM keyed ORDER BY a", "SELECT a, b FROM loose ORDER BY a"}
			for i := range 10 {
				name := fmt.Sprintf("t%d", i)
				for _, sql := range []string{"CREATE TABLE %[1]s (a int PRIMARY KEY, b varchar(100))", "INSERT INTO %[1]s SELECT a, b FROM keyed", "CREATE INDEX %[1]s_b ON %[1]s (b)"} {
					testdb.Query(t, src, fmt.Sprintf(sql, name))
				}
				check = append(check, "SELECT a, b FROM "+name+" ORDER BY a")
			}
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				crowd(s.URL(""), stop)
			}()
			o := run(t, "copy", src, dst, "--lanes", "8", "--finishers", "4", "--range-size", "256kB", "--retry-for", "1m")
			close(stop)
			testdb.From(t, "the crowd's end", done)
			if o.Code != 0 {
				t.Fatalf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			for _, sql := range check {
				if a, b := testdb.Query(t, src, sql), testdb.Query(t, dst, sql); a != b {
					t.Errorf("%s: %s", sql, firstDifference(a, b))
				}
			}
			if got := keysOf(t, dst); got != "1" {
				t.Errorf("keyed has %s keys", got)
			}
			for _, want := range []string{"continues with fewer sessions", "lanes and", "max_connections"} {
				if !strings.Contains(o.Out+o.ErrOut, want) {
					t.Errorf("nothing says %q:\n%s%s", want, o.Out, o.ErrOut)
				}
			}
		})
	}
}

// crowd occupies at most three sessions of a server, opening and closing them until stop is closed.
func crowd(url string, stop chan struct{}) {
	var held []*testdb.Session
	defer func() {
		for _, s := range held {
			s.Close()
		}
	}()
	for {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if n := rand.IntN(4); n > len(held) {
			s := testdb.NewSession(url)
			_, _ = s.Try("SELECT 1") // the server may be out of sessions
			held = append(held, s)
		} else if len(held) > 0 {
			held[0].Close()
			held = held[1:]
		}
	}
}
