package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/load"
)

// The copy before a stream reads one view of the source, which is gone once the process was killed. The next process keeps
// the tables that were copied whole. It applies the stream to these alone, up to the log position of a new view, reads
// the other tables from that view, and then builds what is missing. So all tables are at one position whenever the stream
// begins, and a process that is killed on the way leaves what this one has found: tables that are whole at Stream.Place,
// and others.

// A catchUp is the part of a stream that is applied before its copy is resumed.
type catchUp struct {
	kept map[tidemark.TableID]bool // the tables that have their changes applied
	to   uint64                    // what is committed before this log position
}

// resumeCopy resumes the copy before the stream.
func (r *replicating) resumeCopy(ctx context.Context) (string, *Report, error) {
	run, err := catalog.Run{}, error(nil)
	if r.stream.Copy != "" {
		run, err = r.env.Catalog.Run(ctx, r.stream.Copy)
	}
	if run.ID == "" && (err == nil || tidemark.KindOf(err) == tidemark.NotFound) {
		return r.beginAgain(ctx)
	}
	if err != nil {
		return "", nil, err
	}
	r.stream.Place = max(r.stream.Place, run.Position.Place)
	c := &copying{env: r.env, verb: "copy", spec: r.spec.Copy, built: map[string]bool{}, done: map[int]int64{}}
	c.spec.Resume, c.spec.run = run.ID, run.ID
	if c.src, c.tgt, err = r.openCopy(ctx); err != nil {
		return "", nil, err
	}
	defer c.src.Close()
	defer c.tgt.Close()
	defer watchLocks(ctx, r.env, c.src, c.tgt)()
	var rep *Report
	if run.State == catalog.Done {
		rep, err = r.endOfCopy(ctx, run, c.tgt)
	} else {
		defer func() { c.lock.Unlock() }()
		defer c.giveUp(ctx, false)
		rep, err = (&resuming{copying: c, r: r}).do(ctx)
	}
	if err != nil {
		return run.ID, rep, resumes(err, r.spec.Copy.Source)
	}
	r.copied(run.ID, rep)
	return run.ID, rep, r.following(ctx)
}

// beginHalf begins a stream, or the half of it that is this process's.
func (r *replicating) beginHalf(ctx context.Context) (string, *Report, error) {
	return [...]func(context.Context) (string, *Report, error){r.begin, r.beginCapture, r.beginApply}[r.spec.Half](ctx)
}

// copied tells that all rows are there.
func (r *replicating) copied(run string, rep *Report) {
	r.env.Watch.Event(Event{Time: r.env.now(), Kind: "state", Object: "stream " + r.spec.Name, Rows: rep.Rows, Bytes: rep.Bytes, Seconds: rep.Seconds, Text: "copied (run " + run + ")"})
}

// openCopy opens the ends of the copy: the stream has its own.
func (r *replicating) openCopy(ctx context.Context) (Database, Database, error) {
	shape := r.shape
	err := r.openSource(ctx)
	if err == nil {
		err = r.openTarget(ctx)
	}
	src, tgt := r.src, r.tgt
	r.src, r.from, r.tgt, r.to, r.shape = nil, nil, nil, nil, shape
	if err != nil && src != nil {
		src.Close()
	}
	return src, tgt, err
}

// beginAgain begins a stream of which nothing but its name was noted.
func (r *replicating) beginAgain(ctx context.Context) (string, *Report, error) {
	if adopts := !r.spec.From.IsZero() && !r.spec.From.Now; adopts {
		if err := r.env.Catalog.DropStream(ctx, r.record()); err != nil {
			return "", nil, err
		}
	} else if err := r.remove(ctx); err != nil {
		return "", nil, err
	}
	if r.stream.Copy != "" {
		tgt, err := r.env.Open(ctx, r.spec.Copy.Target)
		if err != nil {
			return "", nil, err
		}
		err = engines.DropClaim(ctx, tgt, r.stream.Copy)
		tgt.Close()
		if err != nil {
			return "", nil, err
		}
	}
	r.stream = catalog.Stream{}
	return r.beginHalf(ctx)
}

