package bulk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// shop is the mixed schema of the copy benchmarks at a tenth of its size.
const shop = `CREATE TABLE customer(id bigint, name varchar(60) NOT NULL, email text, balance numeric(12,2), created timestamptz, active boolean, note text);
CREATE TABLE orders(id bigint, customer_id bigint NOT NULL, placed date NOT NULL, total numeric(12,2), status char(1), ship_to varchar(80), qty int, weight double precision);
CREATE TABLE order_line(o_id bigint, n int, item int NOT NULL, qty smallint, amount numeric(10,2), dist char(24), delivered timestamp);
CREATE TABLE document(id bigint, title text, body text, meta jsonb, blob bytea);
CREATE TABLE event(at timestamptz, kind text, who bigint, payload jsonb);`

const shopRows = `INSERT INTO customer SELECT i, 'Customer '||i, 'c'||i||'@example.com', (i*37%%100000)/100.0, '2020-01-01'::timestamptz + i*interval '1 min', i%%7<>0, CASE WHEN i%%3=0 THEN NULL ELSE repeat('note ',(i%%9)::int) END FROM generate_series(1,%[1]d*3) i;
INSERT INTO orders SELECT i, 1+(i::bigint*7919)%%300000, '2021-01-01'::date+(i%%1000)::int, (i%%99999)/7.0, substr('NPSDX',1+(i%%5)::int,1), 'Street '||i%%5000||', City', i%%50, i/3.0 FROM generate_series(1,%[1]d*15) i;
INSERT INTO order_line SELECT i/4, (i%%4)::int, (i::bigint*31%%100000)::int, (i%%10)::smallint, (i%%77777)/9.0, md5(i::text)::char(24), CASE WHEN i%%5=0 THEN NULL ELSE '2022-01-01'::timestamp+i*interval '1 s' END FROM generate_series(4,%[1]d*40) i;
INSERT INTO document SELECT i, 'Doc '||i, repeat(md5(i::text)||E'\n\t\\\\',20+(i%%60)::int), jsonb_build_object('a',i,'b',md5(i::text),'c',ARRAY[i,i+1]), decode(repeat(md5((i*3)::text),10+(i%%30)::int),'hex') FROM generate_series(1,%[1]d*3/5) i;
INSERT INTO event SELECT now()+i*interval '1 s', 'k'||i%%20, i%%1000, jsonb_build_object('n',i,'t',md5(i::text)) FROM generate_series(1,%[1]d*5) i;
CHECKPOINT;`

// BenchmarkCopy copies the shop's rows from one database to another on the same server over two
// lanes: only the tables' rows, no keys.
func BenchmarkCopy(b *testing.B) {
	scale := 10000
	if s := os.Getenv("TIDEMARK_BENCH_SCALE"); s != "" {
		fmt.Sscan(s, &scale)
	}
	srv := testdb.Postgres(b, 15)
	src, dst := srv.NewDatabase(b, "bench"), srv.NewDatabase(b, "bench")
	testdb.Query(b, src, shop)
	testdb.Query(b, src, fmt.Sprintf(shopRows, scale))
	testdb.Query(b, dst, shop)
	var moves []*tidemark.Move
	for _, name := range strings.Fields("order_line orders document event customer") {
		moves = append(moves, move(pgtest.Table(b, src, name)))
	}
	for _, f := range []tidemark.Format{tidemark.CopyText, tidemark.CopyBinary} {
		b.Run(strings.ReplaceAll(f.String(), " ", "-"), func(b *testing.B) {
			for range b.N {
				copyOnce(b, src, dst, moves, f)
			}
		})
	}
}

func copyOnce(b *testing.B, src, dst string, moves []*tidemark.Move, f tidemark.Format) {
	from, into := frozen(b, src, 2), open(b, dst)
	defer from.Close()
	defer into.Close()
	if err := into.Begin(b.Context(), "bench"); err != nil {
		b.Fatal(err)
	}
	todo := make(chan func(lane int), 1000)
	var rows, bytes int64
	var mu sync.Mutex
	id := 0
	for _, m := range moves {
		testdb.Query(b, dst, "TRUNCATE "+server.QuoteTable(m.To.TableID))
		m.Split = tidemark.Split{Target: 64 << 20, Max: 64}
		ranges, err := from.Split(b.Context(), m)
		if err != nil {
			b.Fatal(err)
		}
		for i := range ranges {
			id++
			ranges[i].ID = id
			r := &ranges[i]
			todo <- func(lane int) {
				out, err := pipe(context.Background(), from, into, lane, tidemark.Read{Move: m, Range: r, Format: f},
					tidemark.Write{Run: "bench", Move: m, Range: r, Format: f, Fresh: len(ranges) == 1})
				if err != nil {
					b.Error(err)
				}
				mu.Lock()
				rows, bytes = rows+out.Rows, bytes+out.Bytes
				mu.Unlock()
			}
		}
	}
	close(todo)
	own, start := cpu(), time.Now()
	all := serverCPU(b, dst)
	var wg sync.WaitGroup
	for lane := range 2 {
		wg.Go(func() {
			for job := range todo {
				job(lane)
			}
		})
	}
	wg.Wait()
	took, used, servers := time.Since(start), cpu()-own, serverCPU(b, dst)-all
	if err := into.Forget(b.Context(), "bench", nil); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(bytes)/1e6/took.Seconds(), "MB/s")
	b.ReportMetric(float64(rows)/1e3/took.Seconds(), "krow/s")
	b.ReportMetric(float64(used.Nanoseconds())/float64(rows), "own-ns/row")
	b.ReportMetric(100*used.Seconds()/(used+servers).Seconds(), "own-%cpu")
	b.ReportMetric(servers.Seconds(), "server-s")
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverCPU returns the processor time of the server's sessions that tidemark opened; it works only
// while they exist.
func serverCPU(b *testing.B, url string) time.Duration {
	b.Helper()
	var total time.Duration
	for _, pid := range pgtest.Split(testdb.Query(b, url, "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")) {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
		var user, system int64
		fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
		total += time.Duration(user+system) * 10 * time.Millisecond
	}
	return total
}
