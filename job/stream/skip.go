package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
)

var binlogPlace = regexp.MustCompile(`^[^:/]+\.[0-9]+:[0-9]+$`)

// Skip makes a stream leave out the event at a place of its source's log, FILE:OFFSET in the form
// of MySQL and MariaDB, the next time it runs. It gives the stream's name in the catalogue.
//
// Errors: Invalid (not a place), Unsupported (PostgreSQL), NotFound (no such stream).
func Skip(ctx context.Context, cat *catalog.Catalog, stream, place string) (string, error) {
	s, err := skipsOf(ctx, cat, stream)
	switch {
	case err != nil:
		return "", err
	case !engine.OfURL(s.Source).Skips:
		return "", &tidemark.Error{Kind: tidemark.Unsupported, Op: "skip", Object: stream, Err: errors.New("events of PostgreSQL's log cannot be skipped"), Hint: "Stop the table (tidemark sub stop TABLE --name " + stream + "), or choose with --conflict how to handle changes that do not fit."}
	case !binlogPlace.MatchString(place):
		return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "skip", Object: place, Err: errors.New("is not a log position of MySQL or MariaDB"), Hint: "Use FILE:OFFSET, as in the message that stopped the stream: binlog.000007:1234."}
	}
	return s.Name, cat.PutSkip(ctx, s.Name, place)
}

// Skips gives the events that a stream leaves out.
func Skips(ctx context.Context, cat *catalog.Catalog, stream string) ([]string, error) {
	s, err := skipsOf(ctx, cat, stream)
	if err != nil {
		return nil, err
	}
	return cat.Skips(ctx, s.Name)
}

// skipsOf is the stream, or the half of it, that reads the source's log here.
func skipsOf(ctx context.Context, cat *catalog.Catalog, stream string) (catalog.Stream, error) {
	if s, err := cat.Stream(ctx, RecordOf(stream, CaptureHalf)); err == nil {
		return s, nil
	}
	s, err := Here(ctx, cat, stream)
	if err == nil && s.Name == RecordOf(stream, ApplyHalf) {
		err = &tidemark.Error{Kind: tidemark.Invalid, Op: "skip", Object: stream, Err: errors.New("the source's log is read on another machine"), Hint: "Run this on the machine where tidemark capture runs."}
	}
	return s, err
}

// leaveOut configures which events a stream skips.
func (r *session) leaveOut(ctx context.Context, stream capture.Stream) error {
	s, ok := stream.(capture.Skipper)
	if !ok {
		return nil
	}
	places, err := r.env.Catalog.Skips(ctx, r.record())
	if err == nil && len(places) > 0 {
		s.Skip(places)
	}
	return err
}

// An exceptionNoter is a target that keeps exceptions.
type exceptionNoter interface {
	NoteException(ctx context.Context, x change.Exception) error
}

// skippedEvent records the contents of a skipped event on the target.
func (b *binder) skippedEvent(m change.LogicalMessage) error {
	var x change.Exception
	if err := json.Unmarshal(m.Data, &x); err != nil {
		return fmt.Errorf("read a skipped event of the stream: %w", err)
	}
	x.Queue = b.r.spec.Name
	if n, ok := b.r.tgt.(exceptionNoter); ok {
		if err := n.NoteException(b.ctx, x); err != nil {
			return err
		}
	}
	b.r.env.Event(job.Event{Kind: "skipped", Object: x.Table, Text: x.Message + "; tidemark exceptions shows its contents"})
	return nil
}
