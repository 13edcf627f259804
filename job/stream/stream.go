package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/described"
)

// A stream is what is known of one in this process: its spec, its record in the catalogue, and its
// source and target, as far as they are connected.
type stream struct {
	env  job.Env
	spec Spec
	rec  catalog.Stream

	src   job.Database
	from  capture.Source // src
	shape shape          // the known tables of the source
	tgt   job.Database
	to    apply.Target      // tgt
	known *described.Source // the source, as it was when it answered last: see openEnds

	filter *capture.Filter // of the session; nil: none, or the source filters
	looks  looks           // at the tables, when the source began to keep its log
	// defined is what else it reported of them then.
	defined map[tidemark.TableID]*change.Definition
	// published is how it sent their changes then.
	published map[tidemark.TableID]change.Published

	catching *catchUp // what sessions are limited to, while the copy is resumed
}

// open connects to both servers, or to that of the half.
func (r *stream) open(ctx context.Context) error {
	if r.spec.Role != ApplyHalf {
		if err := r.openSource(ctx); err != nil {
			return err
		}
	}
	if r.spec.Role == CaptureHalf {
		return nil
	}
	err := r.openTarget(ctx)
	if err != nil {
		r.close()
	}
	return err
}

func (r *stream) openSource(ctx context.Context) (err error) {
	if r.src, err = r.env.Open(ctx, r.spec.Copy.Source); err != nil {
		return err
	}
	r.shape = r.src
	var ok bool
	if r.from, ok = r.src.(capture.Source); !ok {
		name := r.src.Name()
		r.close()
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: tidemark.MaskURL(r.spec.Copy.Source), Err: errors.New("changes cannot be captured from " + name + " yet"), Hint: "Use tidemark copy."}
	}
	if j, ok := r.src.(capture.Journaler); ok && r.spec.Role != ApplyHalf {
		record := r.record()
		if r.spec.Role == BothViaHalves {
			record = RecordOf(r.spec.Name, CaptureHalf)
		}
		j.Journal(r.env.Catalog.Journal(record))
	}
	return nil
}

func (r *stream) openTarget(ctx context.Context) (err error) {
	if r.tgt, err = r.env.Open(ctx, r.spec.Copy.Target); err != nil {
		return err
	}
	var ok bool
	if r.to, ok = r.tgt.(apply.Target); !ok {
		name := r.tgt.Name()
		r.close()
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: tidemark.MaskURL(r.spec.Copy.Target), Err: errors.New("changes cannot be applied to " + name + " yet"), Hint: "Use tidemark copy."}
	}
	return nil
}

func (r *stream) close() {
	for _, end := range []*job.Database{&r.src, &r.tgt} {
		if *end != nil {
			(*end).Close()
			*end = nil
		}
	}
	r.from, r.to = nil, nil
}

// announce reports an event of the stream.
func (r *stream) announce(kind, text string) {
	r.env.Event(job.Event{Kind: kind, Object: "stream " + r.spec.Name, Text: text})
}

// following records that everything before the stream is on the target.
func (r *stream) following(ctx context.Context) error {
	r.rec.State = catalog.StreamFollowing
	return r.env.Catalog.PutStream(ctx, r.rec)
}

// mapped describes the selected tables of the source, and applies the present rules to them.
func (r *stream) mapped(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, []tidemark.Move, error) {
	db, err := r.shape.Describe(ctx, want)
	if err != nil {
		return nil, nil, err
	}
	r.asLogged(ctx, db)
	moves, _, err := job.ApplyRules(r.spec.Copy.Rules, db, r.shape, r.into(), r.spec.Copy.TargetSchema)
	return db, moves, err
}

// present is mapped for tables that may be gone by now: these have no moves.
func (r *stream) present(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, []tidemark.Move, error) {
	db, moves, err := r.mapped(ctx, want)
	if tidemark.KindOf(err) == tidemark.Empty {
		err = nil
	}
	return db, moves, err
}

