package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTablesStop changes tables in ways that a stream cannot follow: each stops alone, with
// instructions, and the others keep flowing. Once reloaded, all are equal again.
func TestTablesStop(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		mend     string // on the target
	}{
		{"postgres to postgres", pg15, pg15, "ALTER TABLE b DROP COLUMN x; ALTER TABLE c ALTER n TYPE bigint; ALTER TABLE d RENAME TO e"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			for _, table := range []string{"a", "b", "c", "d", "f"} {
				testdb.Query(t, src, "CREATE TABLE "+table+" (id int PRIMARY KEY, n int, x int)")
				testdb.Query(t, src, "INSERT INTO "+table+" VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
			}
			args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
			sub := func(given ...string) outcome {
				t.Helper()
				return must(t, append(append([]string{"sub"}, given...), "--name", name)...)
			}
			change := func(tables ...string) {
				t.Helper()
				for _, table := range tables {
					testdb.Query(t, src, "UPDATE "+table+" SET n = n + 1 WHERE id = 1")
					testdb.Query(t, src, "DELETE FROM "+table+" WHERE id = 2")
				}
			}
			states := func(want string) {
				t.Helper()
				var got []string
				for line := range strings.Lines(sub().out) {
					if f := strings.Fields(line); f[0] != "TABLE" {
						got = append(got, f[0][strings.IndexByte(f[0], '.')+1:]+" "+f[1])
					}
				}
				if strings.Join(got, ", ") != want {
					t.Errorf("the tables are %s, want %s", strings.Join(got, ", "), want)
				}
			}
			must(t, args...)
			states("a active, b active, c active, d active, f active")
			change("a", "b", "c", "d", "f")
			must(t, args...)
			sub("stop", "a")
			testdb.Query(t, src, "ALTER TABLE b DROP COLUMN x")
			testdb.Query(t, src, "ALTER TABLE c ALTER n TYPE bigint")
			testdb.Query(t, src, "ALTER TABLE d RENAME TO e")
			testdb.Query(t, src, "CREATE TABLE g (id int PRIMARY KEY, n int, x int)")
			change("a", "b", "c", "e", "f")
			o := must(t, args...)
			for _, text := range []string{"b: no longer has the column x", "c: its column n is of another type than before", "d: is no longer on the source", "a: is stopped, with all changes skipped: stopped by hand"} {
				if !strings.Contains(o.out+o.errOut, text) {
					t.Errorf("no %q in\n%s%s", text, o.errOut, o.out)
				}
			}
			states("a stopped, b stopped, c stopped, d stopped, f active")
			status := must(t, "status", "--name", name).out
			for _, text := range []string{"tables: 1 active, 4 stopped", "public.a stopped since ", ": stopped by hand", "public.b stopped since ", "no longer has the column x", "hint: "} {
				if !strings.Contains(status, text) {
					t.Errorf("no %q in the status:\n%s", text, status)
				}
			}
			if n := testdb.Query(t, dst, "SELECT n FROM a WHERE id = 1"); n != "2" {
				t.Errorf("a stopped table has changed: %s", n)
			}
			must(t, "diff", src, dst, "--include", "*.f")
			testdb.Query(t, dst, x.mend)
			for _, table := range []string{"a", "b", "c"} {
				sub("reload", table)
			}
			sub("start", "e")
			sub("start", "g")
			change("a", "b", "c", "e", "f")
			testdb.Query(t, src, "INSERT INTO g VALUES (7, 7, 7)")
			must(t, args...)
			states("a active, b active, c active, e active, f active, g active")
			must(t, "diff", src, dst)
			testdb.Query(t, src, "UPDATE g SET n = 8; UPDATE e SET n = 8; INSERT INTO a VALUES (9, 9, 9)")
			must(t, args...)
			must(t, "diff", src, dst)

			// A conflicting change stops its table, and the rest of its transaction is applied.
			testdb.Query(t, dst, "DELETE FROM f WHERE id = 3")
			testdb.Query(t, src, "BEGIN; UPDATE f SET n = 33 WHERE id = 3; UPDATE a SET n = 33 WHERE id = 3; COMMIT")
			testdb.Query(t, src, "UPDATE f SET n = 11 WHERE id = 1")
			if o := must(t, append(args, "--conflict", "disable")...); !strings.Contains(o.errOut, "f: update of the row id=3: an update matched 0 rows") {
				t.Errorf("it says\n%s", o.errOut)
			}
			states("a active, b active, c active, e active, f stopped, g active")
			must(t, "diff", src, dst, "--exclude", "*.f")
			sub("reload", "f")
			must(t, args...)
			must(t, "diff", src, dst)
			must(t, append(args[:5:5], "--remove")...)
		})
	}
}

