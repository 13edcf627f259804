package lag

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const (
	interval = time.Second // between samples
	// slack is the tolerance of a figure: the source is asked once a second where its log ends, and
	// MariaDB's log has whole seconds.
	slack = 2500 * time.Millisecond
	// patience allows for a busy machine.
	patience = 2 * time.Minute
)

// A world is a stream, and what is known about it from outside.
type world struct {
	t        *testing.T
	src, dst *testdb.Server
	from, to string
	queued   bool
	process  *exec.Cmd
	errOut   *transcript
	metrics  string
	writer   *testdb.Session
	stop     chan struct{}
	wg       sync.WaitGroup

	mu      sync.Mutex
	events  []*event
	samples []sample
	phases  []phase
	gone    [][2]time.Time // when nobody could know the source's log
}

// A transcript holds what a process has printed so far.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *transcript) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// An event is a transaction on the source that writes a row of the table hb.
type event struct {
	before, after time.Time // around its commit
	missing, seen time.Time // last looked for in vain, and found
}

// A sample is what the metrics report at a moment.
type sample struct {
	at                                            time.Time
	state                                         string
	behind, rows, targetAway, sourceAway, full    float64
	captured, applied, queue, log, source, target float64
	inexact                                       float64
}

// A phase is a start time, and the states that the stream may have from then on.
type phase struct {
	at     time.Time
	states []string
}

// begin creates both databases and starts the stream between them.
func begin(t *testing.T, src, dst *testdb.Server, queued bool) *world {
	w := &world{t: t, src: src, dst: dst, from: src.NewDatabase(t, "src"), to: dst.NewDatabase(t, "dst"), queued: queued,
		errOut: &transcript{}, metrics: testdb.FreeAddress(t), stop: make(chan struct{})}
	testdb.Query(t, w.from, "CREATE TABLE hb (id int PRIMARY KEY); CREATE TABLE big (id int PRIMARY KEY, v text)")
	args := []string{"replicate", w.from, w.to, "--name", "lag", "--monitor-interval", interval.String(), "--metrics", w.metrics, "--monitor-tables"}
	if queued {
		args = append(args, "--queue", "durable", "--queue-size", "16MB", "--queue-message", "1MB")
	}
	w.process = testdb.Command(t, args...)
	w.process.Stderr = w.errOut
	if err := w.process.Start(); err != nil {
		t.Fatal(err)
	}
	w.writer = testdb.NewSession(w.from)
	w.wg.Go(w.look)
	w.wg.Go(w.scrape)
	t.Cleanup(func() {
		close(w.stop)
		w.wg.Wait()
		w.writer.Close()
		_ = w.process.Process.Kill() // it may have ended
		_ = w.process.Wait()
		if t.Failed() || testing.Verbose() {
			t.Logf("%s", w.errOut)
		}
	})
	w.await("stream", func(m sample) bool { return m.state == "idle" })
	return w
}

// look looks for the events on the target.
func (w *world) look() {
	s := testdb.NewSession(w.to)
	defer s.Close()
	for {
		select {
		case <-w.stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		w.mu.Lock()
		first := slices.IndexFunc(w.events, func(e *event) bool { return e.seen.IsZero() })
		known := len(w.events)
		w.mu.Unlock()
		if first < 0 {
			continue
		}
		asked := time.Now()
		out, err := s.Try(fmt.Sprintf("SELECT id FROM hb WHERE id >= %d", first))
		answered := time.Now()
		there := map[int]bool{}
		for _, id := range strings.Fields(out) {
			n, _ := strconv.Atoi(id)
			there[n] = true
		}
		w.mu.Lock()
		for i := first; i < known; i++ {
			switch e := w.events[i]; {
			case err == nil && there[i] && e.seen.IsZero():
				e.seen = answered
			case e.seen.IsZero(): // also if a target does not answer
				e.missing = asked
			}
		}
		w.mu.Unlock()
	}
}

// scrape collects samples.
func (w *world) scrape() {
	for {
		select {
		case <-w.stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		m, err := w.sample()
		if err != nil || m.at.IsZero() {
			continue
		}
		w.mu.Lock()
		if n := len(w.samples); n == 0 || !w.samples[n-1].at.Equal(m.at) {
			w.samples = append(w.samples, m)
		}
		w.mu.Unlock()
	}
}

func (w *world) sample() (m sample, err error) {
	r, err := http.Get("http://" + w.metrics + "/metrics")
	if err != nil {
		return m, err
	}
	defer r.Body.Close()
	value := map[string]*float64{"behind_seconds": &m.behind, "one_transaction_rows": &m.rows, "target_unreachable": &m.targetAway, "source_unreachable": &m.sourceAway,
		"queue_full": &m.full, "latency_error_seconds": &m.inexact, "rows_captured_total": &m.captured, "rows_applied_total": &m.applied, "queue_messages": &m.queue, "log_kept_bytes": &m.log,
		"source_contact_timestamp_seconds": &m.source, "target_contact_timestamp_seconds": &m.target}
	for in := bufio.NewScanner(r.Body); in.Scan(); {
		rest, ours := strings.CutPrefix(in.Text(), "tidemark_stream_")
		if !ours {
			continue
		}
		name, rest, _ := strings.Cut(rest, "{")
		labels, text, _ := strings.Cut(rest, "} ")
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
			return m, err
		case name == "state" && n == 1:
			_, rest, _ := strings.Cut(labels, `state="`)
			m.state, _, _ = strings.Cut(rest, `"`)
		case name == "sample_timestamp_seconds":
			m.at = time.UnixMilli(int64(n * 1000))
		case value[name] != nil:
			*value[name] = n
		}
	}
	return m, nil
}

// last returns the newest sample.
func (w *world) last() (m sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.samples); n > 0 {
		m = w.samples[n-1]
	}
	return m
}

