package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/logs"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/holdings"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/postgres/physical"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// recoveryOptions tell how far a restored server recovers, and its role then.
type recoveryOptions struct {
	wanted  bool        // --to was given
	target  logs.Target // --to; none: the backup's own end. --exclusive off; --timeline 0: the newest
	action  string      // --action promote: most users want a server that accepts writes
	primary string      // --standby; none: a server of its own
	slot    string      // --standby-slot; none
	program string      // --program; none: this program's present path
	tried   string      // a file of the archive that recovery needs; "": there is no recovery
}

func (o *recoveryOptions) table() option.Table {
	return option.Table{
		option.New("to", "text", "", "Recover to end, a time, an LSN, or a restore point. It uses the archived log; also: immediate, xid:NUMBER, and name:TEXT for a restore point whose name looks like one of the others.", o.recoveryTarget).CommonTo("restore"),
		option.New("exclusive", "on/off", "off", "Stop just before that time, LSN or transaction, not just after it.", option.OnOff(&o.target.Exclusive)),
		option.New("timeline", "number", "0", "Recover along this timeline; 0: the newest that descends from the backup.", func(v string) error {
			n, err := strconv.ParseUint(v, 10, 32)
			o.target.Timeline = uint32(n)
			return err
		}),
		option.New("action", "promote|pause|shutdown", "promote", "What the server does once it is there: accept writes, wait as a standby that you can query, or shut down.", option.OneOf([]string{"promote", "pause", "shutdown"}, &o.action)),
		option.New("standby", "text", "", "Make it a standby of this primary. Its URL looks like postgres://user@host:port/?passfile=FILE, without a password in it.", option.Text(&o.primary)).CommonTo("restore"),
		option.New("standby-slot", "text", "", "The primary's physical slot that keeps the log for the standby; it must exist.", option.Text(&o.slot)),
		option.New("program", "file", "", "Path at which the restored server finds this program, which fetches the log for it; default: its current path.", option.Text(&o.program)),
	}.In(option.Recovery)
}

var lsnForm = regexp.MustCompile(`^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$`)

// recoveryTarget reads --to.
func (o *recoveryOptions) recoveryTarget(v string) (err error) {
	t := &o.target
	o.wanted = true
	kind, rest, _ := strings.Cut(v, ":")
	switch {
	case v == "":
		return errors.New("must be end, immediate, a time, an LSN, xid:NUMBER or a name")
	case v == "end":
		t.Kind = logs.AtEnd
	case v == "immediate":
		t.Kind = logs.AtOnce
	case kind == "name" && rest != "":
		t.Kind, t.Name = logs.AtRestorePt, rest
	case kind == "xid":
		t.Kind = logs.AtTx
		t.Tx, err = strconv.ParseUint(rest, 10, 32) // the log has the lower half of them
	case lsnForm.MatchString(v):
		t.Kind = logs.AtPlace
		t.Place, err = wal.ParseLSN(v)
	default:
		t.Kind, t.Name = logs.AtRestorePt, v
		if at, ok := parseMoment(v); ok {
			t.Kind, t.Name, t.Time = logs.AtTime, "", at
		} else if likeMoment.MatchString(v) {
			return errors.New("is neither a time nor an LSN: use 2026-11-21 19:30:00, with a zone such as +01:00 or UTC if it is not this machine's, or 2/5F0A3B8; for a restore point of this name, use name:" + v)
		}
	}
	return err
}

// likeMoment matches what looks like a time or an LSN and not like the name of a restore point.
var likeMoment = regexp.MustCompile(`(?i)^\s*[-+]?[0-9]|[0-9]:[0-9]|^[0-9a-f]+/[0-9a-z]+$|^\s*(now|today|yesterday|tomorrow|latest|newest|last)\b|^\s*(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)[a-z]*[ ,.-]+[0-9]`)

