package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/job/stream"
	"github.com/tidemarkdb/tidemark/queue/peek"
)

// peekOptions are the options of peek.
type peekOptions struct {
	catalogueOptions
	queueOptions
}

func (o *peekOptions) Table() option.Table {
	return option.Join(o.catalogueOptions.table(), o.queueOptions.table())
}

func peekCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peek [STREAM]",
		Short: "Print the transactions in a stream's durable queue",
		Long: `Print the transactions in the durable queue of a stream, as text or as JSON, oldest first.
Nothing is removed. It also works while the stream runs: transactions that are applied
meanwhile may be gone before they are printed.`,
		Example: `  tidemark peek
  tidemark peek shop --limit 5
  tidemark peek shop --json | jq .table`,
		Args: args(0, 1, "peek [STREAM]"),
	}
	read := flags[peekOptions](cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		name := o.name
		if len(given) > 0 {
			name = given[0]
		}
		return o.peek(cmd.Context(), name, cmd.OutOrStdout())
	}
	return cmd
}

func (o *peekOptions) peek(ctx context.Context, name string, out io.Writer) error {
	cat, err := o.readCatalog()
	if err != nil {
		return err
	}
	known, err := cat.Stream(ctx, name)
	for _, half := range []stream.Role{stream.ApplyHalf, stream.CaptureHalf} {
		if err == nil {
			break
		}
		if other, herr := cat.Stream(ctx, stream.RecordOf(name, half)); herr == nil {
			known, err = other, nil
		}
	}
	if cerr := cat.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	where := known.Queue
	if o.queue != "" && tidemark.MaskURL(o.queue) == known.Queue {
		where = o.queue // with its password
	}
	if where == "direct" {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "peek", Object: name, Err: errors.New("has only an in-memory queue"), Hint: "Only streams with --queue durable, at a relay, or with a queue on NATS or Kafka servers, can be peeked at."}
	}
	q := peek.Question{Limit: o.limit, JSON: o.json}
	if where == "durable" {
		if opt, err := o.jetstream(&o.stateOptions, name, where); err == nil {
			if err := peek.Ask(ctx, opt.Dir, q, out); !errors.Is(err, peek.ErrNoDoor) {
				return err
			}
		}
	}
	o.size, o.replicas = 0, 0 // peek changes nothing
	log, err := o.openQueue(ctx, &o.stateOptions, name, where)
	if err != nil {
		return err
	}
	defer log.Close()
	return peek.Print(ctx, log, out, q)
}
