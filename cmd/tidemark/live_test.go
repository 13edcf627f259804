package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A shop under load: rows below 1000 are changed all the time, those above 100,000 come
// and go, and the others stay as they are.
const liveShop = `
CREATE TABLE maker (id int PRIMARY KEY, name varchar(40) NOT NULL);
CREATE TABLE item (id int PRIMARY KEY, maker int NOT NULL, n int NOT NULL, price decimal(10,2), note varchar(200), at %s, raw %s, FOREIGN KEY (maker) REFERENCES maker (id));
CREATE TABLE stock (place varchar(20), item int, on_hand int, PRIMARY KEY (place, item));
`

func liveLoad(t *testing.T, url string, seed uint64, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	s := testdb.NewSession(url)
	defer s.Close()
	for n := 0; goesOn(stop); n++ {
		id, fresh := 1+rnd.IntN(1000), 100_000+int(seed)*100_000+n
		sql := []string{
			fmt.Sprintf("UPDATE item SET n = n + 1 WHERE id = %d", id),
			fmt.Sprintf("INSERT INTO item (id, maker, n, note) VALUES (%d, %d, 0, 'fresh')", fresh, 1+n%50),
			fmt.Sprintf("DELETE FROM item WHERE id > 100000 AND id < %d AND id > %d", fresh-40, fresh-60),
			fmt.Sprintf("UPDATE stock SET on_hand = on_hand + 1 WHERE item = %d AND place = 'a'", 1+id%20),
		}[rnd.IntN(4)]
		if _, err := s.Try(sql); err != nil && !strings.Contains(strings.ToLower(err.Error()), "deadlock") {
			t.Errorf("load: %s: %v", sql, err)
			return
		}
	}
}

