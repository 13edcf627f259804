package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestPeek lists the queue of a stream that has stopped at a row.
func TestPeek(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, x text); INSERT INTO a VALUES (1, 'one')")
	args := []string{"replicate", src, dst, "--name", name, "--until", "now", "--queue", "durable"}
	must(t, args...)
	if o := must(t, "peek", name); o.out != "the queue is empty\n" {
		t.Errorf("of an empty queue:\n%s", o.out)
	}
	testdb.Query(t, dst, "INSERT INTO a VALUES (2, 'mine')")
	testdb.Query(t, src, "INSERT INTO a VALUES (2, NULL)")
	testdb.Query(t, src, "BEGIN; UPDATE a SET x = E'tab\\t' WHERE id = 1; UPDATE a SET id = 11 WHERE id = 1; DELETE FROM a WHERE id = 2; COMMIT")
	testdb.Query(t, src, "TRUNCATE a")
	if o := cli(t, args...); o.code != 14 {
		t.Fatalf("exit %d\n%s", o.code, o.errOut)
	}
	o := must(t, "peek", name)
	for _, want := range []string{`insert public.a id="2" x=NULL`, `update public.a id="1" x="tab\t"`, `update public.a was id="1" id="11"`, `delete public.a was id="2"`, "truncate public.a", "transaction "} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	if o := must(t, "peek", name, "--limit", "1"); strings.Count(o.out, "transaction ") != 1 {
		t.Errorf("one transaction:\n%s", o.out)
	}
	if o := must(t, "peek", name, "--json"); strings.Count(o.out, "\n") != 5 || !strings.Contains(o.out, `"op":"delete","table":"public.a","old":{"id":"2"}`) {
		t.Errorf("as JSON:\n%s", o.out)
	}
	testdb.Query(t, dst, "DELETE FROM a WHERE id = 2")
	must(t, args...)
	must(t, "diff", src, dst)
	must(t, append(args[:5:5], "--remove")...)
	if o := cli(t, "peek", name); o.code != 6 || !strings.Contains(o.errOut, "find stream "+name+":") {
		t.Errorf("of a stream that is gone: exit %d\n%s", o.code, o.errOut)
	}
}

// TestPeekWhileItRuns lists the queue of a stream that waits for a lock on its target, in folders
// with short and long names.
func TestPeekWhileItRuns(t *testing.T) {
	t.Parallel()
	for _, long := range []bool{false, true} {
		t.Run(fmt.Sprint(long), func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
			dir, err := os.MkdirTemp("", "p") // t.TempDir's names are long
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			dir = filepath.Join(dir, "queue")
			if long {
				dir = filepath.Join(t.TempDir(), strings.Repeat("long", 30))
			}
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, x text)")
			args := []string{"replicate", src, dst, "--name", name, "--queue", "durable", "--queue-dir", dir}
			must(t, append(args, "--until", "now")...)
			conn, err := pgx.Connect(t.Context(), dst)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE a IN SHARE MODE"); err != nil {
				t.Fatal(err)
			}
			f := running(t, args...)
			f.says("trans/s", 1)
			testdb.Query(t, src, "INSERT INTO a VALUES (1, 'waits')")
			f.await("row in the queue", func() bool {
				o := cli(t, "peek", name, "--queue-dir", dir)
				return o.code == 0 && strings.Contains(o.out, `insert public.a id="1" x="waits"`)
			})
			if o := must(t, "peek", name, "--queue-dir", dir, "--json"); !strings.Contains(o.out, `"new":{"id":"1","x":"waits"}`) {
				t.Errorf("as JSON:\n%s", o.out)
			}
			if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
				t.Fatal(err)
			}
			f.await("row on the target", func() bool { return testdb.Query(t, dst, "SELECT count(*) FROM a") == "1" })
			f.interrupt()
			must(t, "peek", name, "--queue-dir", dir) // nobody answers: it reads the folder directly
			must(t, "replicate", src, dst, "--name", name, "--queue-dir", dir, "--remove")
		})
	}
}
