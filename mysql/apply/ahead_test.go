package apply

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// through returns the URL of a database with another port.
func through(srv *testdb.Server, url string, port any) string {
	return strings.Replace(url, fmt.Sprint(":", srv.Port), fmt.Sprint(":", port), 1)
}

// farHand returns a hand whose server is distant, with the relations of all tables by their keys,
// and which has applied a group: later ones go ahead.
func farHand(t *testing.T, url, schema string, keys map[string][]string) (*hand, change.Progress) {
	t.Helper()
	distantFrom = 1
	t.Cleanup(func() { distantFrom = time.Hour })
	testdb.Query(t, url, schema)
	return farHandOf(t, url, keys)
}

func farHandOf(t *testing.T, url string, keys map[string][]string) (*hand, change.Progress) {
	t.Helper()
	l := newHand(t, open(t, url, server.Options{}))
	for name, key := range keys {
		l.relation(name, name, key...)
	}
	p := l.begin()
	l.apply(p.Epoch)
	return l, p
}

// A transaction takes one round trip to a distant target, whatever it changes.
func TestAheadTakesOneRoundTrip(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "trips")
		wire := testdb.NewWire(t, fmt.Sprint(srv.Port), 0)
		testdb.Query(t, url, `CREATE TABLE item (id int PRIMARY KEY, u int UNIQUE, v varchar(9), e enum('a','b'));
			CREATE TABLE loose (x int, y varchar(9)); CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE);
			CREATE TABLE fires (id int PRIMARY KEY, v int); CREATE TABLE seen (id int); CREATE TRIGGER tr AFTER UPDATE ON fires FOR EACH ROW INSERT INTO seen VALUES (1), (2)`)
		l, p := farHand(t, through(srv, url, wire.Port), "DO 0", map[string][]string{"item": {"id"}, "loose": nil, "parent": {"id"}, "child": {"id"}, "fires": {"id"}})
		apply := func(what string, most int64) {
			t.Helper()
			wire.Turns()
			l.apply(p.Epoch)
			if n := wire.Turns(); n > most {
				t.Errorf("%s: %d round trips", what, n)
			}
		}
		for i := range 3 {
			most := int64(1)
			if i == 0 && srv.Engine == "mariadb" {
				most = 5 // statements are prepared
			}
			at := 100 * i
			l.insert("item", at, at, "a", "a")
			apply("an insert", most)
			l.update("item", at, at, "b", "a")
			apply("an update", most)
			l.update("item", at, at, "b", "a")
			apply("an update that changes nothing", most)
			for j := range 50 {
				l.insert("item", at+j+1, at+j+1, "a", "b")
			}
			apply("inserts", most)
			for j := range 50 {
				l.update("item", at+j+1, at+j+1, "c", "b")
			}
			l.change("item", []any{at, nil, nil, nil}, []any{at + 90, at + 90, "moved", "a"}, 'K')
			apply("updates", most)
			for j := range 40 {
				l.delete("item", 'K', at+j+1, nil, nil, nil)
			}
			apply("deletes", most)
			l.insert("item", at, at, "a", "")
			apply("an ENUM without a member, which warns", most)
			l.insert("loose", i, "x").insert("loose", i, "x").delete("loose", 'O', i, "x")
			apply("rows without a key", most)
			l.insert("parent", i).insert("child", 2*i, i).insert("child", 2*i+1, i)
			apply("rows that others reference", most)
			l.delete("parent", 'K', i).delete("child", 'K', 2*i, i).delete("child", 'K', 2*i+1, i)
			apply("rows that a cascade has deleted", most)
			l.insert("fires", i, 0).insert("fires", 50+i, 0).update("fires", i, 1).update("fires", 50+i, 1)
			apply("rows with a trigger", most)
		}
		// The server does not tell how many rows of an upsert existed unless all have changed.
		l.update("item", 41, 41, "c", "b").update("item", 42, 42, "c", "b")
		apply("updates that change nothing", 2)
		l.truncate("loose")
		apply("a truncation", 1)
		if got := testdb.Query(t, url, "SELECT (SELECT GROUP_CONCAT(id, v, e ORDER BY id) FROM item WHERE id < 100), (SELECT COUNT(*) FROM item), (SELECT COUNT(*) FROM loose), (SELECT COUNT(*) FROM child), (SELECT COUNT(*) FROM seen)"); got != "0a,41cb,42cb,43cb,44cb,45cb,46cb,47cb,48cb,49cb,50cb,90moveda\t36\t0\t0\t12" {
			t.Error(got)
		}
		if n := l.e.agents[0].redone; n > 0 {
			t.Errorf("%d groups were done again", n)
		}
	})
}

