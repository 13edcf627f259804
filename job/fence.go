package job

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
)

// A fencer is a source that can be made read-only.
type fencer interface {
	Fence(ctx context.Context) error
	// Unfence is the SQL that undoes Fence.
	Unfence() string
}

// Fence makes the source read-only, unless it is the target as well. It gives the SQL that undoes
// it.
func Fence(ctx context.Context, env Env, spec CopySpec) (undo string, err error) {
	src, tgt, done, err := env.OpenEnds(ctx, spec.Source, spec.Target)
	if err != nil {
		return "", err
	}
	defer done()
	f, ok := src.(fencer)
	if !ok {
		return "", &tidemark.Error{Kind: tidemark.Unsupported, Op: "cutover", Object: tidemark.MaskURL(spec.Source), Err: errors.New("cannot be made read-only by tidemark"), Hint: "Stop everything that writes to it, and leave --fence out."}
	}
	if k, _, err := engines.Relate(ctx, src, tgt); err != nil || k != tidemark.Apart {
		if err == nil && k > tidemark.Same {
			err = OfKin("cutover", tidemark.MaskURL(spec.Source), k)
		} else if err == nil {
			err = &tidemark.Error{Kind: tidemark.Invalid, Op: "cutover", Object: tidemark.MaskURL(spec.Source), Err: errors.New("source and target are the same database, which --fence would make read-only"), Hint: "Nothing was changed. Give the source and the target of the stream."}
		}
		return "", err
	}
	return f.Unfence(), f.Fence(ctx)
}

// NoteCutOver adds to the report of a stream's run that it was a cutover which found both sides
// equal.
func NoteCutOver(report []byte) ([]byte, error) {
	var r Report
	if err := json.Unmarshal(report, &r); err != nil || r.Stream == nil {
		return report, err
	}
	r.Stream.CutOver = true
	return json.Marshal(r)
}

// HasCutOver reports whether NoteCutOver has.
func HasCutOver(report []byte) bool {
	var r Report
	return json.Unmarshal(report, &r) == nil && r.Stream != nil && r.Stream.CutOver
}
