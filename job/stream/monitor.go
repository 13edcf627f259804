package stream

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/job/stream/figure"
)

// A monitorWriter writes samples to the monitor tables, on the target or elsewhere.
type monitorWriter struct {
	*stream
	rows chan []figure.Row // the next sample to write
}

// put writes a sample. A nil board writes none.
func (r *monitorWriter) put(s sampled.Status) {
	if r == nil {
		return
	}
	s.Stream = r.spec.Name // also for a half, so that both are found by it
	select {
	case r.rows <- figure.Rows(s, r.spec.Queue != directQueue):
	default: // the database is slower than samples come, or unavailable
	}
}

// monitorWait is how long writing a sample may take.
const monitorWait = 30 * time.Second

// startMonitor begins to write samples to the target or another database, if that is requested. The
// database must be available now; if it is lost later, the stream continues without its rows. It
// has its own session: a target that blocks the stream does not block the reports of that.
func (p *process) startMonitor(ctx context.Context) (stop func(), err error) {
	if p.spec.Monitor && p.spec.MonitorTo == "" && p.spec.Role != CaptureHalf {
		p.spec.MonitorTo = p.spec.Copy.Target
	}
	if p.spec.MonitorTo == "" {
		return func() {}, nil
	}
	p.monitor = &monitorWriter{stream: p.stream, rows: make(chan []figure.Row, 1)}
	db, err := p.monitor.open(ctx)
	if err != nil {
		return nil, err
	}
	var wg crash.Group
	wg.Go(func() { p.monitor.write(ctx, db) })
	return func() {
		close(p.monitor.rows)
		wg.Wait()
	}, nil
}

func (r *monitorWriter) open(ctx context.Context) (job.Database, error) {
	ctx, cancel := context.WithTimeout(ctx, monitorWait)
	defer cancel()
	db, err := r.env.Open(ctx, r.spec.MonitorTo)
	if err != nil {
		return nil, err
	}
	if _, ok := db.(figure.Monitored); !ok {
		db.Close()
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: r.spec.Role.Verb(), Object: tidemark.MaskURL(r.spec.MonitorTo), Err: errors.New(db.Name() + " cannot hold monitor tables"), Hint: "Name another database with --monitor-to."}
	}
	return db, nil
}

// write writes samples as they come, and reports when that fails and when it works again.
func (r *monitorWriter) write(ctx context.Context, db job.Database) {
	failed := false
	for rows := range r.rows {
		var err error
		if db == nil {
			db, err = r.open(ctx)
		}
		if err == nil {
			wait, cancel := context.WithTimeout(ctx, monitorWait)
			err = figure.Put(wait, db.(figure.Monitored), rows)
			cancel()
		}
		if err != nil && db != nil {
			db.Close()
			db = nil
		}
		if (err != nil) != failed && ctx.Err() == nil {
			failed = err != nil
			e := job.Event{Kind: "state", Object: "stream " + r.spec.Name, Text: "monitor tables can be written again"}
			if failed {
				e.Text = "continues, but its monitor tables cannot be written: " + err.Error()
			}
			r.env.Event(e)
		}
	}
	if db != nil {
		db.Close()
	}
}