// await waits for a sample that is newer than the call.
func (w *world) await(what string, yes func(sample) bool) sample {
	w.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(50 * time.Millisecond) {
		if m := w.last(); m.at.After(begun) && yes(m) {
			return m
		}
	}
	testdb.OnClock(w.t)
	w.t.Fatalf("no %s: %+v", what, w.last())
	return sample{}
}

// state sets the states allowed from now on, except for what is under way.
func (w *world) state(states ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phases = append(w.phases, phase{time.Now().Add(2 * interval), states})
}

// unknown records a period in which nobody could know the source's log.
func (w *world) unknown(from, to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = append(w.gone, [2]time.Time{from, to})
}

// says waits until the output of tidemark status contains text.
func (w *world) says(text string) {
	w.t.Helper()
	out := ""
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(200 * time.Millisecond) {
		if out = testdb.Must(w.t, "status"); strings.Contains(out, text) {
			return
		}
	}
	testdb.OnClock(w.t)
	w.t.Errorf("tidemark status does not say %q:\n%s", text, out)
}

// write commits a transaction on the source, which is an event.
func (w *world) write(sql string) {
	w.t.Helper()
	e := &event{before: time.Now()}
	w.mu.Lock()
	id := len(w.events)
	w.mu.Unlock()
	beat := fmt.Sprintf("INSERT INTO hb VALUES (%d)", id)
	if sql != "" {
		w.ask("BEGIN; " + sql + "; " + beat)
		e.before = time.Now()
		beat = "COMMIT"
	}
	w.ask(beat)
	e.after = time.Now()
	w.mu.Lock()
	w.events = append(w.events, e)
	w.mu.Unlock()
}

func (w *world) ask(sql string) {
	w.t.Helper()
	if _, err := w.writer.Try(sql); err != nil {
		w.t.Fatalf("%s: %v", sql[:min(len(sql), 80)], err)
	}
}

// beat writes for a while.
func (w *world) beat(during, every time.Duration) {
	for until := time.Now().Add(during); time.Now().Before(until); time.Sleep(every) {
		w.write("")
	}
}

// lock blocks changes of a target table, but lets it be read.
func (w *world) lock(table string) (unlock func()) {
	w.t.Helper()
	s := testdb.NewSession(w.to)
	sql := "BEGIN; LOCK TABLE " + table + " IN SHARE MODE"
	if w.dst.Engine != "postgres" {
		sql = "LOCK TABLES " + table + " READ"
	}
	if _, err := s.Try(sql); err != nil {
		w.t.Fatal(err)
	}
	return s.Close
}

func (w *world) numbers(n int) string {
	if w.src.Engine == "postgres" {
		return fmt.Sprintf("SELECT n FROM generate_series(1, %d) n", n)
	}
	return fmt.Sprintf("SELECT seq AS n FROM seq_1_to_%d", n)
}

// noise returns 512 bytes of text derived from a number n.
func (w *world) noise() string {
	if w.src.Engine == "postgres" {
		return "repeat(md5(s.n::text), 16)"
	}
	return "REPEAT(MD5(s.n), 16)"
}

