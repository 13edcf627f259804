package job

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Half says what of a stream a process does. Two halves meet at a queue that both reach.
type Half int

const (
	Whole       Half = iota
	CaptureHalf      // reads the source's log into the queue, and does not see the target
	ApplyHalf        // applies what is in the queue, and sees the source at most for the copy before
	Joined           // both, where two processes have done it before: for the cutover
)

// Verb is the command that does it.
func (h Half) Verb() string { return [...]string{"replicate", "capture", "apply", "replicate"}[h] }

// name is what samples call a process that does a half; "" does all.
func (h Half) name() string {
	if h == CaptureHalf || h == ApplyHalf {
		return h.Verb()
	}
	return ""
}

// record is the name under which the catalogue has a stream, or its half: both may be on
// one machine.
func (r *replicating) record() string { return RecordOf(r.spec.Name, r.spec.Half) }

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
	end
	Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error)
}

// A description is what a capture says of its source, for an apply that does not see it.
type description struct {
	Schema   string             `json:"schema"` // its default one
	Database *tidemark.Database `json:"database"`
	Stopped  []stoppedTable     `json:"stopped,omitempty"`
}

// A stoppedTable is one whose changes the capture does not hand on.
type stoppedTable struct {
	Table    tidemark.TableID `json:"table"`
	Reason   string           `json:"reason"`
	Hint     string           `json:"hint,omitempty"`
	Answered int64            `json:"answered,omitempty"` // number of the last request for it that was heeded
}

// A described is a source that only its description is known of.
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
		return d, &tidemark.Error{Op: "apply", Object: "the tables of the source", Kind: tidemark.Corrupt, Err: err, Hint: "Capture and apply have to be of the same version."}
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

// A named is a target of which only the URL is known.
type named struct{ engine, schema string }

func (n named) Name() string    { return n.engine }
func (n named) Default() string { return n.schema }

// into is what is known of the target. A capture does not need to know more than whether
// it is PostgreSQL.
func (r *replicating) into() end {
	if r.tgt != nil {
		return r.tgt
	}
	if strings.HasPrefix(r.spec.Copy.Target, "postgres") {
		return named{"postgres", "public"}
	}
	return named{"mysql", ""}
}

// describing gives what writes, into the transactions that a capture hands on, what tables
// the source has: with the first of a session, and before the first change of one that
// has got columns.
func (r *replicating) describing() func(context.Context, *tidemark.Tx) error {
	known := map[tidemark.TableID]*tidemark.Table{}
	learn := func(ctx context.Context, tx *tidemark.Tx) error {
		text, db, err := r.describe(ctx)
		if err != nil {
			return err
		}
		for _, t := range db.Tables {
			known[t.TableID] = t
		}
		tx.Changes = append(tablesMessage(tx.Place, text), tx.Changes...)
		return nil
	}
	return func(ctx context.Context, tx *tidemark.Tx) error {
		if len(known) == 0 {
			return learn(ctx, tx)
		}
		for rest := tx.Changes; len(rest) > 0; {
			message, next, err := tidemark.NextMessage(rest)
			if err != nil {
				return err
			}
			rest = next
			if tidemark.ChangeKind(message[0]) != tidemark.RelationChange {
				continue
			}
			rel, err := tidemark.ParseRelation(message[1:])
			if err != nil {
				return err
			}
			if t := known[rel.Table]; t != nil && outdated(t, rel) {
				return learn(ctx, tx)
			}
		}
		return nil
	}
}

// outdated reports whether a relation, or the look at the catalogue that came with it, has columns that a description of
// its table does not have.
func outdated(t *tidemark.Table, rel tidemark.Relation) bool {
	other := func(number int32, name string) bool {
		c := t.Column(name)
		return c == nil || number != 0 && c.Number != 0 && c.Number != number
	}
	if rel.Catalogue != nil && slices.ContainsFunc(rel.Catalogue.Columns, func(c tidemark.CatalogueColumn) bool { return !c.Gone && other(c.Number, c.Name) }) {
		return true
	}
	return slices.ContainsFunc(rel.Columns, func(c tidemark.RelationColumn) bool { return other(c.Number, c.Name) })
}

// tablesMessage gives a description as changes of a transaction at a place.
func tablesMessage(place uint64, text []byte) []byte {
	m := tidemark.LogicalMessage{Transactional: true, LSN: place, Prefix: tidemark.TablesPrefix, Data: text}
	return tidemark.AppendChange(nil, m.Append(nil))
}

// describe gives the source's wanted tables as they are now.
func (r *replicating) describe(ctx context.Context) ([]byte, *tidemark.Database, error) {
	db, err := r.src.Describe(ctx, r.spec.Copy.Rules.Wants)
	if err != nil {
		return nil, nil, err
	}
	db.Objects, db.Findings = nil, nil // of no use without the source
	text, err := json.Marshal(description{r.src.Default(), db, r.subs.stoppedHere()})
	return text, db, err
}

