package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A trap is a pitfall for a stream, in each dialect.
type trap struct{ name, pg, my string }

// both is a trap with the same SQL in both dialects.
func both(name, sql string) trap { return trap{name, sql, sql} }

// trapTables are the tables that the traps use. %s is the engine's type for large text.
const trapTables = `
CREATE TABLE doc (id int PRIMARY KEY, n int NOT NULL, big %[1]s, other %[1]s);
CREATE TABLE seat (id int PRIMARY KEY, place int UNIQUE, name varchar(40) UNIQUE);
CREATE TABLE boss (id int PRIMARY KEY, total int NOT NULL DEFAULT 0);
CREATE TABLE worker (id int PRIMARY KEY, boss int, CONSTRAINT worker_boss FOREIGN KEY (boss) REFERENCES boss (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE task (id int PRIMARY KEY, worker int, CONSTRAINT task_worker FOREIGN KEY (worker) REFERENCES worker (id) ON DELETE SET NULL);
CREATE TABLE old_1 (id int PRIMARY KEY); CREATE TABLE old_2 (id int PRIMARY KEY); CREATE TABLE kept (id int PRIMARY KEY);
CREATE TABLE twins (a int, b varchar(20));
CREATE TABLE %[2]sMixed Case%[2]s (%[2]sThe Key%[2]s int PRIMARY KEY, %[2]sselect%[2]s int, %[2]sgrüße%[2]s varchar(20), %[2]sa.b%[2]s int);
CREATE TABLE %[2]stäble-ü%[2]s (id int PRIMARY KEY, %[2]sÖ%[2]s int);
INSERT INTO doc SELECT i, 0, repeat('abcdefghij', 20000), repeat('0123456789', 300) FROM (SELECT 1 AS i UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) x;
INSERT INTO seat VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three'), (4, NULL, NULL);
INSERT INTO boss (id) VALUES (1), (2), (3), (4);
INSERT INTO worker SELECT i, 1 FROM (SELECT 1 AS i UNION SELECT 2 UNION SELECT 3) x;
INSERT INTO worker SELECT 10 + i, 2 FROM (SELECT 1 AS i UNION SELECT 2 UNION SELECT 3) x;
INSERT INTO task VALUES (1, 1), (2, 11), (3, 12);
INSERT INTO old_1 VALUES (1), (2); INSERT INTO old_2 VALUES (1), (2); INSERT INTO kept VALUES (1), (2);
INSERT INTO twins VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, NULL), (2, NULL), (3, 'y');
INSERT INTO %[2]sMixed Case%[2]s VALUES (1, 1, 'a', 1), (2, 2, 'b', 2);
INSERT INTO %[2]stäble-ü%[2]s VALUES (1, 1), (2, 2);
`

