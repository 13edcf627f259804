package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// bothWays returns the commands of two streams that follow each other.
func bothWays(a, b, name string, more ...string) (there, back []string) {
	there = slices.Concat([]string{"replicate", a, b, "--name", name, "--bidirectional"}, more)
	back = slices.Concat([]string{"replicate", b, a, "--name", name + "_back", "--bidirectional", "--no-copy"}, more)
	return slices.Clip(there), slices.Clip(back)
}

// TestBidirectional has two databases follow each other: a change on one reaches the other, once,
// and does not come back.
func TestBidirectional(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		a, b func(*testing.T) *testdb.Server
	}{{"postgres and postgres", pg15, pg15}, {"postgres and mariadb", pg15, maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			a, b, name := x.a(t).NewDatabase(t, "a"), x.b(t).NewDatabase(t, "b"), streamName()
			testdb.Query(t, a, "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL); INSERT INTO item VALUES (1, 0), (2, 0)")
			there, back := bothWays(a, b, name, "--monitor-interval", "1s")
			must(t, append(there, "--until", "now")...)
			must(t, append(back, "--until", "now")...)
			var running []*exec.Cmd
			for _, args := range [][]string{there, back} {
				cmd := process(t, args...)
				cmd.Stderr = &bytes.Buffer{}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				running = append(running, cmd)
			}
			for range 30 {
				testdb.Query(t, a, "UPDATE item SET n = n + 1 WHERE id = 1")
				testdb.Query(t, b, "UPDATE item SET n = n + 1 WHERE id = 2")
			}
			testdb.Query(t, a, "INSERT INTO item VALUES (10, 1)")
			testdb.Query(t, b, "INSERT INTO item VALUES (20, 2)")
			want := "1\t30\n2\t30\n10\t1\n20\t2"
			var hasA, hasB string
			for w := (waiting{t: t, what: "both sides"}); (hasA != want || hasB != want) && !w.over(); time.Sleep(100 * time.Millisecond) {
				hasA, hasB = testdb.Query(t, a, "SELECT id, n FROM item ORDER BY id"), testdb.Query(t, b, "SELECT id, n FROM item ORDER BY id")
			}
			if hasA != want || hasB != want {
				t.Errorf("one has\n%s\nthe other\n%s", hasA, hasB)
			}
			time.Sleep(500 * time.Millisecond) // time for a loop to go round
			for i, cmd := range running {
				_ = cmd.Process.Signal(syscall.SIGINT)
				if code := interrupted(cmd, cmd.Stderr.(*bytes.Buffer)); code != 130 {
					t.Errorf("stream %d: exit %d\n%s", i, code, cmd.Stderr)
				}
			}
			must(t, "diff", a, b)
			must(t, append(there, "--remove")...)
			must(t, append(back, "--remove")...)
		})
	}
}

