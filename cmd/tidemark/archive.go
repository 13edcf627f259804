package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/logs"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/archiving"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// archiveOptions are the options of archive.
type archiveOptions struct {
	repoOptions
	engineOptions
	outputOptions
	stateOptions
	metrics  string           // --metrics; none: no port is opened unasked
	slot     string           // --slot; none: a slot fills the server's disk while no archiver is connected
	use      physical.SlotUse // --slot-use there: a slot that is created by mistake fills the server's disk
	dropSlot bool             // --drop-slot off
	partial  time.Duration    // --partial 5s: at most this is lost with the server
	skipGap  bool             // --skip-gap off: a gap needs a new backup, and a decision
}

func (o *archiveOptions) own() option.Table {
	return option.Table{
		option.New("slot", "text", "", "Slot that keeps the server's log until it is archived. It is a physical slot; without one, log that the server removes first leaves a gap.", option.Text(&o.slot)).CommonTo("archive"),
		option.New("slot-use", "there|make|temporary", "there", "How to obtain the slot. It must exist (there); create it if it is missing or the server has invalidated it (make); or create one that lasts as long as the connection (temporary).", option.Word(&o.use, map[string]physical.SlotUse{"there": physical.UseSlot, "make": physical.MakeSlot, "temporary": physical.TemporarySlot})).CommonTo("archive"),
		option.New("drop-slot", "on/off", "off", "Only drop the slot. The server then keeps no more log for it.", option.OnOff(&o.dropSlot)).CommonTo("archive"),
		option.New("partial", "duration", "5s", "How often to archive a segment that is not full yet. Only if new log has arrived; 0s: only when the connection ends.", option.Duration(&o.partial)).CommonTo("archive"),
		option.New("skip-gap", "on/off", "off", "If the server has already removed the next log, continue with the oldest log it still has: the archive then has a gap, and needs a new backup.", option.OnOff(&o.skipGap)),
	}.In(option.Archives)
}

func (o *archiveOptions) Table() option.Table {
	return option.Join(o.repoOptions.table(), o.engineOptions.table(), o.outputOptions.table(), o.stateOptions.table(), option.Table{metricsLine(&o.metrics)}.In(option.Figures), o.own())
}

// archiveFileOptions are the options of archive push and archive get.
type archiveFileOptions struct {
	repoOptions
	ahead    int   // --ahead 0: one file at a time, as the server asks
	queueMax int64 // --queue-max 0: to most, a gap is worse than a full disk
}

func (o *archiveFileOptions) own() option.Table {
	return option.Table{
		option.New("ahead", "number", "0", "Files to push or fetch ahead, 0 to 64. They move in parallel, before the server asks for them.", option.Number(0, 64, &o.ahead)).For("archive-push archive-get").CommonTo("archive-push archive-get"),
		option.New("queue-max", "size", "0", "Drop files when more than this is waiting. They wait while the archive cannot be written; the server's log names each dropped file; 0: never drop, and the server's disk may fill.", option.Size(&o.queueMax)).For("archive-push").CommonTo("archive-push"),
	}.In(option.Archives)
}

func (o *archiveFileOptions) Table() option.Table { return option.Join(o.repoOptions.table(), o.own()) }

func archiveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "archive SOURCE REPO",
		Short: "Archive a PostgreSQL server's log continuously",
		Long: `Receive the log of a PostgreSQL server over the replication protocol, as a standby does, and
store it in a repository: segment after segment without gaps, including the received part of
the last one. With a backup, tidemark restore can recover to any moment of it.

It starts where the archive ends, whichever program filled it, and runs until it is stopped
(Ctrl-C, SIGTERM). Without a slot the server may remove log that is not archived yet: --slot
prevents that. While no archiver is connected, the server then keeps its log, until its disk
is full or max_slot_wal_keep_size is reached.

The role needs REPLICATION. After a standby is promoted, the archive follows its new timeline.`,
		Example: `  tidemark archive postgres://repl@db/postgres file:///backup/db --slot tidemark --slot-use make
  tidemark archive postgres://repl@db/postgres file:///backup/db --metrics 127.0.0.1:9188
  tidemark archive postgres://repl@db/postgres file:///backup/db --slot tidemark --drop-slot

  # instead, let the server push and fetch its log (postgresql.conf)
  archive_command = 'tidemark archive push file:///backup/db %p'
  restore_command = 'tidemark archive get file:///backup/db %f %p'`,
		Args: args(2, 2, "archive SOURCE REPO"),
	}
	read := flags[archiveOptions](cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		return o.archive(cmd, given[0], given[1])
	}
	cmd.AddCommand(archivePushCommand(), archiveGetCommand())
	return cmd
}

