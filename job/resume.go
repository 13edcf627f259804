package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/load"
)

// resume loads an earlier run and finds out what of it is on the target. The marker rows decide,
// not our catalogue, because they were committed with the rows.
func (c *copying) resume(ctx context.Context) error {
	if err := c.reopen(ctx); err != nil {
		return err
	}
	if err := c.reclaim(ctx); err != nil {
		return err
	}
	if c.run.State == catalog.Incomplete {
		l, err := proving{c.tgt, promised(c.p, nil)}.lacking(ctx)
		if err != nil {
			return err
		}
		for _, id := range l.missing {
			delete(c.built, id)
		}
	}
	return c.running(ctx)
}

// reopen takes over the plan of the run that is resumed, and its tables.
func (c *copying) reopen(ctx context.Context) error {
	if err := c.lockRun(ctx, c.verb); err != nil {
		return err
	}
	p, err := load.ReadPlan(c.run.Plan, func(use func([]byte) error) error { return c.env.Catalog.PlanParts(ctx, c.run.ID, use) })
	if err != nil {
		return &tidemark.Error{Kind: tidemark.Bug, Op: "resume", Object: c.run.ID, Err: err}
	}
	c.p, c.run.Plan = p, nil
	if err := Distinct(ctx, c.verb, c.src, c.tgt, c.p.Moves, true); err != nil {
		return err
	}
	if err := c.renewClaims(ctx, Targets(c.p.Moves)); err != nil {
		return err
	}
	return c.clearFirst(ctx)
}

// running records that the run is active again, with its plan.
func (c *copying) running(ctx context.Context) error {
	c.run.State, c.run.Error, c.run.Hint, c.run.PID = catalog.Running, "", "", os.Getpid()
	if err := c.putPlan(ctx, c.env.Catalog.Update); err != nil {
		return err
	}
	c.env.Watch.Planned(c.run.ID, c.p)
	return nil
}

// clearFirst drops or empties what was on the target before the run. The catalogue records when
// that is done: a run that is killed in it must not take what is left for its own.
func (c *copying) clearFirst(ctx context.Context) error {
	if len(c.p.Clear) == 0 {
		return nil
	}
	tables := c.p.Clear
	if c.p.Prep == load.DropTables {
		tables = append(slices.Clip(tables), c.p.Views()...)
	}
	if err := c.tgt.Clear(ctx, tables, c.p.Prep == load.DropTables); err != nil {
		return err
	}
	c.p.Clear = nil
	return c.putPlan(ctx, c.env.Catalog.Update)
}

// putPlan writes the run with its plan as it is now.
func (c *copying) putPlan(ctx context.Context, write func(context.Context, catalog.Run) error) error {
	head, err := c.p.Head()
	if err != nil {
		return err
	}
	run := c.run
	run.Plan, run.Parts = head, c.p.Parts
	return write(ctx, run)
}

// lockRun finds the run to resume and takes its lock. It reads the run's state under the lock: the
// previous holder may have finished the run.
func (c *copying) lockRun(ctx context.Context, verb string) error {
	run, err := c.resumed(ctx, verb)
	if err != nil {
		return err
	}
	if c.lock, err = c.env.Catalog.Lock(run.ID); err != nil {
		return err
	}
	if c.run, err = c.env.Catalog.Run(ctx, run.ID); err != nil {
		return err
	}
	if c.run.Verb != verb {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "resume", Object: run.ID, Err: errors.New("is not " + verbText[verb]), Hint: "tidemark runs lists the runs."}
	}
	if err := c.sameEnds(); err != nil {
		return err
	}
	if err := c.ofNoStream(ctx); err != nil {
		return err
	}
	if c.run.State == catalog.Done {
		// If it was killed as it ended, it may have left its marker rows and its claims.
		c.forget(ctx)
		if err := c.tgt.DropClaim(ctx, c.run.ID); err != nil {
			return err
		}
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "resume", Object: run.ID, Err: errors.New("has already finished"), Hint: "Start a new " + verb + " without --resume."}
	}
	return nil
}

// ofNoStream refuses to resume the copy of a stream except for that stream: the tables would be at
// different log positions.
func (c *copying) ofNoStream(ctx context.Context) error {
	if c.spec.Run == c.run.ID {
		return nil
	}
	streams, err := c.env.Catalog.Streams(ctx)
	for _, s := range streams {
		if s.Copy == c.run.ID && s.State == catalog.StreamCopying {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "resume", Object: c.run.ID, Err: errors.New("is the copy before stream " + s.Name), Hint: "Resume it with the command that started it: tidemark replicate (or apply) with --name " + strings.TrimSuffix(s.Name, "-apply") + "."}
		}
	}
	return err
}

// resumed finds the named run. last is the last run of the same source and target.
func (c *copying) resumed(ctx context.Context, verb string) (catalog.Run, error) {
	if c.spec.Resume != "last" {
		return c.env.Catalog.Run(ctx, c.spec.Resume)
	}
	return c.env.Catalog.LastRun(ctx, verb, tidemark.MaskURL(c.spec.Source), tidemark.MaskURL(c.spec.Target))
}