// move describes one table of the source, and applies the present rules to it; nil: it is gone, or
// left out.
func (r *stream) move(ctx context.Context, id tidemark.TableID) (*tidemark.Database, *tidemark.Move, error) {
	db, moves, err := r.present(ctx, func(x tidemark.TableID) bool { return x == id })
	if err != nil || len(moves) == 0 {
		return nil, nil, err
	}
	return db, &moves[0], nil
}

// tables are those that a stream can carry.
func (r *stream) tables(ctx context.Context) ([]tidemark.Move, []tidemark.Finding, error) {
	db, moves, err := r.mapped(ctx, r.spec.Copy.Rules.Wants)
	if err == nil {
		err = r.remember(db)
	}
	if err != nil {
		return nil, nil, err
	}
	if r.src != nil && r.tgt != nil {
		if err := job.Distinct(ctx, r.spec.Role.Verb(), r.src, r.tgt, moves, true); err != nil {
			return nil, nil, err
		}
	}
	out, findings, err := job.Streamable(moves)
	if err == nil {
		err = r.planFilter(ctx, out)
	}
	if err == nil {
		err = r.oldTold(ctx, out)
	}
	return out, findings, err
}

// record is the name under which the catalogue has a stream, or its half: both may be on
// one machine.
func (r *stream) record() string { return RecordOf(r.spec.Name, r.spec.Role) }

// into is what is known of the target. A capture knows its URL.
func (r *stream) into() job.End {
	if r.tgt != nil {
		return r.tgt
	}
	of := engine.OfURL(r.spec.Copy.Target)
	return described.Target{Engine: of.Name, Schema: of.DefaultSchema}
}

// describe gives the source's selected tables as they are now, and the stopped ones of subs, if
// there are any.
func (r *stream) describe(ctx context.Context, subs *subscriptions) ([]byte, *tidemark.Database, error) {
	db, err := r.src.Describe(ctx, r.spec.Copy.Rules.Wants)
	if err != nil {
		return nil, nil, err
	}
	db.Objects, db.Findings = nil, nil // useless without the source
	who, err := r.signed(ctx)
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(described.Description{Schema: r.src.Default(), Database: db, Stopped: subs.stoppedHere(), Stream: who})
	return text, db, err
}

// described receives a capture's description of its source.
func (r *stream) described(ctx context.Context, m change.LogicalMessage) (described.Description, error) {
	text := slices.Clone(m.Data)
	d, err := described.Parse(text)
	if err != nil || r.rec.Tables == string(text) {
		return d, err
	}
	r.shape, r.rec.Tables = d.Source(text), string(text)
	return d, r.env.Catalog.PutStream(ctx, r.rec)
}

// sameEnds refuses to continue a stream with another source or target than before.
func (r *stream) sameEnds() error {
	s := r.rec
	for _, pair := range [][2]string{{s.Source, r.spec.Copy.Source}, {s.Target, r.spec.Copy.Target}} {
		if pair[0] != tidemark.MaskURL(pair[1]) {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "replicate", Object: s.Name, Err: fmt.Errorf("is a stream with %s, not %s", pair[0], tidemark.MaskURL(pair[1])), Hint: "Give the same source and target as before, or another --name. Use --source-moved if a replica has taken the source's place, --target-moved if the target has a new URL."}
		}
	}
	return nil
}

// remember stores the description of the source's tables, for a session without it.
func (r *stream) remember(db *tidemark.Database) error {
	if !r.parts() || r.src == nil {
		return nil
	}
	bare := *db
	bare.Objects, bare.Findings = nil, nil
	d := described.Description{Schema: r.src.Default(), Database: &bare}
	text, err := json.Marshal(d)
	if err == nil {
		s := d.Source(text)
		r.known = &s
	}
	return err
}

// parts reports whether this process can work with one of source and target alone.
func (r *stream) parts() bool {
	return r.spec.Role == Both && r.spec.Queue != directQueue && r.spec.Until.IsZero()
}
