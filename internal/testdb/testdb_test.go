package testdb_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func postgres(major int) func(testing.TB) *testdb.Server {
	return func(tb testing.TB) *testdb.Server {
		tb.Helper()
		return testdb.Postgres(tb, major)
	}
}

var servers = []struct {
	name    string
	start   func(testing.TB) *testdb.Server
	version string // prefix of its version
	logical string // query whether its log has what replication needs
	answer  string
}{
	{"postgres13", postgres(13), "13.23", "SHOW wal_level", "logical"},
	{"postgres14", postgres(14), "14.23", "SHOW wal_level", "logical"},
	{"postgres15", postgres(15), "15.", "SHOW wal_level", "logical"},
	{"postgres16", postgres(16), "16.15", "SHOW wal_level", "logical"},
	{"postgres17", postgres(17), "17.11", "SHOW wal_level", "logical"},
	{"postgres18", postgres(18), "18.6", "SHOW wal_level", "logical"},
	{"mariadb", testdb.MariaDB, "10.11.",
		"SELECT @@binlog_format, @@binlog_row_metadata, @@gtid_strict_mode, @@local_infile", "ROW\tFULL\t1\t1"},
	{"mysql", testdb.MySQL, "8.0.33",
		"SELECT @@binlog_format, @@binlog_row_metadata, @@gtid_mode, @@local_infile", "ROW\tFULL\tON\t1"},
}

func TestServersStartAndMakeDatabases(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			server := s.start(t)
			if !strings.HasPrefix(server.Version, s.version) {
				t.Errorf("version %q, want %s...", server.Version, s.version)
			}
			if again := s.start(t); again != server {
				t.Errorf("a second server was started: %v", again)
			}
			one, two := server.NewDatabase(t, t.Name()), server.NewDatabase(t, "x")
			testdb.Load(t, one, strings.NewReader("CREATE TABLE t (a int, b varchar(10)); INSERT INTO t VALUES (1, NULL), (2, 'é');"))
			testdb.Query(t, two, "CREATE TABLE t (a int)")
			if got, want := testdb.Query(t, one, "SELECT a, b FROM t ORDER BY a"), "1\tNULL\n2\té"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := testdb.Query(t, two, "SELECT a FROM t"); got != "" {
				t.Errorf("got %q from an empty table", got)
			}
			if got := testdb.Query(t, one, s.logical); got != s.answer {
				t.Errorf("%s: got %q, want %q", s.logical, got, s.answer)
			}
		})
	}
}

func TestDatabasesAreDroppedThoughInUse(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		s := testdb.Postgres(t, 15)
		t.Run("use", func(t *testing.T) {
			url := s.NewDatabase(t, "inuse")
			testdb.Query(t, url, "SELECT pg_create_logical_replication_slot('inuse', 'pgoutput')")
			hold(t, exec.Command("psql", "-X", url, "-c", "BEGIN", "-c", "SELECT pg_sleep(600)"))
		})
		got := testdb.Query(t, s.URL("postgres"), "SELECT datname FROM pg_database WHERE datname LIKE 'inuse%'")
		if got != "" {
			t.Errorf("%s is still there", got)
		}
	})
	t.Run("mariadb", func(t *testing.T) {
		s := testdb.MariaDB(t)
		t.Run("use", func(t *testing.T) {
			url := s.NewDatabase(t, "inuse")
			testdb.Query(t, url, "CREATE TABLE t (a int)")
			_, db, _ := strings.Cut(url, "/inuse")
			cmd := exec.Command("mariadb", "--no-defaults", "-h", s.Host, "-P", strconv.Itoa(s.Port), "-u", s.User,
				"inuse"+db, "-e", "BEGIN; SELECT * FROM t; SELECT sleep(600)")
			cmd.Env = append(os.Environ(), "MYSQL_PWD="+s.Password)
			hold(t, cmd)
		})
		if got := testdb.Query(t, s.URL(""), "SHOW DATABASES LIKE 'inuse%'"); got != "" {
			t.Errorf("%s is still there", got)
		}
	})
}

// hold runs a client that stays in its database until the end of the test.
func hold(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// This runs before the database is dropped, and does not wait for the client.
	t.Cleanup(func() { go cmd.Wait() })
	time.Sleep(200 * time.Millisecond)
}

