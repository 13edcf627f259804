package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestStreamOpen kills a stream, and restarts its source, after large uncommitted transactions have
// been sent, some of them prepared: each arrives complete, once, when it is committed, and
// rolled-back ones never arrive.
func TestStreamOpen(t *testing.T) {
	t.Parallel()
	for major, queue := range map[int]string{14: "direct", 18: "durable"} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			srv := testdb.OwnPostgres(t, major, "-c", "logical_decoding_work_mem=64kB")
			src, dst, name := srv.NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader("CREATE TABLE g (id int PRIMARY KEY, v text); CREATE TABLE small (id int PRIMARY KEY)"))
			args := []string{"replicate", src, dst, "--name", name, "--queue", queue, "--capture-memory", "100kB"}
			must(t, append(args, "--until", "now")...)
			prepare := func(gid string, from int) {
				testdb.Load(t, src, strings.NewReader(fmt.Sprintf(`BEGIN; INSERT INTO g SELECT i, repeat('x', 50) FROM generate_series(%d, %[1]d + 9999) i; SAVEPOINT a;
					INSERT INTO g SELECT i, 'gone' FROM generate_series(%[1]d + 10000, %[1]d + 19999) i; ROLLBACK TO a; UPDATE g SET v = 'new' WHERE id %% 3 = 0 AND id BETWEEN %[1]d AND %[1]d + 9999; PREPARE TRANSACTION '%s';`, from, gid)))
			}
			sent := func(f *following) {
				f.await("transaction sent before its commit", func() bool {
					n, err := testdb.TryQuery(src, "SELECT coalesce(sum(stream_txns), 0) > 0 FROM pg_stat_replication_slots")
					return err == nil && n == "t"
				})
			}
			prepare("one", 100_000)
			f := running(t, args...)
			prepare("two", 200_000)
			prepare("three", 300_000)
			f.follows(src, dst, "small", 1)
			sent(f)
			_ = f.Process.Kill()
			_ = f.Wait() // it was killed
			testdb.Query(t, src, "ROLLBACK PREPARED 'two'")
			f = running(t, args...)
			f.follows(src, dst, "small", 2)
			srv.Kill(t)
			srv.Restart(t)
			f.follows(src, dst, "small", 3)
			if n := testdb.Query(t, dst, "SELECT count(*) FROM g"); n != "0" {
				t.Errorf("%s rows came before their commit", n)
			}
			testdb.Query(t, src, "COMMIT PREPARED 'three'")
			_ = f.Process.Kill()
			_ = f.Wait() // it was killed
			testdb.Query(t, src, "COMMIT PREPARED 'one'")
			testdb.Query(t, src, "INSERT INTO small VALUES (4)")
			equal(t, src, dst, name)
			if n := testdb.Query(t, dst, "SELECT count(*), count(*) FILTER (WHERE v = 'new') FROM g"); n != "20000\t6667" {
				t.Errorf("the target has %s", n)
			}
		})
	}
}