// What is wrong with a change is found out as with a server nearby, nothing of the transaction
// stays, and it can be applied once it is right.
func TestAheadNamesWhatIsWrong(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "wrong")
		l, p := farHand(t, url, `CREATE TABLE item (id int PRIMARY KEY, u int UNIQUE, v varchar(9)); CREATE TABLE n (id int); CREATE TABLE parent (id int PRIMARY KEY);
			CREATE TABLE child (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES parent (id)); INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1);
			INSERT INTO item VALUES (1,1,'a'),(2,2,'a'),(3,3,'a'),(4,4,'a'),(5,5,'a')`, map[string][]string{"item": {"id"}, "n": nil, "parent": {"id"}, "child": {"id"}})
		dump := func() string {
			return testdb.Query(t, url, "SELECT (SELECT GROUP_CONCAT(id, ' ', u, ' ', v ORDER BY id) FROM item), (SELECT GROUP_CONCAT(id ORDER BY id) FROM n), (SELECT GROUP_CONCAT(id, ' ', p) FROM child), (SELECT COUNT(*) FROM parent)")
		}
		for i, try := range []struct {
			change           func()
			break_, fix, say string
		}{
			{func() { l.update("item", 5, 5, "x") }, "DELETE FROM item WHERE id=5", "INSERT INTO item VALUES (5,5,'a')", "an update matched 0 rows"},
			{func() { l.update("item", 4, 4, "x").update("item", 5, 5, "y") }, "DELETE FROM item WHERE id=4", "INSERT INTO item VALUES (4,4,'a')", "an update matched 0 rows"},
			{func() { l.delete("item", 'K', 3, nil, nil) }, "DELETE FROM item WHERE id=3", "INSERT INTO item VALUES (3,3,'a')", "a delete matched 0 rows"},
			{func() { l.insert("item", 6, 6, "a") }, "INSERT INTO item VALUES (6,7,'a')", "DELETE FROM item WHERE id=6", "Duplicate entry '6'"},
			{func() { l.insert("item", 7, 7, "a").insert("item", 8, 8, "a") }, "INSERT INTO item VALUES (9,8,'a')", "DELETE FROM item WHERE id=9", "Duplicate entry '8'"},
			{func() { l.insert("item", 10, 10, "123456   ") }, "ALTER TABLE item MODIFY v varchar(6)", "ALTER TABLE item MODIFY v varchar(9)", "Data truncated for column 'v'"},
			{func() { l.insert("item", 11, 300, "a") }, "ALTER TABLE item MODIFY u tinyint", "ALTER TABLE item MODIFY u int", "Out of range value for column 'u'"},
			{func() { l.insert("child", 2, 2) }, "DO 0", "INSERT INTO parent VALUES (2)", "foreign key constraint fails"},
			{func() { l.delete("child", 'K', 1, 1).delete("parent", 'K', 1) }, "INSERT INTO child VALUES (3, 1)", "DELETE FROM child WHERE id=3", "foreign key constraint fails"},
		} {
			testdb.Query(t, url, try.break_)
			before := dump()
			l.insert("n", i)
			try.change()
			l.insert("n", 100+i)
			g := l.group(p.Epoch)
			if err := l.e.Apply(t.Context(), g); tidemark.KindOf(err) != tidemark.BadRow || !strings.Contains(err.Error(), try.say) {
				t.Errorf("%s: %v: %v", try.break_, tidemark.KindOf(err), err)
			}
			if after := dump(); after != before {
				t.Errorf("%s: before %s, after %s", try.break_, before, after)
			}
			testdb.Query(t, url, try.fix)
			if err := l.e.Apply(t.Context(), g); err != nil {
				t.Errorf("%s: %v", try.fix, err)
			}
		}
		if got := dump(); got != "1 1 a,2 2 a,4 4 x,5 5 y,6 6 a,7 7 a,8 8 a,10 10 123456   ,11 300 a\t0,1,2,3,4,5,6,7,8,100,101,102,103,104,105,106,107,108\t2 2\t1" {
			t.Error(got)
		}
		a := l.e.agents[0]
		if !a.counter.ahead {
			t.Error("a conflict has ended it")
		}
		// The row's time is another, and the row itself is. Then a later apply takes over.
		testdb.Query(t, url, "UPDATE tidemark_applied SET at='2001-01-01'")
		l.insert("n", 200)
		l.apply(p.Epoch)
		l.begin()
		if err := l.e.Apply(t.Context(), l.insert("n", 201).group(p.Epoch)); tidemark.KindOf(err) != tidemark.Lost {
			t.Errorf("%v", err)
		}
		if got := testdb.Query(t, url, "SELECT GROUP_CONCAT(id) FROM n WHERE id >= 200"); got != "200" {
			t.Error(got)
		}
	})
}

