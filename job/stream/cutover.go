package stream

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
)

// A CutoverSpec says which stream to end.
type CutoverSpec struct {
	Stream Spec
	Diff   job.DiffSpec
	Fence  bool // make the source read-only first, and end the sessions of others
}

// A Proof is what a cutover has done and found.
type Proof struct {
	Fenced    bool               `json:"fenced"`
	Applied   *job.StreamReport  `json:"applied"`
	Sequences []string           `json:"sequences"` // statements that were run on the target
	Compared  diff.Result        `json:"compared"`
	Findings  []tidemark.Finding `json:"findings,omitempty"`
	Seconds   float64            `json:"seconds"`

	Definitions *define.Result `json:"definitions,omitempty"` // nil: not compared
	Accepted    bool           `json:"definitions_accepted,omitempty"`
}

// Equal reports whether the proof holds: rows are equal, and so are definitions unless they were
// excluded.
func (p *Proof) Equal() bool {
	return p.Compared.Equal && (p.Definitions == nil || p.Definitions.Equal || p.Accepted)
}

// A fencer is a source that can be made read-only.
type fencer interface {
	Fence(ctx context.Context) error
}

// Cutover applies everything in the source's log, advances the target's sequences, and compares
// both sides.
func Cutover(ctx context.Context, env job.Env, spec CutoverSpec) (*Proof, error) {
	started := time.Now()
	p := &Proof{Fenced: spec.Fence}
	known, err := env.Catalog.Stream(ctx, spec.Stream.Name)
	if err != nil {
		var aerr error
		if known, aerr = env.Catalog.Stream(ctx, RecordOf(spec.Stream.Name, ApplyHalf)); aerr != nil {
			return nil, err // or the stream would begin with a copy
		}
		spec.Stream.Half = Joined
	}
	if spec.Fence {
		r := &stream{env: env, spec: spec.Stream, rec: known}
		moved := r.spec.SourceMoved || r.spec.TargetMoved
		if err := r.sameEnds(); err != nil && !moved { // swapped ends: the target must not become read-only
			return nil, err
		}
		if err := fence(ctx, env, spec.Stream.Copy); err != nil {
			return nil, err
		}
	}
	spec.Stream.Until, spec.Stream.Anew, spec.Stream.Remove = Point{Now: true}, false, false
	_, rep, err := Replicate(ctx, env, spec.Stream)
	if err != nil {
		return nil, err
	}
	p.Applied, p.Sequences = rep.Stream, rep.Sequences
	p.Compared, p.Findings, err = job.Diff(ctx, env, spec.Diff)
	p.Seconds = time.Since(started).Seconds()
	return p, err
}

// fence makes the source read-only, unless it is the target as well.
func fence(ctx context.Context, env job.Env, spec job.CopySpec) error {
	src, tgt, done, err := env.OpenEnds(ctx, spec.Source, spec.Target)
	if err != nil {
		return err
	}
	defer done()
	f, ok := src.(fencer)
	if !ok {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "cutover", Object: tidemark.MaskURL(spec.Source), Err: errors.New("cannot be made read-only by tidemark"), Hint: "Stop everything that writes to it, and leave --fence out."}
	}
	if k, _, err := engines.Relate(ctx, src, tgt); err != nil || k != tidemark.Apart {
		if err == nil && k > tidemark.Same {
			err = job.OfKin("cutover", tidemark.MaskURL(spec.Source), k)
		} else if err == nil {
			err = &tidemark.Error{Kind: tidemark.Invalid, Op: "cutover", Object: tidemark.MaskURL(spec.Source), Err: errors.New("source and target are the same database, which --fence would make read-only"), Hint: "Nothing was changed. Give the source and the target of the stream."}
		}
		return err
	}
	return f.Fence(ctx)
}
