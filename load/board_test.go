package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// A world does a board's work with workers that fail as the test specifies, and records the events
// in order.
type world struct {
	mu      sync.Mutex
	log     []string
	left    []int
	rows    int
	fails   map[int]int     // range: transient failures to come
	broken  map[string]bool // objects that cannot be created
	made    map[string]bool
	problem string

	waited, connected bool // the finisher that waits for a connection: it did, and it has one
}

func (w *world) fault(format string, args ...any) {
	if w.problem == "" {
		w.problem = fmt.Sprintf(format, args...)
	}
}

func (w *world) reader(b *board, lane int) func(context.Context, *flow.Clock) error {
	return func(ctx context.Context, c *flow.Clock) error {
		for {
			tasks, err := b.nextRanges(ctx, c, lane)
			if err != nil || len(tasks) == 0 {
				return err
			}
			if w.splits(tasks) {
				b.apart(tasks)
				continue
			}
			for _, t := range tasks {
				w.move(b, t)
			}
		}
	}
}

// splits reports whether a bundle fails as a whole.
func (w *world) splits(tasks []*task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	moves := map[int]bool{}
	for _, t := range tasks {
		if len(tasks) > 1 && (t.alone || moves[t.r.Move]) {
			w.fault("range %d is in a bundle again, or with another of its table", t.r.ID)
		}
		moves[t.r.Move] = true
	}
	return len(tasks) > 1 && slices.ContainsFunc(tasks, func(t *task) bool { return w.fails[t.r.ID] > 0 })
}

func (w *world) move(b *board, t *task) {
	time.Sleep(time.Duration(t.r.ID%7) * time.Millisecond)
	w.mu.Lock()
	fail := w.fails[t.r.ID] > 0
	w.fails[t.r.ID]--
	if !fail {
		w.left[t.r.Move]--
		w.rows--
	}
	w.mu.Unlock()
	if fail {
		b.rangeFailed(t, &tidemark.Error{Kind: tidemark.Transient, Op: "copy", Err: errors.New("cut")}, 5*time.Minute)
		return
	}
	full := b.rangeDone(t)
	w.mu.Lock()
	if full && w.left[t.r.Move] != 0 {
		w.fault("table %d is full with %d ranges left", t.r.Move, w.left[t.r.Move])
	}
	w.log = append(w.log, fmt.Sprint(t.r.ID))
	w.mu.Unlock()
}

func (w *world) finisher(b *board) func(context.Context, *flow.Clock) error {
	return func(ctx context.Context, c *flow.Clock) error {
		for {
			some, _, err := b.nextObjects(ctx, c, false, false, 4)
			if err != nil || len(some) == 0 {
				return err
			}
			w.mu.Lock()
			for _, o := range some {
				w.checkBegun(b, o)
			}
			w.mu.Unlock()
			for _, o := range some {
				time.Sleep(3 * time.Millisecond)
				w.mu.Lock()
				bad := w.broken[o.ID]
				w.made[o.ID] = !bad
				w.mu.Unlock()
				err = nil
				if bad {
					err = &tidemark.Error{Kind: tidemark.BadRow, Op: "create", Object: o.ID, Err: errors.New("duplicate")}
				}
				b.objectDone(o, err, time.Millisecond)
			}
		}
	}
}

func (w *world) checkBegun(b *board, o *work) {
	for _, d := range o.Depends {
		if _, known := b.byID[d]; known && !w.made[d] {
			w.fault("%s begins before %s is made", o.ID, d)
		}
	}
	if o.move >= 0 && o.Phase == tidemark.AfterTable && w.left[o.move] > 0 {
		w.fault("%s begins before its table is full", o.ID)
	}
	if o.Phase == tidemark.AfterRows && w.rows > 0 {
		w.fault("%s begins with %d ranges to go", o.ID, w.rows)
	}
}