// catchUp waits until the target has everything, and the stream reports so.
func (w *world) catchUp() {
	w.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		w.mu.Lock()
		left := slices.ContainsFunc(w.events, func(e *event) bool { return e.seen.IsZero() })
		w.mu.Unlock()
		if !left {
			break
		}
		if time.Since(begun) > patience {
			testdb.OnClock(w.t)
			w.t.Fatalf("the target does not catch up: %+v", w.last())
		}
	}
	w.await("end", func(m sample) bool { return m.state == "idle" && m.behind == 0 })
}

// steady checks whether a full queue was emptied as it was applied.
func (w *world) steady() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	stalled := 0
	for i := 1; i < len(w.samples); i++ {
		a, b := w.samples[i-1], w.samples[i]
		if stalled++; b.full == 0 || b.state != "applying" || b.applied > a.applied || b.rows > 0 || b.behind > a.behind {
			stalled = 0
		}
		if stalled > 3 {
			w.t.Errorf("at %v the queue was full, and nothing was applied for %d samples", b.at, stalled)
		}
	}
}

// truth returns the bounds of the lag at a moment.
func (w *world) truth(at time.Time) (least, most time.Duration) {
	for _, e := range w.events {
		if e.after.Before(at) && !e.missing.Before(at) {
			least = max(least, at.Sub(e.after))
		}
		if e.before.Before(at) && (e.seen.IsZero() || e.seen.After(at)) {
			most = max(most, at.Sub(e.before))
		}
	}
	return least, most
}

// compare compares everything reported with everything seen.
func (w *world) compare() {
	t := w.t
	t.Helper()
	if err := w.process.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = w.process.Wait() // it was interrupted
	w.mu.Lock()
	defer w.mu.Unlock()
	worst := time.Duration(0)
	check := func(what string, at time.Time, state string, behind float64) {
		for _, g := range w.gone {
			back := at.Sub(g[1]) // a busy machine takes its time to reconnect; a stream that says it is idle is connected
			if at.After(g[0]) && (back < slack || back < 5*slack && state != "idle") {
				return
			}
		}
		least, most := w.truth(at)
		said := time.Duration(behind * float64(time.Second))
		worst = max(worst, least-said, said-most)
		if said < least-slack || said > most+slack || least > slack && state == "idle" {
			t.Errorf("%s at %s: %s, %.1f s behind; it was %.1f to %.1f s", what, at.Format("15:04:05.0"), state, behind, least.Seconds(), most.Seconds())
		}
	}
	for _, m := range w.samples {
		check("metrics", m.at, m.state, m.behind)
		for i, p := range w.phases {
			ends := i+1 < len(w.phases) && m.at.After(w.phases[i+1].at.Add(-2*interval))
			if m.at.After(p.at) && !ends && !slices.Contains(p.states, m.state) {
				t.Errorf("at %s the stream was %s, not %s", m.at.Format("15:04:05.0"), m.state, p.states)
			}
		}
	}
	rows := 0
	table, number := "tidemark.applymon", "extract(epoch FROM monitor_time)"
	if w.dst.Engine != "postgres" {
		table, number = "tidemark_applymon", "UNIX_TIMESTAMP(CONVERT_TZ(monitor_time, '+00:00', @@session.time_zone))"
	}
	for line := range strings.Lines(testdb.Query(t, w.to, "SELECT "+number+", lag, state FROM "+table)) {
		f := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		at, err1 := strconv.ParseFloat(f[0], 64)
		behind, err2 := strconv.ParseFloat(f[1], 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q", line)
		}
		check("monitor table", time.UnixMicro(int64(at*1e6)), f[2], behind)
		rows++
	}
	inexact := 0.0
	if w.src.Engine == "mariadb" {
		inexact = 1
	}
	if got := w.samples[len(w.samples)-1].inexact; got != inexact || strings.Contains(w.errOut.String(), "; +-1 s") != (inexact > 0) {
		t.Errorf("latencies are said to be exact within %g s, not %g\n%s", got, inexact, w.errOut)
	}
	t.Logf("%d samples, %d rows; at worst %.1f s off", len(w.samples), rows, worst.Seconds())
	if rows < 5 || len(w.samples) < 10 {
		t.Errorf("%d samples, %d rows of the monitor table", len(w.samples), rows)
	}
}