// The connection breaks when changes and COMMIT are on their way. The transaction is applied once,
// whether they arrive before the next attempt, after it, or never; also if the server knows the
// session by another number, as behind a proxy, and so cannot end it.
func TestAheadIsCut(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		for _, arrives := range []string{"never", "before", "after"} {
			for _, behind := range []bool{false, true} {
				t.Run(fmt.Sprint(arrives, " ", behind), func(t *testing.T) {
					url := srv.NewDatabase(t, "cut")
					wire := testdb.NewWire(t, fmt.Sprint(srv.Port), 0)
					l, p := farHand(t, through(srv, url, wire.Port), "CREATE TABLE loose (x int)", map[string][]string{"loose": nil})
					for i := range 4 {
						l.insert("loose", 20+i) // a statement is prepared
						l.apply(p.Epoch)
						l.insert("loose", 30+i)
						l.apply(p.Epoch)
						g := l.insert("loose", i).insert("loose", 10+i).group(p.Epoch)
						a := l.e.agents[0]
						if behind {
							a.s.ID = 1 << 31
						}
						wire.CutNext()
						// What settles it may go through as well.
						if err := l.e.Apply(t.Context(), g); err != nil && tidemark.KindOf(err) != tidemark.Transient {
							t.Errorf("%v: %v", tidemark.KindOf(err), err)
						}
						if !a.committing {
							t.Error("it was not cut with its COMMIT")
						}
						if arrives == "before" {
							wire.Deliver()
						}
						if err := l.e.Apply(t.Context(), g); err != nil {
							t.Error(err)
						}
						if arrives == "after" {
							wire.Deliver()
						}
						wire.Lose()
					}
					if got := testdb.Query(t, url, "SELECT GROUP_CONCAT(x ORDER BY x) FROM loose"); got != "0,1,2,3,10,11,12,13,20,21,22,23,30,31,32,33" {
						t.Error(got)
					}
				})
			}
		}
	})
}

// A cutter forwards to a server, and closes a connection after some bytes in one direction. The
// server may not notice.
type cutter struct {
	net.Listener
	up, down atomic.Int64 // bytes until then; 0: any number
	hide     atomic.Bool
}

func newCutter(t *testing.T, srv *testdb.Server) *cutter {
	t.Helper()
	c := &cutter{}
	c.Listener = testdb.Between(t, fmt.Sprint("127.0.0.1:", srv.Port), func(client, to net.Conn) {
		t.Cleanup(func() { to.Close() })
		go c.forward(to, client, &c.up, client, to)
		go c.forward(client, to, &c.down, client, to)
	})
	return c
}

func (c *cutter) forward(to io.Writer, from io.Reader, left *atomic.Int64, client, srv net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		cut := err != nil
		if most := left.Load(); most > 0 {
			if cut = int64(n) >= most; cut {
				n = int(most)
			}
			left.Add(-int64(n))
		}
		if _, err := to.Write(buf[:n]); err != nil || cut {
			client.Close()
			if !c.hide.Load() || err != nil {
				srv.Close()
			}
			return
		}
	}
}