// TestDiffAndRepairLive changes rows of a target replicated into under load, and has exactly these
// rows found and repaired, while the stream continues.
func TestDiffAndRepairLive(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		from, to func(*testing.T) *testdb.Server
		at, raw  string
	}{
		{"postgres to postgres", pg15, pg15, "timestamp(3)", "bytea"},
		{"mariadb to mariadb", maria, maria, "datetime(3)", "varbinary(20)"},
		{"postgres to mysql", pg15, mysql8, "timestamp(3)", "bytea"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.from(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			for _, sql := range strings.Split(strings.TrimSuffix(strings.TrimSpace(fmt.Sprintf(liveShop, x.at, x.raw)), ";"), ";") {
				testdb.Query(t, src, sql)
			}
			var makers, items, stock []string
			for i := 1; i <= 100; i++ {
				makers = append(makers, fmt.Sprintf("(%d, 'maker %d')", i, i))
			}
			for i := 1; i <= 2000; i++ {
				items = append(items, fmt.Sprintf("(%d, %d, %d, %d.50, 'it''s %d', '2026-01-02 03:04:05.678')", i, 1+i%60, i, i, i))
				stock = append(stock, fmt.Sprintf("('a', %d, 0), ('b', %d, %d)", i, i, i))
			}
			testdb.Query(t, src, "INSERT INTO maker VALUES "+strings.Join(makers, ", "))
			testdb.Query(t, src, "INSERT INTO item (id, maker, n, price, note, at) VALUES "+strings.Join(items, ", "))
			testdb.Query(t, src, "INSERT INTO stock VALUES "+strings.Join(stock, ", "))
			testdb.Query(t, src, "INSERT INTO maker VALUES (777, 'Ørsted')")
			testdb.Query(t, src, `INSERT INTO item (id, maker, n, note, raw) VALUES (2777, 777, 1, 'a\b', `+map[bool]string{true: `'\x00ff27'`, false: `x'00ff27'`}[x.raw == "bytea"]+`)`)

			cmd := process(t, "replicate", src, dst, "--name", name, "--monitor-interval", "1s")
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitStream(t, cmd, &errOut, name)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() { liveLoad(t, src, uint64(i+1), stop) })
			}
			ended := sync.OnceFunc(func() {
				close(stop)
				wg.Wait()
			})
			t.Cleanup(func() {
				ended()
				_ = cmd.Process.Kill() // unless it has ended
			})
			for _, sql := range []string{
				"UPDATE item SET note = 'it''s changed', price = NULL WHERE id = 1501", "UPDATE item SET raw = NULL, note = NULL WHERE id = 1510", "DELETE FROM item WHERE id = 1502",
				"DELETE FROM item WHERE id = 2777", "DELETE FROM maker WHERE id = 777",
				"INSERT INTO maker VALUES (900, 'extra')", "INSERT INTO item (id, maker, n) VALUES (2901, 900, 1)",
				"UPDATE stock SET on_hand = -1 WHERE place = 'b' AND item = 1600", "INSERT INTO stock VALUES ('it''s\t', 1, 1)", "DELETE FROM stock WHERE place = 'b' AND item = 1601",
			} {
				testdb.Query(t, dst, sql)
			}
			want := []string{"missing    id=777", "extra      id=900", "missing    id=1502", "missing    id=2777", "extra      id=2901", "different  id=1501: price", "different  id=1510: note",
				`extra      place="it's\t"  item=1`, `missing    place="b"  item=1601`, `different  place="b"  item=1600: on_hand 1600 -> -1`}
			live := []string{src, dst, "--name", name, "--live"}
			found := regexp.MustCompile(`(?m)^  (missing|extra|different) .*`)
			named := func(o outcome, text string) {
				t.Helper()
				if lines := found.FindAllString(text, -1); o.code != 1 || len(lines) != len(want) {
					t.Fatalf("exit %d, and %d rows, not the %d\n%s%s", o.code, len(lines), len(want), o.out, o.errOut)
				}
				for _, w := range want {
					if !strings.Contains(text, w) {
						t.Errorf("no %q in\n%s", w, text)
					}
				}
			}
			o := cli(t, append([]string{"diff"}, live...)...)
			named(o, o.out)
			o = cli(t, append([]string{"repair"}, live...)...)
			named(o, o.errOut)
			if n := strings.Count(o.out, ";\n"); n != len(want) || !strings.Contains(o.errOut, "would insert 4, update 3, delete 3") {
				t.Errorf("%d statements:\n%s%s", n, o.out, o.errOut)
			}
			if o := cli(t, "repair", src, dst, "--name", name, "--execute"); o.code != 2 || !strings.Contains(o.errOut, "repair with --live") {
				t.Errorf("repaired beside a stream: exit %d\n%s", o.code, o.errOut)
			}
			if o := cli(t, "diff", src, dst, "--live", "--name", "another"); o.code != 6 || !strings.Contains(o.errOut, "the target does not know it, only "+name) {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			log := t.TempDir() + "/log"
			if o := must(t, append([]string{"repair", "--execute", "--repair-log", log}, live...)...); !strings.Contains(o.out, "inserted 4, updated 3, deleted 3\n") {
				t.Errorf("repaired\n%s%s", o.out, o.errOut)
			}
			noted(t, log, 10)
			if o := byName(t, []string{src, dst}, "diff", "--live", "--name", name); o.code != 0 {
				t.Errorf("of the stream: exit %d\n%s%s", o.code, o.out, o.errOut)
			}
			ended()
			_ = cmd.Process.Signal(syscall.SIGINT)
			if code := exitCode(cmd); code != 130 {
				t.Errorf("the stream ended with %d\n%s", code, &errOut)
			}
			must(t, "replicate", src, dst, "--name", name, "--until", "now")
			must(t, "diff", src, dst)
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}

// noted checks the log of a repair: it must have this many changes, each in a committed batch.
func noted(t *testing.T, path string, changes int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	batches := map[int]int{}
	for in := json.NewDecoder(f); in.More(); {
		var line struct {
			Batch     int
			SQL       string
			Committed bool
		}
		if err := in.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.SQL != "" {
			batches[line.Batch]++
			changes--
		}
		if line.Committed {
			delete(batches, line.Batch)
		}
	}
	if changes != 0 || len(batches) > 0 {
		t.Errorf("the log lacks %d changes, and the end of %d batches", changes, len(batches))
	}
}

// TestDiffLiveByTime compares without a known stream: a row that keeps changing is reported as
// such, a stable one as differing, and so is a table without a key.
func TestDiffLiveByTime(t *testing.T) {
	t.Parallel()
	src, dst := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst")
	for _, url := range []string{src, dst} {
		testdb.Query(t, url, "CREATE TABLE a (id int PRIMARY KEY, n int); INSERT INTO a SELECT i, 0 FROM generate_series(1, 10) i; CREATE TABLE b (x int); INSERT INTO b VALUES (1); CREATE TABLE c (n int); INSERT INTO c VALUES (0), (0)")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var both [2]*pgx.Conn
	for i, url := range []string{src, dst} {
		var err error
		if both[i], err = pgx.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		defer both[i].Close(context.WithoutCancel(t.Context()))
	}
	wg.Go(func() { // as often as possible
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for i, conn := range both {
				for _, sql := range []string{"UPDATE a SET n = $1 WHERE id = 1", "UPDATE c SET n = $1"} {
					if _, err := conn.Exec(t.Context(), sql, n-2*n*i); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}
	})
	args := []string{"diff", src, dst, "--live", "--settle", "500ms", "--live-timeout", "8s"}
	atLast(t, func() string { // the writer may have stalled
		if o := cli(t, args...); o.code != 19 || !strings.Contains(o.out, "public.a: 1 still changing, 10 rows on each side\n") || !strings.Contains(o.out, "public.c: changed during the comparison, 2 rows on each side\n") || !strings.Contains(o.errOut, "waiting: no stream known: rows that differ so far: 1, tables to be read again: 1; check 2 follows after 500ms") {
			return fmt.Sprintf("exit %d\n%s%s", o.code, o.out, o.errOut)
		}
		return ""
	})
	testdb.Query(t, dst, "UPDATE a SET n = 7 WHERE id = 2; INSERT INTO b VALUES (2)")
	atLast(t, func() string {
		o := cli(t, append(args, "--json")...)
		type table struct {
			Source              struct{ Name string }
			Different, Changing int
			Unkeyed             bool
			Rows                []struct{ Kind string }
		}
		var got struct {
			Equal  bool
			Tables []table
		}
		doc := o.out[strings.Index(o.out, "\n{\n")+1:] // after the progress lines
		if err := json.Unmarshal([]byte(doc), &got); err != nil || o.code != 1 || got.Equal || len(got.Tables) != 3 {
			t.Fatalf("exit %d, %v in\n%s%s", o.code, err, o.out, o.errOut)
		}
		slices.SortFunc(got.Tables, func(x, y table) int { return strings.Compare(x.Source.Name, y.Source.Name) })
		if a, b, c := got.Tables[0], got.Tables[1], got.Tables[2]; a.Different != 1 || a.Changing != 1 || len(a.Rows) != 1 || a.Rows[0].Kind != "different" || !b.Unkeyed || c.Unkeyed {
			return fmt.Sprintf("%+v", got)
		}
		return ""
	})
	close(stop)
	wg.Wait()
	// What still differs is repaired by key; the other table has none and cannot be.
	o := cli(t, "repair", src, dst, "--execute")
	if o.code != 1 || !strings.Contains(o.out, "public.b: differs, and has no key to re-check") || !strings.Contains(o.out, "inserted 0, updated 2, deleted 0\nlog: "+filepath.Dir(statePath(t))) {
		t.Errorf("exit %d\n%s%s", o.code, o.out, o.errOut)
	}
	must(t, "diff", src, dst, "--include", "public.a")
}

// TestRepairBetweenTwoStreams repairs a side whose changes are sent back: the repairs are not.
func TestRepairBetweenTwoStreams(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		a, b func(*testing.T) *testdb.Server
	}{{"postgres to mariadb", pg15, maria}, {"mysql to postgres", mysql8, pg15}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			a, b, name := x.a(t).NewDatabase(t, "a"), x.b(t).NewDatabase(t, "b"), streamName()
			testdb.Query(t, a, "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL)")
			testdb.Query(t, a, "INSERT INTO item VALUES (1, 1), (2, 2), (3, 3), (4, 0)")
			there, back := bothWays(a, b, name, "--monitor-interval", "1s")
			must(t, append(there, "--until", "now")...)
			for _, sql := range []string{"UPDATE item SET n = 7 WHERE id = 1", "DELETE FROM item WHERE id = 2", "INSERT INTO item VALUES (5, 5)"} {
				testdb.Query(t, b, sql)
			}
			must(t, append(back, "--until", "now")...) // it starts after that
			var running []*exec.Cmd
			for _, args := range [][]string{there, back} {
				cmd := process(t, args...)
				cmd.Stderr = &bytes.Buffer{}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				running = append(running, cmd)
				t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
			}
			awaitStream(t, running[0], running[0].Stderr.(*bytes.Buffer), name)
			awaitStream(t, running[1], running[1].Stderr.(*bytes.Buffer), name+"_back")
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { // so that progress is recorded
				for {
					select {
					case <-stop:
						return
					case <-time.After(200 * time.Millisecond):
						_, _ = testdb.TryQuery(a, "UPDATE item SET n = n + 1 WHERE id = 4")
					}
				}
			})
			// Row 4 never settles, so that this takes as long as it may: on a busy machine, more.
			o := cli(t, "repair", a, b, "--name", name, "--live", "--live-timeout", "15s", "--execute")
			if strings.Contains(o.errOut+o.out, "has not reached the source's log position in time") && strings.Contains(o.out, "inserted 0, updated 0, deleted 0\n") {
				o = cli(t, "repair", a, b, "--name", name, "--live", "--live-timeout", "2m", "--execute")
			}
			if o.code != 0 && o.code != 19 || !strings.Contains(o.out, "inserted 1, updated 1, deleted 1\n") {
				t.Errorf("exit %d\n%s%s", o.code, o.out, o.errOut)
			}
			close(stop)
			wg.Wait()
			for i, args := range [][]string{there, back} {
				_ = running[i].Process.Signal(syscall.SIGINT)
				if code := interrupted(running[i], running[i].Stderr.(*bytes.Buffer)); code != 130 {
					t.Errorf("stream %d: exit %d\n%s", i, code, running[i].Stderr)
				}
				must(t, append(args, "--until", "now")...)
			}
			must(t, "diff", a, b)
			if got := testdb.Query(t, a, "SELECT id, n FROM item WHERE id <> 4 ORDER BY id"); got != "1\t1\n2\t2\n3\t3" {
				t.Errorf("the source has\n%s", got)
			}
			must(t, append(there, "--remove")...)
			must(t, append(back, "--remove")...)
		})
	}
}

