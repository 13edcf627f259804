package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
)

// An ender is a target that can forget how far a stream was applied.
type ender interface {
	EndApply(ctx context.Context, queue string) error
}

// remove lets the source release its log, and the target forget what was applied; also what an
// unfinished copy has left there, before the record goes that names it.
func (r *setup) remove(ctx context.Context, copyToo bool) error {
	known, err := r.env.Catalog.Stream(ctx, r.record())
	switch {
	case err == nil:
		err = r.itsOwnEnds(known)
	case tidemark.KindOf(err) == tidemark.NotFound:
		err = nil
	}
	if err == nil {
		err = r.open(ctx)
	}
	if err != nil {
		return err
	}
	defer r.close()
	if known.Name == "" && r.spec.Remove {
		if err := r.isSomewhere(ctx); err != nil {
			return err
		}
	}
	if r.from != nil {
		if err := r.from.DropHold(ctx, r.spec.Name); err != nil {
			return err
		}
	}
	if e, ok := r.to.(ender); ok {
		if err := e.EndApply(ctx, r.spec.Name); err != nil {
			return err
		}
		if err := r.tgt.DropClaim(ctx, tidemark.StreamClaim+r.spec.Name); err != nil {
			return err
		}
		if copyToo {
			r.unmade(ctx, known)
			if err := r.forgetCopy(ctx, known); err != nil {
				return err
			}
		}
	}
	where := known.Queue
	if (known.Name == "" || strings.Contains(where, "://")) && r.spec.Queue != "" {
		where = r.spec.Queue // with its password
	}
	if where != "" && where != directQueue && r.from != nil {
		if err := r.dropQueue(ctx, where, known.Identity, known.Name != ""); err != nil {
			return err
		}
	}
	return r.env.Catalog.DropStream(ctx, r.record())
}

// itsOwnEnds refuses to remove a stream at other ends than its own: its slot, which fills the disk
// of its source, would stay, and nothing would know it any more. A stream that begins anew may have
// another target.
func (r *setup) itsOwnEnds(known catalog.Stream) error {
	is := r.spec.Copy
	switch {
	case r.spec.Role != ApplyHalf && !r.spec.SourceMoved && known.Source != tidemark.MaskURL(is.Source):
		return r.refuse(tidemark.Invalid, fmt.Sprintf("is a stream from %s, not from %s; nothing was removed", known.Source, tidemark.MaskURL(is.Source)), "Give the source of the stream, or another --name. Use --source-moved if a replica has taken the source's place.")
	case r.spec.Role != CaptureHalf && r.spec.Remove && !r.spec.TargetMoved && known.Target != tidemark.MaskURL(is.Target):
		return r.refuse(tidemark.Invalid, fmt.Sprintf("is a stream to %s, not to %s; nothing was removed", known.Target, tidemark.MaskURL(is.Target)), "Give the target of the stream, or another --name. Use --target-moved if the target has a new URL.")
	}
	return nil
}

// isSomewhere checks whether source or target has something of a stream that the catalogue does not
// know: another catalogue may have set it up. Otherwise its name is mistyped, and the slot of the
// stream that was meant would stay.
func (r *setup) isSomewhere(ctx context.Context) error {
	all, err := r.env.Catalog.Streams(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		for _, h := range []Role{Both, CaptureHalf, ApplyHalf} {
			if s.Name == RecordOf(r.spec.Name, h) && (h == Both || r.spec.Role == Both) {
				return r.refuse(tidemark.Invalid, "was set up by tidemark "+h.Verb()+", not by "+r.spec.Role.Verb()+"; nothing was removed", "Use tidemark "+h.Verb()+" --remove, with the same arguments.")
			}
		}
	}
	if r.from != nil && engine.Of(r.src.Name()).KeepsLog {
		if _, err := r.from.Begins(ctx, r.spec.Name, time.Time{}); tidemark.KindOf(err) != tidemark.NotFound {
			return err
		}
	}
	if f, ok := r.tgt.(progressSource); ok {
		if applied, err := f.Applied(ctx); err != nil {
			return err
		} else if _, there := applied[r.spec.Name]; there {
			return nil
		}
	}
	hint := "This catalogue has no stream; name the one that has it with --state."
	if len(names) > 0 {
		hint = tidemark.Meant(r.spec.Name, names) + "This catalogue has " + strings.Join(names, ", ") + " (tidemark status); another one is named with --state."
	}
	nobody := [...]string{"neither the catalogue, the source nor the target", "neither the catalogue nor the source", "neither the catalogue nor the target"}[r.spec.Role]
	return &tidemark.Error{Kind: tidemark.NotFound, Op: "remove", Object: "stream " + r.spec.Name, Err: errors.New(nobody + " knows it; nothing was removed"), Hint: hint}
}
