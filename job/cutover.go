package job

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/diff"
)

// A CutoverSpec says which stream to bring to its end.
type CutoverSpec struct {
	Stream ReplicateSpec
	Diff   DiffSpec
	Fence  bool // make the source read-only first, and end the sessions of others
}

// A Proof is what a cutover has done and found.
type Proof struct {
	Fenced    bool               `json:"fenced"`
	Applied   *StreamReport      `json:"applied"`
	Sequences []string           `json:"sequences"` // statements that were run on the target
	Compared  diff.Result        `json:"compared"`
	Findings  []tidemark.Finding `json:"findings,omitempty"`
	Seconds   float64            `json:"seconds"`
}

// A fencer is a source that can be made read-only.
type fencer interface {
	Fence(ctx context.Context) error
}

// Cutover applies all that the source's log holds, advances the target's sequences,
// and compares both sides.
func Cutover(ctx context.Context, env Env, spec CutoverSpec) (*Proof, error) {
	started := time.Now()
	p := &Proof{Fenced: spec.Fence}
	if spec.Fence {
		if err := fence(ctx, env, spec.Stream.Copy.Source); err != nil {
			return nil, err
		}
	}
	if _, err := env.Catalog.Stream(ctx, spec.Stream.Name); err != nil {
		if _, aerr := env.Catalog.Stream(ctx, RecordOf(spec.Stream.Name, ApplyHalf)); aerr != nil {
			return nil, err // or the stream would begin with a copy
		}
		spec.Stream.Half = Joined
	}
	spec.Stream.Until, spec.Stream.Anew, spec.Stream.Remove = Point{Now: true}, false, false
	_, rep, err := Replicate(ctx, env, spec.Stream)
	if err != nil {
		return nil, err
	}
	p.Applied, p.Sequences = rep.Stream, rep.Sequences
	p.Compared, p.Findings, err = Diff(ctx, env, spec.Diff)
	p.Seconds = time.Since(started).Seconds()
	return p, err
}

func fence(ctx context.Context, env Env, source string) error {
	src, err := env.Open(ctx, source)
	if err != nil {
		return err
	}
	defer src.Close()
	f, ok := src.(fencer)
	if !ok {
		return tidemark.Errorf(tidemark.Unsupported, "cutover", tidemark.MaskURL(source), "cannot be made read-only from here", "Stop what writes to it, and leave --fence out.")
	}
	return f.Fence(ctx)
}
