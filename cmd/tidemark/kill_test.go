package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// The tables of the kill tests: with a key of one column and of two, without a key and full of
// equal rows, one that references another, empty and small ones. Rows come from a series, which
// each engine spells differently.
const killTables = `
CREATE TABLE keyed (id bigint PRIMARY KEY, name varchar(60) NOT NULL, amount decimal(12,2), at %[1]s, note text);
INSERT INTO keyed SELECT i, concat('name ', i), i * 1.25, TIMESTAMP '2024-01-01 00:00:00', CASE WHEN i %% 7 = 0 THEN NULL ELSE concat('note\t', md5(concat(i, ''))) END FROM %[2]s;
CREATE INDEX keyed_name ON keyed (name);
CREATE TABLE keyless (a int, b varchar(80));
INSERT INTO keyless SELECT i %% 100, concat('the same again and again ', i %% 50) FROM %[2]s;
CREATE TABLE pairs (a int, b varchar(20), c text, PRIMARY KEY (a, b));
INSERT INTO pairs SELECT i %% 40, concat('b', i), concat('é€😀', i) FROM %[2]s;
CREATE TABLE child (id int PRIMARY KEY, keyed_id bigint NOT NULL, c varchar(40), CONSTRAINT child_keyed FOREIGN KEY (keyed_id) REFERENCES keyed (id));
INSERT INTO child SELECT i, i, 'child' FROM %[2]s;
CREATE UNIQUE INDEX child_c ON child (c, id);
CREATE TABLE none (id int PRIMARY KEY, x text);
CREATE TABLE one (id int PRIMARY KEY, x text);
INSERT INTO one VALUES (1, 'x');
`

var killTableNames = []string{"keyed", "keyless", "pairs", "child", "none", "one"}

// seriesOf returns the tables' SQL with n rows in each of the four large ones.
func seriesOf(engine, sql string, n int) string {
	switch engine {
	case "postgres":
		return fmt.Sprintf(sql, "timestamp", fmt.Sprintf("(SELECT * FROM generate_series(1, %d) i) s", n))
	case "mariadb":
		return fmt.Sprintf(sql, "datetime", fmt.Sprintf("(SELECT seq AS i FROM seq_1_to_%d) s", n))
	}
	return "SET SESSION cte_max_recursion_depth = 1000000;\n" + fmt.Sprintf(sql, "datetime",
		fmt.Sprintf("(WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < %d) SELECT i FROM r) s", n))
}

// killSource creates a database with these tables.
func killSource(t *testing.T, srv *testdb.Server, n int) string {
	t.Helper()
	url := srv.NewDatabase(t, "src")
	sql := seriesOf(srv.Engine, killTables, n)
	for i := range 20 { // a dump has at least one piece for each
		sql += fmt.Sprintf("CREATE TABLE small_%d (id int PRIMARY KEY, x text);\nINSERT INTO small_%d SELECT id, c FROM child WHERE id <= 200;\nCREATE INDEX small_%d_x ON small_%d (id, x(20));\n", i, i, i, i)
	}
	if srv.Engine == "postgres" {
		sql = strings.ReplaceAll(sql, "x(20)", "x") + "ANALYZE;\n"
	} else {
		sql += "ANALYZE TABLE " + strings.Join(killTableNames[:4], ", ") + ";\n"
	}
	testdb.Load(t, url, strings.NewReader(sql))
	return url
}

// dumped dumps a MariaDB database to a file, in statements of 16 kB, so that it has many pieces.
func dumped(t *testing.T, srv *testdb.Server, url string) string {
	t.Helper()
	db := url[strings.LastIndex(url, "/")+1:]
	path := filepath.Join(t.TempDir(), "dump.sql")
	cmd := exec.Command("mariadb-dump", "--no-defaults", "--host="+srv.Host, fmt.Sprint("--port=", srv.Port), "--user="+srv.User,
		"--single-transaction", "--net-buffer-length=16384", "--result-file="+path, db)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+srv.Password)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-dump: %v\n%s", err, out)
	}
	return path
}

// A way is a source, what it is compared with, and its target.
type way struct {
	name   string
	rows   int
	source func(t *testing.T, rows int) (from, twin string)
	target func(t *testing.T) *testdb.Server
	verb   string // "": copy
}

func ways() []way {
	of := func(srv func(t *testing.T) *testdb.Server) func(*testing.T, int) (string, string) {
		return func(t *testing.T, rows int) (string, string) {
			url := killSource(t, srv(t), rows)
			return url, url
		}
	}
	pg := func(major int) func(*testing.T) *testdb.Server {
		return func(t *testing.T) *testdb.Server { return testdb.Postgres(t, major) }
	}
	maria := func(t *testing.T) *testdb.Server { return testdb.MariaDB(t) }
	my := func(t *testing.T) *testdb.Server { return testdb.MySQL(t) }
	file := func(t *testing.T, rows int) (string, string) {
		url := killSource(t, maria(t), rows)
		return "file:" + dumped(t, maria(t), url), url
	}
	shelf := func(srv func(t *testing.T) *testdb.Server) func(*testing.T, int) (string, string) {
		return func(t *testing.T, rows int) (string, string) {
			url, place := killSource(t, srv(t), rows), t.TempDir()
			must(t, "backup", "--logical", url, place)
			return place, url
		}
	}
	return []way{
		{"postgres to another postgres", 10000, of(pg(17)), pg(18), ""}, // with no other writes, the source is unchanged when the run resumes
		{"postgres to the same postgres", 10000, of(pg(15)), pg(15), ""},
		{"mysql to mariadb", 10000, of(my), maria, ""},
		{"mariadb to mariadb", 10000, of(maria), maria, ""},
		{"mariadb to postgres", 10000, of(maria), pg(15), ""},
		{"postgres to mariadb", 10000, of(pg(15)), maria, ""},
		{"dump to mariadb", 10000, file, maria, ""},
		{"dump to postgres", 10000, file, pg(15), ""},
		{"logical backup to postgres", 10000, shelf(pg(15)), pg(16), "restore"},
		{"logical backup to mariadb", 10000, shelf(maria), maria, "restore"},
	}
}

