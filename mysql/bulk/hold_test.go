package bulk

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// alter tries to change a table within a second, by an algorithm that rewrites its rows: an older
// view could still read rows that were left in place.
func alter(t *testing.T, rawURL, name string) error {
	t.Helper()
	e := open(t, rawURL, server.Options{})
	defer e.Close()
	return e.Exec(t.Context(), 0, []string{"SET lock_wait_timeout = 1", "ALTER TABLE " + name + " ADD COLUMN x int, ALGORITHM=COPY"})
}

// TestManyTablesAreHeld has more tables than one session holds on MariaDB.
func TestManyTablesAreHeld(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "many")
		var b strings.Builder
		for i := range holdEach + 1 {
			fmt.Fprintf(&b, "CREATE TABLE t%03d (id int) ENGINE=MEMORY;\n", i)
		}
		testdb.Load(t, from, strings.NewReader(b.String()))
		e := open(t, from, server.Options{})
		if _, err := e.Freeze(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Describe(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{"mysql": 1, "mariadb": 2}[srv.Engine]; len(e.holders) != want {
			t.Errorf("%d sessions hold the tables, want %d", len(e.holders), want)
		}
		for _, name := range []string{"t000", fmt.Sprintf("t%03d", holdEach)} {
			if err := alter(t, from, name); tidemark.KindOf(err) != tidemark.Transient {
				t.Errorf("%s was altered: %v", name, err)
			}
		}
	})
}

// TestLanesLetGo: a lane that has read many tables holds few of them, and keeps its view. A table
// that was altered meanwhile is an error, not other rows.
func TestLanesLetGo(t *testing.T) {
	srv := testdb.MariaDB(t)
	from := srv.NewDatabase(t, "letgo")
	testdb.Query(t, from, "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)")
	a, b := mysqltest.MoveTo(mysqltest.TableFrom(t, from, "a"), "elsewhere"), mysqltest.MoveTo(mysqltest.TableFrom(t, from, "b"), "elsewhere")
	e := open(t, from, server.Options{})
	if _, err := e.Freeze(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, from, "INSERT INTO b VALUES (2)")
	mysqltest.ReadAll(t, e, a, tidemark.LoadData)
	if err := alter(t, from, "a"); tidemark.KindOf(err) != tidemark.Transient {
		t.Errorf("what was read last can be altered: %v", err)
	}
	for range releaseAfter {
		if rows := mysqltest.ReadAll(t, e, b, tidemark.LoadData); rows != "1\n" {
			t.Fatalf("the view has moved on: %q", rows)
		}
	}
	if err := alter(t, from, "a"); err != nil {
		t.Errorf("what was read long ago is held still: %v", err)
	}
	err := e.Read(t.Context(), 0, tidemark.Read{Move: a}, func(b *tidemark.Batch) error { b.Release(); return nil })
	want := "read " + mysqltest.DatabaseOf(from) + ".a: Table definition has changed, please retry transaction (error 1412)"
	if tidemark.KindOf(err) != tidemark.Lost || fmt.Sprint(err) != want {
		t.Errorf("read of an altered table: %v\nwant %s", err, want)
	}
}

// TestReadBehindAlter: a lane does not wait forever behind somebody who waits to alter a table that
// we hold.
func TestReadBehindAlter(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "behind")
		testdb.Query(t, from, "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
		e := open(t, from, server.Options{LockWait: time.Second})
		if _, err := e.Freeze(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		db, err := e.Describe(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		other := open(t, from, server.Options{})
		done := make(chan error, 1)
		go func() { done <- other.Exec(t.Context(), 0, []string{"ALTER TABLE a ADD COLUMN x int"}) }()
		waiting := "SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%' AND db='" + mysqltest.DatabaseOf(from) + "'"
		testdb.Within(t, "the wait of the ALTER", func() bool { return testdb.Query(t, from, waiting) == "1" })
		m := mysqltest.MoveTo(mysqltest.TableNamed(t, db, "a"), "elsewhere")
		err = e.Read(t.Context(), 0, tidemark.Read{Move: m}, func(b *tidemark.Batch) error { b.Release(); return nil })
		if tidemark.KindOf(err) != tidemark.Transient || !strings.Contains(fmt.Sprint(err), "Lock wait timeout") {
			t.Errorf("read behind an ALTER: %v", err)
		}
		e.Close()
		if err := testdb.From(t, "the end of the ALTER", done); err != nil {
			t.Error(err)
		}
	})
}