var verbText = map[string]string{"copy": "the copy of a database", "import": "the import of a dump file", "restore": "the restore of a logical backup"}

// sameEnds refuses to resume between databases other than before.
func (c *copying) sameEnds() error {
	for _, pair := range [][2]string{{c.run.Source, c.spec.Source}, {c.run.Target, c.spec.Target}} {
		if pair[0] != tidemark.MaskURL(pair[1]) {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "resume", Object: c.run.ID, Err: fmt.Errorf("was a copy with %s, not %s", pair[0], tidemark.MaskURL(pair[1])), Hint: "Give the same source and target as before."}
		}
	}
	return nil
}

// reclaim reads the markers and the finished objects. If the source has changed since, a
// half-copied table cannot be completed from another snapshot (rows may have moved between its
// ranges), so it is emptied and read again.
func (c *copying) reclaim(ctx context.Context) error {
	if err := c.finished(ctx); err != nil {
		return err
	}
	c.env.Phase("reading the source's definitions")
	// Describe takes the locks that keep the tables unaltered while they are read.
	if _, err := c.src.Describe(ctx, c.spec.Rules.Wants); err != nil {
		return err
	}
	if c.p.Position.Stamp != "" && c.p.Position.Stamp == c.position.Stamp {
		return nil
	}
	return c.restartPartial(ctx)
}

// finished finds the ranges and the objects that are on the target.
func (c *copying) finished(ctx context.Context) error {
	if err := c.tgt.Begin(ctx, c.run.ID); err != nil {
		return err
	}
	marks, err := c.tgt.Marks(ctx, c.run.ID)
	if err != nil {
		return err
	}
	for _, m := range marks {
		c.done[m.Range] = m.Rows
	}
	return c.finishedObjects(ctx)
}

// finishedObjects finds the objects that are on the target.
func (c *copying) finishedObjects(ctx context.Context) error {
	built, err := c.env.Catalog.Built(ctx, c.run.ID)
	maps.Copy(c.built, built)
	return err
}

// restartPartial deletes what is on the target of tables that are not complete, and splits these
// again in the present snapshot.
func (c *copying) restartPartial(ctx context.Context) error {
	ranges, done := map[int]int{}, map[int]int{}
	last := 0
	for _, r := range c.p.Ranges {
		ranges[r.Move]++
		if _, ok := c.done[r.ID]; ok {
			done[r.Move]++
		}
		last = max(last, r.ID)
	}
	var forget []int
	var clear []tidemark.TableID
	kept := c.p.Ranges[:0:0]
	full := 0
	for _, r := range c.p.Ranges {
		if done[r.Move] == ranges[r.Move] {
			kept = append(kept, r)
			continue
		}
		forget = append(forget, r.ID)
		delete(c.done, r.ID)
	}
	for i := range c.p.Moves {
		if done[i] == ranges[i] {
			full++
			continue
		}
		if to := c.p.Moves[i].To.TableID; done[i] > 0 {
			if c.p.Prep == load.KeepTables && !c.p.Fresh[i] {
				return &tidemark.Error{Kind: tidemark.Lost, Op: "resume", Object: to.String(), Err: errors.New("the source has changed since the run started, so the half-copied table would have to be emptied; but it existed before, and may hold your own rows"), Hint: "Delete the copied rows from it yourself, and start a new copy of the unfinished tables."}
			}
			clear = append(clear, to)
		}
		again, err := c.cutAgain(ctx, i, &last)
		if err != nil {
			return err
		}
		kept = append(kept, again...)
	}
	if len(clear) > 0 {
		if err := c.tgt.Clear(ctx, clear, false); err != nil {
			return err
		}
	}
	if len(forget) > 0 { // nil would mean all
		if err := c.tgt.Forget(ctx, c.run.ID, forget); err != nil {
			return err
		}
	}
	c.p.Ranges = kept
	if full > 0 && full < len(c.p.Moves) {
		c.p.Findings = append(c.p.Findings, tidemark.Finding{Severity: tidemark.Warning, Object: "source",
			Text: fmt.Sprintf("has changed since the run started (position %s, now %s): %d finished tables are from the earlier snapshot, the others are read again from a new one", c.p.Position.Text, c.position.Text, full),
			Hint: "Run tidemark diff, or copy again with --prep drop to have everything from one snapshot."})
	}
	return nil
}

// cutAgain splits the table of a move again. last is the number of the last range so far.
func (c *copying) cutAgain(ctx context.Context, move int, last *int) ([]tidemark.Range, error) {
	c.p.Retarget(move, c.spec.Plan)
	ranges, err := c.src.Split(ctx, &c.p.Moves[move])
	for i := range ranges {
		*last++
		ranges[i].Move, ranges[i].ID = move, *last
	}
	return ranges, err
}
