package stream

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// needs checks everything that a stream of these moves needs from the connected databases, before
// it is set up.
func (r *stream) needs(ctx context.Context, moves []tidemark.Move) (out []tidemark.Need, err error) {
	if r.src != nil && r.spec.Role != ApplyHalf {
		if out, err = engines.SourceNeeds(ctx, r.src, r.spec.Name, moves); err != nil {
			return nil, err
		}
		adopts := !r.spec.From.IsZero() && !r.spec.From.Now // the slot from whose log it is to begin
		for i := range out {
			if n := &out[i]; adopts && !n.Met && n.Kind == tidemark.Exists {
				n.Met = true
			}
		}
	}
	if r.tgt == nil {
		return out, nil
	}
	have := &tidemark.Database{}
	if r.spec.NoCopy || r.spec.Copy.Plan.Prep != load.DropTables {
		there := map[tidemark.TableID]bool{}
		for i := range moves {
			there[moves[i].To.TableID] = true
		}
		if have, err = r.tgt.Describe(ctx, func(id tidemark.TableID) bool { return there[id] }); err != nil {
			return nil, err
		}
	}
	more, err := engines.TargetNeeds(ctx, r.tgt, r.spec.Name, moves, have)
	return append(out, more...), err
}

// needed refuses to begin a stream that lacks something, and gives the other findings.
func (r *setup) needed(ctx context.Context, moves []tidemark.Move) (findings []tidemark.Finding, err error) {
	needs, err := r.needs(ctx, moves)
	if err == nil {
		err = tidemark.FirstUnmet(r.spec.Role.Verb(), needs)
	}
	for i := range needs {
		if n := &needs[i]; !n.Met && n.Severity == tidemark.Warning {
			findings = append(findings, n.Finding())
		}
	}
	return findings, err
}

// CheckOf gives the function by which Check finds what a stream needs on both sides.
func CheckOf(env job.Env, spec Spec) func(ctx context.Context, c *job.Checked, src, tgt job.Database) error {
	return func(ctx context.Context, c *job.Checked, src, tgt job.Database) error {
		return (&stream{env: env, spec: spec, src: src, shape: src, tgt: tgt}).check(ctx, c)
	}
}

func (r *stream) check(ctx context.Context, c *job.Checked) error {
	var from, to bool
	if r.from, from = r.src.(capture.Source); !from {
		c.Block(&tidemark.Error{Kind: tidemark.Unsupported, Op: "check", Object: r.src.Name(), Err: errors.New("changes cannot be captured from it"), Hint: "Use tidemark copy."})
	}
	if r.to, to = r.tgt.(apply.Target); !to {
		c.Block(&tidemark.Error{Kind: tidemark.Unsupported, Op: "check", Object: r.tgt.Name(), Err: errors.New("changes cannot be applied to it"), Hint: "Use tidemark copy."})
	}
	if !from || !to {
		return nil
	}
	moves, findings, err := r.tables(ctx)
	c.Findings = append(c.Findings, findings...)
	if err != nil {
		c.Block(err)
		return nil
	}
	c.Needs, err = r.needs(ctx, moves)
	return err
}
