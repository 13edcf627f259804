package misuse

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestReplicateKilledInItsCopy kills replicate at random moments of its copy, while a program
// writes, and repeats the same command until it has caught up. All rows then match the source's
// server, no index or foreign key is missing, and a completed table was not copied again: rows
// altered in it by hand are unchanged.
func TestReplicateKilledInItsCopy(t *testing.T) {
	t.Parallel()
	pairs := [][2]string{{"postgres", "postgres"}, {"mysql", "mariadb"}, {"mariadb", "mysql"}}
	if testdb.Long() {
		pairs = append(pairs, [2]string{"mysql", "postgres"}, [2]string{"postgres", "mariadb"}, [2]string{"mariadb", "mariadb"}, [2]string{"mariadb", "postgres"})
	}
	for _, pair := range pairs {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			t.Parallel()
			killCopies(t, byName(pair[0])(t), byName(pair[1])(t))
		})
	}
}

func byName(name string) func(testing.TB) *testdb.Server {
	for _, e := range engines() {
		if e.name == name {
			return e.server
		}
	}
	panic(name)
}

// copied are the tables of these tests, with their columns besides id and v.
var copied = []string{"still", "keyed", "loose", "parent", "child", "parted"}

// fill creates a database that takes seconds to copy. Nobody writes to still, which is the largest
// table and the first to be complete.
func fill(t *testing.T, s *testdb.Server) string {
	db := s.NewDatabase(t, "src")
	parted, limit := ") PARTITION BY HASH (id) PARTITIONS 3", "SET SESSION cte_max_recursion_depth = 1000000; "
	numbers := "WITH RECURSIVE g(g) AS (SELECT 1 UNION ALL SELECT g+1 FROM g WHERE g < %d) SELECT g, concat(g, repeat('x', 100)) FROM g"
	switch s.Engine {
	case "mariadb":
		limit = "SET SESSION max_recursive_iterations = 1000000; "
	case "postgres":
		parted, limit = ") PARTITION BY RANGE (id); CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (2000); CREATE TABLE parted_2 PARTITION OF parted DEFAULT", ""
	}
	create := `CREATE TABLE still (id int PRIMARY KEY, v varchar(150));
CREATE TABLE keyed (id int PRIMARY KEY, v varchar(150)); CREATE INDEX keyed_v ON keyed (v);
CREATE TABLE loose (id int, v varchar(150));
CREATE TABLE parent (id int PRIMARY KEY, v varchar(150));
CREATE TABLE child (id int PRIMARY KEY, v varchar(150), p int, CONSTRAINT child_p FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE);
CREATE TABLE parted (id int PRIMARY KEY, v varchar(150)` + parted
	for _, sql := range strings.Split(create, ";") {
		testdb.Query(t, db, sql)
	}
	if s.Engine == "postgres" {
		testdb.Query(t, db, "ALTER TABLE loose REPLICA IDENTITY FULL")
	}
	for table, rows := range map[string]int{"still": 20000, "keyed": 15000, "loose": 6000, "parent": 5000, "parted": 5000} {
		sql := fmt.Sprintf("INSERT INTO "+table+" (id, v) "+numbers, rows)
		if s.Engine == "postgres" {
			sql = fmt.Sprintf("INSERT INTO %s (id, v) SELECT g, g || repeat('x', 100) FROM generate_series(1, %d) g", table, rows)
		}
		testdb.Query(t, db, limit+sql)
	}
	testdb.Query(t, db, "INSERT INTO child (id, v, p) SELECT id, v, id FROM parent")
	return db
}

// write changes rows of all tables except still, until stop is closed.
func write(t *testing.T, db string, stop chan struct{}) {
	s := testdb.NewSession(db)
	defer s.Close()
	for n := 100000; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		table := []string{"keyed", "loose", "parent", "parted"}[rand.IntN(4)]
		old := rand.IntN(5000)
		sql := []string{
			fmt.Sprintf("INSERT INTO %s (id, v) VALUES (%d, 'new')", table, n),
			fmt.Sprintf("UPDATE %s SET v = 'changed %d' WHERE id = %d", table, n, old),
			fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, old),
			fmt.Sprintf("DELETE FROM parent WHERE id = %d", old),
			fmt.Sprintf("INSERT INTO parent (id, v) VALUES (%d, 'again')", old), // fails if the row exists
			fmt.Sprintf("INSERT INTO child (id, v, p) VALUES (%d, 'again', %d)", n, old),
		}[rand.IntN(6)]
		_, _ = s.Try(sql) // its parent may be missing
	}
}

// slowCopy makes both databases, and the arguments of a stream whose first copy reads so many bytes
// a second.
func slowCopy(t *testing.T, from, to *testdb.Server, rate int64, lanes string) (src, dst string, args []string) {
	src, dst = fill(t, from), to.NewDatabase(t, "dst")
	u, err := url.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	slow := testdb.At(t, src, u.Hostname()+":"+testdb.SlowWire(t, u.Port(), rate))
	return src, dst, []string{"replicate", slow, dst, "--name", streamName(), "--until", "now", "--lanes", lanes, "--json"}
}

