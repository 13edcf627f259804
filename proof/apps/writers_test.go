package apps

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// writers are sessions that write transactions of random rows.
type writers struct {
	url     string
	tables  []string // that they write
	columns map[string][]column
	keys    map[string]map[string]string
}

// start starts three of them. stop ends them, and returns how many transactions they have
// committed.
func (w *writers) start(t *testing.T, seed uint64) (stop func() int64) {
	var done atomic.Int64
	var wg sync.WaitGroup
	ended := make(chan struct{})
	stop = sync.OnceValue(func() int64 {
		close(ended)
		wg.Wait()
		return done.Load()
	})
	t.Cleanup(func() { stop() })
	if len(w.tables) == 0 {
		return stop
	}
	for session := range 3 {
		wg.Go(func() {
			s, r := testdb.NewSession(w.url), rand.New(rand.NewPCG(seed, uint64(session)))
			defer s.Close()
			for n := 10_000 * (session + 1); ; n += 10 {
				select {
				case <-ended:
					return
				case <-time.After(5 * time.Millisecond):
					if w.transaction(s, r, n) {
						done.Add(1)
					}
				}
			}
		})
	}
	return stop
}

// transaction writes rows of some tables, as far as the database's constraints let it. Some of its
// statements are rolled back, and some transactions. It reports whether one that has written
// something was committed.
func (w *writers) transaction(s *testdb.Session, r *rand.Rand, n int) bool {
	_, _ = s.Try("BEGIN")
	wrote := false
	for i := range 1 + r.IntN(6) {
		sql := w.statement(s, r, n+i)
		if sql == "" {
			continue
		}
		_, _ = s.Try("SAVEPOINT s")
		if _, err := s.Try(sql); err != nil || r.IntN(12) == 0 {
			_, _ = s.Try("ROLLBACK TO SAVEPOINT s")
			continue
		}
		wrote = true
	}
	if r.IntN(12) == 0 {
		_, _ = s.Try("ROLLBACK")
		return false
	}
	_, err := s.Try("COMMIT")
	return err == nil && wrote
}

func (w *writers) statement(s *testdb.Session, r *rand.Rand, n int) string {
	table := w.tables[r.IntN(len(w.tables))]
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		sql, _ := row(s, w.url, table, w.columns[table], references(w.keys)[table], n)
		return sql
	case 4, 5, 6:
		return update(r, w.url, table, w.columns[table], w.keys[table], 1+r.IntN(4), n, false)
	case 7:
		return update(r, w.url, table, w.columns[table], w.keys[table], 1, n, true)
	}
	return "DELETE FROM " + quote(w.url, table) + some(w.url, table, 1+r.IntN(3))
}