// TestReload reloads a table while it and all others are written to, and kills the process
// meanwhile. Its rows change their keys, exchange unique values, are deleted, and have out-of-line
// values that the log omits.
func TestReload(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		queue    string
	}{
		{"postgres to postgres", pg15, pg15, "direct"},
		{"mariadb to postgres", maria, pg15, "direct"},
		{"mysql to mariadb", mysql8, maria, "durable"},
		{"postgres to mysql", pg15, mysql8, "durable"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			const rows = 30_000
			items(t, src, rows)
			args := []string{"replicate", src, dst, "--name", name, "--monitor-interval", "1s", "--queue", x.queue}
			must(t, append(args, "--until", "now")...)
			testdb.Query(t, dst, "DELETE FROM item WHERE id % 3 = 0")
			seed := testdb.Seed(t)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() { churn(t, src, seed+uint64(i), rows, stop) })
			}
			must(t, "sub", "reload", "item", "--name", name)
			rnd := rand.New(rand.NewPCG(seed, 7))
			var errOut bytes.Buffer
			for range 4 {
				cmd := process(t, args...)
				cmd.Stderr = &errOut
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(700+rnd.IntN(1000)) * time.Millisecond)
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // it only has to be gone
			}
			close(stop)
			wg.Wait()
			o := must(t, append(args, "--until", "now")...)
			t.Log(errOut.String(), o.errOut)
			if o := must(t, "sub", "--name", name); strings.Contains(o.out, "loading") || strings.Contains(o.out, "stopped") {
				t.Errorf("the table is not loaded:\n%s", o.out)
			}
			must(t, "diff", src, dst)
			must(t, append(args[:5:5], "--remove")...)
		})
	}
}

// TestReloadTypes reloads every table of the zoo through a stream.
func TestReloadTypes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		args     []string
	}{
		{"mariadb to mariadb", maria, maria, nil},
		{"mysql to mysql", mysql8, mysql8, nil},
		{"mysql to postgres", mysql8, pg15, []string{"--zero-dates", "null", "--exclude", "*.t_str"}}, // it has NUL in text
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := filled(t, x.src(t), "types-zoo/mysql.sql"), x.dst(t).NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "DELETE FROM t_enum WHERE id = 7; ALTER TABLE t_myisam ENGINE=InnoDB, DROP PRIMARY KEY, ADD PRIMARY KEY (id, g)") // not a member of its ENUM
			args := append([]string{"replicate", src, dst, "--name", name, "--until", "now"}, x.args...)
			must(t, args...)
			loads := 0
			for line := range strings.Lines(must(t, "sub", "--name", name).out) {
				table, _, _ := strings.Cut(line, " ")
				short := table[strings.IndexByte(table, '.')+1:]
				if short == "TABLE" || strings.Contains(short, "weird") || slices.Contains([]string{"no_pk", "uk_only", "part_list", "fk_parent", "fk_child"}, short) {
					continue
				}
				must(t, "sub", "reload", table, "--name", name)
				loads++
			}
			o := must(t, args...)
			if n := strings.Count(o.errOut, " loaded"); n != loads || n < 15 || strings.Contains(o.errOut, "stopped") {
				t.Errorf("%d tables of %d are loaded:\n%s", n, loads, o.errOut)
			}
			must(t, append([]string{"diff", src, dst}, x.args...)...)

			// Changes after a load are to the same tables.
			testdb.Query(t, src, "DELETE FROM t_int WHERE id = 1; UPDATE t_num SET id = id + 100; UPDATE t_geo SET id = id + 100; UPDATE t_time SET id = id + 100; UPDATE t_enum SET id = id + 100; UPDATE t_charsets SET id = id + 100")
			must(t, "sub", "reload", "fk_child", "--name", name)
			o = must(t, args...)
			if !strings.Contains(o.errOut, "fk_child: is referenced by") || strings.Count(o.errOut, "stopped") != 1 {
				t.Error(o.errOut)
			}
			must(t, append([]string{"diff", src, dst}, x.args...)...)
			must(t, append([]string{"replicate", src, dst, "--name", name, "--remove"}, x.args...)...)
		})
	}
}

