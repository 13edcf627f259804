package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// giants has two rows of 40 MB each, one of bytes and one of text.
func giants(t *testing.T, srv *testdb.Server) string {
	t.Helper()
	allowGiants(t, srv)
	if srv.Engine == "postgres" {
		return sqlOn(t, srv, `CREATE TABLE giant (id int PRIMARY KEY, b bytea, v text);
			INSERT INTO giant VALUES (1, decode(repeat('00ff5c27', 10 << 20), 'hex'), 'small'), (2, '\x00', repeat('0123456789é', 40 << 20 >> 4 << 1)), (3, NULL, NULL);`)
	}
	return sqlOn(t, srv, `CREATE TABLE giant (id int PRIMARY KEY, b longblob, v longtext);
		INSERT INTO giant VALUES (1, repeat(x'00ff5c27', 10 << 20), 'small'), (2, x'00', repeat('0123456789é', 40 << 20 >> 4 << 1)), (3, NULL, NULL);`)
}

// allowGiants lets a server of the MySQL family accept packets of a gigabyte.
func allowGiants(t *testing.T, srv *testdb.Server) {
	t.Helper()
	if srv.Engine != "postgres" {
		testdb.Query(t, srv.URL(""), "SET GLOBAL max_allowed_packet = 1073741824")
	}
}

// TestGiantRows copies rows of 40 MB in less than 256 MB of memory. (Tests of the engines cover
// copies within one engine.)
func TestGiantRows(t *testing.T) {
	for _, p := range []pair{{"mariadb to postgres", maria, pg15}, {"postgres to mariadb", pg15, maria}} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			allowGiants(t, p.dst(t))
			src, dst := giants(t, p.src(t)), p.dst(t).NewDatabase(t, "dst")
			peak, out := peakOf(t, process(t, "copy", src, dst))
			t.Logf("%d MB", peak>>20)
			if peak > 256<<20 {
				t.Errorf("it took %d MB\n%s", peak>>20, out)
			}
			sums := "SELECT id, md5(b), md5(v), octet_length(b), char_length(v) FROM giant ORDER BY id"
			if a, b := testdb.Query(t, src, sums), testdb.Query(t, dst, sums); a != b {
				t.Errorf("the source has\n%s\nthe target\n%s", a, b)
			}
			if p.name != "mariadb to postgres" {
				return
			}
			// A row that differs is read three times, and reassembled in full.
			testdb.Query(t, dst, "UPDATE giant SET v = concat(v, 'x') WHERE id = 2")
			cmd := process(t, "diff", src, dst)
			cmd.Env = append(cmd.Env, "GOGC=50") // measure what is retained, not how late the collector runs
			peak, out = peakExit(t, cmd, 1)
			t.Logf("diff %d MB", peak>>20)
			if peak > 480<<20 || !strings.Contains(out, "1 different") {
				t.Errorf("it took %d MB\n%s", peak>>20, out)
			}
		})
	}
}

// peakOf runs a process that must succeed, and returns its peak resident memory. The kernel's
// accounting after the end would not do: it starts from this process's memory at the fork.
func peakOf(t *testing.T, cmd *exec.Cmd) (bytesN int64, out string) {
	t.Helper()
	return peakExit(t, cmd, 0)
}

// peakExit is peakOf for a process that ends with this exit code.
func peakExit(t *testing.T, cmd *exec.Cmd, code int) (bytesN int64, out string) {
	t.Helper()
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		for line := range strings.Lines(string(status)) {
			var kb int64
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
				bytesN = max(bytesN, kb<<10)
			}
		}
		select {
		case err := <-ended:
			if cmd.ProcessState.ExitCode() != code {
				t.Fatalf("%v\n%s", err, &text)
			}
			if bytesN == 0 {
				t.Fatal("no account of the memory")
			}
			return bytesN, text.String()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