func TestSamplesHaveTheirRows(t *testing.T) {
	all := func(name string, mysql func(testing.TB, string) io.ReadCloser) {
		engine := "pg"
		if strings.Contains(name, "/mysql") {
			engine = "mysql"
		}
		dir, file := filepath.Split(name)
		counts := dir + "expected-counts." + engine + ".tsv"
		if strings.Contains(file, "spatial") {
			counts = dir + "expected-counts." + strings.TrimSuffix(file, ".sql.zst") + ".mysql.tsv"
		}
		for _, s := range servers {
			if (engine == "pg") != strings.HasPrefix(s.name, "postgres") {
				continue
			}
			sample := testdb.Sample
			if s.name == "mysql" {
				sample = mysql
			}
			if sample == nil {
				continue
			}
			if n, ok := strings.CutPrefix(s.name, "postgres"); ok {
				major, err := strconv.Atoi(n)
				if err != nil {
					t.Fatal(err)
				}
				sample = func(tb testing.TB, name string) io.ReadCloser { return testdb.SamplePostgres(tb, major, name) }
			}
			t.Run(name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				url := s.start(t).NewDatabase(t, "sample")
				testdb.Load(t, url, sample(t, name))
				testdb.CheckCounts(t, url, counts)
			})
		}
	}
	all("pagila/pg.sql.zst", nil)
	all("chinook/pg.sql.zst", nil)
	all("northwind/pg.sql.zst", nil)
	all("world/pg.sql.zst", nil)
	all("types-zoo/pg.sql", nil)
	all("sakila/mysql.sql.zst", testdb.SampleMySQL8)
	all("sakila/mysql-spatial-mariadb.sql.zst", nil)
	all("sakila/mysql-spatial-mysql8.sql.zst", testdb.Sample)
	all("chinook/mysql.sql.zst", testdb.Sample)
	all("northwind/mysql.sql.zst", testdb.Sample)
	all("world/mysql.sql.zst", testdb.Sample)
	all("menagerie/mysql.sql", testdb.Sample)
	all("types-zoo/mysql.sql", testdb.SampleMySQL8)
}

