package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SIGTERM and Ctrl-C end every command with the same code, also those that have no other end.
func TestSignalsEndCommands(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		for _, args := range [][]string{{"status", "--watch"}, {"utilities", "--watch", "--json"}, {"ha", "measure", "network", "--listen", "127.0.0.1:0"}, {"ha", "simulate", "--count", "0", "--time", "1m"}} {
			cmd := process(t, args...)
			var said strings.Builder
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // until it listens for signals
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
				t.Errorf("tidemark %s, %v: %v: %s", strings.Join(args, " "), sig, cmd.ProcessState, &said)
			}
		}
	}
}

// version and --version say the same.
func TestVersion(t *testing.T) {
	o := helpless("version")
	if o.code != 0 || !strings.HasPrefix(o.out, "tidemark version "+versionText()+" (go") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.errOut)
	}
	if flag := helpless("--version"); flag.code != 0 || flag.out != o.out {
		t.Errorf("exit %d: %s, and not %s", flag.code, flag.out, o.out)
	}
}