// endOfCopy cleans up behind a copy that was finished just before its process was killed.
func (r *replicating) endOfCopy(ctx context.Context, run catalog.Run, tgt Database) (*Report, error) {
	if err := tgt.Forget(ctx, run.ID, nil); err != nil {
		return nil, err
	}
	if err := engines.DropClaim(ctx, tgt, run.ID); err != nil {
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

// resumes adds to an error of a copy how it is resumed.
func resumes(err error, source string) error {
	hint := "The same command resumes the copy. " + KeepsLog(source) + "."
	var e *tidemark.Error
	if !errors.As(err, &e) {
		return &tidemark.Error{Op: "replicate", Kind: tidemark.KindOf(err), Err: err, Hint: hint}
	}
	had := e.Hint
	if i := strings.Index(had, "go on with the same command and --resume"); i >= 0 { // that is the copy's own
		had = strings.TrimSuffix(strings.TrimRight(had[:i], " "), "; then")
	}
	if had = strings.TrimRight(had, ". "); had != "" {
		hint = had + ". " + hint
	}
	return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Err: e.Err, Hint: hint}
}

// worthResuming says whether what ended a copy may pass, so that it is resumed; otherwise nobody might ever read the log
// that the source keeps, and it would fill its disk.
func worthResuming(err error) bool {
	switch tidemark.KindOf(err) {
	case tidemark.Cancelled, tidemark.Transient, tidemark.Unreachable, tidemark.Full, tidemark.Incomplete:
		return true
	}
	return false
}

// resuming is the copy of a stream while it is resumed.
type resuming struct {
	*copying
	r    *replicating
	kept []bool // by move: it is whole, and stays
}

func (c *resuming) do(ctx context.Context) (*Report, error) {
	if err := c.claim(ctx, "copy"); err != nil {
		return nil, err
	}
	c.p = &load.Plan{}
	if err := json.Unmarshal(c.run.Plan, c.p); err != nil {
		return nil, tidemark.Errorf(tidemark.Bug, "resume", c.run.ID, err.Error(), "")
	}
	if err := distinct(ctx, c.verb, c.src, c.tgt, c.p.Moves, true); err != nil {
		return nil, err
	}
	if err := c.retake(ctx, targets(c.p.Moves)); err != nil {
		return nil, err
	}
	if err := c.clearFirst(ctx); err != nil {
		return nil, err
	}
	if err := c.finished(ctx); err != nil {
		return nil, err
	}
	c.kept = keepWhole(c.p, c.done, tidemark.Family(c.src.Name()) == "mysql")
	c.tell()
	if slices.Contains(c.kept, false) {
		if err := c.renew(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.running(ctx); err != nil {
		return nil, err
	}
	return c.carryOut(ctx)
}

// keepWhole says of each move whether its rows stay: all of them are on the target, as they were at one log position.
// changesUntold says that the source's log lacks what its foreign keys do.
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
				// What a parent's change did to its rows is not in the log, and the target has no foreign key yet that would do it.
				if changesUntold && f.Acts() {
					drop(i)
				}
				// A foreign key that was on the target before is in force.
				if ref, ok := at[f.Ref]; ok && !p.Fresh[i] && !kept[ref] {
					drop(i)
				}
			}
		}
	}
	return kept
}

// tell says what is kept and what is read again.
func (c *resuming) tell() {
	var again []string
	for i := range c.p.Moves {
		if !c.kept[i] {
			again = append(again, c.p.Moves[i].From.String())
		}
	}
	text := "resumes its copy (run " + c.run.ID + "): all tables have their rows"
	if n := len(c.kept) - len(again); len(again) > 0 {
		shown := again[:min(len(again), 5)]
		text = fmt.Sprintf("resumes its copy (run %s): %d tables are whole and kept; %d are read again from a new view: %s", c.run.ID, n, len(again), strings.Join(shown, ", "))
		if len(again) > len(shown) {
			text += ", ..."
		}
	}
	c.env.Watch.Event(Event{Time: c.env.now(), Kind: "state", Object: "stream " + c.r.spec.Name, Text: text})
}

