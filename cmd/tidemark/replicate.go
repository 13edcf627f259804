package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/queue"
)

func replicateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replicate [SOURCE TARGET]",
		Short: "Copy a database, then apply the changes of its log as they are made",
		Long: `Copy a database, then follow its log: whole transactions, applied in parallel where
they do not meet, each exactly once. There is no gap between the copy and the stream,
and nothing comes twice.

Ctrl-C stops it; the same command goes on where it was. While it does not run, a
PostgreSQL source keeps its log: --remove ends that. MySQL and MariaDB remove theirs
when it is as old as their settings say.

A PostgreSQL source needs wal_level = logical, a user with REPLICATION who owns the
tables, and a replica identity on each of them. It gets a slot and a publication, both
called tidemark_NAME. The target gets the table tidemark.applied.`,
		Example: `  # copy, then follow until stopped
  tidemark replicate postgres://me@old/shop postgres://me@new/shop

  # bring the target up to date once, and end
  tidemark replicate postgres://me@old/shop postgres://me@new/shop --until now

  # forget it: the source keeps no log for it any more
  tidemark replicate postgres://me@old/shop postgres://me@new/shop --remove`,
		Args: args(0, 2, "replicate SOURCE TARGET"),
	}
	return onRequest(cmd, (*request).replicate)
}

func captureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture [SOURCE TARGET]",
		Short: "Read the log of a source into a queue, for tidemark apply on another host",
		Long: `Read the log of a source into a queue on a server that both hosts reach; tidemark apply,
on the other one, copies and then applies what is in it. Give both the same arguments or
the same task file. This half connects to the source and the queue only: of the target it
wants to know no more than its kind.

It comes first: the copy that apply makes begins once the queue is there. What is in the
queue is durable, so the source may forget its log while the target is away.`,
		Example: `  tidemark capture postgres://me@old/shop postgres://new/shop --queue nats://queue:4222
  tidemark capture --config task.yaml
  tidemark capture postgres://me@old/shop postgres://new/shop --queue nats://queue:4222 --remove`,
		Args: args(0, 2, "capture SOURCE TARGET"),
	}
	return onRequest(cmd, func(r *request, cmd *cobra.Command) error { return r.half(cmd, job.CaptureHalf) })
}

func applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [SOURCE TARGET]",
		Short: "Apply what tidemark capture on another host puts into a queue",
		Long: `Apply what tidemark capture on another host puts into a queue. The first time it waits for
the capture and copies what was there before, for which it connects to the source; with
--no-copy, and ever after the copy, to the queue and the target only.`,
		Example: `  tidemark apply postgres://me@old/shop postgres://me@new/shop --queue nats://queue:4222
  tidemark apply --config task.yaml
  tidemark apply postgres://old/shop postgres://me@new/shop --queue nats://queue:4222 --no-copy`,
		Args: args(0, 2, "apply SOURCE TARGET"),
	}
	return onRequest(cmd, func(r *request, cmd *cobra.Command) error { return r.half(cmd, job.ApplyHalf) })
}

// half does a part of what replicate does.
func (r *request) half(cmd *cobra.Command, half job.Half) error {
	r.stream.Half = half
	return r.replicate(cmd)
}

func (r *request) replicate(cmd *cobra.Command) error {
	if isDump(r.source) {
		return tidemark.Errorf(tidemark.Unsupported, "replicate", r.source, "a file has no log to follow", "use tidemark copy")
	}
	cat, err := openCatalog(r.settings)
	if err != nil {
		return err
	}
	defer cat.Close()
	files, err := r.folder()
	if err != nil {
		return err
	}
	watch := newWatcher(r.settings, cmd.OutOrStdout(), cmd.ErrOrStderr())
	r.sayFindings(cmd)
	if r.metrics != "" {
		if f, all := everywhere(r.metrics); all {
			printFinding(cmd.ErrOrStderr(), f)
		}
		if watch, err = newMetered(watch, r.metrics); err != nil {
			return err
		}
	}
	env := job.Env{Open: r.opener(), Catalog: cat, Watch: watch, Files: files}
	spec := r.stream
	spec.Copy = r.copySpec()
	spec.Buffer = r.load.Buffer
	r.door = &peekDoor{}
	defer r.door.close()
	spec.OpenQueue, spec.RemoveQueue, spec.Apply.Spool = r.openShown, r.removeQueue, r.spool()
	spec.Change = r.changed
	limitMemory(spec)
	run, rep, err := job.Replicate(cmd.Context(), env, spec)
	watch.stop()
	switch {
	case spec.Remove && err == nil:
		where := map[job.Half]string{job.Whole: "on both sides", job.CaptureHalf: "on the source and in the queue", job.ApplyHalf: "on the target"}[spec.Half]
		fmt.Fprintf(cmd.ErrOrStderr(), "stream %s is forgotten %s; rows stay as they are\n", spec.Name, where)
	case rep == nil:
	case r.json:
		json.NewEncoder(cmd.OutOrStdout()).Encode(struct { // in one line, as all events
			Event  string      `json:"event"`
			Run    string      `json:"run"`
			Report *job.Report `json:"report"`
		}{"report", run, rep})
	default:
		printReport(cmd.OutOrStdout(), rep)
		fmt.Fprintf(cmd.OutOrStdout(), "\nrun %s; tidemark report %s shows this again\n", run, run)
	}
	return err
}