// Wherever the connection breaks in a transaction's message or in its answers, the transaction is
// applied once.
func TestAheadIsCutAnywhere(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "anywhere")
		c := newCutter(t, srv)
		_, port, _ := net.SplitHostPort(c.Addr().String())
		l, p := farHand(t, through(srv, url, port), "CREATE TABLE item (id int PRIMARY KEY, v int); CREATE TABLE loose (x int); INSERT INTO item VALUES (0, 0)", map[string][]string{"item": {"id"}, "loose": nil})
		want := []string{}
		lost, i := 0, 0
		try := func(left *atomic.Int64, after int) {
			t.Helper()
			for range 2 { // statements are prepared, and the second group of a session goes ahead
				i++
				l.insert("loose", i).update("item", i-1, i).insert("item", i, 0)
				want = append(want, fmt.Sprint(i))
				l.apply(p.Epoch)
			}
			i++
			c.hide.Store(i%2 == 0)
			g := l.insert("loose", i).update("item", i-1, i).insert("item", i, 0).group(p.Epoch)
			want = append(want, fmt.Sprint(i))
			left.Store(int64(after))
			err := l.e.Apply(t.Context(), g)
			left.Store(0)
			if err != nil {
				lost++
				if tidemark.KindOf(err) != tidemark.Transient {
					t.Errorf("after %d bytes: %v: %v", after, tidemark.KindOf(err), err)
				}
				if err := l.e.Apply(t.Context(), g); err != nil {
					t.Error(err)
				}
			}
		}
		for after := 1; after < 800; after += 31 {
			try(&c.up, after)
		}
		for after := 1; after < 200; after += 13 {
			try(&c.down, after)
		}
		if got := testdb.Query(t, url, "SELECT x FROM loose ORDER BY x"); got != strings.Join(want, "\n") {
			t.Errorf("applied are %s", got)
		}
		if got := testdb.Query(t, url, "SELECT COUNT(*), SUM(v = id + 1) FROM item"); got != fmt.Sprintf("%d\t%d", i+1, i) {
			t.Errorf("rows %s", got)
		}
		if lost < 10 {
			t.Errorf("%d groups were lost", lost)
		}
	})
}

// Whichever statement of a transaction's message fails, all of it is on the target or nothing.
func TestAheadEachStatementMayFail(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "forged")
		f := mysqltest.NewForger(t, srv)
		_, port, _ := net.SplitHostPort(f.Addr().String())
		l, p := farHand(t, through(srv, url, port), "CREATE TABLE item (id int PRIMARY KEY, v int); CREATE TABLE loose (x int)", map[string][]string{"item": {"id"}, "loose": nil})
		for i, forge := range [][2]string{
			{resetCounts, strings.Replace(resetCounts, "SET", "?ET", 1)}, {resetCounts, strings.Replace(resetCounts, "SET", "?ET", 1)},
			{"INSERT INTO", "?NSERT INTO"}, {"SET @tidemark_right=@", "?ET @tidemark_right=@"}, {"UPDATE ", "?PDATE "}, {"SET @tidemark_commit=IF", "?ET @tidemark_commit=IF"},
			{prepares, "?" + prepares[1:]}, {commits, "?" + commits[1:]}, {"'COMMIT'", "'COMMI?'"}, {"epoch=", "0000 ="}, {"@tidemark_right+(", "@tidemark_right-("}, {"ROW_COUNT()=1", "ROW_COUNT()=2"}, {"", ""},
		} {
			g := l.insert("loose", i).insert("item", i, 0).update("item", i, 1).group(p.Epoch)
			f.Forge.Store(&forge)
			err := l.e.Apply(t.Context(), g)
			f.Forge.Store(nil)
			state := func() string {
				return testdb.Query(t, url, fmt.Sprintf("SELECT (SELECT COUNT(*) FROM loose WHERE x=%d), (SELECT COUNT(*) FROM item WHERE id=%[1]d AND v=1), (SELECT done='%d' FROM tidemark_applied WHERE agent=0)", i, g.Txs[0].Place))
			}
			if got := state(); (err == nil) != (got == "1\t1\t1") || err != nil && got != "0\t0\t0" {
				t.Errorf("%s: %v, and there is %s", forge[1], err, got)
			}
			if err == nil {
				continue
			}
			if err := l.e.Apply(t.Context(), g); err != nil || state() != "1\t1\t1" {
				t.Errorf("%s, once more: %v, and there is %s", forge[1], err, state())
			}
		}
	})
}

