package load

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// definer is a finisher that first creates what the rows need. It has a connection that many times;
// a patient one waits for it instead.
func (w *world) definer(d *defining, b *board, connects int, patient bool) func(context.Context, *flow.Clock) error {
	return func(ctx context.Context, c *flow.Clock) error {
		for most := 4; ; {
			some, err := d.next(ctx, c, 0, most, true)
			if err != nil {
				return err
			}
			if len(some) == 0 {
				break
			}
			w.mu.Lock()
			for _, o := range some {
				for _, need := range o.Depends {
					if _, known := w.made[need]; known && !w.made[need] {
						w.fault("%s begins before %s is made", o.ID, need)
					}
				}
			}
			w.mu.Unlock()
			connects--
			time.Sleep(time.Duration(len(some)) * time.Millisecond)
			if patient && !w.waited {
				w.waited = true
				time.Sleep(50 * time.Millisecond)
			}
			if connects < 0 {
				d.done(some, some, false, nil)
				most = 0
				continue
			}
			w.mu.Lock()
			for _, o := range some {
				if w.made[o.ID] {
					w.fault("%s is made twice", o.ID)
				}
				w.made[o.ID] = true
			}
			w.connected = w.connected || patient
			w.mu.Unlock()
			d.done(some, nil, patient, nil)
		}
		w.mu.Lock()
		for id, made := range w.made {
			if !made {
				w.fault("a finisher continues without %s", id)
			}
		}
		w.mu.Unlock()
		return w.finisher(b)(ctx, c)
	}
}

// early checks a range that a lane has taken while not everything is created.
func (w *world) early(p *Plan, t *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := fmt.Sprint("table t", t.r.Move)
	made, known := w.made[id]
	if known && !made {
		w.fault("range %d comes before its table", t.r.ID)
	}
	all := true
	for _, made := range w.made {
		all = all && made
	}
	if !w.connected && !all {
		w.fault("range %d, whose lane keeps its connection, comes before the finisher that waits has one", t.r.ID)
	}
	for i := range p.Objects {
		o := &p.Objects[i]
		simple := known && len(p.Moves[t.r.Move].To.Checks) == 0 && strings.Join(tableOf(p, id).Depends, "") == "schema s"
		if o.Phase == tidemark.BeforeRows && !w.made[o.ID] && !simple {
			w.fault("range %d comes before %s, and its table is not plain", t.r.ID, o.ID)
		}
	}
}

func tableOf(p *Plan, id string) *tidemark.Object {
	for i := range p.Objects {
		if p.Objects[i].ID == id {
			return &p.Objects[i]
		}
	}
	return nil
}

// TestRowsComeAfterWhatTheyNeed runs random plans whose tables are created while others are filled.
func TestRowsComeAfterWhatTheyNeed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &Plan{Owner: map[string]int{}, Objects: []tidemark.Object{{ID: "schema s", Kind: "schema"}, {ID: "type s.x", Kind: "type", Depends: []string{"schema s"}}}}
		w := &world{fails: map[int]int{}, broken: map[string]bool{}, made: map[string]bool{}}
		for m := range rapid.IntRange(0, 30).Draw(rt, "moves") {
			to := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: fmt.Sprint("t", m)}}
			if rapid.IntRange(0, 5).Draw(rt, "check") == 0 {
				to.Checks = []tidemark.Check{{Name: "c"}}
			}
			p.Moves = append(p.Moves, tidemark.Move{From: to, To: to})
			p.Owner[to.String()] = m
			if rapid.IntRange(0, 5).Draw(rt, "kept") > 0 {
				needs := rapid.SampledFrom([]string{"schema s", "schema s", "type s.x", "table t0"}[:3+min(m, 1)]).Draw(rt, "needs")
				p.Objects = append(p.Objects, tidemark.Object{ID: fmt.Sprint("table t", m), Kind: "table", Table: to.TableID, Depends: []string{needs}})
			}
			w.left = append(w.left, rapid.IntRange(0, 2).Draw(rt, "ranges"))
			for range w.left[m] {
				p.Ranges = append(p.Ranges, tidemark.Range{ID: 1 + len(p.Ranges), Move: m})
				w.rows++
			}
		}
		for _, o := range p.Objects {
			w.made[o.ID] = false
		}
		p.Objects = append(p.Objects, tidemark.Object{ID: "view", Phase: tidemark.AfterRows})
		connects := []int{1000, rapid.IntRange(0, 5).Draw(rt, "connects"), rapid.IntRange(0, 5).Draw(rt, "connects")}
		synctestRun(t, func() {
			b := newBoard(p, nil, p.after(nil), 3)
			b.bundles.most = mostBundled
			d := newDefining(&Run{plan: p, board: b}, 3, p.Objects, nil)
			b.pending = b.held.hold(b.pending, p.plain())
			g := flow.NewGroup(context.Background())
			for lane := range 3 {
				g.Go("Reader", func(ctx context.Context, c *flow.Clock) error {
					for {
						tasks, err := b.nextRanges(ctx, c, lane)
						if err != nil || len(tasks) == 0 {
							return err
						}
						for _, t := range tasks {
							w.early(p, t)
							w.move(b, t)
						}
					}
				})
			}
			for i, n := range connects {
				g.Go("Finisher", w.definer(d, b, n, i == 0))
			}
			if err := g.Wait(); err != nil {
				w.fault("ended with %v", err)
			}
			if len(w.log) != len(p.Ranges) || b.held.n > 0 || !w.made["view"] {
				w.fault("%d of %d ranges were done, objects %v", len(w.log), len(p.Ranges), w.made)
			}
		})
		if w.problem != "" {
			rt.Fatal(w.problem)
		}
	})
}

// TestDefinitionsEndWithTheFirstError: nobody waits for objects that are not created any more, and
// no rows of other tables begin.
func TestDefinitionsEndWithTheFirstError(t *testing.T) {
	synctestRun(t, func() {
		p := &Plan{Owner: map[string]int{"a": 0}, Moves: []tidemark.Move{{To: &tidemark.Table{TableID: tidemark.TableID{Name: "a"}}}}, Ranges: []tidemark.Range{{ID: 1}},
			Objects: []tidemark.Object{{ID: "schema s"}, {ID: "table a", Kind: "table", Table: tidemark.TableID{Name: "a"}, Depends: []string{"schema s"}}}}
		b := newBoard(p, nil, nil, 1)
		d := newDefining(&Run{plan: p, board: b}, 2, p.Objects, nil)
		b.pending = b.held.hold(b.pending, p.plain())
		some, err := d.next(context.Background(), nil, 0, maxAhead, true)
		if err != nil || len(some) != 1 {
			t.Fatalf("first come %v, %v", some, err)
		}
		other := make(chan error)
		go func() {
			_, err := d.next(context.Background(), nil, 0, maxAhead, true)
			other <- err
		}()
		why := &tidemark.Error{Op: "create"}
		d.done(some, nil, true, why)
		if err := <-other; err != why {
			t.Errorf("the other finisher ends with %v", err)
		}
		if b.held.n != 1 || len(b.pending) > 0 {
			t.Error("rows begin")
		}
	})
}
