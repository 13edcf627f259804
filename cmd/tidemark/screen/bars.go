package screen

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// maxTableBars is how many tables, and how many objects that are built, get a line each at a time.
const maxTableBars = 8

// barWatcher draws a bar for the whole job, and lines for tables and objects in progress.
type barWatcher struct {
	*quiet
	term *Terminal
	done chan struct{}
	wg   crash.Group

	following chan struct{}
	forecast  forecast
}

func newBars(base *quiet) *barWatcher {
	t, is := base.errOut.(*Terminal)
	if !is {
		t = &Terminal{out: base.errOut, size: func() (int, int) { return 80, 24 }}
		base.errOut = t
	}
	return &barWatcher{quiet: base, term: t}
}

func (w *barWatcher) Running(p job.Progress) {
	w.Stop()
	w.done, w.forecast = make(chan struct{}), forecast{}
	done := w.done
	w.wg.Go(func() {
		every(150*time.Millisecond, done, func() {
			columns, rows := w.term.size()
			t := sum(p)
			w.forecast.update(t, p.Elapsed(), time.Now())
			w.term.Show(frame(columns, rows, t, p.Moving(), w.name, w.forecast, time.Now()))
		})
	})
}

// Event shows what the job does before rows move beside an empty bar.
func (w *barWatcher) Event(e job.Event) {
	if e.Kind != "phase" {
		w.quiet.Event(e)
		return
	}
	w.Stop()
	w.done = make(chan struct{})
	done, begun := w.done, time.Now()
	w.wg.Go(func() {
		every(150*time.Millisecond, done, func() {
			columns, _ := w.term.size()
			w.term.Show([]string{wholeLine(columns-1, forecast{share: -1}), clip(Clock(time.Since(begun))+"  "+e.Text, columns-1)})
		})
	})
}

// name is the table that a move fills.
func (w *barWatcher) name(move int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan != nil && move < len(w.plan.Moves) {
		return w.plan.Moves[move].To.String()
	}
	return fmt.Sprintf("table %d", move)
}

// Following shows lines: a stream has no end for a bar to reach.
func (w *barWatcher) Following(p job.StreamProgress) {
	w.Stop()
	w.following = make(chan struct{})
	done := w.following
	w.wg.Go(func() { follow(w.quiet, p, done) })
}

func (w *barWatcher) Stop() {
	for _, done := range []chan struct{}{w.following, w.done} {
		if done != nil {
			close(done)
		}
	}
	w.wg.Wait()
	if w.done != nil {
		w.term.Show(nil)
	}
	w.following, w.done = nil, nil
}

// frame lays out the display of a job: tables and objects in progress, as many as fit, then the
// whole job in two lines.
func frame(columns, rows int, t tally, moving []load.TableStatus, name func(move int) string, f forecast, now time.Time) []string {
	room := min(maxTableBars, rows-4)
	var out []string
	sort.SliceStable(moving, func(i, j int) bool { return moving[i].Expected > moving[j].Expected })
	for _, x := range moving[:max(0, min(len(moving), room))] {
		out = append(out, tableLine(columns-1, name(x.Move), x))
	}
	for _, b := range t.heavy.Running[:max(0, min(len(t.heavy.Running), room-len(out)))] {
		out = append(out, objectLine(columns-1, b.ID, now.Sub(b.Since)))
	}
	return append(out, wholeLine(columns-1, f), detailLine(columns-1, t, f))
}

// wholeLine is the bar of the whole job, with its progress and ETA.
func wholeLine(columns int, f forecast) string {
	end := ""
	if f.share >= 0 {
		end = fmt.Sprintf("%4d%%", min(int(f.share*100), 99))
	}
	if f.left >= time.Second {
		end += "  ETA " + Clock(f.left)
	}
	line := "all " + bar(columns-len("all ")-len(end), f.share) + end
	return clip(line, columns)
}

// detailLine has as many figures of the whole job as fit, the most important first.
func detailLine(columns int, t tally, f forecast) string {
	line := Clock(f.elapsed)
	var parts []string
	if t.Defined < t.Define {
		parts = append(parts, fmt.Sprintf("definitions %d/%d", t.Defined, t.Define))
	}
	if t.moving() {
		parts = append(parts, Commas(t.Rows)+" rows", Bytes(int64(f.speed))+"/s")
		if t.Tables > 0 {
			parts = append(parts, fmt.Sprintf("tables %d/%d", t.TablesDone, t.Tables))
		}
	}
	sort.SliceStable(t.Phases, func(i, j int) bool { return t.Phases[i].running > 0 && t.Phases[j].running == 0 })
	for _, p := range t.Phases {
		if !t.loading() || p.Done > 0 || p.running > 0 {
			parts = append(parts, p.String())
		}
	}
	if !t.loading() {
		parts = append(parts, Commas(t.Rows)+" rows")
	}
	for _, p := range parts {
		if len(line)+2+len(p) <= columns {
			line += "  " + p
		}
	}
	return clip(line, columns)
}

// tableLine is a table in progress.
func tableLine(columns int, name string, x load.TableStatus) string {
	end := fmt.Sprintf("%14s rows", Commas(x.Rows))
	if columns < 50 {
		return clip(fit(name, columns-len(end))+end, columns)
	}
	share := -1.0
	if x.Expected > 0 {
		share = float64(x.Bytes) / float64(x.Expected)
	}
	of := min(columns*2/5, columns-len(end)-14)
	return clip(fit(name, of)+" "+bar(columns-of-1-len(end), share)+end, columns)
}

// objectLine is an index, key or the like in progress.
func objectLine(columns int, id string, since time.Duration) string {
	end := "  " + Clock(since)
	return clip(fit(id, columns-len(end))+end, columns)
}

// bar is a bar of so many columns; empty if there is no room for one, and without a mark if the
// progress is unknown.
func bar(columns int, share float64) string {
	inner := columns - 2
	switch {
	case inner < 3:
		return strings.Repeat(" ", max(0, columns))
	case share < 0:
		return "[" + strings.Repeat("-", inner) + "]"
	}
	n := min(int(share*float64(inner)), inner)
	if n == inner {
		return "[" + strings.Repeat("=", inner) + "]"
	}
	return "[" + strings.Repeat("=", n) + ">" + strings.Repeat("-", inner-n-1) + "]"
}
