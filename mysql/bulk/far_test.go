package bulk

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestWriteTakesTwoRoundTrips counts them for small tables in both formats, of which some are empty
// and others have columns that are converted; indexes are built between them.
func TestWriteTakesTwoRoundTrips(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "few")
		wire := testdb.NewWire(t, fmt.Sprint(srv.Port), 0)
		e, ctx := open(t, strings.Replace(to, fmt.Sprint(":", srv.Port), ":"+wire.Port, 1), server.Options{}), t.Context()
		if err := e.Begin(ctx, "r"); err != nil {
			t.Fatal(err)
		}
		var moves []*tidemark.Move
		var ids []tidemark.TableID
		for i := range 40 {
			m := targetTable(t, to, fmt.Sprint("t", i), "id int PRIMARY KEY, v varchar(9) CHARACTER SET latin1, j json")
			moves, ids = append(moves, m), append(ids, m.To.TableID)
		}
		if _, err := e.Inspect(ctx, ids); err != nil {
			t.Fatal(err)
		}
		if _, err := e.writer(ctx, 0); err != nil {
			t.Fatal(err)
		}
		wire.Turns()
		for i, m := range moves {
			rows, f := "1\té\t{\"a\": \"é\"}\n2\tb\t\\N\n", tidemark.CopyText
			switch i % 4 {
			case 1:
				f, rows = tidemark.LoadData, strings.Replace(rows, "\té\t", "\t\xe9\t", 1)
			case 2:
				rows = ""
			}
			r := &tidemark.Range{ID: i + 1}
			var reject func([]byte, string) error
			if i >= 20 {
				reject = func([]byte, string) error { return errors.New("no row is bad") }
			}
			if _, err := e.Write(ctx, 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: f, Fresh: true, Reject: reject}, mysqltest.Batches(f, r, rows)); err != nil {
				t.Fatal(err)
			}
			forgetShapes(e.Bulk, "ALTER TABLE "+server.QuoteTable(m.To.TableID)+" ADD INDEX (v)")
		}
		if n := wire.Turns(); n > 1+2*30+10 {
			t.Errorf("%d round trips for 40 tables", n)
		}
		for i, m := range moves {
			want := "2\tE9"
			if i%4 == 2 {
				want = "0\tNULL"
			}
			if got := testdb.Query(t, to, "SELECT COUNT(*), HEX(MIN(IF(id=1,v,NULL))) FROM "+server.QuoteTable(m.To.TableID)); got != want {
				t.Errorf("table %d: %s", i, got)
			}
		}
	})
}

// TestShapesAreAskedAgain: after DDL of ours, what is known of a table is what it is now.
func TestShapesAreAskedAgain(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "shape`s")
		e, ctx := open(t, to, server.Options{}), t.Context()
		id := tidemark.TableID{Schema: mysqltest.DatabaseOf(to), Name: "a `b`` c"}
		name := server.QuoteTable(id)
		s, err := e.writer(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ sql, want string }{
			{"CREATE TABLE " + name + " (v varchar(9) CHARACTER SET latin1)", "{true map[v:{varchar latin1 false}] map[]}"},
			{"ALTER TABLE " + name + " ADD w text CHARACTER SET latin1", "{true map[v:{varchar latin1 false} w:{text latin1 false}] map[]}"},
			{"ALTER TABLE " + name + " DROP w, MODIFY v text CHARACTER SET utf8mb4", "{true map[] map[]}"},
			{"ANALYZE TABLE " + name, "{true map[] map[]}"},
			{"ALTER TABLE " + name + " ADD g int AS (length(v))", "{true map[] map[v:{"},
			{"ALTER TABLE " + name + " DROP g", "{true map[] map[]}"},
			{"alter table " + name + " engine=MyISAM", "{false map[] map[]}"},
			{"DROP TABLE " + name, "NotFound"},
		} {
			if err := e.Exec(ctx, 0, []string{c.sql}); err != nil {
				t.Fatal(err)
			}
			shape, err := e.shapeOf(ctx, s, id)
			got := fmt.Sprint(shape)
			if err != nil {
				got = "NotFound"
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("after %s: %s %v", c.sql, got, err)
			}
		}
	})
}