// TestBothSidesChange changes the same rows on both sides at once. With the rule all, the side wins
// whose changes are forced on the other, which ignores incoming conflicts.
func TestBothSidesChange(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		a, b func(*testing.T) *testdb.Server
	}{{"postgres and postgres", pg15, pg15}, {"mariadb and postgres", maria, pg15}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			a, b, name := x.a(t).NewDatabase(t, "a"), x.b(t).NewDatabase(t, "b"), streamName()
			testdb.Query(t, a, "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL, s varchar(20) NOT NULL, m int NOT NULL)")
			var rows []string
			for id := range 40 {
				rows = append(rows, fmt.Sprintf("(%d, 0, '', 0)", id))
			}
			testdb.Query(t, a, "INSERT INTO item VALUES "+strings.Join(rows, ", "))
			there, back := bothWays(a, b, name, "--conflict-rule", "key", "--until", "now")
			if strings.HasPrefix(a, "postgres") {
				testdb.Query(t, a, "ALTER TABLE item REPLICA IDENTITY FULL")
			}
			must(t, there...)
			if strings.HasPrefix(b, "postgres") {
				testdb.Query(t, b, "ALTER TABLE item REPLICA IDENTITY FULL")
			}
			must(t, back...)
			there, back = append(there, "--conflict-rule", "all", "--conflict", "ignore"), append(back, "--conflict-rule", "all", "--conflict", "force")
			// Both sides change before either receives the other's changes.
			for _, sql := range []string{"UPDATE item SET n = %d1 WHERE id IN (1, 2)", "INSERT INTO item VALUES (100, %d2, '', 0)"} {
				testdb.Query(t, a, fmt.Sprintf(sql, 1))
				testdb.Query(t, b, fmt.Sprintf(sql, 2))
			}
			testdb.Query(t, a, "UPDATE item SET m = 5 WHERE id = 2; DELETE FROM item WHERE id = 3; UPDATE item SET n = 7 WHERE id = 4; DELETE FROM item WHERE id = 5")
			testdb.Query(t, b, "UPDATE item SET n = 8 WHERE id = 3; DELETE FROM item WHERE id = 4; DELETE FROM item WHERE id = 5; UPDATE item SET n = 9 WHERE id = 6")
			testdb.Query(t, a, "UPDATE item SET n = 10 WHERE id = 7")
			for range 2 {
				must(t, there...)
				must(t, back...)
			}
			want := "1\t21\t0\n2\t21\t0\n3\t8\t0\n6\t9\t0\n7\t10\t0\n100\t22\t0"
			for side, url := range map[string]string{"a": a, "b": b} {
				if got := testdb.Query(t, url, "SELECT id, n, m FROM item WHERE id BETWEEN 1 AND 7 OR id = 100 ORDER BY id"); got != want {
					t.Errorf("%s has\n%s", side, got)
				}
			}
			must(t, "diff", a, b)
			// What was forced has not gone round: b has ignored exactly a's changes.
			if o := must(t, "exceptions", b, "--limit", "100"); strings.Count(o.out, "skipped") != 7 {
				t.Errorf("b has\n%s", o.out)
			}
			// The same while both streams run.
			var running []*exec.Cmd
			for _, args := range [][]string{there, back} {
				cmd := process(t, append(args, "--until", "never")...)
				cmd.Stderr = &bytes.Buffer{}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				running = append(running, cmd)
			}
			var writers sync.WaitGroup
			for side, url := range []string{a, b} {
				rnd := rand.New(rand.NewPCG(uint64(side), 1))
				writers.Go(func() {
					for i := range 60 {
						var sql []string
						for range 1 + rnd.IntN(4) {
							id := 10 + rnd.IntN(30)
							sql = append(sql, []string{fmt.Sprintf("UPDATE item SET n = %d WHERE id = %d", i*100+len(sql)*10+side, id), fmt.Sprintf("UPDATE item SET s = '%d of %d' WHERE id = %d", i*10+len(sql), side, id),
								fmt.Sprintf("DELETE FROM item WHERE id = %d", id)}[max(rnd.IntN(12)-9, rnd.IntN(2))])
						}
						if _, err := testdb.TryQuery(url, "BEGIN; "+strings.Join(sql, "; ")+"; COMMIT"); err != nil && !strings.Contains(err.Error(), "eadlock") {
							t.Error(err)
						}
					}
				})
			}
			writers.Wait()
			for _, cmd := range running {
				_ = cmd.Process.Signal(syscall.SIGINT)
				if code := interrupted(cmd, cmd.Stderr.(*bytes.Buffer)); code != 130 {
					t.Errorf("exit %d\n%s", code, cmd.Stderr)
				}
			}
			must(t, there...)
			must(t, back...)
			must(t, "diff", a, b)
			must(t, append(there, "--remove")...)
			must(t, append(back, "--remove")...)
		})
	}
}

