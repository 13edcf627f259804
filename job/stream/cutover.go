package stream

import (
	"context"
	"errors"
	"fmt"
	"github.com/tidemarkdb/tidemark/job/stream/point"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/sampled"
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
	Applied   *sampled.Report    `json:"applied"`
	Sequences []string           `json:"sequences"` // statements that were run on the target
	Compared  diff.Result        `json:"compared"`
	Findings  []tidemark.Finding `json:"findings,omitempty"`
	Seconds   float64            `json:"seconds"`

	Definitions *define.Result `json:"definitions,omitempty"` // nil: not compared
	Accepted    bool           `json:"definitions_accepted,omitempty"`

	Remove  []string `json:"remove"`            // commands that end the stream
	Unfence string   `json:"unfence,omitempty"` // SQL that undoes the fence on the source
}

// Equal reports whether the proof holds: rows are equal, and so are definitions unless they were
// excluded.
func (p *Proof) Equal() bool {
	return p.Compared.Equal && (p.Definitions == nil || p.Definitions.Equal || p.Accepted)
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
		spec.Stream.Role = BothViaHalves
	}
	record := RecordOf(spec.Stream.Name, spec.Stream.Role)
	lock, err := alone(env.Catalog, spec.Stream, record) // before the fence
	if err != nil {
		return nil, err
	}
	lock.Unlock()
	p.Remove = removals(spec.Stream)
	if spec.Fence {
		r := &stream{env: env, spec: spec.Stream, rec: known}
		moved := r.spec.SourceMoved || r.spec.TargetMoved
		if err := r.sameEnds(); err != nil && !moved { // swapped ends: the target must not become read-only
			return nil, err
		}
		if p.Unfence, err = job.Fence(ctx, env, spec.Stream.Copy); err != nil {
			return nil, err
		}
	}
	spec.Stream.Until, spec.Stream.Anew, spec.Stream.Remove = point.Point{Now: true}, false, false
	spec.Stream.Copy.Firing = job.FiresNow
	_, rep, err := Replicate(ctx, env, spec.Stream)
	if err != nil {
		return nil, p.stays(err)
	}
	p.Applied, p.Sequences = rep.Stream, rep.Sequences
	p.Compared, p.Findings, err = job.Diff(ctx, env, spec.Diff)
	p.Seconds = time.Since(started).Seconds()
	return p, p.stays(err)
}

// stays adds to an error that the source stays as it was fenced.
func (p *Proof) stays(err error) error {
	var e *tidemark.Error
	if p.Unfence == "" || !errors.As(err, &e) {
		return err
	}
	hint := strings.TrimRight(e.Hint, ". ")
	return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Err: e.Err, Hint: strings.TrimLeft(hint+". The source is read-only; to undo that: "+p.Unfence, ". ")}
}

// removals are the commands that end a stream.
func removals(spec Spec) (out []string) {
	for _, verb := range map[Role][]Role{Both: {Both}, BothViaHalves: {ApplyHalf, CaptureHalf}}[spec.Role] {
		line := fmt.Sprintf("tidemark %s %s %s --name %s --remove", verb.Verb(), tidemark.MaskURL(spec.Copy.Source), tidemark.MaskURL(spec.Copy.Target), spec.Name)
		if spec.Queue != "" {
			line += " --queue " + tidemark.MaskURL(spec.Queue)
		}
		out = append(out, line)
	}
	return out
}

// CutOver notes in the report of a stream's last run that both sides were equal then.
func CutOver(ctx context.Context, cat *catalog.Catalog, name string) error {
	s, err := cat.Stream(ctx, name)
	if tidemark.KindOf(err) == tidemark.NotFound {
		s, err = cat.Stream(ctx, RecordOf(name, ApplyHalf))
	}
	if err != nil {
		return err
	}
	run, err := cat.Run(ctx, s.Run)
	if err != nil {
		return err
	}
	if run.Report, err = job.NoteCutOver(run.Report); err != nil {
		return err
	}
	return cat.Update(ctx, run)
}
