package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// benchTable creates a table of n rows of eight columns, some 100 bytes each.
func benchTable(b *testing.B, rawURL string, n int) *tidemark.Table {
	testdb.Query(b, rawURL, "CREATE TABLE big (id int PRIMARY KEY, a int, price decimal(10,2), name varchar(40), at datetime, code char(2), note varchar(80), flag tinyint)")
	testdb.Query(b, rawURL, "INSERT INTO big WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM s WHERE n<1000) SELECT n, n*7, n/100, concat('Customer number ',n), '2024-02-29 12:34:56', 'AB', concat('a note that is somewhat longer: ',md5(n)), n%2 FROM s")
	for have := 1000; have < n; have *= 2 {
		testdb.Query(b, rawURL, fmt.Sprintf("INSERT INTO big SELECT id+%d, a, price, name, at, code, note, flag FROM big", have))
	}
	t := &tidemark.Table{TableID: tidemark.TableID{Schema: mysqltest.DatabaseOf(rawURL), Name: "big"}, Key: &tidemark.Index{Name: "PRIMARY", Parts: []tidemark.IndexPart{{Column: "id"}}}}
	for _, c := range []string{"id int", "a int", "price decimal(10,2)", "name varchar(40)", "at datetime", "code char(2)", "note varchar(80)", "flag tinyint"} {
		name, native, _ := strings.Cut(c, " ")
		t.Columns = append(t.Columns, tidemark.Column{Name: name, Type: mysqltype.Parse(native)})
	}
	return t
}

func benchOpen(b *testing.B, rawURL string) *Engine {
	e, err := Open(b.Context(), rawURL, server.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	return e
}

// BenchmarkRead reads a table of a MariaDB server and discards it. The server takes most of the
// time: see the profile for ours.
func BenchmarkRead(b *testing.B) {
	from := testdb.MariaDB(b).NewDatabase(b, "bench")
	m := mysqltest.MoveTo(benchTable(b, from, 256000), "elsewhere")
	e := benchOpen(b, from)
	for _, f := range []tidemark.Format{tidemark.LoadData, tidemark.CopyText} {
		b.Run(strings.ReplaceAll(f.String(), " ", ""), func(b *testing.B) {
			rows, bytes := 0, 0
			for b.Loop() {
				err := e.Read(b.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}, Format: f}, func(batch *tidemark.Batch) error {
					rows += batch.Rows
					bytes += len(batch.Data)
					batch.Release()
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows)/8, "ns/value")
			b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
		})
	}
}

// BenchmarkCopy copies it to another database of the server, on one lane.
func BenchmarkCopy(b *testing.B) {
	from, to := testdb.MariaDB(b).NewDatabase(b, "bench"), testdb.MariaDB(b).NewDatabase(b, "benchcopy")
	m := mysqltest.MoveTo(benchTable(b, from, 256000), mysqltest.DatabaseOf(to))
	testdb.Query(b, from, "CREATE TABLE "+mysqltest.DatabaseOf(to)+".big LIKE big")
	src, dst := benchOpen(b, from), benchOpen(b, to)
	for _, f := range []tidemark.Format{tidemark.LoadData, tidemark.CopyText} {
		b.Run(strings.ReplaceAll(f.String(), " ", ""), func(b *testing.B) {
			rows, bytes := int64(0), int64(0)
			for b.Loop() {
				b.StopTimer()
				testdb.Query(b, to, "TRUNCATE big")
				b.StartTimer()
				r := &tidemark.Range{}
				out, err := mysqltest.CopyRange(b.Context(), src, dst, 0, tidemark.Read{Move: m, Range: r, Format: f}, tidemark.Write{Move: m, Range: r, Format: f})
				if err != nil {
					b.Fatal(err)
				}
				rows, bytes = rows+out.Rows, bytes+out.Bytes
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows)/8, "ns/value")
			b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
		})
	}
}
