package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// exceptionsOptions are the options of exceptions.
type exceptionsOptions struct {
	catalogueOptions
	engineOptions
	filter change.ExceptionFilter // --table, --since, --purge; none: all that are recorded
}

func (o *exceptionsOptions) own() option.Table {
	return option.Table{
		option.New("table", "text", "", "Only exceptions of this target table. Give schema.name, or the name alone.", option.Text(&o.filter.Table)).CommonTo("exceptions").Also("exceptions", "t"),
		option.New("since", "text", "", "Only exceptions recorded since then: 90m, 2h, 7d, or a date. 90m means 90 minutes ago; a date may have a time.", option.Parsed(&o.filter.Since, option.ParsePast)).CommonTo("exceptions"),
		option.New("purge", "text", "", "Delete exceptions recorded before then, and show nothing. The time is as for --since; --name and --table limit what is deleted.", option.Parsed(&o.filter.Before, option.ParsePast)).CommonTo("exceptions"),
	}.In(option.Streams)
}

func (o *exceptionsOptions) Table() option.Table {
	return option.Join(o.catalogueOptions.table(), o.engineOptions.table(), o.own())
}

// excepting is a database that stores exceptions.
type excepting interface {
	Exceptions(ctx context.Context, f change.ExceptionFilter, limit int) ([]change.Exception, error)
	PurgeExceptions(ctx context.Context, f change.ExceptionFilter) (int64, error)
}

var _ = []excepting{engines.Postgres{}, engines.MySQL{}}

func exceptionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exceptions [TARGET]",
		Short: "Show changes that did not fit the target, and what was done",
		Long: `Show which changes of streams did not fit the target, why, and what was done about them. With
--conflict ignore, force or disable, replicate records them in a table of the target
(tidemark.exceptions; tidemark_exceptions on MySQL), in the same transaction.

Without TARGET it shows those of the stream --name of this machine, on its target. The
catalogue stores no passwords: they come from a password file, PGPASSWORD or MYSQL_PWD.`,
		Example: `  tidemark exceptions
  tidemark exceptions postgres://me@new/shop
  tidemark exceptions postgres://me@new/shop --name shop --table public.item --since 2h --json

  # delete those older than 30 days
  tidemark exceptions postgres://me@new/shop --purge 30d`,
		Args: args(0, 1, "exceptions [TARGET]"),
	}
	read := flags[exceptionsOptions](cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		target := ""
		if len(given) > 0 {
			target = given[0]
		} else if target, err = o.targetOf(cmd.Context(), o.name); err != nil {
			return err
		}
		db, err := o.opener()(cmd.Context(), target)
		if err != nil && len(given) == 0 {
			return withoutPassword(err, "Name the target: tidemark exceptions TARGET")
		}
		if err != nil {
			return err
		}
		defer db.Close()
		x, ok := db.(excepting)
		if !ok {
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "exceptions", Object: tidemark.MaskURL(target), Err: errors.New(db.Name() + " has no exceptions"), Hint: "Name a PostgreSQL, MySQL or MariaDB target of a stream."}
		}
		if option.Given(cmd, "name") || len(given) == 0 {
			o.filter.Queue = o.name
		}
		if !o.filter.Before.IsZero() {
			n, err := x.PurgeExceptions(cmd.Context(), o.filter)
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s removed\n", screen.Count(int(n), "exception"))
			}
			return err
		}
		all, err := x.Exceptions(cmd.Context(), o.filter, o.limit)
		if err != nil {
			return err
		}
		if o.json {
			screen.JSON(cmd.OutOrStdout(), all)
			return nil
		}
		for _, e := range all {
			done := "skipped"
			if e.Applied {
				done = "forced"
			}
			screen.Printf(cmd.OutOrStdout(), "%s  %s  %s: %s of %s, %s (transaction at %d, committed %s)\n  %s\n  %s\n", e.Time.Local().Format("2006-01-02 15:04:05"), e.Queue,
				e.Reason, e.Operation, e.Table, done, e.Place, e.Commit.Local().Format("2006-01-02 15:04:05"), e.Message, e.SQL)
		}
		if len(all) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "no exceptions")
		}
		return nil
	}
	return cmd
}

// targetOf gives the target of a stream that the catalogue knows, without its password.
func (o *stateOptions) targetOf(ctx context.Context, name string) (string, error) {
	cat, err := o.readCatalog()
	if err != nil {
		return "", err
	}
	defer cat.Close()
	known, err := cat.Stream(ctx, name)
	if err != nil {
		var aerr error
		if known, aerr = cat.Stream(ctx, stream.RecordOf(name, stream.ApplyHalf)); aerr != nil {
			return "", err
		}
	}
	return known.Target, nil
}
