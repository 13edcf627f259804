package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

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
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		id, fresh := 1+rnd.IntN(1000), 100_000+int(seed)*100_000+n
		sql := []string{
			fmt.Sprintf("UPDATE item SET n = n + 1 WHERE id = %d", id),
			fmt.Sprintf("INSERT INTO item (id, maker, n, note) VALUES (%d, %d, 0, 'fresh')", fresh, 1+n%50),
			fmt.Sprintf("DELETE FROM item WHERE id > 100000 AND id < %d AND id > %d", fresh-40, fresh-60),
			fmt.Sprintf("UPDATE stock SET on_hand = on_hand + 1 WHERE item = %d AND place = 'a'", 1+id%20),
		}[rnd.IntN(4)]
		if _, err := testdb.TryQuery(url, sql); err != nil && !strings.Contains(strings.ToLower(err.Error()), "deadlock") {
			t.Errorf("load: %s: %v", sql, err)
			return
		}
	}
}

// TestDiffAndRepairLive changes a target that is replicated into under load, and sees just
// these rows found and mended, while the stream goes on.
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
				_ = cmd.Process.Kill() // if it has not ended
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
			log := t.TempDir() + "/log"
			if o := must(t, append([]string{"repair", "--execute", "--repair-log", log}, live...)...); !strings.Contains(o.out, "inserted 4, updated 3, deleted 3\n") {
				t.Errorf("repaired\n%s%s", o.out, o.errOut)
			}
			noted(t, log, 10)
			must(t, append([]string{"diff"}, live...)...)
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

// noted checks the log of a repair: so many changes, each in a batch that was committed.
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
