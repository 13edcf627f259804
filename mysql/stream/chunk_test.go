package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// chunks reads a table in chunks and returns their rows as COPY text.
func chunks(t *testing.T, e *Engine, id tidemark.TableID, rows int, bytes int64) (out []string, rel change.Relation) {
	t.Helper()
	var from []string
	for {
		c, err := e.Chunk(t.Context(), "", &tidemark.Move{From: &tidemark.Table{TableID: id}}, from, rows, bytes)
		if err != nil {
			t.Fatal(id, err)
		}
		for i, row := range c.Rows {
			line := strings.Join(wordsOf(row), "\t")
			if i > 0 || len(out) == 0 || out[len(out)-1] != line {
				out = append(out, line)
			}
		}
		if c.Whole {
			return out, c.Relation
		}
		if from = c.Last; len(c.Rows) < 2 {
			t.Fatalf("%s: a chunk of %d rows", id, len(c.Rows))
		}
	}
}

// sameChunks compares the chunks of each table with the rows from the log.
func (r *replica) sameChunks(e *Engine) {
	r.t.Helper()
	db, err := e.Describe(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, tab := range db.Tables {
		if tab.Form == tidemark.View || tab.Key == nil {
			continue
		}
		n++
		got, rel := chunks(r.t, e, tab.TableID, 20, 1<<20)
		slices.Sort(got)
		if d := cmp.Diff(r.lines(tab.Name), got); d != "" {
			r.t.Errorf("table %s: %.3000s", tab.Name, d)
		}
		for _, told := range r.relations {
			if told.Table != tab.TableID || len(told.Columns) != len(rel.Columns) {
				continue
			}
			for i, c := range rel.Columns {
				if is := told.Columns[i]; c.Name != is.Name || c.Key != is.Key || c.Type != 0 && (c.Type != is.Type || c.Mod != is.Mod) {
					r.t.Errorf("table %s: the chunk has the column %+v, the log %+v", tab.Name, c, is)
				}
			}
		}
	}
	if n < 20 {
		r.t.Errorf("only %d tables were read in chunks", n)
	}
}

// TestChunkKeys reads tables in the order of keys of each type.
func TestChunkKeys(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "keys")
		e := open(t, url, server.Options{})
		values := map[string]string{
			"enum('z','a','','m')": "1+n%4", "set('q','b','c')": "n%8", "bit(9)": "n*7", "int": "n-20", "bigint unsigned": "18446744073709551615-n", "decimal(9,3)": "n/7-2", "float": "n/7-2", "double": "n/7-2",
			"year": "1980+n", "date": "'2020-02-20' + INTERVAL n DAY", "datetime(3)": "'2020-02-20 01:02:03.5' + INTERVAL n*1001 MICROSECOND", "timestamp(6) NOT NULL": "'2020-02-20 01:02:03.5' + INTERVAL n MICROSECOND", "time(2)": "SEC_TO_TIME(n*99-2000.5)",
			"varchar(20) COLLATE utf8mb4_general_ci": "ELT(1+n%5,'a','É','it''s\\\\','日本','')", "char(9) CHARACTER SET latin1": "ELT(1+n%3,'ä','Z','a')", "binary(4)": "CHAR(n%7,0,n)", "varbinary(9)": "CHAR(n,92,9)",
		}
		for _, of := range []string{"%s, id int, PRIMARY KEY (k, id)", "id2 int AS (id) STORED, %s, id int, PRIMARY KEY (id, k)"} {
			i := 0
			var sql strings.Builder
			for typ, value := range values {
				if i++; i > 5 && of[0] == 'i' {
					break
				}
				fmt.Fprintf(&sql, "DROP TABLE IF EXISTS t%d; CREATE TABLE t%d (%s); INSERT INTO t%d (k, id) WITH RECURSIVE x AS (SELECT 0 n UNION ALL SELECT n+1 FROM x WHERE n<39) SELECT %s, n DIV 2 FROM x;", i, i, fmt.Sprintf(of, "k "+typ), i, value)
			}
			testdb.Query(t, url, sql.String())
			db, err := e.Describe(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(db.Tables) < len(values) {
				t.Fatalf("%d tables", len(db.Tables))
			}
			for _, tab := range db.Tables {
				want := strings.Split(strings.TrimSuffix(mysqltest.ReadAll(t, e, mysqltest.MoveTo(tab, "x"), tidemark.CopyText), "\n"), "\n")
				got, _ := chunks(t, e, tab.TableID, 3, 1<<20)
				slices.Sort(want)
				slices.Sort(got)
				if d := cmp.Diff(want, got); d != "" || len(want) != 40 {
					t.Errorf("%s: %.2000s", testdb.Query(t, url, "SHOW CREATE TABLE "+tab.Name), d)
				}
			}
		}
		testdb.Query(t, url, "CREATE TABLE large (id int PRIMARY KEY, b longblob); INSERT INTO large VALUES (1,REPEAT('x',5000000)),(2,''),(3,REPEAT('y',700000)),(4,REPEAT('y',700000)),(5,NULL),(6,REPEAT('z',3000000))")
		c, err := e.Chunk(t.Context(), "", &tidemark.Move{From: &tidemark.Table{TableID: tidemark.TableID{Schema: mysqltest.DatabaseOf(url), Name: "large"}}}, nil, 100, 1<<20)
		if err != nil || c.Whole || len(c.Rows) > 4 || len(c.Rows[0]) < 10_000_000 {
			t.Errorf("%d rows, whole %v, %v", len(c.Rows), c.Whole, err)
		}
		if got, _ := chunks(t, e, tidemark.TableID{Schema: mysqltest.DatabaseOf(url), Name: "large"}, 100, 1<<20); len(got) != 6 {
			t.Errorf("%d rows", len(got))
		}
		testdb.Query(t, url, "CREATE TABLE loose (id int)")
		_, err = e.Chunk(t.Context(), "", &tidemark.Move{From: &tidemark.Table{TableID: tidemark.TableID{Schema: mysqltest.DatabaseOf(url), Name: "loose"}}}, nil, 9, 9)
		if tidemark.KindOf(err) != tidemark.Unsupported || !strings.Contains(err.Error(), "has no primary key") {
			t.Error(err)
		}
	})
}

