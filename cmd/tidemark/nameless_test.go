package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestReplicateWithoutNames follows servers whose log has no column names. While the stream is down
// tables get columns, at their ends and between others, during traffic; the stream that resumes is
// killed amid these changes, and so is the next one. No table stops or is loaded again.
func TestReplicateWithoutNames(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name  string
		from  func(*testing.T) *testdb.Server
		to    func(*testing.T) *testdb.Server
		halve bool
	}{
		{"mysql to postgres", func(t *testing.T) *testdb.Server { return testdb.OwnMySQL(t, "--binlog-row-metadata=MINIMAL") }, pg15, false},
		{"mariadb to mariadb", func(t *testing.T) *testdb.Server { return testdb.OwnMariaDB(t, "--binlog-row-metadata=NO_LOG") }, maria, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.from(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(ledger+"CREATE TABLE mood (id int PRIMARY KEY, a enum('x','y'), b varchar(9));"))
			verbs := [][]string{{"replicate", src, dst, "--name", name, "--queue", "durable"}}
			if x.halve {
				both := []string{src, dst, "--name", name, "--queue", natsServer(t)}
				verbs = [][]string{append([]string{"capture"}, both...), append([]string{"apply"}, both...)}
			}
			run := func(says string) (stop func(kill bool)) {
				var all []*following
				for _, v := range verbs {
					all = append(all, running(t, v...))
				}
				all[len(all)-1].says(says, 1)
				return func(kill bool) {
					for _, f := range all {
						if kill {
							_ = f.Process.Kill()
							_ = f.Wait() // killed on purpose
						} else {
							f.interrupt()
						}
					}
				}
			}
			stop := run("copied (run")
			seed, ends := testdb.Seed(t), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { trade(t, src, seed, ends) })
			time.Sleep(500 * time.Millisecond)
			stop(seed%2 == 0)
			n := 0
			for _, sql := range []string{"account ADD COLUMN extra int DEFAULT 5", "mood ADD c bigint unsigned FIRST", "mood ADD d varchar(20) CHARACTER SET latin1 AFTER a", "account ADD COLUMN more enum('a','é') CHARACTER SET latin1 AFTER id"} {
				testdb.Query(t, src, "ALTER TABLE "+sql)
				n++
				testdb.Query(t, src, fmt.Sprintf("INSERT INTO mood (id, a, b) VALUES (%d, 'y', 'é%d')", n, n))
				time.Sleep(200 * time.Millisecond)
			}
			testdb.Query(t, src, "UPDATE mood SET c = 18446744073709551615, d = 'ü'; UPDATE account SET more = 'é'")
			for range 3 {
				stop = run("end to end")
				time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond)
				stop(true)
			}
			stop = run("end to end")
			close(ends)
			wg.Wait()
			stop(false)
			for _, v := range verbs {
				must(t, append(v, "--until", "now")...)
			}
			if o := cli(t, "diff", src, dst); o.code != 0 {
				t.Errorf("%s\n%s", o.out, must(t, "status").out)
			}
			if o := must(t, "status"); !strings.Contains(o.out, "tables: 4 active\n") {
				t.Errorf("status says\n%s", o.out)
			}
			if got := testdb.Query(t, dst, "SELECT count(*) FROM mood WHERE c = 18446744073709551615 AND d = 'ü'"); got != fmt.Sprint(n) {
				t.Errorf("%s of %d rows have what they got last", got, n)
			}
		})
	}
}