// renew brings the tables that are kept to a new view of the source, and prepares to read the others from it.
func (c *resuming) renew(ctx context.Context) error {
	if err := c.discard(ctx); err != nil {
		return err
	}
	from := c.src.(capture.Source) // openSource has seen to it
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
		end, err := from.End(ctx) // most of it before the view is there, which the source has to keep
		if err == nil {
			err = c.r.catchUp(ctx, kept, end)
		}
		if err != nil {
			return err
		}
	}
	moves, err := c.look(ctx)
	if err != nil {
		return err
	}
	if c.r.spec.Half == Whole && len(kept) == 0 {
		if err = from.Unhold(ctx, c.r.spec.Name); err == nil { // no table needs what is held
			err = from.Hold(ctx, c.r.spec.Name, moves)
		}
	} else {
		err = from.View(ctx, c.r.spec.Name)
	}
	if err == nil {
		c.position, err = c.src.Freeze(ctx, c.spec.Load.LaneCount())
	}
	if err == nil && len(kept) > 0 {
		err = c.r.catchUp(ctx, kept, c.position.Place)
	}
	if err != nil {
		return err
	}
	c.r.stream.Place = c.position.Place
	if err := c.r.env.Catalog.PutStream(ctx, c.r.stream); err != nil {
		return err
	}
	return c.recut(ctx)
}

// discard forgets and removes the rows of tables that are read again. Their marks go first: a process that is killed
// between the two must not take an empty table for a whole one.
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
			return tidemark.Errorf(tidemark.Lost, "resume", c.p.Moves[i].To.String(), "it was there before the copy and may hold rows of yours, so what the copy has put into it cannot be removed alone",
				"Remove by hand what was copied into it, and begin again with --anew.")
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

// clear empties, or drops, those tables that are there.
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

// buildKeys builds what the tables that are kept lack of keys and indexes, since changes are applied to them now.
func (c *resuming) buildKeys(ctx context.Context) error {
	p := *c.p
	p.Ranges, p.Objects = nil, nil
	for _, o := range c.p.Objects {
		if i, ok := c.p.Owner[o.Table.String()]; ok && c.kept[i] && o.Phase == tidemark.AfterTable && !strings.HasPrefix(o.Kind, "foreign key") {
			p.Objects = append(p.Objects, o)
		}
	}
	run := load.NewRun(c.src, c.tgt, &p, c.copying, c.options(), c.done, c.built)
	if err := run.Do(ctx, c.built); err != nil && tidemark.KindOf(err) != tidemark.Incomplete { // the end of the copy tries them again, and says so
		return err
	}
	return c.finishedObjects(ctx)
}

// look describes the tables that are read again, and notes what they are for the stream.
func (c *resuming) look(ctx context.Context) ([]tidemark.Move, error) {
	r := c.r
	shape, src := r.shape, c.src.(Database)
	r.src, r.shape, r.tgt = src, src, c.tgt
	defer func() { r.src, r.shape, r.tgt = nil, shape, nil }()
	_, moves, err := r.mapped(ctx, r.spec.Copy.Rules.Wants)
	if err == nil {
		moves, _, err = streamable(moves)
	}
	if err != nil {
		return nil, err
	}
	again := map[tidemark.TableID]bool{}
	for i := range c.p.Moves {
		again[c.p.Moves[i].From.TableID] = !c.kept[i]
	}
	fresh := slices.DeleteFunc(slices.Clone(moves), func(m tidemark.Move) bool { return !again[m.From.TableID] })
	if r.spec.Half != ApplyHalf {
		if err := r.lookAt(ctx, fresh); err != nil {
			return nil, err
		}
	}
	subs := &subscriptions{r: r, of: map[tidemark.TableID]*catalog.StreamTable{}}
	for i := range fresh {
		if err := subs.enroll(ctx, &fresh[i]); err != nil {
			return nil, err
		}
	}
	return moves, nil
}

