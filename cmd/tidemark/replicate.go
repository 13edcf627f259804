package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/metrics"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/queue/peek"
)

// replicateOptions are the options of replicate, and of its halves capture and apply.
type replicateOptions struct {
	movingOptions
	streamOptions
}

func (o *replicateOptions) Table() option.Table {
	return option.Join(o.movingOptions.table(), o.streamOptions.table())
}

func (o *replicateOptions) warnBy(warn func(tidemark.Finding)) {
	o.engineOptions.warnBy(warn)
	o.queueOptions.warnBy(warn)
}

func replicateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replicate [SOURCE TARGET]",
		Short: "Copy a database, then follow its changes",
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
	return onTask(cmd, func(o *replicateOptions, cmd *cobra.Command, r *request) error {
		return o.replicate(cmd, r, stream.Whole)
	})
}

func captureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture [SOURCE TARGET]",
		Short: "Read a source's log into a queue, for apply on another host",
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
	return onTask(cmd, func(o *replicateOptions, cmd *cobra.Command, r *request) error {
		return o.replicate(cmd, r, stream.CaptureHalf)
	})
}

func applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [SOURCE TARGET]",
		Short: "Apply what capture on another host puts into a queue",
		Long: `Apply what tidemark capture on another host puts into a queue. The first time it waits for
the capture and copies what was there before, for which it connects to the source; with
--no-copy, and ever after the copy, to the queue and the target only.`,
		Example: `  tidemark apply postgres://me@old/shop postgres://me@new/shop --queue nats://queue:4222
  tidemark apply --config task.yaml
  tidemark apply postgres://old/shop postgres://me@new/shop --queue nats://queue:4222 --no-copy`,
		Args: args(0, 2, "apply SOURCE TARGET"),
	}
	return onTask(cmd, func(o *replicateOptions, cmd *cobra.Command, r *request) error {
		return o.replicate(cmd, r, stream.ApplyHalf)
	})
}

// replicate does all of it, or the half that is asked for.
func (o *replicateOptions) replicate(cmd *cobra.Command, r *request, half stream.Half) error {
	if isDump(r.source) {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: r.source, Err: errors.New("a file has no log to follow"), Hint: "use tidemark copy"}
	}
	cat, err := o.openCatalog()
	if err != nil {
		return err
	}
	defer cat.Close()
	files, err := o.folder()
	if err != nil {
		return err
	}
	watch := screen.Watch(o.view(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	r.sayFindings(cmd)
	if o.metrics != "" {
		if f, all := metrics.Everywhere(o.metrics); all {
			screen.Finding(cmd.ErrOrStderr(), f)
		}
		if watch, err = metrics.Watch(watch, o.metrics); err != nil {
			return err
		}
	}
	env := job.Env{Open: r.opener(&o.engineOptions), Catalog: cat, Watch: watch, Files: files}
	spec := o.stream(half)
	spec.Copy = o.copySpec(r)
	spec.Buffer = o.load.Buffer
	var door peek.Door
	defer door.Close()
	spec.OpenQueue, spec.RemoveQueue, spec.Apply.Spool = o.openShown(&door), o.remover(), o.spool()
	spec.Change = func(values map[string]string) (stream.Spec, error) { return o.changed(values, half, &door) }
	limitMemory(spec)
	run, rep, err := stream.Replicate(cmd.Context(), env, spec)
	watch.Stop()
	switch {
	case spec.Remove && err == nil:
		where := map[stream.Half]string{stream.Whole: "on both sides", stream.CaptureHalf: "on the source and in the queue", stream.ApplyHalf: "on the target"}[spec.Half]
		fmt.Fprintf(cmd.ErrOrStderr(), "stream %s is forgotten %s; rows stay as they are\n", spec.Name, where)
	case rep == nil:
	case o.json:
		screen.Event(cmd.OutOrStdout(), struct { // in one line, as all events
			Event  string      `json:"event"`
			Run    string      `json:"run"`
			Report *job.Report `json:"report"`
		}{"report", run, rep})
	default:
		o.report(cmd, run, rep)
	}
	return err
}

// openShown opens queues so that peek can look into one on this machine's disk.
func (o *replicateOptions) openShown(door *peek.Door) openQueue {
	return func(ctx context.Context, stream, where string) (*queue.Log, error) {
		log, err := o.openQueue(ctx, &o.stateOptions, stream, where)
		if err == nil && where == "durable" {
			if opt, oerr := o.jetstream(&o.stateOptions, stream, where); oerr == nil {
				door.Show(opt.Dir, log)
			}
		}
		return log, err
	}
}

// changed gives what the options say, with other values of some.
func (o *replicateOptions) changed(values map[string]string, half stream.Half, door *peek.Door) (stream.Spec, error) {
	with := *o
	if _, ok := values["ok-sqlstates"]; ok {
		with.spec.Apply.OKStates = nil // or they would be added
	}
	table := with.Table()
	for name, value := range values {
		if err := table.Find(name).Set(value); err != nil {
			return stream.Spec{}, err
		}
	}
	spec := with.stream(half)
	spec.Buffer, spec.OpenQueue = with.load.Buffer, with.openShown(door)
	limitMemory(spec)
	return spec, nil
}

// limitMemory lets the garbage collector work harder before the process takes 256 MB beside
// --apply-memory, of which 64 are not the collector's, and 48 are what else a stream is given by default (a collector
// that has no processor for a while passes its limit). It is no hard limit.
func limitMemory(spec stream.Spec) {
	if os.Getenv("GOMEMLIMIT") == "" {
		collectFrom(144<<20 + spec.Apply.MemoryLimit + spec.CaptureMemory + 2*spec.Buffer)
	}
}

// collectFrom sets from how many bytes on garbage is collected more eagerly, and gives how many it was. It counts all
// that the process has: tests, which run many commands in one, leave it alone (half of their time went to the collector).
var collectFrom = debug.SetMemoryLimit
