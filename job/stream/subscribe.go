package stream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
)

// Subscribe records the new state of one table of a stream. The process that replicates carries it
// out within a second or so, or when it runs again. The table has the source's name, without its
// schema if only one table has the name. With noLoad a table that is started is not loaded: its
// user does that, and then runs loaddone.
//
// If capture and apply are two processes, a load can be requested on the machine of either: apply
// passes the request to capture through the queue.
//
// It gives the table and its state.
func Subscribe(ctx context.Context, env job.Env, stream, action, table string, noLoad bool) (tidemark.TableID, string, error) {
	id, state, err := subscribe(ctx, env, stream, action, table, noLoad)
	var e *tidemark.Error
	if errors.As(err, &e) {
		e.Hint = catalog.OfStream(e.Hint, stream)
	}
	return id, state, err
}

func subscribe(ctx context.Context, env job.Env, stream, action, table string, noLoad bool) (tidemark.TableID, string, error) {
	s, err := Here(ctx, env.Catalog, stream)
	if err == nil && s.Name == RecordOf(stream, CaptureHalf) && (noLoad || action != loading.Start && action != loading.Reload) {
		err = &tidemark.Error{Kind: tidemark.Invalid, Op: "sub " + action, Object: table, Err: errors.New("is only possible where tidemark apply runs"), Hint: "Run this command where tidemark apply runs. Here you can start and reload tables."}
	}
	if err != nil {
		return tidemark.TableID{}, "", err
	}
	stream = s.Name
	known, err := env.Catalog.StreamTables(ctx, stream)
	if err != nil {
		return tidemark.TableID{}, "", err
	}
	if len(known) == 0 {
		return tidemark.TableID{}, "", &tidemark.Error{Kind: tidemark.Invalid, Op: "sub " + action, Object: stream, Err: errors.New("the stream is not following yet"), Hint: "Start it first: tidemark replicate."}
	}
	id, err := loading.Named(s.Source, known, action, table)
	if err != nil {
		return id, "", err
	}
	var was, is catalog.StreamTable
	err = env.Catalog.EditStreamTable(ctx, stream, id, func(t *catalog.StreamTable) error {
		was = *t
		err := loading.Act(t, action, noLoad, env.Time())
		is = *t
		return err
	})
	if err == nil && is.State == catalog.TableLoading {
		err = awaitStart(ctx, env, stream, was, is)
	}
	return id, is.State, err
}

// startWait is how long a running stream may take to start with a table.
const startWait = 15 * time.Second

// awaitStart waits for the running stream, if there is one, to start with the table. If the stream
// stops it instead, for example because the source does not have it, awaitStart returns the reason;
// a table that was not in the stream before is then forgotten.
func awaitStart(ctx context.Context, env job.Env, stream string, was, is catalog.StreamTable) error {
	for begun := time.Now(); time.Since(begun) < startWait && env.Catalog.Alive("stream-"+stream); {
		known, err := env.Catalog.StreamTables(ctx, stream)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(known, func(t catalog.StreamTable) bool { return t.Table == is.Table })
		if at < 0 {
			return notThere("sub", is.Table) // it was stopped, and is forgotten by now
		}
		switch t := known[at]; {
		case t.State == catalog.TableStopped:
			if was.State == "" {
				_ = env.Catalog.EditStreamTable(ctx, stream, t.Table, func(now *catalog.StreamTable) error {
					if now.State == catalog.TableStopped && now.Since.Equal(t.Since) {
						now.State = ""
					}
					return nil
				}) // otherwise it stays listed as stopped
			}
			return &tidemark.Error{Kind: tidemark.NotFound, Op: "sub", Object: t.Table.String(), Err: errors.New(t.Reason), Hint: t.Hint}
		case t.State != catalog.TableLoading || loading.Of(&t).Begun || loading.Of(&t).Place > 0 || loading.Of(&t).Manual && time.Since(begun) > startWait/5:
			return nil
		}
		if err := flow.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// Here gives a catalogue's record of a stream: that of its apply, if apply and capture are two
// processes with one catalogue. Kind NotFound.
func Here(ctx context.Context, cat *catalog.Catalog, name string) (catalog.Stream, error) {
	s, err := cat.Stream(ctx, name)
	for _, half := range []Role{ApplyHalf, CaptureHalf} {
		if tidemark.KindOf(err) != tidemark.NotFound {
			break
		}
		if of, herr := cat.Stream(ctx, RecordOf(name, half)); tidemark.KindOf(herr) != tidemark.NotFound {
			s, err = of, herr
		}
	}
	return s, err
}