// allArrived compares the tables that are copied.
func allArrived(t *testing.T, src, dst string) {
	t.Helper()
	for _, table := range copied {
		sql := "SELECT id, v FROM " + table + " ORDER BY id, v"
		if a, b := testdb.Query(t, src, sql), testdb.Query(t, dst, sql); a != b {
			t.Errorf("%s differs: %s", table, firstDifference(a, b))
		}
	}
}

func killCopies(t *testing.T, from, to *testdb.Server) {
	src, dst, args := slowCopy(t, from, to, 2<<20, "2")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		write(t, src, stop)
	}()
	whole, kept := false, 0
	kills := 6
	if testdb.Long() {
		kills = 20
	}
	for range kills {
		p := testdb.Start(t, args...)
		for end := time.Now().Add(time.Duration(rand.IntN(4000)) * time.Millisecond); time.Now().Before(end) && !p.Over(); {
			time.Sleep(5 * time.Millisecond)
		}
		p.Kill()
		out := p.Text()
		if p.Cmd.ProcessState.Exited() && p.Cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("exit %d\n%s", p.Cmd.ProcessState.ExitCode(), out)
		}
		if strings.Contains(out, "complete and kept") {
			kept++
		}
		if !whole && event(out, "table", "still") {
			whole = true
			testdb.Query(t, dst, "UPDATE still SET v = 'by hand' WHERE id <= 10")
		} else if whole && event(out, "range", "still") {
			t.Errorf("a table that was whole was read again\n%s", out)
		}
	}
	close(stop)
	testdb.From(t, "the writer's end", done)
	o := run(t, args...)
	if o.Code != 0 {
		t.Fatalf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if got := testdb.Query(t, dst, "SELECT count(*) FROM still WHERE v = 'by hand'"); whole && got != "10" {
		t.Errorf("%s of 10 rows are as they were left in a table that was whole", got)
	}
	if whole {
		testdb.Query(t, src, "UPDATE still SET v = 'by hand' WHERE id <= 10")
	}
	allArrived(t, src, dst)
	if a, b := structure(t, src), structure(t, dst); a != b {
		t.Errorf("keys of the source:\n%s\nof the target:\n%s", a, b)
	}
	t.Logf("%d resumes kept tables; still was whole early: %v", kept, whole)
	testdb.Must(t, append(args[:5:5], "--remove")...)
	for _, x := range strings.Fields(tables(t, dst)) {
		if !strings.Contains(strings.Join(copied, " ")+" parted_1 parted_2", x) {
			t.Errorf("%s was left", x)
		}
	}
}

// TestReplicateKilledInItsCopyAndAltered: incomplete tables are altered, and dropped, before the
// same command runs again: with only the first table complete, and with all but those of which the
// log lacks what their foreign keys do.
func TestReplicateKilledInItsCopyAndAltered(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		for _, whole := range []string{"still", "parent"} {
			t.Run(e.name+", "+whole+" is whole", func(t *testing.T) {
				t.Parallel()
				killAndAlter(t, e.server(t), whole)
			})
		}
	}
}

