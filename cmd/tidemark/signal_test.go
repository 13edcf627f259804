package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// SIGTERM and Ctrl-C end every command with the same code, even those that otherwise never end.
func TestSignalsEndCommands(t *testing.T) {
	t.Parallel()
	testdb.NotShort(t) // it waits for what has nothing to say
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		for _, args := range [][]string{{"status", "--watch"}, {"utilities", "--watch", "--json"}, {"ha", "measure", "network", "--listen", "127.0.0.1:0"}, {"ha", "simulate", "--count", "0", "--time", "1m"}} {
			said, err := os.Create(filepath.Join(t.TempDir(), "said"))
			if err != nil {
				t.Fatal(err)
			}
			defer said.Close()
			cmd := process(t, args...)
			cmd.Stdout, cmd.Stderr = said, said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// It handles signals once it says something; some have nothing to say.
			for start := time.Now(); time.Since(start) < 4*time.Second; time.Sleep(20 * time.Millisecond) {
				if info, err := said.Stat(); err != nil || info.Size() > 0 {
					break
				}
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
				text, _ := os.ReadFile(said.Name())
				t.Errorf("tidemark %s, %v: %v: %s", strings.Join(args, " "), sig, cmd.ProcessState, text)
			}
		}
	}
}

// version and --version print the same.
func TestVersion(t *testing.T) {
	o := helpless("version")
	if o.code != 0 || !strings.HasPrefix(o.out, "tidemark version "+versionText()+" (go") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.errOut)
	}
	if flag := helpless("--version"); flag.code != 0 || flag.out != o.out {
		t.Errorf("exit %d: %s, and not %s", flag.code, flag.out, o.out)
	}
}