// A deadlock, and a lock that is not released in time, in the middle of a transaction: nothing of
// it stays, and it is applied when it is tried again.
func TestAheadWaitsForLocks(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "locks")
		testdb.Query(t, url, "SET GLOBAL innodb_lock_wait_timeout=2")
		l, p := farHand(t, url, "CREATE TABLE item (id int PRIMARY KEY, v int); CREATE TABLE loose (x int); INSERT INTO item VALUES (1,0),(2,0)", map[string][]string{"item": {"id"}, "loose": nil})
		testdb.Query(t, url, "SET GLOBAL innodb_lock_wait_timeout=DEFAULT")
		other, err := l.e.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		run := func(sql string) {
			t.Helper()
			if err := other.Exec(t.Context(), sql); err != nil {
				t.Error(err)
			}
		}
		for i, deadlock := range []bool{false, true} {
			g := l.insert("loose", 1+i).update("item", 1, 1+i).insert("loose", 11+i).update("item", 2, 1+i).group(p.Epoch)
			run("BEGIN")
			if deadlock { // the server gives up the transaction with fewer rows
				run("INSERT INTO loose WITH RECURSIVE n AS (SELECT 1000 x UNION ALL SELECT x+1 FROM n WHERE x<1500) SELECT x FROM n")
			}
			run("UPDATE item SET v=-1 WHERE id=2")
			ended := make(chan error, 1)
			go func() { ended <- l.e.Apply(t.Context(), g) }()
			if deadlock {
				for start := time.Now(); testdb.Query(t, url, "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state='LOCK WAIT'") == "0" && time.Since(start) < time.Minute; {
					time.Sleep(150 * time.Millisecond)
				}
				run("UPDATE item SET v=-1 WHERE id=1")
			}
			if err := testdb.From(t, "the end of the group", ended); tidemark.KindOf(err) != tidemark.Transient || !strings.Contains(err.Error(), map[bool]string{false: "Lock wait timeout", true: "Deadlock"}[deadlock]) {
				t.Errorf("%v: %v", tidemark.KindOf(err), err)
			}
			run("ROLLBACK")
			if got := testdb.Query(t, url, fmt.Sprintf("SELECT COUNT(*) FROM loose WHERE x IN (%d,%d)", 1+i, 11+i)); got != "0" {
				t.Errorf("%s rows stay", got)
			}
			if err := l.e.Apply(t.Context(), g); err != nil {
				t.Error(err)
			}
		}
		if got := testdb.Query(t, url, "SELECT (SELECT GROUP_CONCAT(x ORDER BY x) FROM loose), (SELECT SUM(v) FROM item)"); got != "1,2,11,12\t4" {
			t.Error(got)
		}
	})
}

// A server that prepares no statement, or accepts one statement at a time, gets COMMIT afterwards.
func TestAheadIsNotPossible(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "impossible")
		l, p := farHand(t, url, "CREATE TABLE loose (x int)", map[string][]string{"loose": nil})
		testdb.Query(t, url, "SET GLOBAL max_prepared_stmt_count=0")
		t.Cleanup(func() { testdb.Query(t, url, "SET GLOBAL max_prepared_stmt_count=DEFAULT") })
		l.insert("loose", 1)
		l.apply(p.Epoch)
		testdb.Query(t, url, "SET GLOBAL max_prepared_stmt_count=DEFAULT")
		a := l.e.agents[0]
		if !a.counter.ahead || a.redone > 0 {
			t.Errorf("ahead %v, redone %d", a.counter.ahead, a.redone)
		}
		if err := a.s.Wire.Command(gomysql.COM_SET_OPTION, "\x01\x00"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.s.Wire.Response(); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			l.insert("loose", 2+i).insert("loose", 12+i)
			l.apply(p.Epoch)
		}
		if got := testdb.Query(t, url, "SELECT GROUP_CONCAT(x ORDER BY x) FROM loose"); got != "1,2,3,12,13" || a.redone == 0 {
			t.Error(got, a.redone)
		}
	})
}