var traps = []trap{
	both("untouched values out of line", "UPDATE doc SET n = n + 1; UPDATE doc SET other = 'short' WHERE id = 2; UPDATE doc SET id = 40 WHERE id = 4; UPDATE doc SET big = NULL WHERE id = 3"),
	both("a swap of unique values", "BEGIN; UPDATE seat SET place = NULL, name = NULL WHERE id = 1; UPDATE seat SET place = 1, name = 'one' WHERE id = 2; UPDATE seat SET place = 2, name = 'two' WHERE id = 1; COMMIT"),
	both("a swap in steps", "UPDATE seat SET place = 100 WHERE id = 1; UPDATE seat SET place = 2 WHERE id = 3; UPDATE seat SET place = 3 WHERE id = 1; UPDATE seat SET place = NULL WHERE id = 2; UPDATE seat SET place = 1 WHERE id = 4"),
	both("a unique value that a deleted row had", "DELETE FROM seat WHERE id = 3; INSERT INTO seat VALUES (30, 2, 'three'); DELETE FROM seat WHERE id = 30; INSERT INTO seat VALUES (3, 2, 'three')"),
	both("keys that move", "UPDATE boss SET id = 30 WHERE id = 3; UPDATE seat SET id = id + 100 WHERE id = 1; UPDATE seat SET id = 1 WHERE id = 2; UPDATE seat SET id = 2 WHERE id = 101"),
	both("keys that move up", "UPDATE boss SET id = 31 WHERE id = 30; UPDATE kept SET id = 12 - id"),
	both("a cascade of updates", "UPDATE boss SET id = 20 WHERE id = 2"),
	both("a cascade of deletes", "DELETE FROM boss WHERE id = 20; INSERT INTO boss (id) VALUES (20); INSERT INTO worker VALUES (11, 20)"),
	{"several tables emptied", "TRUNCATE old_1, old_2; INSERT INTO old_2 VALUES (7)", "TRUNCATE old_1; TRUNCATE old_2; INSERT INTO old_2 VALUES (7)"},
	{"one of equal rows", "DELETE FROM twins WHERE ctid = (SELECT min(ctid) FROM twins WHERE a = 1); UPDATE twins SET b = 'z' WHERE ctid = (SELECT min(ctid) FROM twins WHERE a = 2); INSERT INTO twins VALUES (3, 'y')",
		"DELETE FROM twins WHERE a = 1 LIMIT 1; UPDATE twins SET b = 'z' WHERE a = 2 LIMIT 1; INSERT INTO twins VALUES (3, 'y')"},
	{"names", `UPDATE "Mixed Case" SET "select" = 5, "grüße" = 'ü', "a.b" = NULL WHERE "The Key" = 1; UPDATE "Mixed Case" SET "The Key" = 3 WHERE "The Key" = 2; DELETE FROM "täble-ü" WHERE id = 1; UPDATE "täble-ü" SET "Ö" = 3`,
		"UPDATE `Mixed Case` SET `select` = 5, `grüße` = 'ü', `a.b` = NULL WHERE `The Key` = 1; UPDATE `Mixed Case` SET `The Key` = 3 WHERE `The Key` = 2; DELETE FROM `täble-ü` WHERE id = 1; UPDATE `täble-ü` SET `Ö` = 3"},
}

// TestStreamTraps changes a source in all ways that may trip up a stream, one after the other and
// then all at once, in all directions.
func TestStreamTraps(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"postgres to postgres", pg15, pg15}, {"postgres to mariadb", pg15, maria}, {"mariadb to postgres", maria, pg15}, {"mysql to mysql", mysql8, mysql8}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			pg := x.src(t).Engine == "postgres"
			text, quote := "longtext", "`"
			if pg {
				text, quote = "text", `"`
			}
			testdb.Load(t, src, strings.NewReader(fmt.Sprintf(trapTables, text, quote)))
			if pg {
				testdb.Query(t, src, "ALTER TABLE twins REPLICA IDENTITY FULL; ALTER TABLE doc ALTER big SET STORAGE EXTERNAL")
			}
			must(t, "replicate", src, dst, "--name", name, "--until", "now")
			var wg sync.WaitGroup
			stop := make(chan struct{})
			wg.Go(func() { hire(t, src, rand.Uint64(), stop) })
			mode := []string{"batch", "transactional"}[rand.IntN(2)]
			t.Logf("mode %s", mode)
			f := running(t, "replicate", src, dst, "--name", name, "--apply-mode", mode)
			for _, c := range traps {
				sql := c.my
				if pg {
					sql = c.pg
				}
				parts := []string{sql} // a conflicting transaction is rolled back and retried
				if !pg && !strings.HasPrefix(sql, "BEGIN") {
					parts = strings.Split(sql, "; ")
				}
				for _, part := range parts {
					soon(t, c.name, func() bool {
						_, err := testdb.TryQuery(src, part)
						if err != nil && !strings.Contains(err.Error(), "eadlock") {
							t.Fatalf("%s: %v", c.name, err)
						}
						return err == nil
					})
				}
			}
			close(stop)
			wg.Wait()
			f.interrupt()
			equal(t, src, dst, name)
		})
	}
}

// hire changes children of one hot parent, and the parent, until stop is closed.
func hire(t *testing.T, url string, seed uint64, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	n := 99
	traffic(t, url, stop, func() string {
		n++
		return []string{
			fmt.Sprintf("INSERT INTO worker VALUES (%d, 1); INSERT INTO task VALUES (%d, %d)", n, n, n),
			fmt.Sprintf("UPDATE worker SET boss = %d WHERE id %% 7 = %d AND id > 99", 1+3*rnd.IntN(2), n%7),
			fmt.Sprintf("DELETE FROM worker WHERE id %% 9 = %d AND id > 99", n%9),
			"UPDATE boss SET total = total + 1 WHERE id = 1",
			"DELETE FROM boss WHERE id = 4; INSERT INTO boss (id) VALUES (4)",
		}[rnd.IntN(5)]
	})
}

