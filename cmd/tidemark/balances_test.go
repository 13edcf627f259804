package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// balances are moved between accounts; each move has a number, in commit order.
const balances = `
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
CREATE TABLE savings (id int PRIMARY KEY, balance int NOT NULL);
CREATE TABLE move (id int PRIMARY KEY, amount int NOT NULL);
INSERT INTO account SELECT i, 100 FROM (SELECT 1 AS i UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8) x;
INSERT INTO savings SELECT id, balance FROM account;
INSERT INTO move VALUES (0, 0);
`

// TestBalances continuously reads a target while money is moved on the source, and the stream is
// killed, disconnected and taken over. With commits in the source's order, the target always has a
// past state of the source: all the money is there, and the first n moves with exactly their
// effects.
func TestBalances(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"postgres to postgres", pg15, pg15}, {"mariadb to mariadb", maria, maria}, {"mysql to postgres", mysql8, pg15}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(balances))
			args := []string{"replicate", src, dst, "--name", name, "--queue", "durable", "--commit-order", "source"}
			must(t, append(args, "--until", "now")...)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { moves(t, src, rand.Uint64(), stop) })
			}
			var looks, last atomic.Int64
			wg.Go(func() {
				s := testdb.NewSession(dst)
				defer s.Close()
				for ; goesOn(stop); looks.Add(1) {
					// A single statement sees a single snapshot, but not on MariaDB: see
					// "Guarantees" in doc/manual/replicate.md.
					begin, end := "", ""
					if strings.HasPrefix(dst, "mariadb:") {
						begin, end = "START TRANSACTION WITH CONSISTENT SNAPSHOT; ", "; COMMIT"
					}
					got, err := s.Try(begin + `SELECT (SELECT sum(balance) FROM account) + (SELECT sum(balance) FROM savings), (SELECT count(*) - max(id) FROM move),
						(SELECT sum(balance) FROM savings) - 800 - (SELECT sum(amount) FROM move), (SELECT max(id) FROM move)` + end)
					f := strings.FieldsFunc(got, func(c rune) bool { return c == '\t' || c == '|' })
					if err == nil && (len(f) != 4 || f[0] != "1600" || f[1] != "1" || f[2] != "0") {
						t.Errorf("look %d: the target has %q", looks.Load(), got)
						return
					}
					if err == nil {
						n, _ := strconv.ParseInt(f[3], 10, 64) // a number, since the other columns are right
						last.Store(n)
					}
				}
			})
			rnd := rand.New(rand.NewPCG(testdb.Seed(t), 5))
			for range 3 {
				f := running(t, args...)
				time.Sleep(time.Duration(300+rnd.IntN(900)) * time.Millisecond)
				_ = f.Process.Kill()
				_ = f.Wait() // it was killed
			}
			f := running(t, args...)
			f.says("trans/s", 2)
			f.await("looks", func() bool { return looks.Load() >= 10 && last.Load() > 0 || t.Failed() })
			close(stop)
			wg.Wait()
			f.interrupt()
			t.Logf("%d looks, at %d moves at last", looks.Load(), last.Load())
			equal(t, src, dst, name)
			if n := testdb.Query(t, dst, "SELECT max(id) FROM move"); n == "0" {
				t.Error("nothing was moved")
			}
		})
	}
}

// moves moves money until stop is closed. Reading the first row of move locks it, so that the
// numbers follow the order of commits.
func moves(t *testing.T, url string, seed uint64, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	traffic(t, url, stop, func() string {
		a, b, n := 1+rnd.IntN(8), 1+rnd.IntN(8), rnd.IntN(20)-10
		return fmt.Sprintf(`UPDATE move SET amount = 0 WHERE id = 0;
			UPDATE account SET balance = balance - %d WHERE id = %d; UPDATE savings SET balance = balance + %d WHERE id = %d;
			INSERT INTO move SELECT * FROM (SELECT max(id) + 1 AS id, %d AS amount FROM move) x`, n, a, n, b, n)
	})
}
