package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// nameOptions name a stream.
type nameOptions struct {
	name string // --name main: who has one stream need not name it
}

func (o *nameOptions) table() option.Table {
	return option.Table{
		option.New("name", "text", "main", "The stream's name. Its slot on the source and its progress on the target have it too. Small letters, digits, underscores.", option.Text(&o.name)).For("replicate capture apply cutover status exceptions peek diff repair set sub skip check").CommonTo("replicate capture apply cutover status exceptions peek diff repair set sub skip"),
	}.In(option.Streams)
}

// streamOptions say how a log is followed and applied. What they say stands in the spec of a stream, whose fields say
// more; each line has its default.
type streamOptions struct {
	nameOptions
	queueOptions
	spec    stream.Spec
	metrics string // --metrics; none: nobody has asked for an open port
}

// stream is the spec that the options make, for a stream or a part of one.
func (o *streamOptions) stream(half stream.Half) stream.Spec {
	spec := o.spec
	spec.Name, spec.Half, spec.Queue, spec.CommitInterval = o.name, half, o.queue, o.interval
	return spec
}

// applyTable has the options of applying and of what is sent.
func (o *streamOptions) applyTable() option.Table {
	return option.Table{
		option.New("agents", "number", "16", "Sessions that apply transactions, 1 to 128.", option.Number(1, 128, &o.spec.Apply.Agents)).For("replicate cutover apply").CommonTo("replicate apply"),
		option.New("commit-order", "dependent|source", "dependent", "Commit transactions that have nothing to do with each other as they are ready, or all in the source's order.", option.Word(&o.spec.Apply.SourceOrder, map[string]bool{"dependent": false, "source": true})).For("replicate cutover apply"),
		option.New("commit-count", "number", "0", "Transactions of the source that an agent may put into one of the target, up to 1000; 0: one, and up to 100 while there is much to catch up with.", option.Number(0, 1000, &o.spec.Apply.CommitCount)).For("replicate cutover apply"),
		option.New("apply-mode", "auto|transactional|batch", "auto", "Apply transactions one by one, or many as one with what they come to for each row; auto: in batches while there is much to catch up with. With --commit-order source, --ok-sqlstates, --conflict other than stop and stop-queue, or foreign keys whose work is not in the log, there are no batches; nor by auto with --commit-count.", option.Word(&o.spec.Apply.Mode, map[string]apply.Mode{"auto": apply.Auto, "transactional": apply.Transactional, "batch": apply.Batch})).For("replicate cutover apply"),
		option.New("conflict", "text", "stop", "What becomes of a change that does not fit the target: stop, stop-queue, ignore, force or disable. Or one for each kind of change: insert=force,update=ignore,delete=ignore (a kind that is not named: stop). Its row is there already, or is not there, or is not as the conflict rule wants it: stop; apply nothing more and go on filling the queue, where that is not direct; pass it over; make the target's row what the source's is; or stop its table alone, see tidemark sub. The last three note it, see tidemark exceptions.", func(v string) error { return o.spec.Conflict.SetActions(v) }).For("replicate cutover apply").CommonTo("replicate apply"),
		option.New("conflict-rule", "key|changed|all", "key", "What of a row of the target has to be as the source's was before an update or a delete: what tells the row; also the columns that an update changes, which then writes no others; or all.", option.OneOf(tidemark.ConflictRules, &o.spec.Conflict.Rule)).For("replicate cutover capture apply check"),
		option.New("new-tables", "announce|follow", "announce", "Tables that the source gets while the stream runs, and that the rules select: say how to add them, or add and load them at once.", option.Word(&o.spec.FollowTables, map[string]bool{"announce": false, "follow": true})).For("replicate capture"),
		option.New("follow-ddl", "on/off", "off", "On a PostgreSQL source: make event triggers that write changed definitions into the log, in their place among the rows, so that columns, labels and partitions go along. They stay until the stream is removed, also where a later run does not say it. Needs a superuser, or the role that the server lets make event triggers.", option.OnOff(&o.spec.FollowDDL)).For("replicate capture"),
		option.New("changed-columns", "on/off", "off", "Send with an update only what it has changed, and the columns of keys (IBM's CHANGED_COLS_ONLY), and no update that has changed nothing: so those of different columns of a row on both sides merge. On PostgreSQL of tables with REPLICA IDENTITY FULL and a primary key.", option.OnOff(&o.spec.OnlyChanged)).For("replicate cutover capture"),
		option.New("ok-sqlstates", "list", "", "Errors of the target with these SQLSTATEs, parted by commas, are no end: the change is passed over and noted.", sqlStates(&o.spec.Apply.OKStates)).For("replicate cutover apply"),
		option.New("capture-memory", "size", "32MB", "Memory for transactions that a PostgreSQL source sends before they are committed (those above its logical_decoding_work_mem); the largest go to files.", option.Size(&o.spec.CaptureMemory)).For("replicate cutover capture"),
		option.New("apply-memory", "size", "64MB", "Memory for transactions that were read and are not applied yet; a larger one goes alone.", option.Size(&o.spec.Apply.MemoryLimit)).For("replicate cutover apply"),
	}.In(option.Applying)
}

