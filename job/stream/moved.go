package stream

import (
	"context"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// moveTarget takes over another URL of the target. If that were another database, its rows would be
// wrong; so its progress must be the stream's own: of an epoch between the first and the last one
// that the catalogue has recorded. The first is a time in microseconds, so that another stream of
// this name has none of them. An earlier state of the target (a replica that was behind, a restored
// backup) works: its progress is as old as its rows, and if source or queue no longer have what it
// lacks, they report that.
func (r *setup) moveTarget(ctx context.Context) error {
	was, is := r.rec.Target, tidemark.MaskURL(r.spec.Copy.Target)
	if was == is {
		return nil
	}
	if engine.OfURL(was).Family != engine.OfURL(is).Family {
		return r.refuse(tidemark.Invalid, "has the target "+was+", and a stream cannot move to another engine", "Start a new stream with another --name.")
	}
	r.rec.Target = is
	if r.spec.Role == CaptureHalf {
		return nil // it does not connect to the target
	}
	if err := r.openTarget(ctx); err != nil {
		return err
	}
	defer r.close()
	f, ok := r.tgt.(progressSource)
	if !ok {
		return r.refuse(tidemark.Unsupported, r.tgt.Name()+" does not report how far streams were applied", "")
	}
	applied, err := f.Applied(ctx)
	if err != nil {
		return err
	}
	p, there := applied[r.spec.Name]
	first, last := r.rec.FirstEpoch, r.rec.Epoch
	switch {
	case !there:
		return r.refuse(tidemark.NotFound, "was never applied to "+is, fmt.Sprintf("Name the database that was %s, with all its contents. To fill another one, start again with --anew, or with another --name.", was))
	case last == 0:
		return r.refuse(tidemark.Invalid, "has not run since the catalogue began to record the identity of its target", "Run it once with the target's old URL, "+was+".")
	case p.Epoch < first || p.Epoch > last+1: // one that began just before its process died is not recorded
		return r.refuse(tidemark.Invalid, "is not the stream of the same name in "+is, "Give the URL of the database that was "+was+".")
	}
	r.announce("state", "its target, which was "+was+", is "+is+" now")
	return nil
}