func TestEqualSchemasGiveEqualDumps(t *testing.T) {
	for _, major := range []int{13, 14, 15, 16, 17, 18} {
		for _, sample := range []string{"types-zoo/pg.sql", "pagila/pg.sql.zst"} {
			t.Run(fmt.Sprint(sample, "/", major), func(t *testing.T) {
				s := testdb.Postgres(t, major)
				one, two := s.NewDatabase(t, "one"), s.NewDatabase(t, "two")
				testdb.Load(t, one, testdb.SamplePostgres(t, major, sample))
				want := testdb.PgDump(t, one)
				if !strings.Contains(want, "CREATE TABLE") {
					t.Fatalf("no tables in\n%s", want)
				}
				testdb.Load(t, two, strings.NewReader(want))
				if diff := cmp.Diff(lines(want), lines(testdb.PgDump(t, two))); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func lines(s string) []string { return strings.Split(s, "\n") }

// TestChild is run by TestKilledProcessLeavesNothing in a process of its own.
func TestChild(t *testing.T) {
	out := os.Getenv("TESTDB_CHILD")
	if out == "" {
		return // not the child: nothing to test
	}
	var b strings.Builder
	for _, s := range []*testdb.Server{testdb.Postgres(t, 15), testdb.MariaDB(t)} {
		fmt.Fprintln(&b, s.Pid, s.Dir)
	}
	if err := os.WriteFile(out+".new", []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(out+".new", out); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("TESTDB_WAIT") != "" {
		time.Sleep(20 * time.Minute) // killed long before
	}
}

// TestChildOfAll is interrupted, with a server of its own, a program that it started, and files.
func TestChildOfAll(t *testing.T) {
	out := os.Getenv("TESTDB_CHILD_OF_ALL")
	if out == "" {
		return
	}
	own, shared := testdb.OwnPostgres(t, 15), testdb.MariaDB(t)
	sh := exec.Command("sh", "-c", "trap '' INT TERM; sleep 1200 & wait")
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintln(own.Pid, own.Dir) + fmt.Sprintln(shared.Pid, shared.Dir) + fmt.Sprintln(sh.Process.Pid, t.TempDir())
	if err := os.WriteFile(out+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(out+".new", out); err != nil {
		t.Fatal(err)
	}
	_ = sh.Wait() // until the interrupt
	time.Sleep(20 * time.Minute)
}

// After Ctrl-C, nothing is left when the process has ended: no server, no program, no folder.
func TestInterruptedProcessLeavesNothing(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		temp := t.TempDir()
		out := filepath.Join(temp, "left")
		cmd := exec.Command(os.Args[0], "-test.run=^TestChildOfAll$")
		cmd.Env = append(os.Environ(), "TESTDB_CHILD_OF_ALL="+out, "TMPDIR="+temp)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var text []byte
		eventually(t, "the child is ready", func() bool {
			var err error
			text, err = os.ReadFile(out)
			return err == nil
		})
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("%v: %v", sig, err)
		}
		left := lines(strings.TrimSpace(string(text)))
		if len(left) != 3 {
			t.Fatalf("the child reports %q", text)
		}
		for _, line := range left {
			pid, dir, _ := strings.Cut(line, " ")
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "process "+pid+" ends", func() bool { return syscall.Kill(n, 0) != nil })
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%v: %s is left: %v", sig, dir, err)
			}
		}
		if there, err := filepath.Glob(filepath.Join(temp, "tidemark-test-*")); err != nil || len(there) > 0 {
			t.Errorf("%v: left are %v, %v", sig, there, err)
		}
	}
}

// Shortly before its deadline, a package tells what everybody is doing.
func TestDeadlineTells(t *testing.T) {
	for _, s := range []*testdb.Server{testdb.Postgres(t, 15), testdb.MariaDB(t)} {
		url := s.NewDatabase(t, "deadline")
		sql := "SELECT 'held here', pg_sleep(600)"
		if s.Engine == "mariadb" {
			sql = "SELECT 'held here', sleep(600)"
		}
		go func() { _, _ = testdb.TryQuery(url, sql) }() // it ends with its database
		seen := ""
		eventually(t, s.Engine+" tells its sessions", func() bool {
			f, err := os.CreateTemp(t.TempDir(), "told")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			testdb.TellAll(f, time.Second)
			b, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			seen = string(b)
			return strings.Contains(seen, sql)
		})
		for _, want := range []string{"is reached after 1s\ngoroutine ", "TestDeadlineTells", "testdb: " + s.Engine + " " + s.Version, "ready " + map[string]string{"postgres": "to accept connections", "mariadb": "for connections"}[s.Engine]} {
			if !strings.Contains(seen, want) {
				t.Errorf("%s: nothing says %q:\n%.3000s", s.Engine, want, seen[strings.Index(seen, "testdb: "+s.Engine):])
			}
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildOfAll$", "-test.timeout=5s")
	cmd.Env = append(os.Environ(), "TESTDB_CHILD_OF_ALL="+filepath.Join(t.TempDir(), "left"))
	said, _ := cmd.CombinedOutput() // its exit code counts
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(said), "testdb: the deadline of this package is reached after 4s") || !strings.Contains(string(said), "TestChildOfAll") {
		t.Errorf("exit %d\n%.3000s", cmd.ProcessState.ExitCode(), said)
	}
}

func TestKilledProcessLeavesNothing(t *testing.T) {
	child := func(out, wait string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append(os.Environ(), "TESTDB_CHILD="+out, "TESTDB_WAIT="+wait)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	out := filepath.Join(t.TempDir(), "servers")
	killed := child(out, "yes")
	var text []byte
	eventually(t, "the child starts servers", func() bool {
		var err error
		text, err = os.ReadFile(out)
		return err == nil
	})
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // Wait reports the kill

	left := lines(strings.TrimSpace(string(text)))
	if len(left) != 2 {
		t.Fatalf("the child reports %q", text)
	}
	for _, line := range left {
		pid, _, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "server "+pid+" ends", func() bool { return syscall.Kill(n, 0) != nil })
	}
	// The next process removes these folders, and its own.
	if err := child(out, "").Wait(); err != nil {
		t.Fatal(err)
	}
	text2, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range append(left, lines(strings.TrimSpace(string(text2)))...) {
		_, dir, _ := strings.Cut(line, " ")
		eventually(t, dir+" is removed", func() bool { _, err := os.Stat(dir); return err != nil })
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within five minutes: %s", what)
		}
	}
}

func TestProgramIsBuiltAndRuns(t *testing.T) {
	if o := testdb.Run(t, "no-such-verb"); o.Code == 0 || o.ErrOut == "" {
		t.Errorf("an unknown verb: exit %d, said %q", o.Code, o.ErrOut)
	}
	if out := testdb.Must(t, "--version"); out == "" {
		t.Error("no version")
	}
}
