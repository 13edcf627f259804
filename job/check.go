package job

import (
	"cmp"
	"context"
	"errors"
	"sort"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/load"
)

// Checked is the result of Check.
type Checked struct {
	Source   string             `json:"source"` // "postgres 15.18"
	Target   string             `json:"target"`
	Tables   int                `json:"tables"`
	Rows     int64              `json:"rows"`                          // estimate
	Unknown  int                `json:"tables_not_analysed,omitempty"` // whose rows are not in Rows
	Bytes    int64              `json:"bytes"`                         // estimate
	Findings []tidemark.Finding `json:"findings"`
	Needs    []tidemark.Need    `json:"needs,omitempty"`  // of a stream, if that was asked for
	Lobs     []tidemark.LobSize `json:"lobs,omitempty"`   // largest values, by column
	Doubts   []tidemark.Doubt   `json:"doubts,omitempty"` // values that the target does not take, by column
}

// A CheckSpec says what else to check.
type CheckSpec struct {
	// Stream checks what a stream needs on both sides (stream.CheckOf); nil: no stream will follow
	// the copy.
	Stream func(ctx context.Context, c *Checked, src, tgt Database) error
	Lobs   LobLook
	Values ValueLook
}

// Blocked reports whether a copy could not run, or would lose data.
func (c *Checked) Blocked() bool {
	for _, f := range c.Findings {
		if f.Severity == tidemark.Blocker {
			return true
		}
	}
	for i := range c.Needs {
		if n := &c.Needs[i]; !n.Met && n.Severity == tidemark.Blocker {
			return true
		}
	}
	return false
}

// Check finds what would go wrong in a copy, before anything moves. It only reads, on both sides.
// What would stop a copy is a finding here, not an error: Check fails only if it cannot reach a
// database at all.
func Check(ctx context.Context, env Env, spec CopySpec, more CheckSpec) (*Checked, error) {
	src, err := env.Open(ctx, spec.Source)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	tgt, err := env.openTarget(ctx, spec.Target)
	if err != nil {
		return nil, err
	}
	defer tgt.Close()
	db, err := src.Describe(ctx, spec.Rules.Wants)
	if err != nil {
		return nil, err
	}
	out := &Checked{Source: db.Engine + " " + db.Version, Target: tgt.Name(), Findings: spec.Findings}
	for _, end := range []struct {
		role string
		db   interface {
			Preflight(ctx context.Context, role string, db *tidemark.Database) ([]tidemark.Finding, error)
		}
	}{{"source", src}, {"target", tgt}} {
		findings, err := end.db.Preflight(ctx, end.role, db)
		if err != nil {
			return nil, err
		}
		out.Findings = append(out.Findings, findings...)
	}
	moves, findings, err := ApplyRules(spec.Rules, db, src, tgt, spec.TargetSchema)
	out.Findings = append(out.Findings, findings...)
	if err != nil {
		out.Block(err)
		return out, nil
	}
	for _, m := range moves {
		out.Tables++
		out.Rows += max(m.From.Rows, 0)
		if m.From.Rows < 0 && m.From.Form != tidemark.LargeObjects {
			out.Unknown++
		}
		out.Bytes += m.From.Bytes
	}
	if err := Distinct(ctx, "check", src, tgt, moves, true); err != nil {
		out.Block(err)
		out.tidy()
		return out, nil
	}
	if more.Stream != nil {
		near, ok := tgt.(Database)
		if !ok {
			return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "check", Object: spec.Target, Err: errors.New("a stream cannot be checked through a relay"), Hint: "Leave out --relay, or run this beside the target; or leave out --replicate."}
		}
		if err := more.Stream(ctx, out, src, near); err != nil {
			return nil, err
		}
	}
	if err := out.lobs(ctx, src, tgt, moves, &spec, more.Lobs); err != nil {
		return nil, err
	}
	if err := out.doubts(ctx, src, tgt, moves, &spec, more.Values); err != nil {
		return nil, err
	}
	p, err := makePlan(ctx, src, tgt, db, moves, spec, nil, tidemark.Position{})
	if p != nil {
		for _, f := range p.Findings {
			if f.Fails() {
				f.Severity = tidemark.Blocker // the copy runs, and reports what fails
			}
			out.Findings = append(out.Findings, f)
		}
	}
	if err == nil && idle(p) {
		err = nothing("check", db)
	}
	if err == nil {
		findings, err = access(ctx, src, tgt, p)
		out.Findings = append(out.Findings, findings...)
	}
	if err != nil {
		out.Block(err)
	}
	out.tidy()
	return out, nil
}

// readBy lists the tables that a plan reads.
func readBy(p *load.Plan) []tidemark.TableID {
	var read []tidemark.TableID
	for _, r := range p.Ranges {
		id := p.Moves[r.Move].From.TableID
		if r.Part != nil && r.Part.Table.Name != "" {
			id = r.Part.Table // a leaf is read by its own name
		}
		if n := len(read); (n == 0 || read[n-1] != id) && p.Moves[r.Move].From.Form != tidemark.LargeObjects {
			read = append(read, id)
		}
	}
	return read
}

// access checks that the users of both databases have the privileges that the plan needs.
func access(ctx context.Context, src origin, tgt Destination, p *load.Plan) ([]tidemark.Finding, error) {
	var create, fill []tidemark.TableID
	for i, m := range p.Moves {
		if m.From.Form == tidemark.LargeObjects {
			continue
		}
		if p.Fresh[i] {
			create = append(create, m.To.TableID)
		} else {
			fill = append(fill, m.To.TableID)
		}
	}
	var found, more []tidemark.Finding
	var errs [2]error
	var asked crash.Group
	asked.Go(func() { found, errs[0] = src.Access(ctx, readBy(p), nil, nil) })
	asked.Go(func() { more, errs[1] = tgt.Access(ctx, nil, create, fill) })
	asked.Wait()
	return append(found, more...), cmp.Or(errs[:]...)
}

// Block adds an error as a finding.
func (c *Checked) Block(err error) {
	f := tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.KindOf(err), Text: err.Error(), Hint: tidemark.HintOf(err)}
	var e *tidemark.Error
	if errors.As(err, &e) && e.Err != nil {
		f.Object, f.Text = e.Object, e.Err.Error()
	}
	c.Findings = append(c.Findings, f)
}

// tidy sorts the worst findings first and drops duplicates.
func (c *Checked) tidy() {
	sort.SliceStable(c.Findings, func(i, j int) bool { return c.Findings[i].Severity > c.Findings[j].Severity })
	seen := map[tidemark.Finding]bool{}
	kept := c.Findings[:0]
	for _, f := range c.Findings {
		key := f
		key.Hint, key.Kind = "", 0
		if !seen[key] {
			seen[key] = true
			kept = append(kept, f)
		}
	}
	c.Findings = kept
}
