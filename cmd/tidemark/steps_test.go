package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A walk relays all traffic between a process and its servers, step by step: each step is some
// bytes in one direction. At one step it kills the process, before or after these bytes have
// arrived.
type walk struct {
	t *testing.T

	mu     sync.Mutex
	n, at  int // steps so far; the step that kills, 0: none
	before bool
	text   []byte // the step that has it kills, before it; nil: none
	cmd    *exec.Cmd
	conns  []net.Conn
}

// way returns a server's URL through the walk, which sees its traffic in both directions.
func (w *walk) way(text string) string {
	w.t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		w.t.Fatal(err)
	}
	addr := between(w.t, u.Host, func(client, server net.Conn) {
		w.mu.Lock()
		w.conns = append(w.conns, client, server)
		w.mu.Unlock()
		go w.carry(server, client)
		w.carry(client, server)
	})
	return strings.Replace(text, u.Host, addr, 1)
}

func (w *walk) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !w.step(to, buf[:n]) || err != nil {
			return
		}
	}
}

// step relays some bytes. It returns false if nothing moves any longer: the process or the other
// side is dead.
func (w *walk) step(to net.Conn, data []byte) bool {
	w.mu.Lock()
	w.n++
	if w.text != nil && bytes.Contains(data, w.text) {
		w.at, w.before, w.text = w.n, true, nil
	}
	last := w.n == w.at
	if w.at > 0 && w.n > w.at || last && w.before {
		w.kill()
		w.mu.Unlock()
		return false
	}
	// The others wait for the last step only. A server may send more than a process reads, which
	// waits for another connection before it reads on.
	if !last {
		w.mu.Unlock()
		_, err := to.Write(data)
		return err == nil
	}
	defer w.mu.Unlock()
	_ = to.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, _ = to.Write(data)
	w.kill()
	return false
}

// kill kills the process. Data it has sent that was not relayed is lost.
func (w *walk) kill() {
	_ = w.cmd.Process.Kill()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// run runs a command up to a step, or to its end, and returns how many steps it took.
func (w *walk) run(at int, before bool, args ...string) int {
	w.t.Helper()
	cmd := process(w.t, append(args, "--until", "now")...)
	var said buffer
	cmd.Stderr = &said
	w.mu.Lock()
	w.n, w.at, w.before, w.cmd = 0, at, before, cmd
	err := cmd.Start()
	w.mu.Unlock()
	if err != nil {
		w.t.Fatal(err)
	}
	_ = cmd.Wait() // its state tells more
	if cmd.ProcessState.Exited() && cmd.ProcessState.ExitCode() != 0 {
		w.t.Errorf("killed at step %d, before it %v: exit %d\n%s", at, before, cmd.ProcessState.ExitCode(), &said)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = 0
	return w.n
}

// runTo runs a command until it sends, or is sent, a text.
func (w *walk) runTo(text string, args ...string) {
	w.t.Helper()
	w.text = []byte(text)
	w.run(0, true, args...)
	if w.text != nil {
		w.t.Errorf("nobody said %q", text)
	}
	w.text = nil
}

// stepTables have indistinguishable rows, so that a row applied twice shows.
const stepTables = `
CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL, name varchar(40) UNIQUE);
CREATE TABLE history (account int, what varchar(40));
INSERT INTO account VALUES (1, 0, 'one'), (2, 0, 'two');
`

var eachStep = os.Getenv("TIDEMARK_STEPS") == "all"

// TestKilledAtEachStep kills a stream at steps of its traffic with source, queue and target: before
// a commit is sent, after it was sent, after its answer arrived; likewise for what the queue
// stores, and for what the source may discard. Nothing is lost, and nothing applied twice.
// TIDEMARK_STEPS=all covers each step.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for i, x := range []pair{{"postgres to mariadb", pg15, maria}, {"mariadb to postgres", maria, pg15}, {"mysql to mysql", mysql8, mysql8}} {
		for _, halves := range []bool{false, true} {
			if !eachStep && halves != (i > 0) {
				continue
			}
			t.Run(fmt.Sprintf("%s, halves %v", x.name, halves), func(t *testing.T) {
				t.Parallel()
				from, to := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst")
				testdb.Load(t, from, strings.NewReader(stepTables))
				if strings.HasPrefix(from, "postgres") {
					testdb.Query(t, from, "ALTER TABLE history REPLICA IDENTITY FULL")
				}
				w := &walk{t: t}
				src, dst, queue, name := w.way(from), w.way(to), w.way(natsServer(t)), streamName()
				var commands [][]string
				for _, verb := range map[bool][]string{false: {"replicate"}, true: {"capture", "apply"}}[halves] {
					commands = append(commands, []string{verb, src, dst, "--name", name, "--queue", queue})
				}
				rounds := 0
				work := func() {
					rounds++
					testdb.Query(t, from, fmt.Sprintf("INSERT INTO account VALUES (%[1]d, 0, 'n%[1]d'); BEGIN; UPDATE account SET n = n + 1; INSERT INTO history VALUES (1, 'again'), (2, 'again'); COMMIT; UPDATE account SET id = -id WHERE id = %[1]d; DELETE FROM account WHERE id = -%[2]d", 10+rounds, 9+rounds))
				}
				steps := make([]int, len(commands))
				for range 2 { // first the copy; then the work of each round
					for i, args := range commands {
						steps[i] = w.run(0, false, args...)
					}
					work()
				}
				w.walkAll(commands, steps, work)
				for _, args := range commands {
					w.run(0, false, args...)
				}
				equal(t, src, dst, name, "--queue", queue)
				if n := testdb.Query(t, to, "SELECT count(*) FROM history"); n != fmt.Sprint(2*rounds) {
					t.Errorf("%s rows of %d", n, 2*rounds)
				}
				for _, args := range commands {
					must(t, append(args, "--remove")...)
				}
			})
		}
	}
}

