package lag

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// TestStanding drives a stream through everything that may delay it, and compares what its metrics
// and monitor tables report at each moment with an outside view: rows written on the source, and
// looked for on the target.
func TestStanding(t *testing.T) {
	for _, c := range []struct {
		name           string
		source, target func(testing.TB) *testdb.Server
		queued, long   bool
	}{
		{"postgres through a queue", ownPostgres, ownMariaDB, true, false},
		{"mariadb", ownMariaDB, ownPostgres, false, false},
		{"postgres", ownPostgres, ownPostgres, false, true},
		{"mariadb through a queue", ownMariaDB, ownMariaDB, true, true},
	} {
		if c.long && !testdb.Long() {
			continue // both kinds of source and of queue are covered above
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := begin(t, c.source(t), c.target(t), c.queued)
			w.busy()
			w.idle()
			w.blocked()
			w.one()
			w.targetAway()
			if c.queued {
				w.full()
			}
			w.sourceAway()
			w.compare()
		})
	}
}

func ownPostgres(tb testing.TB) *testdb.Server { return testdb.OwnPostgres(tb, 15) }
func ownMariaDB(tb testing.TB) *testdb.Server  { return testdb.OwnMariaDB(tb) }

// span is how long a state lasts.
func span() time.Duration {
	if testdb.Long() {
		return 15 * time.Second
	}
	return 4 * time.Second
}

func (w *world) busy() {
	w.state("applying", "idle") // each row arrives before the next sample, or not
	w.beat(span(), 100*time.Millisecond)
	w.catchUp()
}

// idle leaves a source alone: that causes no lag.
func (w *world) idle() {
	w.await("idle", func(m sample) bool { return m.state == "idle" && m.behind == 0 })
	w.state("idle")
	time.Sleep(span())
}

// blocked locks a table of the target for a while, after a quiet period.
func (w *world) blocked() {
	w.state("applying", "idle")
	unlock := w.lock("hb")
	w.beat(span(), 200*time.Millisecond)
	w.await("lag", func(m sample) bool { return m.state == "applying" && m.behind >= span().Seconds()/2 })
	unlock()
	w.catchUp()
}

// one applies a large transaction, which a lock delays.
func (w *world) one() {
	w.state("applying", "idle", "one transaction")
	unlock := w.lock("big")
	w.write(fmt.Sprintf("INSERT INTO big SELECT s.n, 'x' FROM (%s) s", w.numbers(30_000)))
	w.await("one transaction", func(m sample) bool { return m.state == "one transaction" && m.rows >= 30_000 })
	w.says("applying one transaction of 30,001 rows")
	w.beat(span()/2, 200*time.Millisecond)
	unlock()
	w.catchUp()
}

// targetAway kills the target. Changes on the source are still captured if there is a queue.
func (w *world) targetAway() {
	w.state("applying", "idle", "retrying", "connecting")
	w.dst.Kill(w.t)
	w.await("loss", func(m sample) bool { return m.state == "retrying" && m.targetAway == 1 })
	w.says("retrying: target unreachable since")
	captured := w.last().captured
	w.beat(span(), 200*time.Millisecond)
	if w.queued {
		w.await("capture", func(m sample) bool { return m.captured >= captured+5 })
	}
	w.await("lag", func(m sample) bool { return m.state == "retrying" && m.behind >= span().Seconds()/2 })
	w.dst.Restart(w.t)
	w.catchUp()
}

// full lets the queue fill up, and checks whether it is emptied as it is applied.
func (w *world) full() {
	w.state("applying", "idle", "one transaction", "retrying", "connecting")
	unlock := w.lock("big")
	for i := range 6 {
		w.write(fmt.Sprintf("INSERT INTO big SELECT s.n + %d, %s FROM (%s) s", 100_000*(i+1), w.noise(), w.numbers(7000)))
	}
	w.await("full queue", func(m sample) bool { return m.full == 1 })
	w.beat(span()/2, 200*time.Millisecond)
	unlock()
	w.catchUp()
	w.await("room", func(m sample) bool { return m.full == 0 })
	w.steady()
}

// sourceAway kills the source: nobody knows what its log has, or will have.
func (w *world) sourceAway() {
	w.await("idle", func(m sample) bool { return m.state == "idle" })
	w.state("idle", "applying", "retrying", "connecting")
	w.src.Kill(w.t)
	w.writer.Close()
	gone := time.Now()
	w.await("loss", func(m sample) bool { return m.state == "retrying" && m.sourceAway == 1 })
	w.says("retrying: source unreachable since")
	m := w.await("lag", func(m sample) bool { return m.behind >= span().Seconds()/2 })
	if m.state != "retrying" || m.behind > time.Since(gone).Seconds()+slack.Seconds() {
		w.t.Errorf("%+v", m)
	}
	w.unknown(gone, time.Now())
	w.src.Restart(w.t)
	w.unknown(gone, time.Now())
	w.beat(time.Second, 200*time.Millisecond)
	w.catchUp()
}

// TestCommands sends commands to a running stream: each line covers its own interval whatever
// sessions there were, and an unknown table is refused.
func TestCommands(t *testing.T) {
	t.Parallel()
	w := begin(t, testdb.Postgres(t, 15), testdb.MariaDB(t), false)
	for range 200 {
		w.write("")
	}
	w.catchUp()
	w.await("quiet interval", func(m sample) bool { return m.state == "idle" })
	before := len(w.errOut.String())
	testdb.Must(t, "set", "agents=3", "--name", "lag")
	w.await("session", func(m sample) bool { return m.state == "idle" && strings.Contains(w.errOut.String(), "agents=3") })
	for _, args := range [][]string{{"sub", "start", "nobody_has_it", "--name", "lag"}, {"sub", "start", "public.nobody_has_it", "--no-load", "--name", "lag"}} {
		if o := testdb.Run(t, args...); o.Code == 0 || !strings.Contains(o.ErrOut, "nobody_has_it: is no longer on the source") {
			t.Errorf("%s: exit %d\n%s%s", args, o.Code, o.Out, o.ErrOut)
		}
	}
	if out := testdb.Must(t, "sub", "--name", "lag"); strings.Contains(out, "nobody_has_it") {
		t.Errorf("it is listed:\n%s", out)
	}
	testdb.Must(t, "sub", "reload", "big", "--name", "lag")
	w.await("end of the load", func(m sample) bool { return m.state == "idle" })
	lines := 0
	for line := range strings.Lines(w.errOut.String()[before:]) {
		_, rest, _ := strings.Cut(line, "  ")
		var each float64
		if n, _ := fmt.Sscanf(rest, "%f trans/s", &each); n == 1 {
			if lines++; each > 5 {
				t.Errorf("in a quiet interval: %s", line)
			}
		}
	}
	if lines < 2 {
		t.Errorf("%d lines", lines)
	}
}
