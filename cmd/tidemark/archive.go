package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/logs"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/metrics"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/physical"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// archiveOptions are the options of archive.
type archiveOptions struct {
	repoOptions
	engineOptions
	outputOptions
	stateOptions
	metrics  string           // --metrics; none: nobody has asked for an open port
	slot     string           // --slot; none: a server whose archiver is away keeps no log then
	use      physical.SlotUse // --slot-use there: a slot that is made by mistake fills the server's disk
	dropSlot bool             // --drop-slot off
	partial  time.Duration    // --partial 5s: what is lost with the server at most
	skipGap  bool             // --skip-gap off: a gap needs a new backup, and somebody who knows
}

func (o *archiveOptions) own() option.Table {
	return option.Table{
		option.New("slot", "text", "", "Slot that keeps the server's log until it is archived. It is a physical one; none: what the server removes first is a gap.", option.Text(&o.slot)).CommonTo("archive"),
		option.New("slot-use", "there|make|temporary", "there", "What to do about the slot. It has to be there; make it if it is not, or if the server has given it up; or make one that lasts as long as the connection.", option.Word(&o.use, map[string]physical.SlotUse{"there": physical.UseSlot, "make": physical.MakeSlot, "temporary": physical.TemporarySlot})).CommonTo("archive"),
		option.New("drop-slot", "on/off", "off", "Only remove the slot. The server keeps no log for it any more.", option.OnOff(&o.dropSlot)).CommonTo("archive"),
		option.New("partial", "duration", "5s", "How often a segment that is not full is archived. That is if something has come; 0s: only when the connection ends.", option.Duration(&o.partial)).CommonTo("archive"),
		option.New("skip-gap", "on/off", "off", "Go on with the oldest log that the server still has, where it has removed what comes next: the archive then has a gap, and needs a new backup.", option.OnOff(&o.skipGap)),
	}.In(option.Archives)
}

func (o *archiveOptions) Table() option.Table {
	return option.Join(o.repoOptions.table(), o.engineOptions.table(), o.outputOptions.table(), o.stateOptions.table(), option.Table{metricsLine(&o.metrics)}.In(option.Figures), o.own())
}

// archiveFileOptions are the options of archive push and archive get.
type archiveFileOptions struct {
	repoOptions
	ahead    int   // --ahead 0: one file at a time, as the server asks
	queueMax int64 // --queue-max 0: a gap is worse than a full disk to most
}

func (o *archiveFileOptions) own() option.Table {
	return option.Table{
		option.New("ahead", "number", "0", "Files to push or fetch ahead, 0 to 64. That is at the same time, before the server asks for them.", option.Number(0, 64, &o.ahead)).For("archive-push archive-get").CommonTo("archive-push archive-get"),
		option.New("queue-max", "size", "0", "Give up files when more than this waits. Which ones is said in the server's log; they wait because the archive cannot be written; 0: never, and the server's disk may fill.", option.Size(&o.queueMax)).For("archive-push").CommonTo("archive-push"),
	}.In(option.Archives)
}

func (o *archiveFileOptions) Table() option.Table { return option.Join(o.repoOptions.table(), o.own()) }

func archiveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "archive SOURCE REPO",
		Short: "Archive a PostgreSQL server's log, all the time",
		Long: `Receive the log of a PostgreSQL server over the replication protocol, as a standby does,
and keep it in a repository: segment after segment, with nothing missing between them, and
of the last one what there is. With a backup, tidemark restore brings back any moment of it.

It goes on where the archive ends, whoever has filled it, until it is stopped (Ctrl-C,
SIGTERM). Without a slot the server may remove log that was not archived yet: --slot keeps
it from that. A server whose archiver is away then keeps its log, until its disk is full or
max_slot_wal_keep_size is reached.

The role needs REPLICATION. A standby that is promoted is followed to its new timeline.`,
		Example: `  tidemark archive postgres://repl@db/postgres file:///backup/db --slot tidemark --slot-use make
  tidemark archive postgres://repl@db/postgres file:///backup/db --metrics 127.0.0.1:9188
  tidemark archive postgres://repl@db/postgres file:///backup/db --slot tidemark --drop-slot

  # instead of it, by the server itself (postgresql.conf)
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
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "drop slot", Err: errors.New("no slot was named"), Hint: "name it with --slot"}
		}
		return e.DropLogSlot(ctx, o.slot)
	}
	r, done, err := o.openRepo(ctx, where, true)
	if err != nil {
		return err
	}
	defer done()
	watch := &archiveWatch{view: o.view(), codec: o.codec.String(), to: cmd.ErrOrStderr(), r: r, begun: time.Now()}
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
			state.System = of[0] // refused before a slot is made
		}
	}
	opt := physical.ReceiveOptions{Ends: state.Ends, System: state.System, Slot: o.slot, SlotUse: o.use, Partial: o.partial, Reconnect: true, Event: watch.event}
	if o.skipGap {
		if opt.Ends, err = o.behindGap(ctx, e, state); err != nil {
			return err
		}
	}
	if watch.receiver, err = e.Receive(opt); err != nil {
		return err
	}
	if !option.Given(cmd, "compress") {
		a.Hurry(watch.hurried)
	}
	stop, err := watch.start(o.metrics)
	if err != nil {
		return err
	}
	defer stop()
	err = o.recorded(ctx, "archive", tidemark.MaskURL(source), r.Store().String(), watch.work, func(ctx context.Context) error {
		return watch.receiver.Run(ctx, func(ctx context.Context, f *tidemark.LogFile) error {
			err := a.Keep(ctx, f, func(name string, next time.Duration, err error) {
				watch.event(fmt.Sprintf("%s is not archived, tries again in %s", name, next), err)
			})
			if err == nil {
				watch.kept(f)
			}
			return err
		})
	})
	if ctx.Err() != nil && tidemark.KindOf(err) == tidemark.Cancelled {
		watch.event("stopped", nil)
		return nil // there is no other end of it
	}
	return err
}

// behindGap forgets where the archive ends: it goes on with what the server still has.
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

// An archiveWatch says on the screen, and to Prometheus, how an archive goes.
type archiveWatch struct {
	view     screen.View
	codec    string // how it packs while it is not in a hurry
	to       io.Writer
	r        *repo.Repo
	receiver *physical.Receiver
	begun    time.Time
	from     uint64 // where it was when it began
	hurry    bool

	mu       sync.Mutex
	segments int64
	bytes    int64
	failures int64
	damaged  int64
	last     time.Time // when something was kept
	commit   int64     // time of the last commit in it, microseconds
}

// An archiveEvent is what happens, as JSON.
type archiveEvent struct {
	Event     string  `json:"event"` // what happens, or "state"
	Time      string  `json:"time"`
	Error     string  `json:"error,omitempty"`
	Connected bool    `json:"connected"`
	Timeline  uint32  `json:"timeline,omitempty"`
	Received  string  `json:"received,omitempty"` // LSN
	Archived  string  `json:"archived,omitempty"`
	Behind    uint64  `json:"behind_bytes"`
	Lag       float64 `json:"lag_seconds"`
	Segments  int64   `json:"segments"`
	Bytes     int64   `json:"bytes"`
	Failures  int64   `json:"failures"`
}

// How much of a server's log an archive has to catch up with to be in a hurry, and not to be any more.
const (
	farBehind = 128 << 20
	caughtUp  = 32 << 20
)

// hurried reports whether the log is to be packed in the quickest way, and says when that changes.
func (w *archiveWatch) hurried() bool {
	st := w.receiver.Status()
	behind := st.ServerEnd - min(st.ServerEnd, max(st.Taken, w.from))
	switch {
	case w.from == 0:
		w.from = st.Received // nothing was taken yet
	case !w.hurry && behind > farBehind:
		w.hurry = true
		w.event("is "+screen.Bytes(int64(behind))+" behind: packs with s2 until it has caught up", nil)
	case w.hurry && behind < caughtUp:
		w.hurry = false
		w.event("has caught up: packs with "+w.codec, nil)
	}
	return w.hurry
}

func (w *archiveWatch) state() archiveEvent {
	st := w.receiver.Status()
	w.mu.Lock()
	defer w.mu.Unlock()
	return archiveEvent{Event: "state", Time: time.Now().UTC().Format(time.RFC3339Nano), Connected: st.Connected, Timeline: st.Timeline,
		Received: wal.FormatLSN(st.Received), Archived: wal.FormatLSN(st.Taken), Behind: st.ServerEnd - min(st.ServerEnd, st.Taken), Lag: st.Lag.Seconds(),
		Segments: w.segments, Bytes: w.bytes, Failures: w.failures}
}

// work is what the catalogue is told.
func (w *archiveWatch) work() catalog.Work {
	out := catalog.Work{Phase: "waiting for the server", Unit: "bytes", Left: -1}
	if w.receiver.Status().Connected {
		out.Phase = "receiving"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out.Done = w.bytes
	return out
}

// event prints what happens. Errors that are passed over are counted.
func (w *archiveWatch) event(what string, err error) {
	if err != nil {
		w.mu.Lock()
		w.failures++
		w.mu.Unlock()
	}
	if w.view.JSON {
		out := archiveEvent{Event: what, Time: time.Now().UTC().Format(time.RFC3339Nano)}
		if w.receiver != nil {
			out = w.state()
			out.Event = what
		}
		if err != nil {
			out.Error = tidemark.MaskText(err.Error())
		}
		w.print(out)
		return
	}
	if err != nil {
		what += ": " + tidemark.MaskText(err.Error())
	}
	fmt.Fprintf(w.to, "%s %s\n", time.Now().Format(time.DateTime), what)
}

func (w *archiveWatch) print(e archiveEvent) {
	line, err := json.Marshal(e)
	if err == nil {
		_, _ = fmt.Fprintf(w.to, "%s\n", line) // whoever does not read it any more has no use for it
	}
}

// kept counts a file that is in the archive.
func (w *archiveWatch) kept(f *tidemark.LogFile) {
	w.mu.Lock()
	w.last = time.Now()
	if f.Whole() && f.Place > 0 {
		w.segments++
		w.bytes += int64(f.Size)
	}
	w.commit = max(w.commit, f.LastCommit)
	if f.Damage != "" {
		w.damaged++
	}
	w.mu.Unlock()
	if f.Damage != "" {
		w.event("the server's segment "+f.Name+" is damaged, and a recovery would end in it: "+f.Damage, nil)
	}
}

// start begins to show the state, and what stops that.
func (w *archiveWatch) start(addr string) (stop func(), err error) {
	var end func()
	if addr != "" {
		if f, all := metrics.Everywhere(addr); all && w.view.JSON {
			w.event("warning: "+f.Object+": "+f.Text+". "+f.Hint, nil)
		} else if all {
			screen.Finding(w.to, f)
		}
		if end, err = w.serve(addr); err != nil {
			return nil, err
		}
	}
	done := make(chan struct{})
	var wait crash.Group
	if w.view.Progress != "none" {
		wait.Go(func() { w.lines(done) })
	}
	return func() {
		close(done)
		wait.Wait()
		if end != nil {
			end()
		}
	}, nil
}

// stateEvery is how often the state is shown.
const stateEvery = 10 * time.Second

func (w *archiveWatch) lines(done <-chan struct{}) {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		e := w.state()
		if w.view.JSON {
			w.print(e)
			continue
		}
		how := ""
		if !e.Connected {
			how = ", not connected"
		}
		fmt.Fprintf(w.to, "%s timeline %d archived up to %s, %s behind, lag %.1f s%s\n", time.Now().Format(time.DateTime), e.Timeline, e.Archived, screen.Bytes(int64(e.Behind)), e.Lag, how)
	}
}

func archivePushCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push REPO FILE",
		Short: "Put a file of the log into the archive: an archive_command",
		Long: `Put a file of a PostgreSQL server's log into the archive, as its archive_command. It ends with 0
when the archive has the file for certain: also where it had it before with the same bytes. A
file of the same name with other bytes is an error (exit code 13), and stays.

With --ahead, files that wait are pushed at the same time, before the server asks for them.
With --queue-max, files are given up, and the server is told that they are archived, when more
waits than that because the archive cannot be written: the archive then has a gap, and a
backup has to be made behind it. Each file that is given up is said in the server's log.`,
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
		Short: "Fetch a file of the log: a restore_command",
		Long: `Fetch a file of the log from the archive, as a PostgreSQL server's restore_command. It ends with 1
where the archive has no such file, which tells the server that the log ends there; and with
200 where anything else is wrong, or a segment is missing and later ones are there: that stops
the recovery, which would take it for the end of the log otherwise. FILE is there whole or not
at all. Of a segment that is not full yet comes what there is.`,
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
