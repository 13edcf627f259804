package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

const numbers = "WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n+1 FROM s WHERE n<4999) SELECT "

// fill creates a table of 5000 rows.
func fill(t *testing.T, srv *testdb.Server, rawURL, name, columns, values string) *tidemark.Table {
	t.Helper()
	depth := "SET cte_max_recursion_depth=100000; "
	if srv.Engine == "mariadb" {
		depth = "SET max_recursive_iterations=100000; "
	}
	testdb.Query(t, rawURL, depth+"SET sql_mode='ALLOW_INVALID_DATES'; CREATE TABLE "+name+" ("+columns+"); INSERT INTO "+name+" "+numbers+values+" FROM s; ANALYZE TABLE "+name)
	return mysqltest.TableFrom(t, rawURL, name)
}

func sortedRows(s string) []string {
	rows := strings.SplitAfter(s, "\n")
	slices.Sort(rows)
	return rows
}

// TestRangesMakeTheWhole: however a table is split, each row is in one range.
func TestRangesMakeTheWhole(t *testing.T) {
	tables := []struct {
		name, columns, values string
		least                 int // ranges that automatic splitting must return
	}{
		{"dense", "id int PRIMARY KEY, v varchar(20)", "n*2-4000, concat('v',n)", 6},
		{"sparse", "id bigint PRIMARY KEY, v int", "n*n*n*1000003-5000000000, n", 6},
		{"big_unsigned", "id bigint unsigned PRIMARY KEY", "18446744073709551615-n", 6},
		{"words", "w varchar(40) COLLATE utf8mb4_general_ci PRIMARY KEY", "concat(char(97+n%26 USING utf8mb4), if(n%3=0,'É','é'), '''\\\\ ', n)", 6},
		{"latin", "w varchar(40) CHARACTER SET latin1 PRIMARY KEY", "concat(_latin1 x'e9f1', n*7919%5000)", 6},
		{"bytes", "b varbinary(20) PRIMARY KEY", "concat(char(n%256), char(0), n)", 6},
		{"pair", "a int, b varchar(10), c decimal(8,3), PRIMARY KEY (a,b,c)", "n DIV 1000, concat('k',n%100), n/8", 6},
		{"lopsided", "a int, b int, PRIMARY KEY (a,b)", "if(n<4500,7,n), n", 4},
		{"moments", "at datetime(3) PRIMARY KEY", "'2024-01-01' + INTERVAL n*7919 SECOND", 6},
		{"instants", "at timestamp(6) PRIMARY KEY", "'2024-01-01' + INTERVAL n*7919 SECOND", 6},
		{"days", "d date, n int, PRIMARY KEY (d,n)", "if(n%100=0,'0000-00-00','2024-02-31'), n", 2},
		{"clocks", "c time, n int, PRIMARY KEY (c,n)", "sec_to_time(n*600-1500000), n", 6},
		{"floats", "f float, n int, PRIMARY KEY (f,n)", "n/7, n", 6},
		{"doubles", "f double PRIMARY KEY", "(n-2500)/7", 6},
		{"enumed", "e enum('z','a','m'), n int, PRIMARY KEY (e,n)", "1+n%3, n", 1},
		{"unique_only", "u int NOT NULL, x int, UNIQUE (u)", "n, n%10", 6},
		{"keyless", "x int, y varchar(10)", "n%10, 'dup'", 1},
	}
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "ranges")
		e := open(t, from, server.Options{})
		for _, c := range tables {
			tab := fill(t, srv, from, c.name, c.columns, c.values)
			m := mysqltest.MoveTo(tab, "elsewhere")
			m.Split.Target, m.Split.Max = tab.Bytes/8, 8
			ranges, err := e.Split(t.Context(), m)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if len(ranges) < c.least {
				t.Errorf("%s: %d ranges, not %d", c.name, len(ranges), c.least)
			}
			for _, format := range []tidemark.Format{tidemark.LoadData} {
				whole, parts := mysqltest.ReadAll(t, e, m, format), mysqltest.ReadAll(t, e, m, format, ranges...)
				if n := strings.Count(whole, "\n"); n != 5000 {
					t.Errorf("%s: the whole has %d rows", c.name, n)
				}
				if !slices.Equal(sortedRows(whole), sortedRows(parts)) {
					t.Errorf("%s: %d rows in %d ranges", c.name, strings.Count(parts, "\n"), len(ranges))
				}
			}
		}
	})
}

