package job

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/load"
)

// claims are those of a copy, import or restore to the tables that it fills, held from before it
// inspects the target until its end. The claims of a run that was killed stay on the target,
// visible to every catalogue.
type claims struct {
	tidemark.Claim
	others map[tidemark.TableID][]tidemark.Claimant // whose process is gone
	run    bool                                     // the run itself is claimed
	denied error                                    // the user may not record them: the check of privileges says more
}

// theRun is the claim of a run itself among those to its tables: a run that is evicted loses it.
var theRun tidemark.TableID

// claimTables claims tables for the run, and refuses those that another process is filling now.
func (c *copying) claimTables(ctx context.Context, tables []tidemark.TableID) (renewed bool, err error) {
	if c.claims.Claim == nil {
		if c.claims.Claim, err = c.tgt.Claim(ctx, c.run.ID); err != nil {
			return false, err
		}
		c.claims.others = map[tidemark.TableID][]tidemark.Claimant{}
	}
	others, _, err := c.claims.Take(ctx, tables)
	if err != nil {
		return false, err
	}
	for _, o := range others {
		if _, stream := CutStream(o.Run); o.Live && !stream {
			_ = c.claims.Release(context.WithoutCancel(ctx), c.run.ID, tables) // the other run is the error to report
			return false, filledBy(c.verb, o)
		}
		if !strings.HasPrefix(o.Run, RepairClaim) { // a repair that was killed leaves nothing to do
			c.claims.others[o.Table] = append(c.claims.others[o.Table], o)
		}
	}
	if c.claims.run {
		return false, nil
	}
	_, had, err := c.claims.Take(ctx, []tidemark.TableID{theRun})
	c.claims.run = err == nil
	return had > 0, err
}

func filledBy(op string, o tidemark.Claimant) error {
	return &tidemark.Error{Kind: tidemark.NotEmpty, Op: op, Object: "table " + o.Table.String(), Err: errors.New("run " + o.Run + " is working on it now"), Hint: "Nothing was changed. Wait until that run has ended, or leave its tables out."}
}

// contested refuses what the claims of others to a table forbid: fresh means that the run creates
// it, clear that it drops or empties an existing one.
func (c *copying) contested(table tidemark.TableID, fresh, clear bool) error {
	for _, o := range c.claims.others[table] {
		stream, ok := CutStream(o.Run)
		switch {
		case ok && clear:
			return &tidemark.Error{Kind: tidemark.NotEmpty, Op: "plan", Object: "table " + table.String(), Err: errors.New("stream " + stream + " applies changes to it, but this run would empty or drop it"), Hint: "Nothing was changed. Leave the table out, or, if nobody needs the stream, remove it first: tidemark replicate --remove --name " + stream + "."}
		case !ok && !fresh:
			return &tidemark.Error{Kind: tidemark.NotEmpty, Op: "plan", Object: "table " + table.String(), Err: errors.New("belongs to run " + o.Run + ", which did not finish: it may lack rows and keys"), Hint: "Nothing was changed. Resume that run (tidemark copy --resume " + o.Run + ") with the catalogue that has it (--state), or start again with --prep drop."}
		}
	}
	return nil
}

// evict ends the claims of other runs to a table that this run creates again: they cannot be
// resumed.
func (c *copying) evict(ctx context.Context, table tidemark.TableID) error {
	for _, o := range c.claims.others[table] {
		if _, stream := CutStream(o.Run); stream {
			continue
		}
		err := c.claims.Release(ctx, o.Run, []tidemark.TableID{table, theRun})
		if err == nil {
			err = c.tgt.Forget(ctx, o.Run, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resolveClaims does what contested, and then evict, does for all tables of a plan.
func (c *copying) resolveClaims(ctx context.Context, p *load.Plan) error {
	if len(c.claims.others) == 0 {
		return nil
	}
	clear := map[tidemark.TableID]bool{}
	for _, table := range p.Clear {
		clear[table] = true
	}
	for i := range p.Moves {
		table := p.Moves[i].To.TableID
		if err := c.contested(table, p.Fresh[i], clear[table]); err != nil {
			return err
		}
	}
	for i := range p.Moves {
		if err := c.evict(ctx, p.Moves[i].To.TableID); err != nil {
			return err
		}
	}
	return nil
}

// RepairClaim is the prefix of repairs among claims. A stream may run beside them.
const RepairClaim = "repair "

// ByTable orders tables, so that two runs claim them in one order.
func ByTable(a, b tidemark.TableID) int {
	return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
}

// CutStream gives the stream's name, if the claim belongs to a stream.
func CutStream(run string) (name string, ok bool) {
	return strings.CutPrefix(run, tidemark.StreamClaim)
}

// renewClaims renews the claims of a run that is resumed.
func (c *copying) renewClaims(ctx context.Context, tables []tidemark.TableID) error {
	state := c.run.State
	had, err := c.claimTables(ctx, tables)
	if err == nil && !had && state != catalog.Incomplete {
		c.giveUp(ctx, true)
		err = &tidemark.Error{Kind: tidemark.Lost, Op: "resume", Object: c.run.ID, Err: errors.New("the target has no traces of this run any more: another run has replaced its tables, or its markers were removed"), Hint: "Start a new copy, with --prep drop for existing tables."}
	}
	return err
}

// giveUp ends the claims: for good, or until the run is resumed.
func (c *copying) giveUp(ctx context.Context, forGood bool) {
	if c.claims.Claim == nil {
		return
	}
	if forGood {
		if err := c.claims.Drop(context.WithoutCancel(ctx)); err != nil {
			c.env.Event(Event{Kind: "retry", Object: "claims", Text: "could not be removed", Error: err.Error()})
		}
	}
	c.claims.Close()
	c.claims.Claim = nil
}

// Targets lists the tables that moves fill.
func Targets(moves []tidemark.Move) []tidemark.TableID {
	out := make([]tidemark.TableID, 0, len(moves))
	for i := range moves {
		if moves[i].From.Form != tidemark.LargeObjects {
			out = append(out, moves[i].To.TableID)
		}
	}
	slices.SortFunc(out, ByTable)
	return slices.Compact(out)
}

// claimTables keeps copies out of the tables that are being repaired. If the user may not create
// the table of claims, they are not kept out.
func (r *repairing) claimTables(ctx context.Context) (release func(), err error) {
	c, err := r.tgt.Claim(ctx, RepairClaim+catalog.NewRunID())
	if err != nil {
		return nil, err
	}
	release = func() {
		_ = c.Drop(context.WithoutCancel(ctx)) // what remains belongs to no process, and is harmless
		c.Close()
	}
	others, _, err := c.Take(ctx, r.tables)
	if tidemark.KindOf(err) == tidemark.Forbidden {
		return release, nil
	}
	for _, o := range others {
		if _, stream := CutStream(o.Run); o.Live && !stream && err == nil {
			err = filledBy("repair", o)
		}
	}
	if err != nil {
		release()
	}
	return release, err
}
