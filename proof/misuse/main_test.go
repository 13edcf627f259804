// Package misuse runs the program the wrong way: with both ends the same, the ends swapped, two at
// once, in the wrong order, and with nothing to do. Existing data must survive, and the answer must
// say what is wrong.
package misuse

import (
	"bytes"
	"context"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// patience bounds each wait, on a busy machine.
const patience = 3 * time.Minute

// An engine is a kind of server, with the means to write tests for it.
type engine struct {
	name   string
	server func(testing.TB) *testdb.Server
}

func engines() []engine {
	return []engine{
		{"postgres", func(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 15) }},
		{"mysql", testdb.MySQL},
		{"mariadb", testdb.MariaDB},
	}
}

const orders = `CREATE TABLE orders (id int PRIMARY KEY, name varchar(40) NOT NULL);
INSERT INTO orders VALUES (1, 'one'), (2, 'two'), (3, 'three');`

const allOrders = "SELECT id, name FROM orders ORDER BY id"

// full creates a database with a table of orders.
func full(tb testing.TB, s *testdb.Server) string {
	db := s.NewDatabase(tb, "shop")
	testdb.Load(tb, db, strings.NewReader(orders))
	return db
}

// run is testdb.Run with a limit on the wait.
func run(t *testing.T, args ...string) testdb.Outcome {
	t.Helper()
	cmd := testdb.Command(t, args...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errOut bytes.Buffer
	bound := exec.CommandContext(ctx, cmd.Path, args...)
	bound.Dir, bound.Env, bound.Stdout, bound.Stderr = cmd.Dir, cmd.Env, &out, &errOut
	bound.Cancel = func() error { return bound.Process.Signal(syscall.SIGQUIT) } // prints its stacks
	bound.WaitDelay = 20 * time.Second
	_ = bound.Run() // its exit code is enough
	if ctx.Err() != nil {
		testdb.OnClock(t)
		t.Fatalf("tidemark %q has not ended\n%s%s", args, &errOut, &out)
	}
	return testdb.Outcome{Code: bound.ProcessState.ExitCode(), Out: out.String(), ErrOut: errOut.String()}
}

// soon waits until done returns true.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			testdb.OnClock(t)
			t.Fatal("not in time: " + what)
		}
	}
}

func streamName() string { return testdb.StreamName("misuse") }

// tables lists a database's tables, including Tidemark's.
func tables(t *testing.T, db string) string {
	t.Helper()
	what := "table_schema = database()"
	if strings.HasPrefix(db, "postgres") {
		what = "table_schema NOT IN ('pg_catalog', 'information_schema')"
	}
	return testdb.Query(t, db, "SELECT table_name FROM information_schema.tables WHERE "+what+" ORDER BY 1")
}

// routes returns different ways to reach the same database of a server, which listens on a socket
// too.
func routes(t *testing.T, s *testdb.Server, db string) map[string]string {
	t.Helper()
	port := strconv.Itoa(s.Port)
	out := map[string]string{"the same URL": db, "localhost": testdb.At(t, db, "localhost:"+port)}
	if s.Engine == "postgres" {
		dir := testdb.Query(t, db, "SHOW unix_socket_directories")
		out["socket"] = testdb.At(t, db, "") + "&host=" + url.QueryEscape(dir) + "&port=" + port
		out["pgbouncer"] = s.Pooled(t, "session")(db)
		return out
	}
	testdb.Query(t, db, "CREATE USER IF NOT EXISTS near@localhost IDENTIFIED BY 'near'")
	testdb.Query(t, db, "GRANT ALL ON *.* TO near@localhost WITH GRANT OPTION")
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("near", "near")
	out["socket"] = u.String() + "?socket=" + url.QueryEscape(testdb.Query(t, db, "SELECT @@socket"))
	return out
}