// TestStreamManyTables follows 120 tables, each of which changes.
func TestStreamManyTables(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), maria(t).NewDatabase(t, "dst"), streamName()
	var make, change strings.Builder
	for i := range 120 {
		fmt.Fprintf(&make, "CREATE TABLE t%d (id int PRIMARY KEY, v int);\n", i)
		fmt.Fprintf(&change, "INSERT INTO t%d VALUES (1, %d); UPDATE t%[1]d SET v = v + 1;\n", i, i)
	}
	testdb.Load(t, src, strings.NewReader(make.String()))
	args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
	must(t, args...)
	testdb.Load(t, src, strings.NewReader(change.String()))
	testdb.Load(t, src, strings.NewReader("BEGIN; "+strings.ReplaceAll(change.String(), "(1,", "(2,")+"COMMIT;"))
	must(t, args...)
	must(t, "diff", src, dst)
}

// TestStreamAgents yields the same rows with one agent and with very many, and with many
// transactions in each commit.
func TestStreamAgents(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgres(t, 15, "-c", "max_connections=250") // sessions of a killed process may linger for a moment
	src := srv.NewDatabase(t, "src")
	testdb.Load(t, src, strings.NewReader(bank))
	for _, opts := range [][]string{{"--agents", "1"}, {"--agents", "64"}, {"--agents", "3", "--commit-count", "50"}, {"--apply-mode", "batch"}} {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		wg.Go(func() { busy(t, src, rand.Uint64(), stop) })
		dst, name := srv.NewDatabase(t, "dst"), streamName()
		args := append([]string{"replicate", src, dst, "--name", name}, opts...)
		must(t, append(args, "--until", "now")...)
		f := running(t, args...)
		f.follows(src, dst, "branch", 100+rand.IntN(1<<30))
		_ = f.Process.Kill()
		close(stop)
		wg.Wait()
		_ = f.Wait() // it was killed
		equal(t, src, dst, name, opts...)
	}
}

// TestStreamChangedColumns applies only the changed columns of an update: changes to other columns
// of its row on the target stay.
func TestStreamChangedColumns(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		args     []string
	}{
		{"postgres to mariadb", pg15, maria, []string{"--queue", "durable"}},
		{"mysql to postgres", mysql8, pg15, []string{"--apply-mode", "batch"}},
		{"mariadb to mysql", maria, mysql8, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, a int, b int, c varchar(20))")
			testdb.Query(t, src, "INSERT INTO t VALUES (1, 1, 1, 1, 'x'), (2, 2, 2, 2, 'x'), (3, 3, 3, 3, NULL), (4, 4, 4, 4, 'x')")
			if x.src(t).Engine == "postgres" {
				testdb.Query(t, src, "ALTER TABLE t REPLICA IDENTITY FULL")
			}
			args := append([]string{"replicate", src, dst, "--name", name, "--changed-columns", "--until", "now"}, x.args...)
			must(t, args...)
			testdb.Query(t, dst, "UPDATE t SET b = 100 + id")
			for _, sql := range []string{
				"UPDATE t SET a = 10 WHERE id = 1",
				"UPDATE t SET a = a, c = 'y' WHERE id = 1",
				"UPDATE t SET id = 20, c = NULL WHERE id = 2",
				"UPDATE t SET b = NULL, c = 'z' WHERE id = 3",
				"UPDATE t SET a = a WHERE id = 4",
				"INSERT INTO t VALUES (5, 5, 5, 5, 'x')",
				"UPDATE t SET u = 50 WHERE id = 5",
				"DELETE FROM t WHERE id = 4",
			} {
				testdb.Query(t, src, sql)
			}
			if o := must(t, args...); !strings.Contains(o.out, "7 rows applied") {
				t.Errorf("an update that changes nothing was applied:\n%s", o.out)
			}
			const sql = "SELECT concat_ws(' ', id, u, coalesce(a, -1), coalesce(b, -1), coalesce(c, '-')) FROM t ORDER BY id"
			if got, want := testdb.Query(t, dst, sql), "1 1 10 101 y\n3 3 3 -1 z\n5 50 5 5 x\n20 2 2 102 -"; got != want {
				t.Errorf("the target has\n%s\nnot\n%s", got, want)
			}
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}
