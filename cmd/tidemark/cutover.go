package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
	"github.com/tidemarkdb/tidemark/queue"
)

// cutoverOptions are the options of cutover.
type cutoverOptions struct {
	movingOptions
	streamOptions
	compareOptions
	definitions string // --definitions on, accept or off; on: without definitions it is half a proof
	fence       bool   // --fence off: it ends the sessions of others
}

func (o *cutoverOptions) own() option.Table {
	return option.Table{
		option.New("definitions", "on|accept|off", "on", "Compare definitions too. If they differ, the two sides are not equal, unless you accept that.", option.OneOf([]string{"on", "accept", "off"}, &o.definitions)).CommonTo("cutover"),
		option.New("fence", "on/off", "off", "Make a PostgreSQL source read-only first, and end all other sessions on its database.", option.OnOff(&o.fence)).CommonTo("cutover"),
	}.In(option.Comparing)
}

func (o *cutoverOptions) Table() option.Table {
	return option.Join(o.movingOptions.table(), o.streamOptions.table(), o.compareOptions.table(), o.own())
}

func (o *cutoverOptions) warnBy(warn func(tidemark.Finding)) {
	o.engineOptions.warnBy(warn)
	o.queueOptions.warnBy(warn)
}

func cutoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cutover [SOURCE TARGET]",
		Short: "End a stream: apply all, set sequences, prove both sides equal",
		Long: `End a stream that replicate has set up: apply everything in the source's log, set the target's
sequences to the source's values, make the triggers and events that the copy has left for now
(MySQL, MariaDB), compare both sides row by row and definition by definition, and print the
proof. The exit code is 0 only if they are equal: rows always, definitions
unless --definitions is accept or off.

First stop the replicate process and everything that writes to the source. On PostgreSQL,
--fence stops the writers: it makes the database read-only (ALTER DATABASE ... SET
default_transaction_read_only = on) and ends all other sessions. The proof ends with the
commands that undo this and remove the stream.`,
		Example: `  tidemark cutover postgres://me@old/shop postgres://me@new/shop --fence

  # of a stream that is known here, by its name
  tidemark cutover --name shop

  # afterwards: drop the slot, so that the source keeps no more log
  tidemark replicate postgres://me@old/shop postgres://me@new/shop --remove`,
		Args: args(0, 2, "cutover SOURCE TARGET"),
	}
	return onTask(cmd, (*cutoverOptions).cutover)
}

// ofStream takes source and target from the stream. All its tables are compared, stopped ones too.
func (o *cutoverOptions) ofStream(cmd *cobra.Command, r *request) error {
	return r.ofStream(cmd, o.name, &o.stateOptions, false)
}

func (o *cutoverOptions) cutover(cmd *cobra.Command, r *request) error {
	r.sayFindings(cmd)
	cat, err := o.openCatalog()
	if err != nil {
		return err
	}
	defer cat.Close()
	view := o.view()
	view.Ends = true
	watch := screen.Watch(view, cmd.OutOrStdout(), cmd.ErrOrStderr())
	env := job.Env{Open: r.opener(&o.engineOptions), Catalog: cat, Watch: watch}
	spec := stream.CutoverSpec{Stream: o.stream(stream.Both), Fence: o.fence, Diff: o.compareOptions.spec(r, &o.ruleOptions, &o.loadOptions, &o.engineOptions)}
	spec.Stream.Copy, spec.Stream.Buffer = o.copySpec(r), o.load.Buffer
	spec.Stream.OpenQueue = func(ctx context.Context, stream, where string) (*queue.Log, error) {
		return o.openQueue(ctx, &o.stateOptions, stream, where)
	}
	spec.Stream.Apply.Spool = o.spool()
	proof, err := stream.Cutover(cmd.Context(), env, spec)
	var defined *define.Result
	if err == nil && o.definitions != "off" {
		defined, err = definitions(cmd.Context(), r, &o.engineOptions, env, spec.Diff)
	}
	watch.Stop()
	if err != nil {
		return err
	}
	proof.Definitions, proof.Accepted = defined, o.definitions == "accept"
	if proof.Equal() {
		if err := stream.CutOver(cmd.Context(), cat, spec.Stream.Name); err != nil {
			return err
		}
	}
	if o.json {
		screen.JSON(cmd.OutOrStdout(), proof)
	} else {
		screen.Proof(cmd.OutOrStdout(), proof)
	}
	if !proof.Equal() {
		return differ{}
	}
	return nil
}