// parseMoment reads a date and time, in this machine's zone if it names none.
func parseMoment(v string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05-07", "2006-01-02 15:04:05 MST", time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, v, time.Local); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// planRestore chooses the backup, and tells how the server recovers from it; nil: with the backup's
// own log.
func (o *restoreOptions) planRestore(cmd *cobra.Command, r *repo.Repo, id string) (*repo.Manifest, func(context.Context, string) error, error) {
	ctx := cmd.Context()
	if o.primary != "" && o.wanted || o.slot != "" && o.primary == "" {
		return nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Err: errors.New("--standby and --to exclude each other, and --standby-slot needs --standby"), Hint: "Give --standby, with or without --standby-slot, or --to."}
	}
	if !o.wanted {
		m, err := o.Choice.Backup(ctx, r, id, false)
		if err != nil || o.primary == "" {
			return m, nil, err
		}
		finish, err := o.standby(ctx, r, m.SystemID)
		return m, finish, err
	}
	candidates, err := o.candidates(ctx, r, id)
	if err != nil {
		return nil, nil, err
	}
	a := logs.New(r, o.codec)
	var first error // of the newest backup
	for _, m := range candidates {
		replay, err := o.reachable(ctx, a, m)
		if err == nil {
			o.forecast(cmd, m, replay)
			if m.LogSize > 0 {
				o.tried = wal.SegmentName(replay.Timeline, (replay.To-1)/uint64(m.LogSize)*uint64(m.LogSize), uint32(m.LogSize))
			}
			return m, o.recovery(r, replay), nil
		}
		var other *logs.OtherTimeline
		if first == nil || errors.As(err, &other) && !errors.As(first, new(*logs.OtherTimeline)) {
			first = err
		}
		if k := tidemark.KindOf(err); k != tidemark.Invalid && k != tidemark.Lost && k != tidemark.NotFound {
			break
		}
	}
	return nil, nil, first
}

// candidates are the backups from which the target may be reached, newest first.
func (o *restoreOptions) candidates(ctx context.Context, r *repo.Repo, id string) ([]*repo.Manifest, error) {
	if id != "latest" {
		m, err := o.Choice.Backup(ctx, r, id, false)
		return []*repo.Manifest{m}, err
	}
	all, err := o.Latest(ctx, r, false)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *repo.Manifest) int { return b.Ended.Compare(a.Ended) })
	t := o.target
	early := slices.DeleteFunc(all, func(m *repo.Manifest) bool { return t.Kind == logs.AtTime && m.Ended.After(t.Time) })
	if len(early) == 0 {
		cause := "there is no backup in " + r.Store().String()
		if t.Kind == logs.AtTime {
			cause += " that ended before"
		}
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "restore to", Object: t.String(), Err: errors.New(cause), Hint: "tidemark backups lists them."}
	}
	return early, nil
}

// reachable checks whether the archive leads from a backup to the target.
func (o *restoreOptions) reachable(ctx context.Context, a *logs.Archive, m *repo.Manifest) (logs.Replay, error) {
	need, err := holdings.Span(m)
	if err != nil {
		return logs.Replay{}, err
	}
	return a.Check(ctx, need, o.target)
}

// replayRate is roughly what a server replays on one processor, for the estimate of the time: more
// if the pages are in memory, less if it waits for a disk.
const replayRate = 50 << 20

// forecast tells what the server will do when it is started.
func (o *restoreOptions) forecast(cmd *cobra.Command, m *repo.Manifest, replay logs.Replay) {
	took := time.Duration(float64(replay.Bytes()) / replayRate * float64(time.Second)).Round(time.Second)
	if o.json {
		screen.Event(o.events(cmd), struct {
			Event      string    `json:"event"`
			Backup     string    `json:"backup"`
			Target     string    `json:"target"`
			Timeline   uint32    `json:"timeline"`
			Bytes      int64     `json:"replay_bytes"`
			Segments   int       `json:"segments"`
			Seconds    float64   `json:"about_seconds"`
			LastCommit time.Time `json:"last_commit"`
		}{"recovery", m.ID, o.target.String(), replay.Timeline, replay.Bytes(), replay.Segments, took.Seconds(), replay.At})
		return
	}
	last := ""
	if !replay.At.IsZero() {
		last = "; its last commit is at " + replay.At.Format("2006-01-02 15:04:05.999999 UTC")
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "recovery from backup %s to %s, on timeline %d: %s of log to replay in %s, about %s at 50 MB/s%s\n",
		m.ID, o.target, replay.Timeline, screen.Bytes(replay.Bytes()), screen.Count(replay.Segments, "segment"), max(took, time.Second), last)
}