// TestEachStatementMayFail: whichever of the statements around the rows fails, good rows are there
// together with their marker or not at all, and bad ones are not. Before each, the same session has
// written another range, whose judgement must not count.
func TestEachStatementMayFail(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "forged")
		f := mysqltest.NewForger(t, srv)
		e, ctx := open(t, strings.Replace(to, fmt.Sprintf("127.0.0.1:%d", srv.Port), f.Addr().String(), 1), server.Options{}), t.Context()
		if err := e.Begin(ctx, "r"); err != nil {
			t.Fatal(err)
		}
		m := targetTable(t, to, "x", "id int PRIMARY KEY, v varchar(3)")
		id := 0
		var reject func([]byte, string) error
		write := func(rows string) error {
			r := &tidemark.Range{ID: id}
			_, err := e.Write(ctx, 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData, Reject: reject}, mysqltest.Batches(tidemark.LoadData, r, rows))
			return err
		}
		state := func() string {
			return testdb.Query(t, to, fmt.Sprintf("SELECT (SELECT COUNT(*) FROM x WHERE id DIV 10=%d), (SELECT COUNT(*) FROM tidemark_copied WHERE range_id=%d)", id, id))
		}
		for _, statement := range []string{"START", "SET @tidemark_rows", "LOAD", "GET", "SHOW", "SET @tidemark_loaded", "INSERT", "SET @tidemark_commit", "PREPARE", "EXECUTE", "DEALLOCATE", "none"} {
			for _, try := range []struct{ bad, rejects bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
				bad, good := try.bad, "2\t1"
				if reject = nil; try.rejects {
					reject = func([]byte, string) error { return nil }
				}
				if bad && try.rejects {
					good = "1\t1"
				}
				id++
				if err := write(fmt.Sprintf("%d0\ta\n%d1\tb\n", id, id)); err != nil {
					t.Fatal(err)
				}
				id++
				rows := fmt.Sprintf("%d0\ta\n%d1\tb\n", id, id)
				if bad {
					rows = fmt.Sprintf("%d0\ta\n%d1\ttoo long\n", id, id)
				}
				f.Forge.Store(&[2]string{"\x03" + statement, "\x03?" + statement[1:]})
				err := write(rows)
				f.Forge.Store(nil)
				got := state()
				if (err == nil) != (got == good) || err != nil && got != "0\t0" || bad && !try.rejects && err == nil {
					t.Errorf("%s, %+v: %v, and rows and markers are %s", statement, try, err, got)
				}
				if err == nil {
					continue
				}
				if err := write(fmt.Sprintf("%d0\ta\n%d1\tb\n", id, id)); err != nil || state() != "2\t1" {
					t.Errorf("%s, %+v, once more: %v, and rows and markers are %s", statement, try, err, state())
				}
			}
		}
	})
}

// TestWithoutPreparedStatements: a server that allows none gets COMMIT on its own.
func TestWithoutPreparedStatements(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "unprepared")
		e := open(t, to, server.Options{})
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		m := targetTable(t, to, "x", "id int PRIMARY KEY")
		testdb.Query(t, to, "SET GLOBAL max_prepared_stmt_count=0")
		t.Cleanup(func() { testdb.Query(t, to, "SET GLOBAL max_prepared_stmt_count=DEFAULT") })
		for i, rows := range []string{"1\n2\n", "3\n3\n"} {
			r := &tidemark.Range{ID: i + 1}
			_, err := e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData}, mysqltest.Batches(tidemark.LoadData, r, rows))
			if (err == nil) != (i == 0) {
				t.Error(err)
			}
		}
		if got := testdb.Query(t, to, "SELECT (SELECT COUNT(*) FROM x), (SELECT COUNT(*) FROM tidemark_copied WHERE range_id>0)"); got != "2\t1" {
			t.Errorf("rows and markers %s", got)
		}
	})
}

// TestTriggersDoNotMisleadTheServer: rows are committed with their marker although a trigger of
// their table writes elsewhere, counts rows of its own and warns.
func TestTriggersDoNotMisleadTheServer(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "fired")
		e, ctx := open(t, to, server.Options{}), t.Context()
		if err := e.Begin(ctx, "r"); err != nil {
			t.Fatal(err)
		}
		for i, body := range []string{"INSERT INTO seen SELECT NEW.id UNION ALL SELECT -NEW.id", "SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT='careful'"} {
			name := fmt.Sprint("x", i)
			m := targetTable(t, to, name, "id int PRIMARY KEY, p int, g int AS (p + 1) STORED, KEY (p), FOREIGN KEY (p) REFERENCES "+name+" (id)")
			testdb.Query(t, to, "CREATE TABLE IF NOT EXISTS seen (id int); CREATE TRIGGER t"+name+" AFTER INSERT ON "+name+" FOR EACH ROW "+body)
			r := &tidemark.Range{ID: i + 1}
			_, err := e.Write(ctx, 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData}, mysqltest.Batches(tidemark.LoadData, r, "1\t2\n2\t1\n"))
			if got := testdb.Query(t, to, fmt.Sprintf("SELECT (SELECT COUNT(*) FROM %s), (SELECT COUNT(*) FROM tidemark_copied WHERE range_id=%d)", name, r.ID)); err != nil || got != "2\t1" {
				t.Errorf("%s: %v, and rows and markers are %s", body, err, got)
			}
		}
		if got := testdb.Query(t, to, "SELECT COUNT(*) FROM seen"); got != "4" {
			t.Errorf("the trigger has written %s rows", got)
		}
	})
}
