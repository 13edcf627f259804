package stream

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// BenchmarkFollow reads a log of transactions of five rows, inserted, updated and deleted as 1 to 3
// to 1, of 30 columns and about 315 bytes. It reports the CPU time of this process per row, without
// the server's.
func BenchmarkFollow(b *testing.B) {
	for _, srv := range []*testdb.Server{testdb.MySQL(b), testdb.MariaDB(b)} {
		b.Run(srv.Engine, func(b *testing.B) {
			e, err := Open(b.Context(), srv.NewDatabase(b, "bench"), server.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			const transactions = 20_000
			from := benchLog(b, e, transactions)
			until, err := e.End(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			rows, bytes := 0, 0
			var cpu time.Duration
			for b.Loop() {
				s, err := e.Follow(b.Context(), "bench", from)
				if err != nil {
					b.Fatal(err)
				}
				before := cpuTime()
				n := 0
				err = s.Run(b.Context(), func(tx *change.Tx) error {
					rows += tx.Rows
					bytes += len(tx.Changes)
					if n++; n == transactions {
						return errEnough
					}
					return nil
				})
				if err != errEnough {
					b.Fatal(err)
				}
				cpu += cpuTime() - before
				s.Close()
			}
			b.ReportMetric(float64(cpu.Nanoseconds())/1000/float64(rows), "us_cpu/row")
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(bytes)/float64(rows), "B/row")
			b.ReportMetric(float64(until-from)*float64(b.N)/float64(rows), "logB/row")
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchLog writes the log and returns where it begins.
func benchLog(b *testing.B, e *Engine, transactions int) uint64 {
	b.Helper()
	var columns, values []string
	for i := range 6 {
		columns = append(columns, fmt.Sprintf("i%d int, b%d bigint, v%d varchar(40), d%d decimal(15,2), t%d datetime(6)", i, i, i, i, i))
		values = append(values, fmt.Sprintf("n+%d, n*1000003+%d, CONCAT('some text of a row ', n, ' %d'), n/7, '2026-01-01 00:00:00.123456'", i, i, i))
	}
	columns[0] = strings.Replace(columns[0], "i0 int", "i0 int PRIMARY KEY", 1)
	s, err := e.NewSession(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	run := func(sql string) {
		if err := s.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	run("CREATE TABLE item (" + strings.Join(columns, ", ") + ")")
	row := "INSERT INTO item SELECT " + strings.Join(values, ", ") + " FROM (SELECT k AS n) x"
	run("CREATE PROCEDURE seed() BEGIN DECLARE k int DEFAULT 0; START TRANSACTION; WHILE k < 4 DO " + row + "; SET k = k + 1; END WHILE; COMMIT; END")
	run(fmt.Sprintf("CREATE PROCEDURE work() BEGIN DECLARE k int DEFAULT 4; WHILE k < %d DO START TRANSACTION; %s; UPDATE item SET b1=b1+1, v2='changed' WHERE i0 BETWEEN k-3 AND k-1; "+
		"DELETE FROM item WHERE i0=k-4; COMMIT; SET k = k + 1; END WHILE; END", transactions+4, row))
	run("CALL seed()")
	from, err := e.End(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	run("CALL work()")
	return from
}
