package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// ledger is a schema that all engines share.
const ledger = `
CREATE TABLE branch (id int PRIMARY KEY, name varchar(40) NOT NULL UNIQUE, total int NOT NULL DEFAULT 0);
CREATE TABLE account (id int PRIMARY KEY, branch int NOT NULL, balance decimal(12,2) NOT NULL DEFAULT 0, opened date, note text, FOREIGN KEY (branch) REFERENCES branch (id));
CREATE TABLE history (id int PRIMARY KEY, account int, delta double precision, at timestamp NULL);
INSERT INTO branch VALUES (1, 'one', 0), (2, 'two', 0), (3, 'three', 0), (4, 'four', 0);
`

// trade changes the ledger until stop is closed.
func trade(t *testing.T, url string, seed uint64, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	n := int(seed % 1000 * 1_000_000)
	traffic(t, url, stop, func() string {
		n++
		a, b := 1+rnd.IntN(200), 1+rnd.IntN(4)
		return []string{
			fmt.Sprintf("INSERT INTO account (id, branch, opened, note) VALUES (%d, %d, '2026-01-0%d', 'é%d''\t\\\\x')", 1000+n, b, 1+n%9, n),
			fmt.Sprintf("UPDATE account SET balance = balance + 1.25 WHERE id %% 200 = %d; UPDATE branch SET total = total + 1 WHERE id = %d", a, b),
			fmt.Sprintf("INSERT INTO history VALUES (%d, %d, 0.1, '2026-02-03 04:05:06'); UPDATE branch SET total = total + 1 WHERE id = %d", n, a, b),
			fmt.Sprintf("DELETE FROM history WHERE id %% 50 = %d", a%50),
			fmt.Sprintf("DELETE FROM account WHERE id %% 200 = %d", a),
			fmt.Sprintf("UPDATE branch SET name = 'x%d' WHERE id = %d", n, b),
			fmt.Sprintf("UPDATE account SET extra = %d WHERE id %% 200 = %d", n, a), // once the column exists
		}[rnd.IntN(7)]
	}, "42703", uint16(1054)) // the column does not exist yet
}

// TestReplicateAcross follows every kind of source into every kind of target under load, through
// kills and stops.
func TestReplicateAcross(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		from, to func(*testing.T) *testdb.Server
		queue    string
	}{
		{"postgres to mariadb", pg15, maria, "direct"},
		{"postgres to mysql", pg15, mysql8, "durable"},
		{"mysql to postgres", mysql8, pg15, "direct"},
		{"mariadb to postgres", maria, pg15, "durable"},
		{"mariadb to mariadb", maria, maria, "direct"},
		{"mysql to mariadb", mysql8, maria, "durable"},
		{"postgres to postgres", pg15, pg15, "durable"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.from(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(ledger))
			args := []string{"replicate", src, dst, "--name", name, "--monitor-interval", "1s", "--queue", x.queue}
			seed := testdb.Seed(t)
			rnd, stop := rand.New(rand.NewPCG(seed, 99)), make(chan struct{})
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() { trade(t, src, seed+uint64(i), stop) })
			}
			for round := range 4 {
				// Each run resumes what the previous one left.
				cmd := process(t, append(args[:len(args):len(args)], "--apply-mode", []string{"batch", "auto"}[rnd.IntN(2)])...)
				var errOut bytes.Buffer
				cmd.Stderr = &errOut
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if round == 0 {
					awaitStream(t, cmd, &errOut, name)
				}
				time.Sleep(time.Duration(500+rnd.IntN(1000)) * time.Millisecond)
				if round == 1 {
					testdb.Query(t, src, "ALTER TABLE account ADD COLUMN extra int DEFAULT 5")
					time.Sleep(time.Second)
				}
				if round%2 == 0 {
					_ = cmd.Process.Kill()
				} else {
					_ = cmd.Process.Signal(syscall.SIGINT)
				}
				if code := interrupted(cmd, &errOut); round%2 == 1 && code != 130 {
					t.Errorf("stopped: exit %d\n%s", code, &errOut)
				}
			}
			soon(t, "trade at each branch", func() bool { // a busy machine trades slowly
				return testdb.Query(t, src, "SELECT count(*) FROM branch WHERE total > 0") == "4"
			})
			close(stop)
			wg.Wait()
			o := must(t, "cutover", src, dst, "--name", name)
			if !strings.Contains(o.out, "Both sides are equal") {
				t.Errorf("cutover says\n%s", o.out)
			}
			if n := testdb.Query(t, dst, "SELECT count(*) FROM branch WHERE total > 0"); n != "4" {
				t.Errorf("%s of 4 branches have seen any trade", n)
			}
			must(t, append(args, "--remove")...)
			nothingOfOurs(t, dst)
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(statePath(t)), "queues", "*")); len(left) > 0 {
				t.Errorf("left of the queue: %s", left)
			}
		})
	}
}