// openShown opens a queue so that peek can look into one on this machine's disk.
func (r *request) openShown(ctx context.Context, stream, where string) (*queue.Log, error) {
	log, err := r.openQueue(ctx, stream, where)
	if err == nil && where == "durable" {
		if opt, oerr := r.jetstream(stream, where); oerr == nil {
			r.door.show(opt.Dir, log)
		}
	}
	return log, err
}

// changed gives what the request says, with other values of options.
func (r *request) changed(values map[string]string) (job.ReplicateSpec, error) {
	s := *r.settings
	if _, ok := values["ok-sqlstates"]; ok {
		s.stream.Apply.OKStates = nil // or they would be added
	}
	for name, value := range values {
		if err := find(name).set(&s, value); err != nil {
			return job.ReplicateSpec{}, err
		}
	}
	spec := s.stream
	spec.Buffer, spec.OpenQueue = s.load.Buffer, (&request{settings: &s, door: r.door}).openShown
	limitMemory(spec)
	return spec, nil
}

// limitMemory lets the garbage collector work harder before the process takes 256 MB beside
// --apply-memory, of which 64 are not the collector's, and 48 are what else a stream is given by default (a collector
// that has no processor for a while passes its limit). It is no hard limit.
func limitMemory(spec job.ReplicateSpec) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(144<<20 + spec.Apply.MemoryLimit + spec.CaptureMemory + 2*spec.Buffer)
	}
}

// printStream shows what a stream did, with the latency split by stage.
func printStream(w io.Writer, r *job.Report) {
	s := r.Stream
	if s.Half == "capture" {
		fmt.Fprintf(w, "\n%s transactions, %s rows captured in %.1f s (%s trans/s, %s rows/s); peak memory %s\n", commas(s.Transactions), commas(s.Rows), s.Seconds,
			commas(int64(s.PerSecond+0.5)), commas(int64(s.RowsSecond+0.5)), bytesText(r.PeakRSS))
		if s.Transactions > 0 {
			fmt.Fprintf(w, "from a commit until it is in the queue: mean %s, p50 %s, p99 %s, max %s\n", millis(s.Capture.Mean), millis(s.Capture.P50), millis(s.Capture.P99), millis(s.Capture.Max))
		}
		return
	}
	fmt.Fprintf(w, "\n%s transactions, %s rows applied in %.1f s (%s trans/s, %s rows/s); peak memory %s\n", commas(s.Transactions), commas(s.Rows), s.Seconds,
		commas(int64(s.PerSecond+0.5)), commas(int64(s.RowsSecond+0.5)), bytesText(r.PeakRSS))
	waited := ""
	if s.Waited > 0 { // one may have waited for several
		waited = fmt.Sprintf(" (%s for the same row, %s for a unique value, %s for a foreign key, %s for a whole table)", commas(s.ByKey), commas(s.ByUnique), commas(s.ByReference), commas(s.ByTable))
	}
	fmt.Fprintf(w, "%s had to wait for others%s, %s came too early and were tried again, %s were tried again after a deadlock or the like\n",
		commas(s.Waited), waited, commas(s.Held), commas(s.Retried))
	if s.Giants > 0 {
		fmt.Fprintf(w, "%s too large for memory went through a file, and were applied alone\n", count(int(s.Giants), "transaction"))
	}
	fmt.Fprintln(w)
	if s.Batches > 0 {
		fmt.Fprintf(w, "%s batches came to %s changes; %s were refused, and applied transaction after transaction\n\n", commas(s.Batches), commas(s.Net), commas(s.Refused))
	}
	if s.Exceptions > 0 {
		fmt.Fprintf(w, "%s changes did not fit the target: tidemark exceptions shows them\n\n", commas(s.Exceptions))
	}
	if s.Transactions == 0 {
		return
	}
	fmt.Fprintln(w, "Latency            mean         p50         p99         max")
	for _, x := range []struct {
		name string
		l    job.Latency
	}{{"end to end", s.EndToEnd}, {"  capture", s.Capture}, {"  queue", s.Queue}, {"  apply", s.Apply}} {
		fmt.Fprintf(w, "%-12s%11s %11s %11s %11s\n", x.name, millis(x.l.Mean), millis(x.l.P50), millis(x.l.P99), millis(x.l.Max))
	}
	if s.Skewed > 0 {
		fmt.Fprintf(w, "The clocks differ: %s transactions seem to be applied before they were committed.\n", commas(s.Skewed))
	}
	printClocks(w, s.StreamStatus)
	fmt.Fprintln(w)
}

// printClocks says which server's clock is not this machine's: latencies are between them.
func printClocks(w io.Writer, s job.StreamStatus) {
	for _, c := range []struct {
		whose string
		ahead float64
	}{{"source", s.SourceClock}, {"target", s.TargetClock}} {
		if by := math.Abs(c.ahead); by >= 0.02 {
			way := "ahead of"
			if c.ahead < 0 {
				way = "behind"
			}
			fmt.Fprintf(w, "The %s's clock is %.3f s %s this machine's; latencies that begin or end there are off by as much.\n", c.whose, by, way)
		}
	}
}
