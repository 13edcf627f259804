package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job"
)

// excepting is a database that keeps exceptions.
type excepting interface {
	Exceptions(ctx context.Context, f tidemark.ExceptionFilter, limit int) ([]tidemark.Exception, error)
	PurgeExceptions(ctx context.Context, f tidemark.ExceptionFilter) (int64, error)
}

func exceptionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exceptions [TARGET]",
		Short: "Show which changes of streams did not fit the target, why, and what was done",
		Long: `Show which changes of streams did not fit the target, why, and what was done about them.
Where --conflict does not say stop, replicate notes them in a table of the target
(tidemark.exceptions; tidemark_exceptions on MySQL), in the same transaction.

Without TARGET they are those of the stream --name of this machine, on its target. The
catalogue keeps no passwords: it has to come from a password file, PGPASSWORD or MYSQL_PWD.`,
		Example: `  tidemark exceptions
  tidemark exceptions postgres://me@new/shop
  tidemark exceptions postgres://me@new/shop --name shop --table public.item --since 2h --json

  # remove those of more than 30 days ago
  tidemark exceptions postgres://me@new/shop --purge 30d`,
		Args: args(0, 1, "exceptions [TARGET]"),
	}
	read := flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		target := ""
		if len(given) > 0 {
			target = given[0]
		} else if target, err = s.targetOf(cmd.Context(), s.stream.Name); err != nil {
			return err
		}
		r := &request{settings: s}
		db, err := r.opener()(cmd.Context(), target)
		if err != nil && len(given) == 0 {
			return withoutPassword(err, "Name the target, tidemark exceptions TARGET")
		}
		if err != nil {
			return err
		}
		defer db.Close()
		x, ok := db.(excepting)
		if !ok {
			return tidemark.Errorf(tidemark.Unsupported, "exceptions", tidemark.MaskURL(target), db.Name()+" keeps none", "")
		}
		if cmd.Flags().Changed("name") || len(given) == 0 {
			s.exceptions.Queue = s.stream.Name
		}
		if !s.exceptions.Before.IsZero() {
			n, err := x.PurgeExceptions(cmd.Context(), s.exceptions)
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s removed\n", count(int(n), "exception"))
			}
			return err
		}
		all, err := x.Exceptions(cmd.Context(), s.exceptions, s.limit)
		if err != nil {
			return err
		}
		if s.json {
			printJSON(cmd.OutOrStdout(), all)
			return nil
		}
		for _, e := range all {
			done := "passed over"
			if e.Applied {
				done = "made to fit"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  %s: %s of %s, %s (transaction at %d, committed %s)\n  %s\n  %s\n", e.Time.Local().Format("2006-01-02 15:04:05"), e.Queue,
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
func (s *settings) targetOf(ctx context.Context, name string) (string, error) {
	cat, err := openCatalog(s)
	if err != nil {
		return "", err
	}
	defer cat.Close()
	stream, err := cat.Stream(ctx, name)
	if err != nil {
		var aerr error
		if stream, aerr = cat.Stream(ctx, job.RecordOf(name, job.ApplyHalf)); aerr != nil {
			return "", err
		}
	}
	return stream.Target, nil
}