func (o *archiveOptions) archive(cmd *cobra.Command, source, where string) error {
	ctx := cmd.Context()
	source, err := o.login(source)
	if err != nil {
		return err
	}
	e, err := postgres.Open(ctx, source, o.engine.Postgres)
	if err != nil {
		return err
	}
	defer e.Close()
	if o.dropSlot {
		if o.slot == "" {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "drop slot", Err: errors.New("no slot is named"), Hint: "Name it with --slot."}
		}
		return e.DropLogSlot(ctx, o.slot)
	}
	r, done, err := o.openRepo(ctx, where, true)
	if err != nil {
		return err
	}
	defer done()
	watch := &archiving.Watch{View: o.view(), Codec: o.codec.String(), To: cmd.ErrOrStderr(), Repo: r}
	a := logs.New(r, o.codec)
	state, err := a.State(ctx)
	if err != nil {
		return err
	}
	if state.System == "" {
		of, err := r.Systems(ctx)
		if err != nil {
			return err
		}
		if len(of) == 1 {
			state.System = of[0] // refused before a slot is created
		}
	}
	opt := physical.ReceiveOptions{Ends: state.Ends, System: state.System, Slot: o.slot, SlotUse: o.use, Partial: o.partial, Reconnect: true, Event: watch.Event}
	if o.skipGap {
		if opt.Ends, err = o.behindGap(ctx, e, state); err != nil {
			return err
		}
	}
	if watch.Receiver, err = e.Receive(opt); err != nil {
		return err
	}
	if !option.Given(cmd, "compress") {
		a.Hurry(watch.Hurried)
	}
	stop, err := watch.Start(o.metrics)
	if err != nil {
		return err
	}
	defer stop()
	err = o.recorded(ctx, "archive", tidemark.MaskURL(source), r.Store().String(), watch.Work, func(ctx context.Context) error {
		return watch.Receiver.Run(ctx, func(ctx context.Context, f *tidemark.LogFile) error {
			err := a.Keep(ctx, f, func(name string, next time.Duration, err error) {
				watch.Event(fmt.Sprintf("%s is not archived, retry in %s", name, next), err)
			})
			if err == nil {
				watch.Kept(f)
			}
			return err
		})
	})
	if ctx.Err() != nil && tidemark.KindOf(err) == tidemark.Cancelled {
		watch.Event("stopped", nil)
		return nil // it does not end otherwise
	}
	return err
}

// behindGap forgets where the archive ends: it continues with what the server still has.
func (o *archiveOptions) behindGap(ctx context.Context, e *postgres.Engine, state logs.State) ([]tidemark.LogPlace, error) {
	oldest, err := e.OldestLog(ctx)
	if err != nil || state.Segment == 0 {
		return nil, err
	}
	ends := state.Ends
	for i := range ends {
		if ends[i].Timeline == oldest.Timeline {
			ends[i].Place = max(ends[i].Place, oldest.Place)
		}
	}
	return ends, nil
}

func archivePushCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push REPO FILE",
		Short: "Push a WAL file into the archive: an archive_command",
		Long: `Push a WAL file of a PostgreSQL server into the archive, as its archive_command. It exits with
0 once the file is safely in the archive, also if it was there before with the same bytes. A
file of the same name with other bytes is an error (exit code 13); the archived file stays.

With --ahead, waiting files are pushed in parallel, before the server asks for them. With
--queue-max, if more than that is waiting because the archive cannot be written, files are
dropped and reported to the server as archived: the archive then has a gap, and you need a new
backup after it. The server's log names each dropped file.`,
		Example: `  archive_command = 'tidemark archive push file:///backup/db %p --ahead 4'`,
		Args:    args(2, 2, "archive push REPO %p"),
	}
	read := flagsAs[archiveFileOptions](cmd, "archive-push")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		r, done, err := o.openRepo(ctx, given[0], false)
		if err == nil {
			defer done()
			err = logs.New(r, o.codec).Push(ctx, given[1], logs.PushOptions{Ahead: o.ahead, QueueMax: o.queueMax})
		} else {
			err = logs.GiveUp(given[1], o.queueMax, err)
		}
		var up *logs.GivenUp
		if errors.As(err, &up) {
			fmt.Fprintf(cmd.ErrOrStderr(), "tidemark: %s\n", tidemark.MaskText(up.Error()))
			return nil
		}
		return err
	}
	return cmd
}

func archiveGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get REPO NAME FILE",
		Short: "Fetch a WAL file: a restore_command",
		Long: `Fetch a WAL file from the archive, as a PostgreSQL server's restore_command. It exits with 1
if the archive has no such file, which the server takes as the end of the log. It exits with
200 on any other error, or if a segment is missing and later ones exist: that stops the
recovery, which would otherwise end there. FILE is written completely or not at all. Of a
segment that is not full yet, it fetches the archived part.`,
		Example: `  restore_command = 'tidemark archive get file:///backup/db %f %p'`,
		Args:    args(3, 3, "archive get REPO %f %p"),
	}
	read := flagsAs[archiveFileOptions](cmd, "archive-get")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return stopsRecovery{err}
		}
		ctx := cmd.Context()
		r, done, err := o.openRepo(ctx, given[0], false)
		if err != nil {
			return stopsRecovery{err}
		}
		defer done()
		err = logs.New(r, o.codec).Get(ctx, given[1], given[2], o.ahead)
		switch {
		case err == nil:
			return nil
		case tidemark.KindOf(err) == tidemark.NotFound:
			return notArchived{err}
		}
		return stopsRecovery{err}
	}
	return cmd
}
