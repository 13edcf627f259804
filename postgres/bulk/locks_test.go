package bulk

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// TestReadsKeepFewLocks reads many tables on one lane: it holds few locks at a time, whatever the
// number of tables, and stays in its view.
func TestReadsKeepFewLocks(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t, 15).NewDatabase(t, "locks")
	const n = 300
	var sql strings.Builder
	for i := range n {
		fmt.Fprintf(&sql, "CREATE TABLE t%d (id int PRIMARY KEY); INSERT INTO t%d VALUES (1);\n", i, i)
	}
	testdb.Load(t, url, strings.NewReader(sql.String()))
	e := frozen(t, url, 1)
	testdb.Query(t, url, "DO $$ BEGIN FOR i IN 0 .. "+strconv.Itoa(n-1)+" LOOP EXECUTE format('INSERT INTO t%s VALUES (2)', i); END LOOP; END $$")
	for i := range n {
		m := &tidemark.Move{From: &tidemark.Table{TableID: tidemark.TableID{Schema: "public", Name: fmt.Sprint("t", i)},
			Columns: []tidemark.Column{{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 32, Native: "integer"}}}}, Source: []string{"id"}, Filter: []tidemark.Filter{{SQL: "id > 0"}}}
		m.To = m.From
		if data, rows := readAll(t, e, 0, m, &tidemark.Range{}, tidemark.CopyText); rows != 1 {
			t.Fatalf("t%d: %q, not the one row of the view", i, data)
		}
	}
	held, err := strconv.Atoi(testdb.Query(t, url, "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND locktype = 'relation' AND l.pid <> pg_backend_pid()"))
	if err != nil || held == 0 || held > 4*readsJoined {
		t.Errorf("%d locks are held after %d tables (%v)", held, n, err)
	}
}

// TestDescribeLocksWhatItReads: nobody can alter a table of the frozen view.
func TestDescribeLocksWhatItReads(t *testing.T) {
	src := testdb.Postgres(t, 15).NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE t (a int)")
	e, err := Open(t.Context(), src, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Freeze(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	db, err := e.Describe(t.Context(), nil)
	if err != nil || len(db.Findings) > 0 {
		t.Fatal(err, db.Findings)
	}
	other := connectTo(t, src)
	if _, err := other.Exec(t.Context(), "SET lock_timeout = '100ms'; ALTER TABLE public.t ADD b int"); err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Errorf("ALTER TABLE gives %v", err)
	}
}

// connectTo opens a session that is closed when the test ends.
func connectTo(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), server.SessionSQL(13)); err != nil {
		t.Fatal(err)
	}
	return conn
}
