package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/load"
)

// The copy before a stream reads one snapshot of the source, which is gone once the process is
// killed. The next process keeps the tables that were copied completely. It applies the stream to
// these alone, up to the log position of a new snapshot, reads the other tables from that snapshot,
// and then builds what is missing. So all tables are at one position when the stream begins, and a
// process that is killed on the way leaves what this one found: tables that are complete at
// Stream.Place, and others.

// endOfCopy cleans up after a copy that finished just before its process was killed.
func (c *copying) endOfCopy(ctx context.Context, run catalog.Run) (*Report, error) {
	if err := c.tgt.Forget(ctx, run.ID, nil); err != nil {
		return nil, err
	}
	if err := c.tgt.DropClaim(ctx, run.ID); err != nil {
		return nil, err
	}
	rep := &Report{Verb: "copy", Position: run.Position}
	if len(run.Report) > 0 {
		if err := json.Unmarshal(run.Report, rep); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

// A Follower is the stream whose copy is resumed, as the copy needs it.
type Follower interface {
	// CatchUp applies the stream to the tables that are kept, up to a log position.
	CatchUp(ctx context.Context, kept map[tidemark.TableID]bool, to uint64) error
	// Enroll describes what the stream can carry, and records the shape of the tables that are read
	// again.
	Enroll(ctx context.Context, src, tgt Database, again map[tidemark.TableID]bool) ([]tidemark.Move, error)
	// AlignNextSnapshot makes the source keep its log from its next snapshot on. If no tables are
	// kept, the log that it has kept so far is not needed.
	AlignNextSnapshot(ctx context.Context, src Database, moves []tidemark.Move, kept bool) error
	// Aligned notes that the stream begins at a log position: that of the snapshot.
	Aligned(ctx context.Context, place uint64) error
}

// resuming is the copy of a stream while it is resumed.
type resuming struct {
	*copying
	stream Follower
	name   string // of the stream
	kept   []bool // by move: it is complete, and stays
}

// ResumeBefore resumes the copy before a stream. It cleans up after one that finished just before
// its process was killed.
func ResumeBefore(ctx context.Context, env Env, spec CopySpec, run catalog.Run, src, tgt Database, name string, stream Follower) (*Report, error) {
	c := &copying{env: env, verb: "copy", spec: spec, src: src, tgt: tgt, built: map[string]bool{}, done: map[int]int64{}}
	c.spec.Resume, c.spec.Run = run.ID, run.ID
	defer watchLocks(ctx, env, src, tgt)()
	if run.State == catalog.Done {
		return c.endOfCopy(ctx, run)
	}
	defer func() { c.lock.Unlock() }()
	defer c.giveUp(ctx, false)
	return (&resuming{copying: c, stream: stream, name: name}).do(ctx)
}

func (c *resuming) do(ctx context.Context) (*Report, error) {
	if err := c.reopen(ctx); err != nil {
		return nil, err
	}
	if err := c.finished(ctx); err != nil {
		return nil, err
	}
	c.kept = keepWhole(c.p, c.done, engine.Of(c.src.Name()).HidesCascades)
	c.reportKept()
	if slices.Contains(c.kept, false) {
		if err := c.renew(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.running(ctx); err != nil {
		return nil, err
	}
	return c.carryOut(ctx, c.kept)
}

// keepWhole tells for each move whether its rows stay: all of them are on the target, as they were
// at one log position. changesUntold means that the source's log lacks what its foreign keys do.
func keepWhole(p *load.Plan, done map[int]int64, changesUntold bool) []bool {
	all, there := make([]int, len(p.Moves)), make([]int, len(p.Moves))
	for _, r := range p.Ranges {
		all[r.Move]++
		if _, ok := done[r.ID]; ok {
			there[r.Move]++
		}
	}
	kept, at := make([]bool, len(p.Moves)), map[tidemark.TableID]int{}
	for i := range p.Moves {
		kept[i] = there[i] == all[i]
		at[p.Moves[i].From.TableID] = i
	}
	if !slices.Contains(kept, false) {
		return kept
	}
	for again := true; again; {
		again = false
		drop := func(i int) {
			again = again || kept[i]
			kept[i] = false
		}
		for i := range p.Moves {
			from := p.Moves[i].From
			if root, ok := at[from.PartitionOf]; ok && kept[root] != kept[i] { // the stream has both under one name
				drop(root)
				drop(i)
			}
			for _, f := range from.ForeignKeys {
				// What a parent's change did to its rows is not in the log, and the target does not
				// have the foreign key yet that would do it.
				if changesUntold && f.Acts() {
					drop(i)
				}
				// A foreign key that existed on the target before is enforced.
				if ref, ok := at[f.Ref]; ok && !p.Fresh[i] && !kept[ref] {
					drop(i)
				}
			}
		}
	}
	return kept
}

// reportKept reports what is kept and what is read again.
func (c *resuming) reportKept() {
	var again []string
	for i := range c.p.Moves {
		if !c.kept[i] {
			again = append(again, c.p.Moves[i].From.String())
		}
	}
	text := "resumes its copy (run " + c.run.ID + "): all tables have their rows"
	if n := len(c.kept) - len(again); len(again) > 0 {
		shown := again[:min(len(again), 5)]
		text = fmt.Sprintf("resumes its copy (run %s): %s complete and kept, %d to be read again from a new snapshot: %s", c.run.ID, plural(n, "table"), len(again), strings.Join(shown, ", "))
		if len(again) > len(shown) {
			text += ", ..."
		}
	}
	c.env.Event(Event{Kind: "state", Object: "stream " + c.name, Text: text})
}

// renew brings the tables that are kept to a new snapshot of the source, and prepares to read the
// others from it.
func (c *resuming) renew(ctx context.Context) error {
	if err := c.discard(ctx); err != nil {
		return err
	}
	src := c.src.(Database) // as the target is: see ResumeBefore
	kept := map[tidemark.TableID]bool{}
	for i := range c.p.Moves {
		if c.kept[i] {
			kept[c.p.Moves[i].From.TableID] = true
		}
	}
	if len(kept) > 0 {
		if err := c.buildKeys(ctx); err != nil {
			return err
		}
		end, err := src.(capture.Source).End(ctx) // most of it before the snapshot exists, whose log the source has to keep
		if err == nil {
			err = c.stream.CatchUp(ctx, kept, end)
		}
		if err != nil {
			return err
		}
	}
	again := map[tidemark.TableID]bool{}
	for i := range c.p.Moves {
		again[c.p.Moves[i].From.TableID] = !c.kept[i]
	}
	moves, err := c.stream.Enroll(ctx, src, c.tgt.(Database), again)
	if err == nil {
		err = c.stream.AlignNextSnapshot(ctx, src, moves, len(kept) > 0)
	}
	if err == nil {
		c.position, err = c.src.Freeze(ctx, c.spec.Load.LaneCount())
	}
	if err == nil && len(kept) > 0 {
		err = c.stream.CatchUp(ctx, kept, c.position.Place)
	}
	if err != nil {
		return err
	}
	if err := c.stream.Aligned(ctx, c.position.Place); err != nil {
		return err
	}
	return c.recut(ctx)
}

// discard deletes the markers and the rows of tables that are read again. The markers go first: a
// process killed between the two must not take an empty table for a complete one.
func (c *resuming) discard(ctx context.Context) error {
	var forget []int
	some := map[int]bool{}
	for _, r := range c.p.Ranges {
		if _, ok := c.done[r.ID]; ok && !c.kept[r.Move] {
			forget, some[r.Move] = append(forget, r.ID), true
			delete(c.done, r.ID)
		}
	}
	var ids []tidemark.TableID
	for i := range c.p.Moves {
		ours := c.p.Fresh[i] || c.p.Prep == load.Truncate || c.p.Prep == load.MustBeEmpty
		if some[i] && !ours {
			return &tidemark.Error{Kind: tidemark.Lost, Op: "resume", Object: c.p.Moves[i].To.String(), Err: errors.New("it existed before the copy and may hold your own rows, so the copied rows cannot be removed separately"), Hint: "Delete the copied rows from it yourself, and start again with --anew."}
		}
		if !c.kept[i] && ours {
			ids = append(ids, c.p.Moves[i].To.TableID)
		}
	}
	if len(forget) > 0 { // nil would mean all
		if err := c.tgt.Forget(ctx, c.run.ID, forget); err != nil {
			return err
		}
	}
	return c.clear(ctx, ids, false)
}

// clear empties or drops the tables that exist.
func (c *resuming) clear(ctx context.Context, ids []tidemark.TableID, drop bool) error {
	states, err := c.tgt.Inspect(ctx, ids)
	if err != nil {
		return err
	}
	ids = ids[:0]
	for _, s := range states {
		if s.Exists {
			ids = append(ids, s.Table)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return c.tgt.Clear(ctx, ids, drop)
}

// buildKeys builds the missing keys and indexes of the tables that are kept, since changes are
// applied to them now.
func (c *resuming) buildKeys(ctx context.Context) error {
	p := *c.p
	p.Ranges, p.Objects = nil, nil
	for _, o := range c.p.Objects {
		if i, ok := c.p.Owner[o.Table.String()]; ok && c.kept[i] && o.Phase == tidemark.AfterTable && !strings.HasPrefix(o.Kind, "foreign key") {
			p.Objects = append(p.Objects, o)
		}
	}
	run := load.NewRun(c.src, c.tgt, &p, c.copying, c.options(), c.done, c.built)
	if err := run.Do(ctx, c.built); err != nil && tidemark.KindOf(err) != tidemark.Incomplete { // the end of the copy retries them, and reports failures
		return err
	}
	return c.finishedObjects(ctx)
}

// recut splits the tables that are read again, as they are in the snapshot. A table that was
// altered since its copy began is created again, and one that was dropped is left out.
func (c *resuming) recut(ctx context.Context) error {
	db, err := c.src.Describe(ctx, c.spec.Rules.Wants) // takes the locks that keep the tables as they are
	if err != nil {
		return err
	}
	moves, _, err := ApplyRules(c.spec.Rules, db, c.src, c.tgt, c.spec.TargetSchema)
	if err != nil {
		return err
	}
	there := make(map[tidemark.TableID]*tidemark.Move, len(moves))
	for i := range moves {
		there[moves[i].From.TableID] = &moves[i]
	}
	if err := c.redefine(ctx, db, there); err != nil {
		return err
	}
	last := 0
	for _, r := range c.p.Ranges {
		last = max(last, r.ID)
	}
	c.p.Ranges = slices.DeleteFunc(c.p.Ranges, func(r tidemark.Range) bool { return !c.kept[r.Move] })
	for i := range c.p.Moves {
		if c.kept[i] || there[c.p.Moves[i].From.TableID] == nil {
			continue
		}
		ranges, err := c.cutAgain(ctx, i, &last)
		if err != nil {
			return err
		}
		c.p.Ranges = append(c.p.Ranges, ranges...)
	}
	c.p.Position = c.position
	return nil
}

// redefine replaces what the plan has of tables that were altered.
func (c *resuming) redefine(ctx context.Context, db *tidemark.Database, moves map[tidemark.TableID]*tidemark.Move) error {
	drop := map[int]bool{}
	for i := range c.p.Moves {
		was := &c.p.Moves[i]
		now := moves[was.From.TableID]
		if c.kept[i] || now == nil || sameDefinition(was.From, now.From) {
			continue
		}
		now.Lob = was.Lob
		c.p.Moves[i], c.p.Formats[i] = *now, tidemark.CopyText
		if c.p.Fresh[i] {
			drop[i] = true
		}
	}
	if len(drop) == 0 {
		return nil
	}
	ids := make([]tidemark.TableID, 0, len(drop))
	for i := range drop {
		ids = append(ids, c.p.Moves[i].To.TableID)
	}
	if err := c.clear(ctx, ids, true); err != nil {
		return err
	}
	altered := func(o tidemark.Object) bool { // a partition is its table's
		i, ok := c.p.Owner[o.Table.String()]
		return ok && drop[i]
	}
	known := map[string]bool{}
	c.p.Objects = slices.DeleteFunc(c.p.Objects, func(o tidemark.Object) bool {
		known[o.ID] = !altered(o)
		return !known[o.ID]
	})
	c.p.Own(db)
	objects, _, err := render(c.tgt, db, c.p.Moves)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if altered(o) || o.Phase == tidemark.BeforeRows && !known[o.ID] {
			c.p.Objects = append(c.p.Objects, o)
			delete(c.built, o.ID)
		}
	}
	return nil
}

// sameDefinition compares tables without the server's estimates.
func sameDefinition(a, b *tidemark.Table) bool {
	text := func(t tidemark.Table) string {
		t.Rows, t.Bytes = 0, 0
		t.Partitions = slices.Clone(t.Partitions)
		for i := range t.Partitions {
			t.Partitions[i].Rows, t.Partitions[i].Bytes = 0, 0
		}
		out, err := json.Marshal(t)
		if err != nil {
			return err.Error()
		}
		return string(out)
	}
	return text(*a) == text(*b)
}