// TestKilledAtAnyMoment kills copies without warning at random moments, resumes them, and kills
// these too; in the end no row is lost or duplicated.
func TestKilledAtAnyMoment(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			seed := testdb.Seed(t)
			rng := rand.New(rand.NewPCG(seed, 0))
			from, twin := w.source(t, w.rows)
			lines, rounds := 200, 3
			if w.verb != "" {
				rounds = 1 // the rest is as in a copy
			}
			for round := range rounds {
				t.Run(fmt.Sprint(round), func(t *testing.T) { lines = survive(t, w, from, twin, rng, lines) })
			}
		})
	}
}

// survive copies to a new database and kills the copy three times. It returns how many lines the
// first attempt needs to the end.
func survive(t *testing.T, w way, from, twin string, rng *rand.Rand, lines int) int {
	dst := w.target(t).NewDatabase(t, "dst")
	args := []string{cmp.Or(w.verb, "copy"), from, dst, "--json", "--range-size", "16kB", "--lanes", "2"}
	seen, kills := 0, 0
	for attempt := 0; ; attempt++ {
		line := args
		state := lastState(t)
		if state != "" {
			line = append(args[:len(args):len(args)], "--resume", "last")
		}
		if state == catalog.Done { // killed with only the cleanup left
			o := cli(t, line...)
			if o.code != 2 || !strings.Contains(o.errOut, "has already finished") {
				t.Fatalf("exit %d\n%s", o.code, o.errOut)
			}
			break
		}
		at := -1
		if attempt < 3 {
			at = rng.IntN(max(lines-seen, 2))
		}
		p := runUntil(t, at, time.Duration(rng.IntN(3000))*time.Microsecond, line...)
		seen += p.lines
		if p.killed {
			kills++
			continue
		}
		if p.code != 0 {
			t.Fatalf("attempt %d: exit %d\n%s%s", attempt, p.code, p.errOut, p.errors)
		}
		break
	}
	t.Logf("killed %d times, %d lines in all", kills, seen)
	must(t, "diff", twin, dst)
	sameCounts(t, twin, dst)
	nothingOfOurs(t, dst)
	return max(seen, 50)
}

// lastState returns the state of this test's last run, "" if there is none.
func lastState(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(statePath(t)); err != nil {
		return ""
	}
	var runs []catalog.Run
	if err := json.Unmarshal([]byte(must(t, "runs", "--json").out), &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) == 0 {
		return ""
	}
	return runs[0].State
}

// fSetPipeSize is F_SETPIPE_SZ of fcntl(2).
const fSetPipeSize = 1031

// startInStep starts a process, and returns its output. A pipe holds 64 kB, so the process could be
// far ahead of the reader: this pipe is as small as possible, and nothing is read ahead.
func startInStep(t *testing.T, cmd *exec.Cmd) (*os.File, *bufio.Reader) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, in.Fd(), fSetPipeSize, 4096); errno != 0 {
		t.Fatal(errno)
	}
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return out, bufio.NewReaderSize(out, 16)
}

// An attempt is the outcome of a process.
type attempt struct {
	killed bool
	code   int
	lines  int    // of its standard output
	errors string // those lines that are events with an error
	errOut string
}

// runUntil runs tidemark in a separate process, which it kills shortly after that many lines of
// output; -1: never.
func runUntil(t *testing.T, lines int, delay time.Duration, args ...string) attempt {
	t.Helper()
	cmd := process(t, args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, in := startInStep(t, cmd)
	defer out.Close()
	var a attempt
	kill := func() { time.AfterFunc(delay, func() { cmd.Process.Kill() }) }
	if lines == 0 {
		delay *= 100 // in the time before the first line
		kill()
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		if strings.Contains(line, `"error":`) && len(line) < 4000 {
			a.errors += line
		}
		if a.lines++; a.lines == lines {
			kill()
		}
	}
	_ = cmd.Wait() // its state tells more
	state := cmd.ProcessState.Sys().(syscall.WaitStatus)
	a.killed, a.code, a.errOut = state.Signaled(), state.ExitStatus(), errOut.String()
	return a
}

// sameCounts compares the row counts of both servers.
func sameCounts(t *testing.T, a, b string) {
	t.Helper()
	for _, name := range killTableNames {
		sql := "SELECT count(*) FROM " + name
		if x, y := testdb.Query(t, a, sql), testdb.Query(t, b, sql); x != y {
			t.Errorf("%s: %s rows at the source, %s on the target", name, x, y)
		}
	}
}

// nothingOfOurs checks that a finished copy leaves no marker table behind.
func nothingOfOurs(t *testing.T, url string) {
	t.Helper()
	sql := "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = database() AND table_name LIKE 'tidemark%'"
	if strings.HasPrefix(url, "postgres") {
		sql = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'tidemark' UNION ALL SELECT nspname, '' FROM pg_namespace WHERE nspname = 'tidemark'"
	}
	if left := testdb.Query(t, url, sql); left != "" {
		t.Errorf("left on the target: %s", left)
	}
}