// described hears what a capture says of its source.
func (r *replicating) described(ctx context.Context, m tidemark.LogicalMessage) (description, error) {
	text := slices.Clone(m.Data)
	d, err := parseDescription(text)
	if err != nil || r.stream.Tables == string(text) {
		return d, err
	}
	r.shape, r.stream.Tables = described{text, d.Database.Engine, d.Schema}, string(text)
	return d, r.env.Catalog.PutStream(ctx, r.stream)
}

// needsServer refuses a queue that two processes on two hosts cannot share.
func (r *replicating) needsServer() error {
	if strings.Contains(r.spec.Queue, "://") {
		return nil
	}
	return tidemark.Errorf(tidemark.Invalid, r.spec.Half.Verb(), r.spec.Name, "capture and apply meet at a queue on a server", "Say which: --queue nats://host:4222, or kafka://host:9092.")
}

// beginCapture makes the source keep its log, and puts into the queue what tables it has.
func (r *replicating) beginCapture(ctx context.Context) (string, *Report, error) {
	if err := r.needsServer(); err != nil {
		return "", nil, err
	}
	r.stream.State = catalog.StreamCopying
	if err := r.open(ctx); err != nil {
		return "", nil, err
	}
	defer r.close()
	err := r.startStream(ctx)
	if err == nil {
		if err = r.head(ctx); err != nil {
			err = r.undo(ctx, "", err)
		}
	}
	if err == nil {
		err = r.following(ctx)
	}
	return "", nil, err
}

// head writes the first message of a queue: from where on it has the source's changes, and
// of what tables.
func (r *replicating) head(ctx context.Context) error {
	log, err := r.spec.OpenQueue(ctx, r.spec.Name, r.spec.Queue)
	if err != nil {
		return err
	}
	defer log.Close()
	place := r.stream.Place
	if last, _, err := log.Begin(ctx, place-1); err != nil || last >= place-1 {
		if err == nil {
			err = tidemark.Errorf(tidemark.Exists, "capture", r.spec.Name, "the queue has something of an earlier stream", "Begin anew with --anew, which empties it.")
		}
		return err
	}
	text, _, err := r.describe(ctx)
	if err != nil {
		return err
	}
	now := r.env.now()
	return log.Append(ctx, []*tidemark.Tx{{Place: place - 1, End: place, Time: now, Put: now, Changes: tablesMessage(place-1, text)}})
}

// errHead ends the reading of a queue's head.
var errHead = errors.New("that was the head")

// beginApply waits until a capture has begun, and copies what was there before it.
func (r *replicating) beginApply(ctx context.Context) (run string, rep *Report, err error) {
	if err := r.needsServer(); err != nil {
		return "", nil, err
	}
	place, err := r.awaitHead(ctx)
	if err != nil {
		return "", nil, err
	}
	r.stream = catalog.Stream{Name: r.record(), Source: r.spec.Copy.Source, Target: r.spec.Copy.Target, Queue: r.spec.Queue, State: catalog.StreamCopying,
		Place: place, Tables: string(r.shape.(described).text), Started: r.env.now()}
	if err := r.openTarget(ctx); err != nil {
		return "", nil, err
	}
	defer r.close()
	if err := r.freeName(ctx); err != nil {
		return "", nil, err
	}
	if r.spec.NoCopy {
		return "", nil, r.following(ctx)
	}
	known := r.shape
	if err := r.openSource(ctx); err != nil {
		return "", nil, err
	}
	tables, findings, err := r.tables(ctx)
	if err == nil {
		err = r.lookAt(ctx, tables) // before the view: what changes between is on the target, and found there when it is told
	}
	if err == nil {
		err = r.from.View(ctx, r.spec.Name)
	}
	if err == nil {
		err = r.env.Catalog.PutStream(ctx, r.stream)
	}
	if err == nil {
		_, err = r.subscribe(ctx, tables)
	}
	if err != nil {
		return "", nil, err
	}
	run, rep, err = r.copy(ctx, findings)
	r.shape = known
	return run, rep, err
}

// awaitHead waits until the queue has something, and reads from where on it has the
// source's changes, and of what tables.
func (r *replicating) awaitHead(ctx context.Context) (place uint64, err error) {
	log, err := r.spec.OpenQueue(ctx, r.spec.Name, r.spec.Queue)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	waiting := crash.After(2*time.Second, func() {
		r.env.Watch.Event(Event{Time: r.env.now(), Kind: "state", Object: "stream " + r.spec.Name, Text: "waits for tidemark capture to begin"})
	})
	defer waiting.Stop()
	err = log.Read(ctx, 0, func(tx *tidemark.Tx) error {
		place = tx.End
		c, _, err := tidemark.NextChange(tx.Changes)
		var m tidemark.LogicalMessage
		if err == nil {
			m, err = tidemark.ParseLogicalMessage(c.Body)
		}
		if err != nil || m.Prefix != tidemark.TablesPrefix || tx.End != tx.Place+1 {
			return tidemark.Errorf(tidemark.Lost, "apply", r.spec.Name, "the beginning of the queue is gone", "Begin the capture anew: tidemark capture --anew.")
		}
		if r.shape, err = newDescribed(slices.Clone(m.Data)); err != nil {
			return err
		}
		return errHead
	})
	if errors.Is(err, errHead) {
		err = nil
	}
	return place, err
}
