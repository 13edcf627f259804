package stream

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/described"
)

// A Role is what a process does of a stream: both halves, or one. Two halves share a queue that
// both can reach.
type Role int

const (
	Both          Role = iota // in one process
	CaptureHalf               // reads the source's log into the queue, and does not connect to the target
	ApplyHalf                 // applies the queue, and connects to the source only for the copy before
	BothViaHalves             // both, after two processes have done it: for the cutover
)

// Verb is the command of a role.
func (r Role) Verb() string { return [...]string{"replicate", "capture", "apply", "replicate"}[r] }

// name is what samples call a process of a role; "" does all.
func (r Role) name() string {
	if r == CaptureHalf || r == ApplyHalf {
		return r.Verb()
	}
	return ""
}

// RecordOf is the name under which the catalogue has a stream, or a half of it.
func RecordOf(stream string, role Role) string {
	switch role {
	case CaptureHalf:
		return stream + "-capture"
	case ApplyHalf, BothViaHalves:
		return stream + "-apply"
	}
	return stream
}

// A shape tells what tables a source has: the source itself, or a description of it.
type shape interface {
	job.End
	Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error)
}

// describing gives a function that writes the description of the source's tables into the
// transactions that a capture passes on: with the first of a session, and before the first change
// of a table with new columns.
func (r *session) describing() func(context.Context, *change.Tx) error {
	known := map[tidemark.TableID]*tidemark.Table{}
	learn := func(ctx context.Context, tx *change.Tx) error {
		text, db, err := r.describe(ctx, r.subs)
		if err != nil {
			return err
		}
		for _, t := range db.Tables {
			known[t.TableID] = t
		}
		tx.Changes = append(described.Message(tx.Place, text), tx.Changes...)
		return nil
	}
	return func(ctx context.Context, tx *change.Tx) error {
		if len(known) == 0 {
			return learn(ctx, tx)
		}
		for rest := tx.Changes; len(rest) > 0; {
			message, next, err := change.NextMessage(rest)
			if err != nil {
				return err
			}
			rest = next
			if tidemark.ChangeKind(message[0]) != tidemark.RelationChange {
				continue
			}
			rel, err := change.ParseRelation(message[1:])
			if err != nil {
				return err
			}
			if t := known[rel.Table]; t != nil && ddl.Outdated(t, rel) {
				return learn(ctx, tx)
			}
		}
		return nil
	}
}