// TestMarks makes more marks than fit after a transaction: all are after what is in the log,
// ascend, and are not places of transactions.
func TestMarks(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "marks")
		e := open(t, url, server.Options{LockWait: 5 * time.Minute})
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY)")
		from := endOf(t, e)
		var last change.LogMark
		for i := range 50 {
			m, err := e.Mark(t.Context(), last.Place)
			if err != nil || m.Place <= m.From || m.Place < last.Place+2 || m.From < from {
				t.Fatal(i, m, last, err)
			}
			last = m
			if i%25 == 22 || i == 0 { // a snapshot has all, though the log has a new file, or ends with DDL
				if _, err := e.Chunk(t.Context(), "", &tidemark.Move{From: &tidemark.Table{TableID: tidemark.TableID{Schema: mysqltest.DatabaseOf(url), Name: "item"}}}, nil, 9, 9); err != nil {
					t.Fatal(err)
				}
			}
			if i%25 == 24 {
				script(t, e, "INSERT INTO item VALUES ("+fmt.Sprint(i)+")")
				txs := follow(t, e, m.From)
				if tx := txs[len(txs)-1]; tx.Place <= m.Place+1 {
					t.Errorf("a transaction at %s, and a mark before it at %s", server.PlaceText(tx.Place), server.PlaceText(m.Place))
				}
			}
		}
		if last.From>>32 <= from>>32 {
			t.Error("the server has begun no new file")
		}
	})
}

// TestChunkIsBehindTheLog reads chunks while transactions are committed: chunks include everything
// that was in the log before, with GTIDs and without.
func TestChunkIsBehindTheLog(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "behind")
		e := open(t, url, server.Options{LockWait: 5 * time.Minute})
		testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY)")
		m := &tidemark.Move{From: &tidemark.Table{TableID: tidemark.TableID{Schema: mysqltest.DatabaseOf(url), Name: "item"}}}
		modes := []string{""}
		if srv.Engine == "mysql" {
			modes = []string{"ON", "ON_PERMISSIVE"}
			defer testdb.Query(t, url, "SET GLOBAL gtid_mode=ON")
		}
		there := 0
		for _, mode := range modes {
			if mode != "" {
				testdb.Query(t, url, "SET GLOBAL gtid_mode="+mode)
			}
			s := stream(t, e, endOf(t, e))
			told, ended := make(chan int, 100_000), make(chan error, 1)
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				defer close(told)
				ended <- s.Run(ctx, func(tx *change.Tx) error { told <- tx.Rows; return nil })
			}()
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					w, err := e.NewSession(ctx)
					for n := there + 1; err == nil && ctx.Err() == nil; n++ {
						err = w.Exec(t.Context(), fmt.Sprintf("INSERT INTO item VALUES (%d)", 10*n+i))
					}
					w.Close()
				})
			}
			for given := 0; given < 300; {
				if given += testdb.From(t, "a transaction", told); len(ended) > 0 {
					t.Fatalf("the stream ended with %v", <-ended)
				}
				for len(told) > 0 {
					given += <-told
				}
				c, err := e.Chunk(t.Context(), "", m, nil, 1_000_000, 1<<30)
				if err != nil {
					t.Fatal(err)
				}
				if len(c.Rows) < there+given {
					t.Errorf("gtid_mode %s: the stream has given %d rows, and a chunk after that has %d", mode, there+given, len(c.Rows))
				}
			}
			stop()
			wg.Wait()
			for range told {
			}
			s.Close()
			fmt.Sscan(testdb.Query(t, url, "SELECT COUNT(*) FROM item"), &there)
		}
	})
}

// TestChunkWaitsForOwners: a transaction that is being committed may be in the log already.
func TestChunkWaitsForOwners(t *testing.T) {
	srv := testdb.MySQL(t)
	url := srv.NewDatabase(t, "owners")
	e := open(t, url, server.Options{LockWait: 300 * time.Millisecond})
	testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY)")
	m := &tidemark.Move{From: &tidemark.Table{TableID: tidemark.TableID{Schema: mysqltest.DatabaseOf(url), Name: "item"}}}
	s, err := e.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const gtid = "00000000-0000-0000-0000-0000000000aa:7"
	for _, sql := range []string{"SET gtid_next='" + gtid + "'", "BEGIN", "INSERT INTO item VALUES (1)"} {
		if err := s.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Chunk(t.Context(), "", m, nil, 9, 9); tidemark.KindOf(err) != tidemark.Transient || !strings.Contains(err.Error(), gtid+"#") {
		t.Error(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = s.Exec(t.Context(), "COMMIT") })
	e = open(t, url, server.Options{LockWait: 5 * time.Minute})
	if c, err := e.Chunk(t.Context(), "", m, nil, 9, 9); err != nil || len(c.Rows) != 1 {
		t.Error(c, err)
	}
}
