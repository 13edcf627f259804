package job

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
func (r *replicating) moveTarget(ctx context.Context) error {
	was, is := r.stream.Target, tidemark.MaskURL(r.spec.Copy.Target)
	if was == is {
		return nil
	}
	refuse := func(kind tidemark.Kind, text, hint string) error {
		return tidemark.Errorf(kind, r.spec.Half.Verb(), "stream "+r.spec.Name, text, hint)
	}
	if scheme := func(url string) bool { return strings.HasPrefix(url, "postgres") }; scheme(was) != scheme(is) {
		return refuse(tidemark.Invalid, "leads into "+was+", and a target of another kind is another one", "Begin a stream to it with another --name.")
	}
	r.stream.Target = is
	if r.spec.Half == CaptureHalf {
		return nil // it does not see the target
	}
	if err := r.openTarget(ctx); err != nil {
		return err
	}
	defer r.close()
	f, ok := r.tgt.(follower)
	if !ok {
		return refuse(tidemark.Unsupported, r.tgt.Name()+" does not tell how far streams were applied", "")
	}
	applied, err := f.Applied(ctx)
	if err != nil {
		return err
	}
	p, there := applied[r.spec.Name]
	first, last := r.stream.FirstEpoch, r.stream.Epoch
	switch {
	case !there:
		return refuse(tidemark.NotFound, "was never applied to "+is, fmt.Sprintf("It has to be the database that was %s, with all that is in it. To fill another one begin anew: --anew, or another --name.", was))
	case last == 0:
		return refuse(tidemark.Invalid, "has not run since this catalogue notes what its target is known by", "Let it run once with the target's old URL, "+was+".")
	case p.Epoch < first || p.Epoch > last+1: // one that was begun just before its process died is not noted
		return refuse(tidemark.Invalid, "is another one in "+is+", of the same name", "Give the URL of the database that was "+was+".")
	}
	r.env.Watch.Event(Event{Time: r.env.now(), Kind: "state", Object: "stream " + r.spec.Name, Text: "its target, which was " + was + ", is " + is + " now"})
	return nil
}
