package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
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
		Long: `Copy a database, then follow its log: whole transactions, each exactly once, applied in
parallel if they do not conflict. There is no gap between the copy and the stream, and nothing
is applied twice.

Ctrl-C stops it; the same command resumes it. While it is stopped, a PostgreSQL source keeps
its log: --remove ends that. MySQL and MariaDB remove their log once it is as old as their
settings say.

A PostgreSQL source needs wal_level = logical, a user with REPLICATION who owns the tables,
and a replica identity on each of them. It gets a slot and a publication, both called
tidemark_NAME. The target gets the table tidemark.applied.`,
		Example: `  # copy, then follow until stopped
  tidemark replicate postgres://me@old/shop postgres://me@new/shop

  # bring the target up to date once, then stop
  tidemark replicate postgres://me@old/shop postgres://me@new/shop --until now

  # remove the stream: the source keeps no more log for it
  tidemark replicate postgres://me@old/shop postgres://me@new/shop --remove`,
		Args: args(0, 2, "replicate SOURCE TARGET"),
	}
	return onTask(cmd, func(o *replicateOptions, cmd *cobra.Command, r *request) error {
		return o.replicate(cmd, r, stream.Both)
	})
}

func captureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture [SOURCE TARGET]",
		Short: "Read a source's log into a queue, for apply on another host",
		Long: `Read the log of a source into a queue on a server that both hosts can reach; tidemark apply,
on the other host, makes the copy and then applies the queue. Give both the same arguments or
the same task file. This half connects only to the source and the queue; of the target it
needs only the engine.

Start it first: the copy that apply makes begins once the queue exists. The queue is durable,
so the source may discard its log while the target is away.`,
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
		Long: `Apply the queue that tidemark capture on another host fills. The first time, it waits for the
capture and copies the existing rows, for which it connects to the source. After the copy, or
with --no-copy, it connects only to the queue and the target.`,
		Example: `  tidemark apply postgres://me@old/shop postgres://me@new/shop --queue nats://queue:4222
  tidemark apply --config task.yaml
  tidemark apply postgres://old/shop postgres://me@new/shop --queue nats://queue:4222 --no-copy`,
		Args: args(0, 2, "apply SOURCE TARGET"),
	}
	return onTask(cmd, func(o *replicateOptions, cmd *cobra.Command, r *request) error {
		return o.replicate(cmd, r, stream.ApplyHalf)
	})
}

// replicate runs the whole stream, or the requested half.
func (o *replicateOptions) replicate(cmd *cobra.Command, r *request, role stream.Role) error {
	if address.IsDump(r.source) {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: r.source, Err: errors.New("a file has no log to follow"), Hint: "Use tidemark copy."}
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
		if f, all := metrics.WarnIfPublic(o.metrics); all {
			warn(cmd, f)
		}
		if watch, err = metrics.Watch(watch, o.metrics); err != nil {
			return err
		}
	}
	env := job.Env{Open: r.opener(&o.engineOptions), Catalog: cat, Watch: watch, Files: files}
	spec := o.turned(o.stream(role))
	spec.Copy = o.copySpec(r)
	spec.Buffer = o.load.Buffer
	var door peek.Door
	defer door.Close()
	spec.OpenQueue, spec.RemoveQueue, spec.Apply.Spool = o.openShown(&door), o.remover(), o.spool()
	spec.Change = func(values map[string]string) (stream.Spec, error) { return o.changed(values, role, &door) }
	limitMemory(spec)
	run, rep, err := stream.Replicate(cmd.Context(), env, spec)
	watch.Stop()
	switch {
	case spec.Remove && err == nil:
		where := map[stream.Role]string{stream.Both: "on both sides", stream.CaptureHalf: "on the source and in the queue", stream.ApplyHalf: "on the target"}[spec.Role]
		if o.json {
			screen.Event(cmd.OutOrStdout(), map[string]string{"event": "removed", "stream": spec.Name, "where": where})
			break
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "stream %s is removed %s; rows stay as they are\n", spec.Name, where)
	case rep == nil:
	case o.json:
		screen.Event(cmd.OutOrStdout(), struct { // in one line, as all events
			Event  string      `json:"event"`
			Run    string      `json:"run"`
			Report *job.Report `json:"report"`
		}{"report", run, rep})
	default:
		o.report(cmd, watch, run, rep)
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

// changed gives the spec of the options with other values for some.
func (o *replicateOptions) changed(values map[string]string, role stream.Role, door *peek.Door) (stream.Spec, error) {
	with := *o
	if _, ok := values["ok-sqlstates"]; ok {
		with.spec.Apply.OKStates = nil // otherwise they would be appended
	}
	table := with.Table()
	for name, value := range values {
		if err := table.Find(name).Set(value); err != nil {
			return stream.Spec{}, err
		}
	}
	spec := with.turned(with.stream(role))
	spec.Buffer, spec.OpenQueue = with.load.Buffer, with.openShown(door)
	limitMemory(spec)
	return spec, nil
}

// mostAgents is the largest --agents.
const mostAgents = 128

// turned adds to how many agents --auto may turn a stream.
func (o *replicateOptions) turned(spec stream.Spec) stream.Spec {
	if o.load.Auto {
		spec.Apply.Most = min(4*spec.Apply.Agents, mostAgents)
	}
	return spec
}

// limitMemory makes the garbage collector work harder before the process uses 256 MB beside
// --apply-memory, of which 64 are not the collector's, and 48 are the default of a stream's other
// options (a collector without CPU for a while exceeds its limit). It is not a hard limit.
func limitMemory(spec stream.Spec) {
	if os.Getenv("GOMEMLIMIT") == "" {
		collectFrom(144<<20 + spec.Apply.MemoryLimit + spec.CaptureMemory + 2*spec.Buffer)
	}
}

// collectFrom sets the memory from which garbage is collected more eagerly, and gives the old
// value. It counts the whole process: tests, which run many commands in one, leave it alone (half
// of their time went to the collector).
var collectFrom = debug.SetMemoryLimit

// collectOften makes the garbage collector work harder at any size, by a percentage of what is in
// use: what a job remembers of its tables grows with their number.
var collectOften = debug.SetGCPercent