// walkAll kills commands at each step, or at some of them, with work to do each time.
func (w *walk) walkAll(commands [][]string, steps []int, work func()) {
	w.t.Logf("%v steps", steps)
	if eachStep {
		for i, args := range commands {
			for at := 1; at <= steps[i]; at++ {
				for _, before := range []bool{true, false} {
					work()
					w.run(at, before, args...)
				}
				for _, other := range commands[i+1:] {
					w.run(0, false, other...)
				}
			}
		}
		return
	}
	seed := testdb.Seed(w.t)
	rnd := rand.New(rand.NewPCG(seed, 11))
	for range 4 {
		work()
		for i, args := range commands {
			w.run(1+steps[i]/3+rnd.IntN(steps[i]), rnd.IntN(2) == 0, args...) // the first steps are those of connecting
		}
	}
}

// TestCopyKilledAtEachStep kills replicate, or apply beside a running capture, at steps of its
// traffic with source and target during the copy before its stream, and while it resumes that copy.
// The same command always resumes it, and nothing is lost or duplicated. TIDEMARK_STEPS=all covers
// each step of a copy.
func TestCopyKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for i, x := range []pair{{"postgres to mariadb", pg15, maria}, {"mariadb to postgres", maria, pg15}, {"mysql to mysql", mysql8, mysql8}, {"postgres to postgres", pg15, pg15}} {
		halves := i == 1
		t.Run(fmt.Sprintf("%s, halves %v", x.name, halves), func(t *testing.T) {
			t.Parallel()
			c := &copyWalk{walk: &walk{t: t}, x: x, halves: halves, prep: []string{"empty", "empty", "truncate", "drop"}[i]}
			steps := c.walkCopy(nil)
			seed := testdb.Seed(t)
			t.Logf("%d steps", steps)
			rnd := rand.New(rand.NewPCG(seed, 11))
			if !eachStep {
				for range 2 {
					c.walkCopy([]int{1 + rnd.IntN(steps), 1 + rnd.IntN(steps), 1 + rnd.IntN(steps)})
				}
				return
			}
			for at := 1; at <= steps; at++ { // each drops its databases: a thousand of them fill the memory
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					one := *c
					one.walk = &walk{t: t}
					one.walkCopy([]int{at, 1 + rnd.IntN(steps)})
				})
			}
		})
	}
}