func killAndAlter(t *testing.T, s *testdb.Server, whole string) {
	src, dst, args := slowCopy(t, s, s, 2<<20, "1")
	p := testdb.Start(t, args...)
	soon(t, whole+" is whole", func() bool { return p.Over() || event(p.Text(), "table", "still") && event(p.Text(), "table", whole) })
	p.Kill()
	for _, sql := range []string{"ALTER TABLE loose ADD COLUMN w int DEFAULT 7", "ALTER TABLE parted ADD COLUMN w int", "UPDATE parted SET w = id", "DROP TABLE child", "INSERT INTO still VALUES (0, 'late')"} {
		testdb.Query(t, src, sql)
	}
	o := run(t, args...)
	if o.Code != 0 {
		t.Fatalf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	for _, sql := range []string{"SELECT id, v FROM still ORDER BY id", "SELECT id, v, w FROM loose ORDER BY id", "SELECT id, v, w FROM parted ORDER BY id", "SELECT id, v FROM keyed ORDER BY id", "SELECT id, v FROM parent ORDER BY id"} {
		if a, b := testdb.Query(t, src, sql), testdb.Query(t, dst, sql); a != b {
			t.Errorf("%s: %s", sql, firstDifference(a, b))
		}
	}
	if event(o.Out, "range", "still") {
		t.Error("a table that was whole was read again")
	}
	testdb.Must(t, append(args[:5:5], "--remove")...)
}

// TestReplicateKilledBeforeATableIsWhole: nothing of a killed copy is kept, and the log that came
// after it is not read: it may have begun another file meanwhile, and have other columns. The
// stream follows from the copy that the same command makes.
func TestReplicateKilledBeforeATableIsWhole(t *testing.T) {
	t.Parallel()
	all := engines()
	if testdb.Long() { // the journal has the columns
		all = append(all, engine{"mysql, log without names", func(tb testing.TB) *testdb.Server { return testdb.OwnMySQL(tb, "--binlog-row-metadata=MINIMAL") }},
			engine{"mariadb, log without names", func(tb testing.TB) *testdb.Server { return testdb.OwnMariaDB(tb, "--binlog-row-metadata=NO_LOG") }})
	}
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e.server(t)
			src, dst, args := slowCopy(t, s, s, 2<<20, "1")
			p := testdb.Start(t, args...)
			soon(t, "the copy is planned", func() bool { return p.Over() || strings.Contains(p.Text(), `"event":"plan"`) })
			p.Kill()
			between := []string{"ALTER TABLE loose ADD COLUMN w int", "ALTER TABLE keyed DROP COLUMN v", "ALTER TABLE keyed ADD COLUMN w int", "ALTER TABLE keyed ADD COLUMN v varchar(150) DEFAULT 'none'"}
			if e.name != "postgres" {
				between = []string{"ALTER TABLE loose ADD COLUMN w int FIRST", "ALTER TABLE keyed MODIFY v varchar(150) FIRST", "FLUSH BINARY LOGS"}
			}
			for _, sql := range between {
				testdb.Query(t, src, sql)
			}
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				write(t, src, stop)
			}()
			again := testdb.Start(t, args...)
			soon(t, "all is copied", func() bool { return again.Over() || strings.Contains(again.Text(), "copied (run ") })
			close(stop)
			testdb.From(t, "the writer's end", done)
			if code := again.Wait(); code != 0 {
				t.Fatalf("exit %d\n%s", code, again.Text())
			}
			if !strings.Contains(again.Text(), ": 0 tables complete and kept") {
				t.Errorf("the first copy was killed too late\n%s", again.Text())
			}
			testdb.Must(t, args...) // up to now
			allArrived(t, src, dst)
			testdb.Must(t, append(args[:5:5], "--remove")...)
		})
	}
}

// TestReplicateLosesItsSource: the source ends all sessions of the first copy, as a restart does,
// while rows are written. The stream is not forgotten, the hint names the same command, and that
// resumes the copy.
func TestReplicateLosesItsSource(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e.server(t)
			src, dst, args := slowCopy(t, s, s, 256<<10, "2") // it must not end before its sessions are ended
			p := testdb.Start(t, args...)
			soon(t, "a table is whole", func() bool { return p.Over() || strings.Contains(p.Text(), `"event":"table"`) })
			if e.name == "postgres" {
				testdb.Query(t, src, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
			} else {
				for _, id := range strings.Fields(testdb.Query(t, src, "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()")) {
					_, _ = testdb.TryQuery(src, "KILL "+id) // it may have ended
				}
			}
			code := p.Wait()
			_, hint, _ := strings.Cut(p.Text(), `"hint"`)
			if code == 0 || !strings.Contains(hint, "The same command resumes the copy") || strings.Contains(hint, "--resume") || strings.Contains(hint, "tart") {
				t.Fatalf("exit %d\n%s", code, p.Text())
			}
			testdb.Query(t, src, "UPDATE keyed SET v = 'meanwhile' WHERE id <= 100")
			testdb.Query(t, src, "INSERT INTO still VALUES (0, 'late')")
			o := run(t, args...)
			if o.Code != 0 {
				t.Fatalf("the same command: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			allArrived(t, src, dst)
			testdb.Must(t, append(args[:5:5], "--remove")...)
		})
	}
}

// event reports whether a line of JSON is about a table.
func event(out, kind, table string) bool {
	for line := range strings.Lines(out) {
		if strings.Contains(line, `"`+kind+`"`) && strings.Contains(line, "."+table+`"`) {
			return true
		}
	}
	return false
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			return fmt.Sprintf("%d rows and %d; row %d is %.60q, and %.60q", len(x), len(y), i, x[i], append(y, make([]string, len(x))...)[i])
		}
	}
	return fmt.Sprintf("%d rows and %d", len(x), len(y))
}

// structure lists primary keys, foreign keys and the index.
func structure(t *testing.T, db string) string {
	schema, index := "DATABASE()", "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = 'keyed_v'"
	if strings.HasPrefix(db, "postgres") {
		schema, index = "'public'", "SELECT indexname FROM pg_indexes WHERE indexname = 'keyed_v'"
	}
	return testdb.Query(t, db, "SELECT table_name, constraint_type FROM information_schema.table_constraints WHERE table_schema = "+schema+
		" AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') AND table_name NOT LIKE 'parted%' AND table_name NOT LIKE 'tidemark%' ORDER BY 1, 2") + "\n" + testdb.Query(t, db, index)
}
