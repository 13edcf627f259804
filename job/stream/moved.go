package stream

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// moveTarget takes over another URL of the target. Wrong rows would be the end of it if that were
// another database; so the progress that is there has to be the stream's own: of an epoch between the
// first and the last one that the catalogue has noted. The first is a time in microseconds, so
// that another stream of the name has none of them. An earlier state of the target (a replica that
// was behind, a backup) will do: its progress is as old as its rows, and if source or queue have forgotten what it
// lacks, they say so.
func (r *setup) moveTarget(ctx context.Context) error {
	was, is := r.rec.Target, tidemark.MaskURL(r.spec.Copy.Target)
	if was == is {
		return nil
	}
	if scheme := func(url string) bool { return strings.HasPrefix(url, "postgres") }; scheme(was) != scheme(is) {
		return r.refuse(tidemark.Invalid, "leads into "+was+", and a target of another kind is another one", "Begin a stream to it with another --name.")
	}
	r.rec.Target = is
	if r.spec.Half == CaptureHalf {
		return nil // it does not see the target
	}
	if err := r.openTarget(ctx); err != nil {
		return err
	}
	defer r.close()
	f, ok := r.tgt.(progressSource)
	if !ok {
		return r.refuse(tidemark.Unsupported, r.tgt.Name()+" does not tell how far streams were applied", "")
	}
	applied, err := f.Applied(ctx)
	if err != nil {
		return err
	}
	p, there := applied[r.spec.Name]
	first, last := r.rec.FirstEpoch, r.rec.Epoch
	switch {
	case !there:
		return r.refuse(tidemark.NotFound, "was never applied to "+is, fmt.Sprintf("It has to be the database that was %s, with all that is in it. To fill another one begin anew: --anew, or another --name.", was))
	case last == 0:
		return r.refuse(tidemark.Invalid, "has not run since this catalogue notes what its target is known by", "Let it run once with the target's old URL, "+was+".")
	case p.Epoch < first || p.Epoch > last+1: // one that was begun just before its process died is not noted
		return r.refuse(tidemark.Invalid, "is another one in "+is+", of the same name", "Give the URL of the database that was "+was+".")
	}
	r.announce("state", "its target, which was "+was+", is "+is+" now")
	return nil
}
