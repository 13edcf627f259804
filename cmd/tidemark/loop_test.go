package main

import (
	"bytes"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestBidirectional lets two databases follow each other: what is made on one comes to the
// other, once, and not back.
func TestBidirectional(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		a, b func(*testing.T) *testdb.Server
	}{{"postgres and postgres", pg15, pg15}, {"postgres and mariadb", pg15, maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			a, b, name := x.a(t).NewDatabase(t, "a"), x.b(t).NewDatabase(t, "b"), streamName()
			testdb.Query(t, a, "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL); INSERT INTO item VALUES (1, 0), (2, 0)")
			there := []string{"replicate", a, b, "--name", name, "--bidirectional", "--monitor-interval", "1s"}
			back := []string{"replicate", b, a, "--name", name + "_back", "--bidirectional", "--no-copy", "--monitor-interval", "1s"}
			must(t, append(there, "--until", "now")...)
			must(t, append(back, "--until", "now")...)
			var running []*exec.Cmd
			for _, args := range [][]string{there, back} {
				cmd := process(t, args...)
				cmd.Stderr = &bytes.Buffer{}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				running = append(running, cmd)
			}
			for range 30 {
				testdb.Query(t, a, "UPDATE item SET n = n + 1 WHERE id = 1")
				testdb.Query(t, b, "UPDATE item SET n = n + 1 WHERE id = 2")
			}
			testdb.Query(t, a, "INSERT INTO item VALUES (10, 1)")
			testdb.Query(t, b, "INSERT INTO item VALUES (20, 2)")
			want := "1\t30\n2\t30\n10\t1\n20\t2"
			var hasA, hasB string
			for start := time.Now(); time.Since(start) < 20*time.Second && (hasA != want || hasB != want); time.Sleep(100 * time.Millisecond) {
				hasA, hasB = testdb.Query(t, a, "SELECT id, n FROM item ORDER BY id"), testdb.Query(t, b, "SELECT id, n FROM item ORDER BY id")
			}
			if hasA != want || hasB != want {
				t.Errorf("one has\n%s\nthe other\n%s", hasA, hasB)
			}
			time.Sleep(500 * time.Millisecond) // in which a loop would go round
			for i, cmd := range running {
				_ = cmd.Process.Signal(syscall.SIGINT)
				if code := exitCode(cmd); code != 130 {
					t.Errorf("stream %d: exit %d\n%s", i, code, cmd.Stderr)
				}
			}
			must(t, "diff", a, b)
			must(t, append(there, "--remove")...)
			must(t, append(back, "--remove")...)
		})
	}
}