// TestBoardDoesAllOnceInOrder runs random plans with random failures.
func TestBoardDoesAllOnceInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		moves := rapid.IntRange(0, 5).Draw(rt, "moves")
		p := &Plan{Owner: map[string]int{}}
		w := &world{fails: map[int]int{}, broken: map[string]bool{}, made: map[string]bool{}}
		for m := range moves {
			p.Moves = append(p.Moves, tidemark.Move{From: &tidemark.Table{}, To: &tidemark.Table{}})
			p.Owner[fmt.Sprintf("s.t%d", m)] = m
			n := rapid.IntRange(0, 6).Draw(rt, "ranges")
			for range n {
				id := len(p.Ranges) + 1
				p.Ranges = append(p.Ranges, tidemark.Range{ID: id, Move: m})
				w.fails[id] = rapid.IntRange(0, 3).Draw(rt, "failures")
			}
			w.left = append(w.left, n)
			w.rows += n
		}
		var objects []tidemark.Object
		for i := range rapid.IntRange(0, 12).Draw(rt, "objects") {
			o := tidemark.Object{ID: fmt.Sprint("o", i), Phase: rapid.SampledFrom([]tidemark.Phase{tidemark.AfterTable, tidemark.AfterRows}).Draw(rt, "phase")}
			o.Kind, o.Heavy = rapid.SampledFrom([]string{"index", "constraint"}).Draw(rt, "kind"), rapid.Bool().Draw(rt, "heavy")
			o.Bytes = rapid.SampledFrom([]int64{0, smallObject, smallObject + 1}).Draw(rt, "bytes")
			if moves > 0 {
				o.Table = tidemark.TableID{Schema: "s", Name: fmt.Sprint("t", rapid.IntRange(0, moves-1).Draw(rt, "table"))}
			}
			for j := range i {
				if rapid.IntRange(0, 4).Draw(rt, "depends") == 0 {
					o.Depends = append(o.Depends, fmt.Sprint("o", j))
				}
			}
			w.broken[o.ID] = rapid.IntRange(0, 9).Draw(rt, "broken") == 0
			objects = append(objects, o)
		}
		most := rapid.SampledFrom([]int{0, 2, mostBundled}).Draw(rt, "bundle")
		synctestRun(t, func() {
			b := newBoard(p, nil, refs(objects), 3)
			b.bundles.most = most
			g := flow.NewGroup(context.Background())
			for lane := range 3 {
				g.Go("Reader", w.reader(b, lane))
			}
			for range 2 {
				g.Go("Finisher", w.finisher(b))
			}
			if err := g.Wait(); err != nil {
				w.fault("ended with %v", err)
			}
			checkEnd(w, b, p, objects)
			checkProgress(w, b)
		})
		if w.problem != "" {
			rt.Fatal(w.problem)
		}
	})
}

// checkProgress compares the counts, which are kept up to date, with the objects themselves.
func checkProgress(w *world, b *board) {
	got := b.progress.now()
	want := Build{Total: len(b.objects)}
	kinds := map[string]int{}
	for _, o := range b.objects {
		kinds[o.Kind]++
		if o.state == built {
			want.Done++
		} else if o.state == broken {
			want.Failed++
		}
		if o.Heavy {
			want.Heavy.Bytes += o.Bytes
		}
	}
	if got.Total != want.Total || got.Done != want.Done || got.Failed != want.Failed || len(got.Running) > 0 || got.Heavy.Largest > 0 ||
		got.Heavy.Bytes != want.Heavy.Bytes || got.Heavy.Done != want.Heavy.Bytes {
		w.fault("progress is %+v at the end, want %+v", got, want)
	}
	for kind, n := range kinds {
		if k := got.Kinds[kind]; k.Total != n || k.Ended != n || k.Running != 0 {
			w.fault("progress of kind %q is %+v, of %d", kind, k, n)
		}
	}
}

func refs(objects []tidemark.Object) []*tidemark.Object {
	return (&Plan{Objects: objects}).after(nil)
}

func synctestRun(t *testing.T, f func()) {
	synctest.Test(t, func(*testing.T) { f() })
}

// checkEnd compares the board's state with a simple count.
func checkEnd(w *world, b *board, p *Plan, objects []tidemark.Object) {
	if len(w.log) != len(p.Ranges) {
		w.fault("%d ranges were done of %d", len(w.log), len(p.Ranges))
	}
	slices.Sort(w.log)
	if n := len(slices.Compact(w.log)); n != len(p.Ranges) {
		w.fault("a range was done twice")
	}
	for _, o := range objects {
		skipped := w.broken[o.ID]
		for _, d := range o.Depends {
			skipped = skipped || !w.made[d]
		}
		if got := b.byID[o.ID].state; skipped != (got == broken) {
			w.fault("%s: state %d, to be skipped: %v", o.ID, got, skipped)
		}
		if w.made[o.ID] && skipped {
			w.fault("%s was made though something it needs is not", o.ID)
		}
	}
}

// TestBoardGivesUpWhenItsTimeIsOut: the run waits for the end of an outage of minutes, whatever
// number of attempts that takes.
func TestBoardGivesUpWhenItsTimeIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &Plan{Moves: make([]tidemark.Move, 1), Ranges: []tidemark.Range{{ID: 1}}}
		w := &world{fails: map[int]int{1: 100}, left: []int{1}, rows: 1, made: map[string]bool{}}
		b := newBoard(p, nil, nil, 1)
		g := flow.NewGroup(t.Context())
		g.Go("Reader", w.reader(b, 0))
		err := g.Wait()
		if took := time.Since(began); tidemark.KindOf(err) != tidemark.Transient || took < 5*time.Minute || took > 5*time.Minute+11*time.Second {
			t.Fatalf("got %v after %s, want the transient error after five minutes", err, took)
		}
	})
}

func TestBoardWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(&Plan{Moves: make([]tidemark.Move, 1), Ranges: []tidemark.Range{{ID: 1}}}, nil, nil, 1)
		if _, err := b.nextRanges(t.Context(), nil, 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.nextRanges(ctx, nil, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
	})
}

// No key is created before its table has its rows, whether tables are defined before their own rows
// or before all rows.
func TestImportFeedsAnOpenBoard(t *testing.T) {
	for name, ahead := range map[string]int{"each before its rows": 1, "all before the rows": 2} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { feedOpenBoard(t, ahead) }) })
	}
}

// feedOpenBoard feeds two tables, of which ahead are defined before rows arrive.
func feedOpenBoard(t *testing.T, ahead int) {
	b := newBoard(&Plan{Owner: map[string]int{}}, nil, nil, 2)
	b.open = true
	w := &world{fails: map[int]int{}, left: []int{3, 3}, rows: 6, made: map[string]bool{}, broken: map[string]bool{}}
	g := flow.NewGroup(t.Context())
	for lane := range 2 {
		g.Go("Reader", w.reader(b, lane))
	}
	g.Go("Finisher", w.finisher(b))
	var full []int
	g.Go("Scanner", func(ctx context.Context, c *flow.Clock) error {
		known := 0
		for m := range 2 {
			for ; known < m+ahead && known < 2; known++ {
				b.addMove(fmt.Sprint("t", known), refs([]tidemark.Object{{ID: fmt.Sprint("key", known), Phase: tidemark.AfterTable, Table: tidemark.TableID{Name: fmt.Sprint("t", known)}}}))
			}
			for i := range 3 {
				done, err := b.addRange(ctx, c, &tidemark.Range{ID: m*3 + i + 1, Move: m}, 1)
				if err != nil {
					return err
				}
				if done >= 0 {
					full = append(full, done)
				}
				time.Sleep(20 * time.Millisecond) // the lanes are faster: a table is empty before it is full
			}
		}
		full = append(full, b.fed(refs([]tidemark.Object{{ID: "fk", Phase: tidemark.AfterRows, Depends: []string{"key0", "key1"}}}))...)
		return nil
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if w.problem != "" {
		t.Fatal(w.problem)
	}
	if len(w.log) != 6 || !w.made["key0"] || !w.made["key1"] || !w.made["fk"] {
		t.Fatalf("ranges %v, objects %v", w.log, w.made)
	}
	if want := []int{0, 1}[2-ahead:]; !slices.Equal(full, want) { // addMove reports the one before it
		t.Fatalf("full are %v, want %v", full, want)
	}
}

// TestBoardSkipsWhatIsDone: a resumed run hands out exactly the ranges that have no mark.
func TestBoardSkipsWhatIsDone(t *testing.T) {
	p := &Plan{Moves: make([]tidemark.Move, 2), Ranges: []tidemark.Range{{ID: 1}, {ID: 2}, {ID: 3, Move: 1}, {ID: 4, Move: 1}}}
	b := newBoard(p, map[int]bool{1: true, 4: true}, nil, 1)
	var ids []int
	for _, task := range b.pending {
		ids = append(ids, task.r.ID)
	}
	if !slices.Equal(ids, []int{2, 3}) || b.rowsLeft != 2 || !slices.Equal(b.left, []int{1, 1}) {
		t.Errorf("ranges %v, %d left, %v of each table", ids, b.rowsLeft, b.left)
	}
}

// TestIncomplete: a run that has left out a table, or could not build an object, is not complete.
func TestIncomplete(t *testing.T) {
	table, object := Failed{Object: tidemark.Object{ID: "table a"}, Error: "x"}, Failed{Object: tidemark.Object{ID: "index b"}, Error: "y"}
	for _, c := range []struct {
		rejected []Failed // before the rows
		failures []Failed
		out      map[int]bool
		want     string
	}{
		{nil, nil, nil, ""},
		{[]Failed{table}, nil, nil, "1 table is rejected; all else is copied"},
		{nil, []Failed{table}, map[int]bool{0: true}, "1 table is rejected; all else is copied"},
		{nil, []Failed{object}, nil, "all rows are copied, but 1 object could not be created"},
		{[]Failed{table}, []Failed{table, object}, map[int]bool{0: true}, "2 tables are rejected, and 1 object could not be created; all else is copied"},
	} {
		b := newBoard(&Plan{}, nil, nil, 1)
		b.failures, b.rejected = c.failures, c.out
		err := (&Run{plan: &Plan{Rejected: c.rejected}, board: b}).incomplete()
		if (err == nil) != (c.want == "") || err != nil && (tidemark.KindOf(err) != tidemark.Incomplete || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, %v, want %q: %v", tidemark.KindOf(err), err, c.want, c)
		}
	}
}