// TestCopyKilledBeforeItIsKnown kills replicate when it has claimed the target's tables and not yet
// recorded its copy, and again while it gives these claims up: the same command begins again, and
// --remove leaves no claim.
func TestCopyKilledBeforeItIsKnown(t *testing.T) {
	t.Parallel()
	from, to := mysql8(t).NewDatabase(t, "src"), maria(t).NewDatabase(t, "dst")
	for _, url := range []string{from, to} {
		testdb.Load(t, url, strings.NewReader(stepTables))
	}
	w := &walk{t: t}
	args := []string{"replicate", w.way(from), w.way(to), "--name", streamName(), "--prep", "truncate"}
	w.runTo("IS_USED_LOCK(CONCAT('tidemark run ', run))", args...)
	w.runTo("tidemark_claims` WHERE run = '01", args...)
	testdb.Query(t, from, "INSERT INTO account VALUES (3, 0, 'three')")
	w.run(0, false, args...)
	if n := testdb.Query(t, to, "SELECT count(*) FROM account"); n != "3" {
		t.Errorf("%s rows", n)
	}
	must(t, append(args, "--remove")...)

	w.runTo("IS_USED_LOCK(CONCAT('tidemark run ', run))", args...)
	must(t, append(args, "--remove")...)
	must(t, "copy", from, to, "--prep", "truncate")
}

type copyWalk struct {
	*walk
	x      pair
	halves bool
	prep   string // handling of existing tables on the target
}

const copyTables = stepTables + `
CREATE TABLE owner (id int PRIMARY KEY);
CREATE TABLE owned (id int PRIMARY KEY, owner int, CONSTRAINT owned_by FOREIGN KEY (owner) REFERENCES owner (id) ON DELETE CASCADE);
INSERT INTO owner VALUES (1), (2); INSERT INTO owned VALUES (1, 1), (2, 2); INSERT INTO history VALUES (1, 'first');`

// walkCopy starts a stream, kills it at steps, lets it end, and compares. It returns how many steps
// the last run took.
func (c *copyWalk) walkCopy(kills []int) int {
	t := c.t
	from, to := c.x.src(t).NewDatabase(t, "src"), c.x.dst(t).NewDatabase(t, "dst")
	testdb.Load(t, from, strings.NewReader(copyTables))
	if c.prep != "empty" {
		testdb.Load(t, to, strings.NewReader(copyTables+"INSERT INTO history VALUES (9, 'of the target')"))
	}
	if strings.HasPrefix(from, "postgres") {
		testdb.Query(t, from, "ALTER TABLE history REPLICA IDENTITY FULL")
	}
	src, dst, name := c.way(from), c.way(to), streamName()
	args := []string{"replicate", src, dst, "--name", name, "--lanes", "1", "--prep", c.prep}
	var queue []string
	if c.halves {
		queue = []string{"--queue", natsServer(t)}
		capture := process(t, append([]string{"capture", from, to, "--name", name}, queue...)...)
		if err := capture.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = capture.Process.Kill()
			_ = capture.Wait() // it was killed
			must(t, append([]string{"capture", from, to, "--name", name, "--remove"}, queue...)...)
		}()
		args[0] = "apply"
		args = append(args, queue...)
	}
	for i, at := range kills {
		c.run(at, i%2 == 0, args...)
		testdb.Query(t, from, fmt.Sprintf("INSERT INTO account VALUES (%[1]d, 0, 'n%[1]d'); BEGIN; UPDATE account SET n = n + 1; INSERT INTO history VALUES (1, 'again'), (2, 'again'); COMMIT; DELETE FROM owner WHERE id = 1; INSERT INTO owner VALUES (1); INSERT INTO owned VALUES (%[1]d, 1); DELETE FROM history WHERE what = 'first'; INSERT INTO history VALUES (3, 'first')", 10+i))
	}
	steps := c.run(0, false, args...)
	for _, sql := range []string{"SELECT id, n, name FROM account ORDER BY id", "SELECT account, what FROM history ORDER BY 1, 2", "SELECT id FROM owner ORDER BY id", "SELECT id, owner FROM owned ORDER BY id"} {
		if a, b := testdb.Query(t, from, sql), testdb.Query(t, to, sql); a != b {
			t.Errorf("killed at %v: %s\n%s\nand on the target\n%s", kills, sql, a, b)
		}
	}
	if _, err := testdb.TryQuery(to, "INSERT INTO owned VALUES (1000, 1000)"); err == nil {
		t.Errorf("killed at %v: the target has no foreign key", kills)
	}
	must(t, append(args, "--remove")...)
	return steps
}
