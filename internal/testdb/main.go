package testdb

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb/home"
)

// Main runs the tests of a package, stops the servers they started, and exits. Temporary files of
// the tests are in a folder that is removed, also after an interrupt. Shortly before the deadline
// of go test -timeout it prints what everybody is doing, and exits. With TIDEMARK_CPU in the
// environment it prints the processor time of all that. Call it from TestMain.
func Main(m *testing.M) {
	flag.Parse() // -timeout
	go endWithParent()
	removeTemp := ownTemp()
	var ending sync.Once // an exit waits for whoever is ending this process
	end := func(code func() int) {
		ending.Do(func() {
			n := code()
			stopAll()
			removeTemp()
			os.Exit(n)
		})
	}
	onInterrupt(func(sig os.Signal) {
		end(func() int {
			fmt.Fprintf(os.Stderr, "testdb: %v: servers and programs are ended, and their folders removed\n", sig)
			home.EndChildren()
			return 130
		})
	})
	if at := deadline(); at > 0 {
		time.AfterFunc(at, func() {
			end(func() int {
				tellAll(os.Stdout, at)
				home.EndChildren()
				return 2
			})
		})
	}
	code := m.Run()
	end(func() int {
		stopAll()
		if os.Getenv("TIDEMARK_CPU") != "" {
			fmt.Printf("processor time: %.2f s\n", processorTime().Seconds())
		}
		return code
	})
}

// onInterrupt calls do after a signal to end, unless this process is to ignore interrupts, as a
// shell's background job. Programs that tests interrupt must not inherit that.
func onInterrupt(do func(os.Signal)) {
	signals := make(chan os.Signal, 1)
	ignored := signal.Ignored(os.Interrupt)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for sig := range signals {
			if sig != os.Interrupt || !ignored {
				do(sig)
			}
		}
	}()
}

// ownTemp makes a folder for the temporary files of this process, unless a whole run has one, and
// returns what removes it.
func ownTemp() (remove func()) {
	if home.Made(home.Temp) {
		return func() {}
	}
	dir, remove, err := home.Make("")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testdb: a folder for temporary files:", err)
		os.Exit(3)
	}
	return remove
}

// endWithParent ends this process, and with it its servers, once its parent has been killed: the
// kernel does not notify go test, and its tests would keep running.
func endWithParent() {
	for parent := os.Getppid(); os.Getppid() == parent; {
		time.Sleep(time.Second)
	}
	fmt.Fprintln(os.Stderr, "testdb: whoever ran these tests is gone")
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // which cleans up
}

// beforeDeadline is how long before the deadline of a package everybody is asked what they do.
const beforeDeadline = 20 * time.Second

// deadline is when to ask, from now on; 0 is never.
func deadline() time.Duration {
	f := flag.Lookup("test.timeout")
	if f == nil {
		return 0
	}
	whole, _ := f.Value.(flag.Getter).Get().(time.Duration)
	return max(0, whole-min(beforeDeadline, whole/5))
}

// tellAll prints the stacks of all goroutines, the sessions of each server, and the end of its log.
func tellAll(out *os.File, after time.Duration) {
	room := make([]byte, 64<<20)
	fmt.Fprintf(out, "testdb: the deadline of this package is reached after %v\n%s\n", after, room[:runtime.Stack(room, true)])
	for _, s := range allServers() {
		fmt.Fprintf(out, "testdb: %s %s at port %d\n%stestdb: the end of its log:\n%s\n", s.Engine, s.Version, s.Port, s.sessions(), lastLines(s.proc.log, 40))
	}
}

// sessions returns what a server says of its sessions.
func (s *Server) sessions() string {
	sql, db := "SHOW FULL PROCESSLIST", ""
	switch s.Engine {
	case "postgres":
		sql, db = "SELECT pid, datname, application_name, state, wait_event_type, wait_event, now() - xact_start, pg_blocking_pids(pid), left(query, 300) FROM pg_stat_activity WHERE pid <> pg_backend_pid()", "postgres"
	case "mysql", "mariadb":
	default:
		return ""
	}
	said := make(chan string, 1)
	go func() {
		text, err := TryQuery(s.URL(db), sql)
		if err != nil {
			text = err.Error()
		}
		said <- text
	}()
	select {
	case text := <-said:
		return strings.TrimRight(text, "\n") + "\n"
	case <-time.After(3 * time.Second):
		return "it does not answer\n"
	}
}

// lastLines returns the last lines of a file.
func lastLines(file string, n int) string {
	all := strings.SplitAfter(tail(file), "\n")
	return strings.Join(all[max(0, len(all)-n):], "")
}

var started struct {
	sync.Mutex
	servers map[*process]*Server // that are ready, by their present process
}

// note remembers a server as long as its process runs.
func (s *Server) note() {
	started.Lock()
	defer started.Unlock()
	if started.servers == nil {
		started.servers = map[*process]*Server{}
	}
	copied, p := *s, s.proc
	started.servers[p] = &copied
	go func() {
		<-p.done
		started.Lock()
		defer started.Unlock()
		delete(started.servers, p)
	}()
}

func allServers() (all []*Server) {
	started.Lock()
	defer started.Unlock()
	for _, s := range started.servers {
		all = append(all, s)
	}
	return all
}

func stopAll() {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	var wg sync.WaitGroup
	for _, s := range allServers() { // of tests that an interrupt has ended too
		wg.Go(s.proc.stop)
	}
	for _, s := range slots {
		// Run once.Do again, to wait for a start still under way in a test that did not wait for
		// it.
		s.once.Do(func() { s.err = errors.New("testdb: the tests are over") })
		if s.server != nil {
			wg.Go(s.server.proc.stop)
		}
	}
	wg.Wait()
	removeHome()
}