func TestBoundsAndPartitions(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "bounds")
		mysqltest.LoadZoo(t, srv, from)
		e := open(t, from, server.Options{})
		// NULLs in the columns, also in one of two.
		tab := fill(t, srv, from, "holes", "id int PRIMARY KEY, a int, b varchar(10), KEY (a,b)", "n, if(n%7=0,NULL,n%50), if(n%5=0,NULL,concat('b',n%20))")
		for _, split := range []tidemark.Split{
			{Columns: []string{"a"}, Bounds: [][]string{{"10"}, {"20"}, {"45"}}},
			{Columns: []string{"a", "b"}, Bounds: [][]string{{"10", "b3"}, {"10", "b7"}, {"49", "b"}}},
			{Columns: []string{"b"}, Bounds: [][]string{{"b' OR 1=1 -- "}, {`b\`}, {"c"}}},
			{Columns: []string{"id"}, Bounds: [][]string{{"2500"}}},
		} {
			m := mysqltest.MoveTo(tab, "elsewhere")
			m.Split = split
			m.Split.Kind = tidemark.SplitBounds
			ranges, err := e.Split(t.Context(), m)
			if err != nil || len(ranges) != len(split.Bounds)+1 {
				t.Fatalf("%v: %d ranges, %v", split, len(ranges), err)
			}
			whole, parts := mysqltest.ReadAll(t, e, m, tidemark.CopyText), mysqltest.ReadAll(t, e, m, tidemark.CopyText, ranges...)
			if !slices.Equal(sortedRows(whole), sortedRows(parts)) {
				t.Errorf("%v: %d rows of %d", split, strings.Count(parts, "\n"), strings.Count(whole, "\n"))
			}
		}
		tab = mysqltest.TableFrom(t, from, "part_range")
		for _, p := range strings.Split(testdb.Query(t, from, "SELECT PARTITION_NAME, COALESCE(SUBPARTITION_NAME,'') FROM information_schema.PARTITIONS WHERE TABLE_NAME='part_range' AND TABLE_SCHEMA=DATABASE()"), "\n") {
			parent, sub, _ := strings.Cut(p, "\t")
			tab.Partitions = append(tab.Partitions, tidemark.Part{Name: sub, Parent: parent})
		}
		for kind, n := range map[tidemark.SplitKind]int{tidemark.SplitPartitions: 3, tidemark.SplitSubparts: 6} {
			m := mysqltest.MoveTo(tab, "elsewhere")
			m.Split.Kind = kind
			ranges, err := e.Split(t.Context(), m)
			if err != nil || len(ranges) != n {
				t.Fatalf("%d ranges, not %d: %v", len(ranges), n, err)
			}
			whole, parts := mysqltest.ReadAll(t, e, m, tidemark.CopyText), mysqltest.ReadAll(t, e, m, tidemark.CopyText, ranges...)
			if !slices.Equal(sortedRows(whole), sortedRows(parts)) || strings.Count(whole, "\n") != 3000 {
				t.Errorf("%d rows of %d", strings.Count(parts, "\n"), strings.Count(whole, "\n"))
			}
		}
		m := mysqltest.MoveTo(tab, "elsewhere")
		m.Split = tidemark.Split{Kind: tidemark.SplitPartitions, Parts: []string{"p9"}}
		if _, err := e.Split(t.Context(), m); tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "there is no partition p9") {
			t.Error(err)
		}
	})
}

func TestFilters(t *testing.T) {
	srv := testdb.MariaDB(t)
	from := srv.NewDatabase(t, "filters")
	e := open(t, from, server.Options{})
	tab := fill(t, srv, from, "f", "id int PRIMARY KEY, v varchar(10), b varbinary(4)", "n, if(n%2,concat('v',n),NULL), char(n%256)")
	count := func(f ...tidemark.Filter) int {
		m := mysqltest.MoveTo(tab, "elsewhere")
		m.Filter = f
		return strings.Count(mysqltest.ReadAll(t, e, m, tidemark.CopyText), "\n")
	}
	cond := func(col string, c ...tidemark.Condition) tidemark.Filter {
		return tidemark.Filter{Column: col, Conditions: c}
	}
	for i, c := range []struct{ got, want int }{
		{count(cond("id", tidemark.Condition{Op: "eq", Value: "7"})), 1},
		{count(cond("id", tidemark.Condition{Op: "noteq", Value: "7"})), 4999},
		{count(cond("id", tidemark.Condition{Op: "gte", Value: "4990"}, tidemark.Condition{Op: "ste", Value: "4"})), 15},
		{count(cond("id", tidemark.Condition{Op: "between", Start: "10", End: "19"})), 10},
		{count(cond("id", tidemark.Condition{Op: "notbetween", Start: "10", End: "4998"})), 11},
		{count(cond("v", tidemark.Condition{Op: "null"})), 2500},
		{count(cond("v", tidemark.Condition{Op: "notnull"}), cond("id", tidemark.Condition{Op: "ste", Value: "9"})), 5},
		{count(cond("v", tidemark.Condition{Op: "eq", Value: "x' OR '1'='1"})), 0},
		{count(cond("b", tidemark.Condition{Op: "eq", Value: `\x05`})), 20},
		{count(tidemark.Filter{SQL: "id % 10 = 3"}), 500},
	} {
		if c.got != c.want {
			t.Errorf("filter %d: %d rows, not %d", i, c.got, c.want)
		}
	}
}

// TestFrozenViewIsOne: transactions move money between two tables while lanes open; all lanes must
// see the same, and the same total. In the first round the writers also wait for each other's rows,
// so that a global read lock is hard to get.
func TestFrozenViewIsOne(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		for round, lock := range []server.Lock{server.LockAuto, server.LockAuto, server.LockGlobal, server.LockBackup, server.LockTables} {
			from := srv.NewDatabase(t, "frozen")
			testdb.Query(t, from, "CREATE TABLE a (id int PRIMARY KEY, n int); CREATE TABLE b (id int PRIMARY KEY, n int); INSERT INTO a VALUES (1,0),(2,0),(3,0); INSERT INTO b VALUES (1,1000000),(2,0),(3,0)")
			stop, done := make(chan struct{}), make(chan error, 3)
			for i := range 3 {
				go func() { done <- transfer(from, min(i, round)+1, stop) }()
			}
			moved := func() string { return testdb.Query(t, from, "SELECT n FROM a WHERE id=1") }
			mysqltest.Await(t, from, "SELECT n > 0 FROM a WHERE id=1", "1")
			e := open(t, from, server.Options{Lock: lock})
			pos, err := e.Freeze(t.Context(), 4)
			if err != nil {
				t.Fatalf("lock %d: %v", lock, err)
			}
			if pos.Text == "" || pos.GTID == "" || pos.Stamp != pos.GTID || pos.Engine != srv.Engine {
				t.Errorf("lock %d: position %+v", lock, pos)
			}
			mysqltest.Await(t, from, "SELECT n > "+moved()+" FROM a WHERE id=1", "1")
			seen := make([]string, 4)
			var wg sync.WaitGroup
			for lane := range seen {
				wg.Go(func() {
					for _, name := range []string{"a", "b"} {
						m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, name), "elsewhere")
						err := e.Read(t.Context(), lane, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error {
							seen[lane] += string(b.Data)
							b.Release()
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			close(stop)
			for range 3 {
				if err := testdb.From(t, "a writer's end", done); err != nil {
					t.Error(err)
				}
			}
			var n [6]int
			fmt.Sscanf(seen[0], "1\t%d\n2\t%d\n3\t%d\n1\t%d\n2\t%d\n3\t%d\n", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5])
			a, all := n[0], n[0]+n[1]+n[2]+n[3]+n[4]+n[5]
			for lane, s := range seen {
				if s != seen[0] || all != 1000000 || a == 0 {
					t.Errorf("lock %d: lane %d saw %q, lane 0 %q", lock, lane, s, seen[0])
				}
			}
			if now := testdb.Query(t, from, "SELECT n FROM a WHERE id=1"); now == fmt.Sprint(a) {
				t.Errorf("lock %d: nobody wrote after the view was frozen: the test says nothing", lock)
			}
			e.Close()
		}
	})
}

// TestSnapshotPositionIsItsOwn: the position of a lane's snapshot must be exact even while the
// server mixes up the answers to concurrent sessions.
func TestSnapshotPositionIsItsOwn(t *testing.T) {
	from := testdb.MariaDB(t).NewDatabase(t, "snapshots")
	testdb.Query(t, from, "CREATE TABLE a (id int PRIMARY KEY)")
	f := &freezing{e: open(t, from, server.Options{}).Bulk}
	if err := f.open(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	want := make([]string, len(f.all))
	for i, s := range f.all {
		err := s.Exec(t.Context(), startSnapshot)
		if err == nil {
			want[i], err = snapshotPosition(t.Context(), s)
		}
		if err != nil || slices.Contains(want[:i], want[i]) {
			t.Fatal(want, err)
		}
		testdb.Query(t, from, "INSERT INTO a SELECT count(*) FROM a")
	}
	err := f.each(func(i int) error {
		for range 500 {
			if at, err := snapshotPosition(t.Context(), f.all[i]); err != nil || at != want[i] {
				return fmt.Errorf("snapshot %d is at %s, not %s: %v", i, want[i], at, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// transfer moves money between two rows until stop, and then returns what went wrong.
func transfer(rawURL string, id int, stop chan struct{}) error {
	e, err := Open(context.Background(), rawURL, server.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	s, back, err := e.Lend(context.Background())
	if err != nil {
		return err
	}
	defer back()
	for {
		for _, sql := range []string{"START TRANSACTION", "UPDATE a SET n=n+1 WHERE id=%d", "UPDATE b SET n=n-1 WHERE id=%d", "COMMIT"} {
			if strings.HasSuffix(sql, "%d") {
				sql = fmt.Sprintf(sql, id)
			}
			err := s.Exec(context.Background(), sql)
			var refused *gomysql.MyError
			if errors.As(err, &refused) && refused.Code == 1213 { // a deadlock with the session that locks tables
				if err = s.Exec(context.Background(), "ROLLBACK"); err == nil {
					break
				}
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

func TestFreezeBehindALongQuery(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "slow")
		testdb.Query(t, from, "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		busy := open(t, from, server.Options{})
		go func() {
			defer close(done)
			s, back, err := busy.Lend(ctx)
			if err == nil {
				_ = s.Exec(ctx, "SELECT SLEEP(600) FROM a FOR UPDATE")
				back()
			}
		}()
		mysqltest.Await(t, from, "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%SLEEP(600)%' AND state = 'User sleep' AND id <> CONNECTION_ID()", "1")
		e := open(t, from, server.Options{Lock: server.LockGlobal, LockWait: time.Second})
		start := time.Now()
		_, err := e.Freeze(t.Context(), 1)
		if tidemark.KindOf(err) != tidemark.Transient || !strings.Contains(fmt.Sprint(err), "was not granted within 1s: connection") || !strings.Contains(fmt.Sprint(err), "SLEEP(600)") {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		cancel()
		testdb.From(t, "the long query's end", done)
		// The source is not locked, and can be frozen now.
		testdb.Query(t, from, "INSERT INTO a VALUES (2)")
		if _, err := e.Freeze(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
}

// TestFreezeWithoutReload: the error for an ordinary user.
func TestFreezeWithoutReload(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "modest")
		db := mysqltest.DatabaseOf(from)
		testdb.Query(t, from, "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); CREATE USER modest@'127.0.0.1' IDENTIFIED BY 'modest-Pw1'; GRANT SELECT ON "+db+".* TO modest@'127.0.0.1'")
		t.Cleanup(func() { testdb.Query(t, srv.URL(""), "DROP USER modest@'127.0.0.1'") })
		as := strings.Replace(from, srv.User+":"+srv.Password+"@", "modest:modest-Pw1@", 1)
		_, err := open(t, as, server.Options{}).Freeze(t.Context(), 2)
		if want := "GRANT RELOAD, REPLICATION CLIENT ON *.* TO 'modest'@'127.0.0.1' (or LOCK TABLES on the database)"; tidemark.KindOf(err) != tidemark.Forbidden || !strings.HasPrefix(tidemark.HintOf(err), want) {
			t.Errorf("%v (%v); %s", err, tidemark.KindOf(err), tidemark.HintOf(err))
		}
		if strings.Contains(fmt.Sprint(err), "modest-Pw1") {
			t.Error("the password is in the message")
		}
		testdb.Query(t, from, "GRANT LOCK TABLES ON "+db+".* TO modest@'127.0.0.1'")
		e := open(t, as, server.Options{})
		if _, err := e.Freeze(t.Context(), 2); err != nil {
			t.Error(err)
		}
		if got := mysqltest.ReadAll(t, e, mysqltest.MoveTo(mysqltest.TableFrom(t, from, "a"), "x"), tidemark.CopyText); got != "1\n" {
			t.Errorf("read %q", got)
		}
	})
}

// TestLostLane: a lane whose connection is killed is Lost; the others continue, and an emit that
// fails costs nothing.
func TestLostLane(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "lost")
		e := open(t, from, server.Options{})
		tab := fill(t, srv, from, "big", "id int PRIMARY KEY, v varchar(3000)", "n, repeat('x',3000)")
		m := mysqltest.MoveTo(tab, "elsewhere")
		if _, err := e.Freeze(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		enough := errors.New("enough")
		err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error {
			b.Release()
			return enough
		})
		if err != enough {
			t.Errorf("emit's error came back as %v", err)
		}
		if got := strings.Count(mysqltest.ReadAll(t, e, m, tidemark.LoadData), "\n"); got != 5000 {
			t.Errorf("%d rows after an emit that failed", got)
		}
		killed := false
		err = e.Read(t.Context(), 1, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error {
			b.Release()
			if !killed {
				killed = true
				testdb.Query(t, srv.URL(""), fmt.Sprintf("KILL %d", e.reads[1].ID))
			}
			return nil
		})
		if tidemark.KindOf(err) != tidemark.Transient {
			t.Errorf("killed while reading: %v (%v)", err, tidemark.KindOf(err))
		}
		err = e.Read(t.Context(), 1, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error { return nil })
		if tidemark.KindOf(err) != tidemark.Lost || !errors.Is(err, tidemark.ErrSnapshotLost) {
			t.Errorf("read again on that lane: %v (%v)", err, tidemark.KindOf(err))
		}
		if got := strings.Count(mysqltest.ReadAll(t, e, m, tidemark.CopyText), "\n"); got != 5000 {
			t.Errorf("%d rows on the other lane", got)
		}
	})
}

// gtid_owned names each GTID with its thread.
func TestOwnedGTIDs(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	got := ownedGTIDs(a + ":23#12:24#13,\n" + b + ":x:1#2:y:7#3")
	for _, one := range []string{a + ":23#12", a + ":24#13", b + ":x:1#2", b + ":y:7#3"} {
		if !got[one] || len(got) != 4 {
			t.Errorf("no %s in %v", one, got)
		}
	}
}
