// Package archiving shows the progress of a server's log archive: on the screen, in the catalogue
// and to Prometheus. Start with Watch.
package archiving

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/metrics"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/physical"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A Watch shows the progress of an archive on the screen and to Prometheus.
type Watch struct {
	View     screen.View
	Codec    string // the compression while it is not in a hurry
	To       io.Writer
	Repo     *repo.Repo
	Receiver *physical.Receiver
	from     uint64 // where it was at the start
	hurry    bool

	mu       sync.Mutex
	segments int64
	bytes    int64
	failures int64
	damaged  int64
	last     time.Time // when something was archived
	commit   int64     // time of the last commit in it, microseconds
}

// An Event is an event, as JSON.
type Event struct {
	Event     string  `json:"event"` // the event, or "state"
	Time      string  `json:"time"`
	Error     string  `json:"error,omitempty"`
	Connected bool    `json:"connected"`
	Timeline  uint32  `json:"timeline,omitempty"`
	Received  string  `json:"received,omitempty"` // LSN
	Archived  string  `json:"archived,omitempty"`
	Behind    uint64  `json:"behind_bytes"`
	Lag       float64 `json:"lag_seconds"`
	Segments  int64   `json:"segments"`
	Bytes     int64   `json:"bytes"`
	Failures  int64   `json:"failures"`
}

// How far an archive has to be behind a server's log to be in a hurry, and how close to be no
// longer.
const (
	farBehind = 128 << 20
	caughtUp  = 32 << 20
)

// Hurried reports whether the log is to be compressed in the fastest way, and announces changes.
func (w *Watch) Hurried() bool {
	st := w.Receiver.Status()
	behind := st.ServerEnd - min(st.ServerEnd, max(st.Taken, w.from))
	switch {
	case w.from == 0:
		w.from = st.Received // nothing was archived yet
	case !w.hurry && behind > farBehind:
		w.hurry = true
		w.Event("is "+screen.Bytes(int64(behind))+" behind: compressing with s2 until it has caught up", nil)
	case w.hurry && behind < caughtUp:
		w.hurry = false
		w.Event("has caught up: compressing with "+w.Codec, nil)
	}
	return w.hurry
}

func (w *Watch) state() Event {
	st := w.Receiver.Status()
	w.mu.Lock()
	defer w.mu.Unlock()
	return Event{Event: "state", Time: time.Now().UTC().Format(time.RFC3339Nano), Connected: st.Connected, Timeline: st.Timeline,
		Received: wal.FormatLSN(st.Received), Archived: wal.FormatLSN(st.Taken), Behind: st.ServerEnd - min(st.ServerEnd, st.Taken), Lag: st.Lag.Seconds(),
		Segments: w.segments, Bytes: w.bytes, Failures: w.failures}
}

// Work is the progress for the catalogue.
func (w *Watch) Work() catalog.Work {
	out := catalog.Work{Phase: "waiting for the server", Unit: "bytes", Left: -1}
	if w.Receiver.Status().Connected {
		out.Phase = "receiving"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out.Done = w.bytes
	return out
}

// Event prints an event. Errors that are retried are counted.
func (w *Watch) Event(what string, err error) {
	if err != nil {
		w.mu.Lock()
		w.failures++
		w.mu.Unlock()
	}
	if w.View.JSON {
		out := Event{Event: what, Time: time.Now().UTC().Format(time.RFC3339Nano)}
		if w.Receiver != nil {
			out = w.state()
			out.Event = what
		}
		if err != nil {
			out.Error = tidemark.MaskText(err.Error())
		}
		w.print(out)
		return
	}
	if err != nil {
		what += ": " + tidemark.MaskText(err.Error())
	}
	fmt.Fprintf(w.To, "%s %s\n", time.Now().Format(time.DateTime), what)
}

func (w *Watch) print(e Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, _ = fmt.Fprintf(w.To, "%s\n", line) // a reader that is gone does not need it
	}
}

// Kept counts an archived file.
func (w *Watch) Kept(f *tidemark.LogFile) {
	w.mu.Lock()
	w.last = time.Now()
	if f.Whole() && f.Place > 0 {
		w.segments++
		w.bytes += int64(f.Size)
	}
	w.commit = max(w.commit, f.LastCommit)
	if f.Damage != "" {
		w.damaged++
	}
	w.mu.Unlock()
	if f.Damage != "" {
		w.Event("the server's segment "+f.Name+" is damaged, and a recovery would stop in it: "+f.Damage, nil)
	}
}

// Start begins to show the state; stop ends that.
func (w *Watch) Start(addr string) (stop func(), err error) {
	var end func()
	if addr != "" {
		if f, all := metrics.WarnIfPublic(addr); all {
			screen.Warn(w.To, w.View.JSON, f)
		}
		if end, err = w.serve(addr); err != nil {
			return nil, err
		}
	}
	done := make(chan struct{})
	var wait crash.Group
	if w.View.Progress != "none" {
		wait.Go(func() { w.lines(done) })
	}
	return func() {
		close(done)
		wait.Wait()
		if end != nil {
			end()
		}
	}, nil
}

// stateEvery is how often the state is shown.
const stateEvery = 10 * time.Second

func (w *Watch) lines(done <-chan struct{}) {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		e := w.state()
		if w.View.JSON {
			w.print(e)
			continue
		}
		how := ""
		if !e.Connected {
			how = ", not connected"
		}
		fmt.Fprintf(w.To, "%s timeline %d archived up to %s, %s behind, lag %.1f s%s\n", time.Now().Format(time.DateTime), e.Timeline, e.Archived, screen.Bytes(int64(e.Behind)), e.Lag, how)
	}
}
