package job

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
)

// Distinct refuses a source and a target that have a table in common, whatever names their servers
// were reached by. Different schemas of one server are fine. A server and its replica or standby
// may be compared, but writes to one reach the other: writes says that the target will be written
// to.
func Distinct(ctx context.Context, op string, src, tgt any, moves []tidemark.Move, writes bool) error {
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
			return OfKin(op, "table "+to.String(), k)
		case moves[i].From.Form == tidemark.LargeObjects:
			return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: "large objects", Err: errors.New("source and target are the same database"), Hint: "Nothing was changed. Name another target database, or leave large objects out."}
		}
		return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: "table " + to.String(), Err: errors.New("source and target are the same table: both URLs name the same server and database"), Hint: "Nothing was changed. Name another server or database as the target, or another schema with --target-schema."}
	}
	return nil
}

// notKin refuses to write to a server that replicates from the source, or to it.
func notKin(ctx context.Context, op string, src, tgt any) error {
	k, _, err := engines.Relate(ctx, src, tgt)
	if err == nil && k > tidemark.Same {
		err = OfKin(op, "target", k)
	}
	return err
}

func OfKin(op, object string, k tidemark.Kinship) error {
	what := map[tidemark.Kinship]string{
		tidemark.Standby: "source and target are a server and its own standby: writes to one reach the other",
		tidemark.Replica: "the target is a replica of the source: it already receives these writes from there",
		tidemark.Feeding: "the source is a replica of the target: writes to the target reach the source",
		tidemark.Member:  "source and target are nodes of one group: writes to one reach the other",
	}[k]
	return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: object, Err: errors.New(what), Hint: "Nothing was changed. Name another server or database as the target."}
}