// TestLoopOfLargeTransactions has two databases follow each other through transactions that arrive
// in pieces: none of them goes back.
func TestLoopOfLargeTransactions(t *testing.T) {
	t.Parallel()
	a, b, name := maria(t).NewDatabase(t, "a"), mysql8(t).NewDatabase(t, "b"), streamName()
	testdb.Query(t, a, "CREATE TABLE item (id int PRIMARY KEY, s varchar(2000) NOT NULL)")
	there, back := bothWays(a, b, name, "--until", "now")
	must(t, there...)
	must(t, back...)
	for i, url := range []string{a, b} { // 10 MB each; an update has both images of it
		ten := "(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
		testdb.Query(t, url, fmt.Sprintf("BEGIN; INSERT INTO item SELECT %d + x.d + 10 * y.d + 100 * z.d + 1000 * w.d, repeat(char(97 + x.d), 1000) FROM %s x, %s y, %s z, (SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) w; "+
			"UPDATE item SET s = concat(s, 'x') WHERE id %% 3 = 0; UPDATE item SET s = concat(s, 'y'); COMMIT", 10000*i, ten, ten, ten))
	}
	for range 2 {
		for i, args := range [][]string{there, back} {
			o := must(t, append(args, "--json")...)
			if n := strings.Count(o.out, `"rows_not_applied":0`); n == 0 {
				t.Errorf("stream %d\n%s", i, o.out)
			}
		}
	}
	must(t, "diff", a, b)
	if n := testdb.Query(t, a, "SELECT count(*) FROM item"); n != "8000" {
		t.Error(n)
	}
	must(t, append(there, "--remove")...)
	must(t, append(back, "--remove")...)
}

// TestLoopOfDefinitions has two databases follow each other's ALTER TABLE: none comes back, where
// it would undo what was done since.
func TestLoopOfDefinitions(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		a, b func(*testing.T) *testdb.Server
	}{{"mysql", mysql8, mysql8}, {"mariadb", maria, maria}, {"both", mysql8, maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			a, b, name := x.a(t).NewDatabase(t, "a"), x.b(t).NewDatabase(t, "b"), streamName()
			testdb.Query(t, a, "CREATE TABLE item (id int PRIMARY KEY, n int, l enum('x','y')) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20)); INSERT INTO item VALUES (1, 1, 'x'), (11, 1, 'y')")
			there, back := bothWays(a, b, name, "--until", "now")
			must(t, there...)
			must(t, back...)
			for _, step := range [][2]string{
				{"ALTER TABLE item TRUNCATE PARTITION p1; INSERT INTO item VALUES (12, 2, 'x')", "INSERT INTO item VALUES (13, 3, 'y')"},
				{"ALTER TABLE item RENAME COLUMN n TO m; INSERT INTO item VALUES (2, 2, 'x')", "ALTER TABLE item RENAME COLUMN m TO n; INSERT INTO item VALUES (3, 3, 'x')"},
				{"ALTER TABLE item MODIFY l enum('x','y','z'); UPDATE item SET l = 'z' WHERE id = 2", "ALTER TABLE item MODIFY l enum('z','x','y','w'); UPDATE item SET l = 'w' WHERE id = 3"},
				{"ALTER TABLE item DROP n; INSERT INTO item VALUES (4, 'x')", "ALTER TABLE item ADD n bigint DEFAULT 7; INSERT INTO item VALUES (5, 'x', 5)"},
				{"ALTER TABLE item ADD PARTITION (PARTITION p2 VALUES LESS THAN (30)); INSERT INTO item VALUES (22, 'x', 2)", "ALTER TABLE item DROP PARTITION p2; ALTER TABLE item ADD PARTITION (PARTITION p2 VALUES LESS THAN (40)); INSERT INTO item VALUES (35, 'x', 3)"},
			} {
				testdb.Query(t, a, step[0])
				must(t, there...)
				testdb.Query(t, a, step[1]) // before what the other one did comes back
				must(t, back...)
				must(t, there...)
				must(t, back...)
			}
			testdb.Query(t, b, "ALTER TABLE item MODIFY n varchar(30); UPDATE item SET n = 'b' WHERE id = 1")
			must(t, back...)
			must(t, there...)
			must(t, "diff", a, b)
			const rows = "SELECT group_concat(id, l, n ORDER BY id) FROM item"
			if hasA, hasB := testdb.Query(t, a, rows), testdb.Query(t, b, rows); hasA != hasB || hasA != "1xb,2z7,3w7,4x7,5x5,12x7,13y7,35x3" {
				t.Errorf("one has %s, the other %s", hasA, hasB)
			}
			must(t, append(there, "--remove")...)
			must(t, append(back, "--remove")...)
		})
	}
}
