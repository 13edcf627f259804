package job

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
)

// distinct refuses two ends of which one table would be both source and target, by whatever names their servers were
// reached. Between schemas of one server there is nothing to refuse. A replica or standby and its server may be compared, but
// what is written to one comes to the other: writes says that the target is to be written to.
func distinct(ctx context.Context, op string, src, tgt any, moves []tidemark.Move, writes bool) error {
	k, fold, err := engines.Relate(ctx, src, tgt)
	if err != nil || k == tidemark.Apart || k != tidemark.Same && !writes {
		return err
	}
	read := map[tidemark.TableID]bool{}
	for i := range moves {
		read[fold(moves[i].From.TableID)] = true
	}
	for i := range moves {
		to := moves[i].To.TableID
		switch {
		case !read[fold(to)]:
			continue
		case k != tidemark.Same:
			return ofKin(op, "table "+to.String(), k)
		case moves[i].From.Form == tidemark.LargeObjects:
			return tidemark.Errorf(tidemark.Invalid, op, "large objects", "source and target are the same database",
				"Nothing was changed. Give another database as the target, or leave large objects out.")
		}
		return tidemark.Errorf(tidemark.Invalid, op, "table "+to.String(), "source and target are the same table: both URLs lead to the same server and database",
			"Nothing was changed. Give another server or database as the target, or another schema with --target-schema.")
	}
	return nil
}

// notKin refuses to write to a server that replicates from the source, or feeds it.
func notKin(ctx context.Context, op string, src, tgt any) error {
	k, _, err := engines.Relate(ctx, src, tgt)
	if err == nil && k > tidemark.Same {
		err = ofKin(op, "target", k)
	}
	return err
}

func ofKin(op, object string, k tidemark.Kinship) error {
	what := map[tidemark.Kinship]string{
		tidemark.Standby: "source and target are a server and its own standby: what is written to one comes to the other",
		tidemark.Replica: "the target is a replica of the source: it has from there what would be written to it",
		tidemark.Feeding: "the source is a replica of the target: what is written to the target comes to the source",
		tidemark.Member:  "source and target are nodes of one group: what is written to one comes to the other",
	}[k]
	return tidemark.Errorf(tidemark.Invalid, op, object, what, "Nothing was changed. Give another server or database as the target.")
}

// sameEnds refuses to continue a stream between other ends than before.
func (r *replicating) sameEnds() error {
	s := r.stream
	for _, pair := range [][2]string{{s.Source, r.spec.Copy.Source}, {s.Target, r.spec.Copy.Target}} {
		if pair[0] != tidemark.MaskURL(pair[1]) {
			return tidemark.Errorf(tidemark.Invalid, "replicate", s.Name, fmt.Sprintf("is a stream with %s, not %s", pair[0], tidemark.MaskURL(pair[1])),
				"Give the same source and target as before, or another --name; --source-moved if the source's server was replaced by one of its replicas, --target-moved if the target has another URL now.")
		}
	}
	return nil
}

// freeName refuses a new stream under a name that the target has the progress of already: it would begin where that one
// has come to.
func (r *replicating) freeName(ctx context.Context) error {
	f, ok := r.tgt.(follower)
	if !ok {
		return nil
	}
	applied, err := f.Applied(ctx)
	if _, there := applied[r.spec.Name]; err == nil && there {
		err = tidemark.Errorf(tidemark.Exists, r.spec.Half.Verb(), "stream "+r.spec.Name, "the target has the progress of a stream of that name, of which this catalogue knows nothing",
			"Give the catalogue that knows it (--state), another --name, or --anew to forget that progress and copy again.")
	}
	return err
}

// KeepsLog says whether a source that a URL names keeps its log for a stream that does not run.
func KeepsLog(source string) string {
	if strings.HasPrefix(source, "postgres") {
		return "The source keeps its log until then, or until --remove"
	}
	return "The source does not wait for it: it removes its log when that is as old as its settings say (binlog_expire_logs_seconds)"
}

// forgetCopy removes what a copy before the stream, which was not finished, has noted on the target.
func (r *replicating) forgetCopy(ctx context.Context) error {
	s, err := r.env.Catalog.Stream(ctx, r.record())
	if err != nil || s.State != catalog.StreamCopying {
		return nil // nothing is known of it, or it was finished
	}
	runs, err := r.env.Catalog.Runs(ctx, 200)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.Verb != "copy" || run.Source != tidemark.MaskURL(r.spec.Copy.Source) || run.Target != tidemark.MaskURL(r.spec.Copy.Target) || run.Started.Before(s.Started) || run.State == catalog.Done {
			continue
		}
		if err := r.tgt.Forget(ctx, run.ID, nil); err != nil {
			return err
		}
		if err := engines.DropClaim(ctx, r.tgt, run.ID); err != nil {
			return err
		}
	}
	return nil
}
