package screen

import (
	"fmt"
	"io"
	"sort"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// maxTableBars is how many tables get a bar of their own at a time.
const maxTableBars = 8

// barWatcher draws one bar for the whole job and one for each table under way.
type barWatcher struct {
	*quiet
	bars *mpb.Progress
	done chan struct{}
	wg   crash.Group

	following chan struct{}

	rate  rate
	whole *mpb.Bar
	mine  map[int]*mpb.Bar
	now   tally
	speed float64
	took  time.Duration
	rows  map[int]int64
	lock  sync.Mutex // of now, speed, took and rows, which decorators read
}

func (w *barWatcher) Running(p job.Progress) {
	w.Stop()
	w.bars = mpb.New(mpb.WithOutput(w.errOut), mpb.WithWidth(40), mpb.WithAutoRefresh(), mpb.WithRefreshRate(150*time.Millisecond))
	w.done, w.mine, w.rows = make(chan struct{}), map[int]*mpb.Bar{}, map[int]int64{}
	w.whole = w.bars.AddBar(0, mpb.BarPriority(1<<20),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return fmt.Sprintf("%-32s", "all") })),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return w.summary() })))
	w.wg.Go(func() { every(150*time.Millisecond, w.done, func() { w.draw(p) }) })
}

// Event writes above the bars, so that they are not torn.
func (w *barWatcher) Event(e job.Event) {
	if w.bars == nil {
		w.quiet.Event(e)
		return
	}
	old := w.errOut
	w.mu.Lock()
	w.errOut = io.Writer(w.bars)
	w.mu.Unlock()
	w.quiet.Event(e)
	w.mu.Lock()
	w.errOut = old
	w.mu.Unlock()
}

func (w *barWatcher) draw(p job.Progress) {
	tables, t, took := p.Snapshot(), sum(p), p.Elapsed()
	w.lock.Lock()
	w.now, w.took, w.speed = t, took, w.rate.of(t.Bytes-t.earlier, took)
	for _, x := range tables {
		w.rows[x.Move] = x.Rows
	}
	w.lock.Unlock()
	w.whole.SetTotal(max(t.Total, 1), false)
	w.whole.SetCurrent(t.Done)
	sort.SliceStable(tables, func(i, j int) bool { return tables[i].Expected > tables[j].Expected })
	for _, x := range tables {
		bar := w.mine[x.Move]
		switch {
		case bar == nil && x.State == load.FullLoad && len(w.mine) < maxTableBars:
			w.mine[x.Move] = w.tableBar(x)
		case bar != nil && x.State != load.FullLoad:
			bar.SetTotal(x.Bytes, true)
			delete(w.mine, x.Move)
		case bar != nil:
			bar.SetTotal(max(x.Expected, x.Bytes+1), false)
			bar.SetCurrent(x.Bytes)
		}
	}
}

func (w *barWatcher) tableBar(x load.TableStatus) *mpb.Bar {
	name := fmt.Sprintf("table %d", x.Move)
	if w.plan != nil && x.Move < len(w.plan.Moves) {
		name = w.plan.Moves[x.Move].To.String()
	}
	move := x.Move
	// A bar that is made with a total completes by itself, and heeds no SetTotal.
	return w.bars.AddBar(0, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return fmt.Sprintf("%-32.32s", name) })),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			w.lock.Lock()
			defer w.lock.Unlock()
			return fmt.Sprintf("%13s rows", Commas(w.rows[move]))
		})))
}

func (w *barWatcher) summary() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	t := w.now
	s := fmt.Sprintf("%13s rows  %s/s", Commas(t.Rows), Bytes(int64(w.speed)))
	if t.Tables > 0 {
		s += fmt.Sprintf("  tables %d/%d", t.TablesDone, t.Tables)
	}
	if t.Objects > 0 {
		s += fmt.Sprintf("  keys %d/%d", t.Built, t.Objects)
	}
	if left := t.Total - t.Done; left > 0 && w.speed > 0 {
		s += "  ETA " + Clock(time.Duration(float64(left)/w.speed*float64(time.Second)))
	}
	return s + "  " + Clock(w.took)
}

// Following shows lines: a stream has no end that a bar could come to.
func (w *barWatcher) Following(p job.StreamProgress) {
	w.Stop()
	w.following = make(chan struct{})
	w.wg.Go(func() { follow(w.quiet, p, w.following) })
}

func (w *barWatcher) Stop() {
	if w.following != nil {
		close(w.following)
		w.wg.Wait()
		w.following = nil
	}
	if w.bars == nil {
		return
	}
	close(w.done)
	w.wg.Wait()
	for _, bar := range w.mine {
		bar.Abort(true)
	}
	w.whole.SetTotal(-1, true)
	w.bars.Wait()
	w.bars = nil
}
