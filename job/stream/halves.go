package stream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/job"
)

// A Half is the part of a stream that a process does. Two halves share a queue that both can reach.
type Half int

const (
	Whole       Half = iota
	CaptureHalf      // reads the source's log into the queue, and does not connect to the target
	ApplyHalf        // applies the queue, and connects to the source only for the copy before
	Joined           // both, after two processes have done it: for the cutover
)

// Verb is the command of a half.
func (h Half) Verb() string { return [...]string{"replicate", "capture", "apply", "replicate"}[h] }

// name is what samples call a process that does a half; "" does all.
func (h Half) name() string {
	if h == CaptureHalf || h == ApplyHalf {
		return h.Verb()
	}
	return ""
}

// RecordOf is the name under which the catalogue has a stream, or a half of it.
func RecordOf(stream string, half Half) string {
	switch half {
	case CaptureHalf:
		return stream + "-capture"
	case ApplyHalf, Joined:
		return stream + "-apply"
	}
	return stream
}

// A shape tells what tables a source has: the source itself, or a description of it.
type shape interface {
	job.End
	Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error)
}

// A description is what a capture reports about its source, for an apply that is not connected to
// it.
type description struct {
	Schema   string             `json:"schema"` // its default one
	Database *tidemark.Database `json:"database"`
	Stopped  []stoppedTable     `json:"stopped,omitempty"`
}

// A stoppedTable is one whose changes capture does not pass on.
type stoppedTable struct {
	Table    tidemark.TableID `json:"table"`
	Reason   string           `json:"reason"`
	Hint     string           `json:"hint,omitempty"`
	Answered int64            `json:"answered,omitempty"` // number of the last request for it that was answered
}

// A described is a source known only by its description.
type described struct {
	text           []byte
	engine, schema string
}

func newDescribed(text []byte) (described, error) {
	d, err := parseDescription(text)
	if err != nil {
		return described{}, err
	}
	return described{text, d.Database.Engine, d.Schema}, nil
}

func parseDescription(text []byte) (d description, _ error) {
	err := json.Unmarshal(text, &d)
	if err == nil && d.Database == nil {
		err = errors.New("no database")
	}
	if err != nil {
		return d, &tidemark.Error{Op: "apply", Object: "the tables of the source", Kind: tidemark.Corrupt, Err: err, Hint: "Run capture and apply in the same version."}
	}
	return d, nil
}

func (d described) Name() string    { return d.engine }
func (d described) Default() string { return d.schema }

func (d described) Describe(_ context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error) {
	var all description
	if err := json.Unmarshal(d.text, &all); err != nil {
		return nil, err
	}
	db := all.Database
	db.Tables = slices.DeleteFunc(db.Tables, func(t *tidemark.Table) bool { return !want(t.TableID) })
	return db, nil
}

// A named is a target known only by its URL.
type named struct{ engine, schema string }

func (n named) Name() string    { return n.engine }
func (n named) Default() string { return n.schema }

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
		tx.Changes = append(tablesMessage(tx.Place, text), tx.Changes...)
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

// tablesMessage gives a description as the changes of a transaction at a place.
func tablesMessage(place uint64, text []byte) []byte {
	m := change.LogicalMessage{Transactional: true, LSN: place, Prefix: change.TablesPrefix, Data: text}
	return change.Append(nil, m.Append(nil))
}