// byName runs a command that reads databases from the catalogue, which lacks their passwords, in a
// separate process.
func byName(t *testing.T, ends []string, args ...string) outcome {
	t.Helper()
	cmd := process(t, args...)
	for _, end := range ends {
		u, err := url.Parse(end)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		name := "MYSQL_PWD="
		if u.Scheme == "postgres" {
			name = "PGPASSWORD="
		}
		cmd.Env = append(cmd.Env, name+password)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run() // the exit code is enough
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// TestRepairOfStream finds databases and tables by the name of their stream.
func TestRepairOfStream(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, x int); CREATE TABLE quiet (id int PRIMARY KEY); CREATE TABLE elsewhere (id int PRIMARY KEY); INSERT INTO a VALUES (1, 1), (2, 2); "+
		"CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id); CREATE TABLE p11 PARTITION OF p1 FOR VALUES FROM (0) TO (50); INSERT INTO p VALUES (7)")
	must(t, "replicate", src, dst, "--name", name, "--until", "now", "--exclude", "*.elsewhere")
	must(t, "sub", "stop", "quiet", "--name", name)
	testdb.Query(t, dst, "UPDATE a SET x = 9 WHERE id = 2; DELETE FROM p; INSERT INTO quiet VALUES (1)")
	o := byName(t, []string{src, dst}, "repair", "--name", name)
	if o.code != 1 || strings.Count(o.out, ";\n") != 2 || !strings.Contains(o.errOut, "warning: public.quiet: not compared, since it is stopped\n") || strings.Contains(o.errOut, "elsewhere") {
		t.Errorf("exit %d\n%s%s", o.code, o.out, o.errOut)
	}
	if o := cli(t, "repair", "--name", name); o.code != exitCodes[tidemark.Denied] || !strings.Contains(o.errOut, "The catalogue stores no passwords. Name source and target") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	if o := cli(t, "diff", "--live", "--name", "another"); o.code != 2 || !strings.Contains(o.errOut, "no stream another is known here") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	if o := cli(t, "diff", "--name", name); o.code != 2 || !strings.Contains(o.errOut, "no source or no target") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	must(t, "replicate", src, dst, "--name", name, "--remove")
}