// recovery writes the server's settings.
func (o *restoreOptions) recovery(r *repo.Repo, replay logs.Replay) func(context.Context, string) error {
	t := o.target
	rec := physical.Recovery{Target: t.Kind, Exclusive: t.Exclusive, Timeline: strconv.FormatUint(uint64(replay.Timeline), 10), Action: o.action}
	switch t.Kind {
	case logs.AtTime:
		rec.Value = t.Time.UTC().Format("2006-01-02 15:04:05.999999+00")
	case logs.AtPlace:
		rec.Value = wal.FormatLSN(t.Place)
	case logs.AtTx:
		rec.Value = strconv.FormatUint(t.Tx, 10)
	case logs.AtRestorePt:
		rec.Value = t.Name
	}
	rec.Command = o.fetchCommand()
	return func(_ context.Context, dir string) error { return rec.Write(dir) }
}

// fetchCommand is the restore_command by which a server fetches its log with this program.
func (o *restoreOptions) fetchCommand() string { return physical.RestoreCommand(o.fetchWords()...) }

// fetchWords are the words of that command.
func (o *restoreOptions) fetchWords() []string {
	program := o.program
	if program == "" {
		program, _ = os.Executable() // otherwise it must be in the path
	}
	if program == "" {
		program = "tidemark"
	}
	words := append([]string{program, "archive", "get", o.named[0], "%f", "%p", "--ahead", "4"}, o.named[1:]...)
	for _, key := range [][2]string{{"--identity", o.identity}, {"--passphrase-file", o.passphraseFile}} {
		if key[1] == "" {
			continue
		}
		if path, err := filepath.Abs(key[1]); err == nil {
			key[1] = path
		}
		words = append(words, key[0], key[1])
	}
	return words
}

// standby tells how the restored copy becomes a standby. If the repository has an archive of the
// log, that has what the primary has already removed.
func (o *restoreOptions) standby(ctx context.Context, r *repo.Repo, system string) (func(context.Context, string) error, error) {
	of, err := physical.ParseStandbyOf(o.primary)
	if err != nil {
		return nil, err
	}
	of.Slot = o.slot
	state, err := logs.New(r, o.codec).State(ctx)
	if err != nil {
		return nil, err
	}
	if state.System == system {
		of.Command = o.fetchCommand()
		if n := len(state.Ends); n > 0 {
			o.tried = wal.SegmentName(state.Ends[n-1].Timeline, state.Ends[n-1].Place-uint64(state.Segment), uint32(state.Segment))
		}
	}
	return func(_ context.Context, dir string) error { return of.Write(dir) }, nil
}

// A nextStep is what the user does with a restored folder.
type nextStep struct {
	Command string `json:"command"`
	Then    string `json:"then"` // what the server does
}

// start tells how to start a server on the restored folder.
func (o *restoreOptions) start(m *repo.Manifest, dir string) *nextStep {
	then := "It replays the log of the backup, and then accepts writes."
	switch {
	case o.primary != "":
		then = "It follows " + tidemark.MaskURL(o.primary) + " as a standby."
	case o.wanted:
		then = "It replays the log to " + o.target.String() + ", and then " + map[string]string{"promote": "accepts writes", "pause": "waits as a standby that you can query", "shutdown": "shuts down"}[o.action] + "."
	}
	return &nextStep{engines.StartRestored(dir, m.VersionNum, userOf(m).words()...), then}
}