// items creates tables and fills one with rows, some of which have an out-of-line value.
func items(t *testing.T, src string, rows int) {
	t.Helper()
	testdb.Query(t, src, "CREATE TABLE item (id int PRIMARY KEY, u int UNIQUE, n int NOT NULL, big text)")
	testdb.Query(t, src, "CREATE TABLE other (id int PRIMARY KEY, n int NOT NULL)")
	testdb.Query(t, src, "CREATE TABLE part (id int PRIMARY KEY, item int, FOREIGN KEY (item) REFERENCES item (id))")
	testdb.Query(t, src, "INSERT INTO other VALUES (1, 0)")
	for from := 0; from < rows; from += 1000 {
		var sql strings.Builder
		for i := from; i < from+1000; i++ {
			fmt.Fprintf(&sql, ",(%d,%d,0,'%s')", 2*i, i, strings.Repeat(fmt.Sprint(i%10), []int{10, 3000}[i%50/49]))
		}
		testdb.Query(t, src, "INSERT INTO item VALUES "+sql.String()[1:])
	}
	if strings.HasPrefix(src, "postgres") {
		testdb.Query(t, src, "ALTER TABLE item ALTER big SET STORAGE EXTERNAL; UPDATE item SET big = big || 'x'")
	}
}

// churn changes items until stop is closed.
func churn(t *testing.T, url string, seed uint64, rows int, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	traffic(t, url, stop, func() string {
		a, b := rnd.IntN(2*rows), rnd.IntN(2*rows)
		return []string{
			fmt.Sprintf("UPDATE item SET n = n + 1 WHERE id BETWEEN %d AND %d", a, a+20),
			fmt.Sprintf("UPDATE item SET id = %d WHERE id = %d", b, a),
			fmt.Sprintf("DELETE FROM item WHERE id = %d", a),
			fmt.Sprintf("INSERT INTO item VALUES (%d, NULL, 5, 'new')", a),
			fmt.Sprintf("UPDATE item SET u = NULL WHERE id = %d; UPDATE item SET u = %d WHERE id = %d", a, a/2, b),
			"UPDATE other SET n = n + 1",
			fmt.Sprintf("INSERT INTO part SELECT %d, id FROM item WHERE id = %d", rnd.IntN(1e9), a),
		}[rnd.IntN(7)]
	})
}

// TestTypeBefore changes column types before any change of their tables has arrived.
func TestTypeBefore(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		alter    string
		mended   bool // whether altering both lets it continue
	}{
		{"postgres to postgres", pg15, pg15, "ALTER TABLE % ALTER s TYPE varchar(40)", true},
		{"mariadb to postgres", maria, pg15, "ALTER TABLE % MODIFY s varchar(40)", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			for _, table := range []string{"a", "b", "c"} {
				testdb.Query(t, src, "CREATE TABLE "+table+" (id int PRIMARY KEY, s varchar(10)); INSERT INTO "+table+" VALUES (1, 'x')")
			}
			args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
			must(t, args...)
			for _, table := range []string{"a", "b"} {
				testdb.Query(t, src, strings.ReplaceAll(x.alter, "%", table))
			}
			if x.mended {
				testdb.Query(t, dst, strings.ReplaceAll(x.alter, "%", "b"))
			}
			long := strings.Repeat("y", 30)
			for _, table := range []string{"a", "b"} {
				testdb.Query(t, src, "INSERT INTO "+table+" VALUES (2, '"+long+"')")
			}
			testdb.Query(t, src, "INSERT INTO c VALUES (2, 'y')")
			o := must(t, args...)
			if n := strings.Count(o.errOut, "its column s is of another type than before"); n != 1 && x.mended || n != 2 && !x.mended {
				t.Errorf("%d tables are stopped\n%s", n, o.errOut)
			}
			testdb.Query(t, dst, "ALTER TABLE a ALTER s TYPE varchar(40)")
			if !x.mended {
				testdb.Query(t, dst, "ALTER TABLE b ALTER s TYPE varchar(40)")
				must(t, "sub", "reload", "b", "--name", name)
			}
			must(t, "sub", "reload", "a", "--name", name)
			must(t, args...)
			must(t, "diff", src, dst)
			must(t, append(args[:5:5], "--remove")...)
		})
	}
}