// recut cuts the tables that are read again, as they are in the view. One that was altered since its copy began is made
// anew, and one that is gone is left out.
func (c *resuming) recut(ctx context.Context) error {
	db, err := c.src.Describe(ctx, c.spec.Rules.Wants) // takes the locks that keep the tables as they are
	if err != nil {
		return err
	}
	moves, _, err := applyRules(c.spec.Rules, db, c.src, c.tgt, c.spec.TargetSchema)
	if err != nil {
		return err
	}
	if err := c.redefine(ctx, db, moves); err != nil {
		return err
	}
	last := 0
	for _, r := range c.p.Ranges {
		last = max(last, r.ID)
	}
	c.p.Ranges = slices.DeleteFunc(c.p.Ranges, func(r tidemark.Range) bool { return !c.kept[r.Move] })
	for i := range c.p.Moves {
		if c.kept[i] || find(moves, c.p.Moves[i].From.TableID) == nil {
			continue
		}
		c.p.Retarget(i, c.spec.Plan)
		ranges, err := c.src.Split(ctx, &c.p.Moves[i])
		if err != nil {
			return err
		}
		for _, r := range ranges {
			last++
			r.Move, r.ID = i, last
			c.p.Ranges = append(c.p.Ranges, r)
		}
	}
	c.p.Position = c.position
	return c.env.Catalog.PutRanges(ctx, c.run.ID, c.p.Ranges)
}

func find(moves []tidemark.Move, id tidemark.TableID) *tidemark.Move {
	if i := slices.IndexFunc(moves, func(m tidemark.Move) bool { return m.From.TableID == id }); i >= 0 {
		return &moves[i]
	}
	return nil
}

// redefine replaces what the plan has of tables that were altered.
func (c *resuming) redefine(ctx context.Context, db *tidemark.Database, moves []tidemark.Move) error {
	drop := map[int]bool{}
	for i := range c.p.Moves {
		was := &c.p.Moves[i]
		now := find(moves, was.From.TableID)
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
	objects, _ := c.tgt.Render(db, c.p.Moves)
	for _, o := range objects {
		if altered(o) || o.Phase == tidemark.BeforeRows && !known[o.ID] {
			c.p.Objects = append(c.p.Objects, o)
			delete(c.built, o.ID)
		}
	}
	return nil
}

// sameDefinition compares tables without what the server estimates of them.
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

// catchUp applies the stream to tables that are kept, up to a log position.
func (r *replicating) catchUp(ctx context.Context, kept map[tidemark.TableID]bool, to uint64) error {
	if to <= r.stream.Place {
		return nil
	}
	text := "applies to the tables that are kept what has changed since"
	if r.spec.Half == ApplyHalf {
		text += "; tidemark capture has to run meanwhile"
	}
	r.env.Watch.Event(Event{Time: r.env.now(), Kind: "state", Object: "stream " + r.spec.Name, Text: text})
	queue, shape := r.spec.Queue, r.shape
	r.catching = &catchUp{kept, to}
	r.run.Started = r.env.now()
	if r.spec.Half == Whole {
		r.spec.Queue = directQueue // the queue begins behind it
	}
	defer func() { r.catching, r.spec.Queue, r.shape = nil, queue, shape }()
	for try, since := 0, time.Now(); ; try++ {
		began := time.Now()
		err := r.session(ctx)
		if time.Since(began) > time.Minute {
			try, since = 0, time.Now()
		}
		switch {
		case errors.Is(err, errReached):
			r.stream.Place = to
			return r.env.Catalog.PutStream(ctx, r.stream)
		case errors.Is(err, errAnew) || errors.Is(err, errTry):
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		case tidemark.KindOf(err) == tidemark.Lost:
			return tidemark.Errorf(tidemark.Lost, "replicate", r.spec.Name, "the source no longer has its log from where the copy began, so what was copied cannot be kept: "+err.Error(),
				"Begin again: --anew, with --prep drop for what the copy has left on the target.")
		case !r.passes(err) || time.Since(since) > r.spec.Copy.Load.RetryTime():
			return err
		}
		r.env.Watch.Event(Event{Time: r.env.now(), Kind: "retry", Object: "stream " + r.spec.Name, Error: err.Error()})
		if err := flow.Sleep(ctx, min(500*time.Millisecond<<min(try, 5), 15*time.Second)); err != nil {
			return err
		}
	}
}