// monitorTable has the options of what a stream tells of itself.
func (o *streamOptions) monitorTable() option.Table {
	return option.Table{
		option.New("monitor-interval", "duration", "5s", "How often the state of a stream is shown and kept, from 1s.", func(v string) error {
			d, err := time.ParseDuration(v)
			if err == nil && d < time.Second {
				err = fmt.Errorf("must be 1s or longer")
			}
			o.spec.Interval = d
			return err
		}).For("replicate cutover capture apply"),
		option.New("monitor-tables", "on/off", "off", "Keep the figures of every monitor interval in tables of the target too, for a week: applymon, capmon and capqmon, with the columns of IBM's tables of these names.", option.OnOff(&o.spec.Monitor)).For("replicate apply"),
		option.New("monitor-to", "text", "", "Keep these tables in the database at this URL, in place of the target: the way for tidemark capture, which does not see the target. The source will do too. If that database goes away, the stream goes on without the rows.", option.Text(&o.spec.MonitorTo)).For("replicate capture apply"),
	}.In(option.Figures)
}

func (o *streamOptions) metricsTable() option.Table {
	return option.Table{metricsLine(&o.metrics)}.In(option.Figures)
}

// metricsLine is the option of streams and archives.
func metricsLine(at *string) option.Line {
	return option.New("metrics", "text", "", "Show figures to Prometheus at this address. They are of the stream or the archive; such as 127.0.0.1:9187, path /metrics.", option.Text(at)).For("replicate capture apply archive").CommonTo("archive")
}

// spanTable has the options of where a stream begins and ends.
func (o *streamOptions) spanTable() option.Table {
	return option.Table{
		option.New("from", "text", "", "Begin without a copy: now, or at a log position or time. Positions are an LSN, FILE:OFFSET or GTID, times are as 2026-11-21T10:00:00Z. PostgreSQL can look back only as far as a slot tidemark_NAME that is there already.", point(&o.spec.From)).For("replicate capture").CommonTo("replicate capture"),
		option.New("until", "text", "never", "When to end: never, now, or a log position or time. now: when the target has all that the source's log holds at the start; a position: LSN, FILE:OFFSET or GTID; a time (2026-11-21T10:00:00Z): before the first transaction that was committed later.", point(&o.spec.Until)).For("replicate capture apply").CommonTo("replicate capture apply"),
		option.New("stop-after", "never|copy|changes", "never", "Stop once, in the run that has made the copy: when that is done, before any change is applied (DMS's StopTaskCachedChangesNotApplied), or when the changes that came during it are applied (StopTaskCachedChangesApplied). The same command goes on.", option.OneOf(stream.Pauses, &o.spec.Pause)).For("replicate apply"),
		option.New("no-copy", "on/off", "off", "The target has all that the source has: only follow, from now on.", option.OnOff(&o.spec.NoCopy)).For("replicate apply check").CommonTo("replicate apply"),
	}.In(option.Streams)
}

// sidesTable has the options of streams that have moved, or are to go.
func (o *streamOptions) sidesTable() option.Table {
	return option.Table{
		option.New("bidirectional", "on/off", "off", "Do not send on what a stream has applied on the source: for two streams against each other.", option.OnOff(&o.spec.BreakLoops)).For("replicate cutover capture"),
		option.New("source-moved", "on/off", "off", "SOURCE is another server than before: a replica that has taken its place. The stream goes on there.", option.OnOff(&o.spec.SourceMoved)).For("replicate cutover capture"),
		option.New("target-moved", "on/off", "off", "TARGET is the same database as before under another URL, or one that was made of it (a replica, a backup). The stream goes on there, if what was applied to it proves that.", option.OnOff(&o.spec.TargetMoved)).For("replicate cutover capture apply"),
		option.New("from-target", "on/off", "off", "The queue was lost or damaged: begin it anew from where the target is, if the source still has its log from there. MySQL and MariaDB have it as long as their binlogs; PostgreSQL has released what was in the queue.", option.OnOff(&o.spec.From.Target)).For("replicate capture"),
		option.New("anew", "on/off", "off", "Forget an earlier stream of that name, and copy again. See --prep for tables that are there.", option.OnOff(&o.spec.Anew)).For("replicate capture apply").CommonTo("replicate"),
		option.New("remove", "on/off", "off", "Only remove the stream; rows stay. Its slot and publication go, and its progress on the target.", option.OnOff(&o.spec.Remove)).For("replicate capture apply").CommonTo("replicate capture apply"),
	}.In(option.Streams)
}

func (o *streamOptions) table() option.Table {
	return option.Join(o.nameOptions.table(), o.applyTable(), o.queueOptions.table(), o.monitorTable(), o.metricsTable(), o.spanTable(), o.sidesTable())
}

// sqlStates reads --ok-sqlstates.
func sqlStates(at *[]string) func(string) error {
	return func(v string) error {
		for state := range strings.SplitSeq(v, ",") {
			state = strings.ToUpper(strings.TrimSpace(state))
			if len(state) != 5 || strings.Trim(state, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				return fmt.Errorf("must be SQLSTATEs of five letters or digits, such as 23505,23503")
			}
			*at = append(*at, state)
		}
		return nil
	}
}

func point(at *stream.Point) func(string) error { return option.Parsed(at, stream.ParsePoint) }
