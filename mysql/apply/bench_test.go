package apply

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// BenchmarkApply applies transactions of rows of 30 columns and 315 bytes, one insert
// to three updates to one delete, with 8 agents. An op is a row.
func BenchmarkApply(b *testing.B) {
	for _, server := range []struct {
		name  string
		start func(testing.TB) *testdb.Server
	}{{"mariadb", testdb.MariaDB}, {"mysql", testdb.MySQL}} {
		for _, size := range []struct{ rows, group int }{{5, 1}, {5, 10}, {50, 1}} {
			b.Run(fmt.Sprintf("%s/%d rows, %d a commit", server.name, size.rows, size.group), func(b *testing.B) {
				benchmarkApply(b, server.start(b), size.rows, size.group)
			})
		}
	}
}

func benchmarkApply(b *testing.B, srv *testdb.Server, rows, group int) {
	url := srv.NewDatabase(b, "bench")
	var columns []string
	for i := range 29 {
		columns = append(columns, fmt.Sprintf("c%d %s", i, []string{"int", "varchar(40)", "datetime(6)"}[i%3]))
	}
	testdb.Query(b, url, "CREATE TABLE item (id bigint PRIMARY KEY, "+strings.Join(columns, ", ")+")")
	e, err := Open(b.Context(), url, server.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	db, err := e.Describe(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	const agents, kept, deleted = 8, 5000, 100 // each agent starts with kept rows, and deletes lag that many rows behind its inserts
	p, err := e.BeginApply(b.Context(), "q", agents)
	if err != nil {
		b.Fatal(err)
	}
	bound := &change.Bound{Table: db.Tables[0], Relation: change.Relation{ID: 1, Identity: 'd'}}
	for i, c := range bound.Table.Columns {
		kind := map[tidemark.TypeKind]uint32{tidemark.Int: 23, tidemark.Varchar: 25, tidemark.DateTime: 1114}[c.Type.Kind]
		bound.Relation.Columns = append(bound.Relation.Columns, change.RelationColumn{Name: c.Name, Key: i == 0, Type: kind})
		bound.Columns = append(bound.Columns, i)
	}
	bounds := map[uint32]*change.Bound{1: bound}
	groups := b.N/(rows*group) + agents
	work := make([][]*change.Group, agents)
	place := uint64(0)
	for agent := range agents {
		id := agent * 1e9
		for range groups / agents {
			g := &change.Group{Queue: "q", Agent: agent, Epoch: p.Epoch}
			for range group {
				tx := &change.Tx{}
				for i := 0; i < rows; i += 5 {
					tx.Changes = appendBenchRow(tx.Changes, 'I', id)
					for j := range 3 {
						tx.Changes = appendBenchRow(tx.Changes, 'U', agent*1e9-kept+(id*3+j)%(kept-deleted))
					}
					tx.Changes = appendBenchRow(tx.Changes, 'D', id-deleted)
					id++
				}
				place += 1000
				tx.Place = place
				g.Txs, g.Bounds, g.Done = append(g.Txs, tx), append(g.Bounds, bounds), []uint64{place}
			}
			work[agent] = append(work[agent], g)
		}
		fill := &change.Tx{Place: 1}
		for i := 1; i <= kept; i++ {
			fill.Changes = appendBenchRow(fill.Changes, 'I', agent*1e9-i)
		}
		if err := e.Apply(b.Context(), &change.Group{Queue: "q", Agent: agent, Epoch: p.Epoch, Txs: []*change.Tx{fill}, Bounds: []map[uint32]*change.Bound{bounds}}); err != nil {
			b.Fatal(err)
		}
	}
	cpu, all := ownCPU(), serverCPU(b, url)
	b.ResetTimer()
	var wg sync.WaitGroup
	var done atomic.Int64
	for agent := range agents {
		wg.Go(func() {
			for _, g := range work[agent] {
				if err := e.Apply(b.Context(), g); err != nil {
					b.Error(err)
					return
				}
				done.Add(int64(rows * group))
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(done.Load())/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64((ownCPU()-cpu).Nanoseconds())/float64(done.Load()), "own-ns/row")
	b.ReportMetric(float64((serverCPU(b, url)-all).Nanoseconds())/float64(done.Load()), "server-ns/row")
}

// serverCPU returns the processor time of the server; 0 if unknown.
func serverCPU(b *testing.B, url string) time.Duration {
	pid, err := os.ReadFile(testdb.Query(b, url, "SELECT @@pid_file"))
	if err != nil {
		return 0
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if err != nil || len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func appendBenchRow(changes []byte, kind byte, id int) []byte {
	vals := make([]change.Value, 30)
	for i := range vals {
		switch {
		case i == 0:
			vals[i] = change.Value{Kind: change.TextValue, Data: fmt.Append(nil, id)}
		case kind == 'D':
			vals[i].Kind = change.NullValue
		default:
			text := []string{"123456", "varying", "2026-11-21 12:34:56.789"}[(i-1)%3]
			if i == 1 {
				text = fmt.Sprint(len(changes) % 1e6)
			}
			vals[i] = change.Value{Kind: change.TextValue, Data: []byte(text)}
		}
	}
	m := []byte{kind, 0, 0, 0, 1, 'N'}
	if kind == 'D' {
		m[5] = 'K'
	}
	return change.Append(changes, change.AppendTuple(m, vals))
}