// TestReloadActing reloads a table whose rows change on the source without a trace in its log:
// foreign keys delete them or set them NULL together with the rows they reference.
func TestReloadActing(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
	}{
		{"mariadb to postgres", maria, pg15},
		{"mysql to mariadb", mysql8, maria},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE g (id int PRIMARY KEY); CREATE TABLE p (id int PRIMARY KEY, g int, FOREIGN KEY (g) REFERENCES g (id) ON DELETE CASCADE)")
			testdb.Query(t, src, "CREATE TABLE q (id int PRIMARY KEY)")
			testdb.Query(t, src, "CREATE TABLE c (id int PRIMARY KEY, p int, q int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE, FOREIGN KEY (q) REFERENCES q (id) ON DELETE SET NULL ON UPDATE CASCADE)")
			list := func(n int, row string) string {
				var out []string
				for i := range n {
					out = append(out, strings.NewReplacer("#", fmt.Sprint(i), "%", fmt.Sprint(i%500), "/", fmt.Sprint(i%50)).Replace(row))
				}
				return strings.Join(out, ",")
			}
			testdb.Query(t, src, "INSERT INTO g VALUES "+list(50, "(#)")+"; INSERT INTO p VALUES "+list(500, "(#,/)")+"; INSERT INTO q VALUES "+list(500, "(#)"))
			testdb.Query(t, src, "INSERT INTO c VALUES "+list(10_000, "(#,%,%)"))
			args := []string{"replicate", src, dst, "--name", name, "--monitor-interval", "1s"}
			must(t, append(args, "--until", "now")...)
			testdb.Query(t, dst, "DELETE FROM c WHERE id % 3 = 0")
			must(t, "sub", "reload", "c", "--name", name)
			seed, stop := testdb.Seed(t), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, 3))
				for n := 0; n < 500; n++ { // a slow machine might reread a chunk forever
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(rnd.IntN(40)) * time.Millisecond):
					}
					k, at := rnd.IntN(500), rnd.IntN(10_000)
					sql := []string{
						fmt.Sprintf("DELETE FROM p WHERE id = %d", k),
						fmt.Sprintf("DELETE FROM q WHERE id = %d", k),
						fmt.Sprintf("UPDATE q SET id = id + %d WHERE id = %d", 1000*(n+1), k),
						fmt.Sprintf("DELETE FROM g WHERE id = %d", k%50),
						fmt.Sprintf("UPDATE c SET q = NULL WHERE id BETWEEN %d AND %d", at, at+10),
						fmt.Sprintf("INSERT IGNORE INTO g VALUES (%d); INSERT IGNORE INTO p VALUES (%d, %d); INSERT IGNORE INTO c VALUES (%d, %d, NULL)", k%50, k, k%50, at, k),
					}[n%6]
					_, _ = testdb.TryQuery(src, "BEGIN; "+sql+"; COMMIT")
				}
			})
			f := running(t, args...)
			time.Sleep(time.Second)
			_ = f.Process.Kill()
			_ = f.Wait() // killed on purpose
			f = running(t, args...)
			f.await("active table", func() bool { return !strings.Contains(must(t, "sub", "--name", name).out, "loading") })
			close(stop)
			wg.Wait()
			f.says("trans/s", 1) // a signal before the stream starts would end it
			f.interrupt()
			must(t, append(args, "--until", "now")...)
			if o := must(t, "sub", "--name", name); strings.Contains(o.out, "stopped") {
				t.Errorf("it is not loaded\n%s", o.out)
			}
			must(t, "diff", src, dst)
			must(t, "sub", "reload", "p", "--name", name)
			if o := must(t, append(args, "--until", "now")...); !strings.Contains(o.errOut, "is referenced by") {
				t.Errorf("it says\n%s", o.errOut)
			}
			must(t, append(args[:5:5], "--remove")...)
		})
	}
}
