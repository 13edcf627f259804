package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestHASharedSecret: without a secret nobody listens on a reachable address; with one, both sides
// read it from a file or the environment, and it is stored nowhere.
func TestHASharedSecret(t *testing.T) {
	t.Setenv(address.HASecret, "")
	const secret = "5d1f0a7bfe9b4c6d"
	file := testdb.Written(t, "ha.secret", secret+"\n")
	for _, args := range [][]string{{"measure", "network", "--listen", ":0"}, {"measure", "network", "--listen", "0.0.0.0:0"}, {"simulate", "--standby", ":0"}} {
		if o := cli(t, append([]string{"ha"}, args...)...); o.code != 2 || !strings.Contains(o.errOut, "no shared secret was given") || !strings.Contains(o.errOut, "--secret-file") {
			t.Errorf("%v: exit %d: %s", args, o.code, o.errOut)
		}
	}
	for name, code := range map[string]int{filepath.Join(t.TempDir(), "none"): 6, testdb.Written(t, "short", "tide"): 2, testdb.Written(t, "empty", ""): 2, t.TempDir(): 2} {
		if o := cli(t, "ha", "measure", "network", "127.0.0.1:1", "--secret-file", name); o.code != code || !strings.Contains(o.errOut, "hint: Make one") || strings.Contains(o.errOut, "tide\n") {
			t.Errorf("%s: exit %d: %s", name, o.code, o.errOut)
		}
	}

	addr, far, out := testdb.FreeAddress(t), t.TempDir(), t.TempDir()
	listener := process(t, "ha", "measure", "network", "--listen", addr, "--dir", far)
	listener.Env = append(listener.Env, address.HASecret+"="+secret)
	var said strings.Builder
	listener.Stderr = &said
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	var o outcome
	for try := 0; ; try++ {
		if o = cli(t, "ha", "measure", "network", addr); o.code != 3 || try > 6000 {
			break // 3: it does not listen yet
		}
		time.Sleep(50 * time.Millisecond)
	}
	if o.code != 4 || !strings.Contains(o.errOut, "requires a shared secret") {
		t.Errorf("without it: exit %d: %s", o.code, o.errOut)
	}
	all := []outcome{o}
	plan := []string{"ha", "plan", "--scan", testdb.Written(t, "a.scan", postgresScan), "--standby", addr, "--disk=200MiB/s,1ms", "--time=300ms", "--simulate=50ms", "--clients=1", "--syncmode=local,on", "--out", out, "--json"}
	for _, args := range [][]string{{"ha", "measure", "network", addr, "--time=300ms"}, {"ha", "simulate", "--primary", addr, "--count=5"}, plan} {
		other := cli(t, append(args, "--secret-file", testdb.Written(t, "other", secret+"0"))...)
		if other.code != 4 || !strings.Contains(other.errOut, "the shared secret differs") {
			t.Errorf("with another, %v: exit %d: %s", args, other.code, other.errOut)
		}
		all = append(all, other, must(t, append(args, "--secret-file", file)...))
	}
	t.Setenv(address.HASecret, secret)
	all = append(all, must(t, "ha", "simulate", "--primary", addr, "--count=5"))
	listener.Process.Signal(os.Interrupt)
	if _ = listener.Wait(); listener.ProcessState.ExitCode() != 130 {
		t.Errorf("the listener: exit %d", listener.ProcessState.ExitCode())
	}
	all = append(all, outcome{errOut: said.String()})
	files, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, outcome{out: string(text)})
	}
	for _, o := range all {
		if strings.Contains(o.out+o.errOut, secret) {
			t.Errorf("the secret is in\n%s%s", o.out, o.errOut)
		}
	}
}
