package jetstream

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/queue"
)

// Set in a process that a test has started: its task, and the folder for it.
const (
	childVariable = "TIDEMARK_QUEUE_CHILD"
	childFolder   = "TIDEMARK_QUEUE_FOLDER"
	childAddress  = "TIDEMARK_QUEUE_ADDRESS" // for one that serves
	childSize     = 30_000                   // bytes of a transaction
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childVariable); what != "" {
		fmt.Println(child(what, os.Getenv(childFolder)))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child appends one transaction after the other, and prints the place of each as soon as it is
// acknowledged. It ends with the error that stops it.
func child(what, dir string) error {
	ctx := context.Background()
	if what == "serve small files" || what == "small files" {
		// A full file system, as far as a process can simulate one.
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2 << 20, Max: 2 << 20}); err != nil {
			return err
		}
	}
	if addr, serves := os.LookupEnv(childAddress); serves {
		return serve(ctx, dir, addr, func(text string) { fmt.Println(text) })
	}
	s, err := Open(ctx, Options{Queue: "q", Dir: dir})
	if err != nil {
		return err
	}
	l, err := queue.New(ctx, s, queue.Options{})
	if err != nil {
		return err
	}
	place, _, err := l.Begin(ctx, 1)
	if err != nil {
		return err
	}
	for {
		place++
		if err := l.Append(ctx, []*change.Tx{insertAt(place, childSize)}); err != nil {
			return fmt.Errorf("%v: %w", tidemark.KindOf(err), err)
		}
		fmt.Println(place)
		if what == "trim" && place%20 == 0 && place > 50 {
			if err := l.Trim(ctx, place-50); err != nil {
				return err
			}
		}
	}
}

// run starts a child, and kills it some time after its first output. It returns the last place that
// was acknowledged, and the rest of the output.
func run(t *testing.T, what, dir string, life time.Duration) (acked uint64, said string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVariable+"="+what, childFolder+"="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(5*time.Minute, func() { c.Process.Kill() })
	for in := bufio.NewScanner(out); in.Scan(); {
		n, err := strconv.ParseUint(in.Text(), 10, 64)
		if err != nil {
			said += in.Text() + "\n"
			continue
		}
		if acked == 0 {
			timer.Reset(life)
		}
		acked = n
	}
	_ = c.Wait() // it was killed
	timer.Stop()
	return acked, said
}

// Whenever the process is killed, everything that it acknowledged is there, once and in order, and
// it continues after that.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	var before, trimmed uint64
	for i := range 8 {
		what := "append"
		if i%2 == 1 {
			what = "trim"
		}
		acked, said := run(t, what, dir, time.Duration(20+rand.IntN(150))*time.Millisecond)
		if acked <= before || said != "" {
			t.Fatalf("run %d acknowledged up to %d, after %d, and said %s", i, acked, before, said)
		}
		l := openLog(t, open(t, Options{Queue: "q", Dir: dir}), queue.Options{})
		place, end, err := l.Begin(t.Context(), 1)
		if err != nil || place < acked || place > acked+1 || end != place+1 {
			t.Fatalf("run %d acknowledged up to %d, and the queue continues after %d, at %d, %v", i, acked, place, end, err)
		}
		if at := acked - acked%20; what == "trim" && at > 50 {
			trimmed = max(trimmed, at-50)
		}
		if last, err := readPlaces(l, t.Context(), trimmed, place, childSize); err != nil || last != place {
			t.Fatalf("run %d: read from %d to %d of %d: %v", i, trimmed, last, place, err)
		}
		before = place
		l.Close()
	}
}

// If the disk is full, that is reported, everything acknowledged is there, and with room again it
// continues.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	acked, said := run(t, "small files", dir, 5*time.Minute)
	if acked < 10 || !strings.HasPrefix(said, "full: append to queue q in "+dir) || !strings.Contains(said, "file too large") {
		t.Fatalf("on a full disk, after %d, the program says: %s", acked, said)
	}
	more, said := run(t, "append", dir, 100*time.Millisecond)
	if more <= acked || said != "" {
		t.Fatalf("with room again it goes from %d to %d, and says %s", acked, more, said)
	}
	l := openLog(t, open(t, Options{Queue: "q", Dir: dir}), queue.Options{})
	if last, err := readPlaces(l, t.Context(), 0, more, childSize); err != nil {
		t.Fatalf("read up to %d of %d: %v", last, more, err)
	}
}
