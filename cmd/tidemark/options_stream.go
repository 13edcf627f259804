package main

import (
	"fmt"
	"github.com/tidemarkdb/tidemark/job/stream/point"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// nameOptions name a stream.
type nameOptions struct {
	name string // --name main: with only one stream, no name is needed
}

func (o *nameOptions) table() option.Table {
	return option.Table{
		option.New("name", "text", "main", "The stream's name. Its slot on the source and its progress on the target use this name too. Lower-case letters, digits, underscores.", option.Text(&o.name)).For("replicate capture apply cutover status exceptions peek diff repair set sub skip check").CommonTo("replicate capture apply cutover status exceptions peek diff repair set sub skip"),
	}.In(option.Streams)
}

// streamOptions tell how a log is followed and applied. Their values are in the spec of a stream,
// whose fields have more detail; each line has its default.
type streamOptions struct {
	nameOptions
	queueOptions
	spec    stream.Spec
	metrics string // --metrics; none: no port is opened unasked
}

// stream is the spec that the options make, for a stream or a half of one.
func (o *streamOptions) stream(role stream.Role) stream.Spec {
	spec := o.spec
	spec.Name, spec.Role, spec.Queue, spec.CommitInterval = o.name, role, o.queue, o.interval
	return spec
}

// applyTable has the options of apply and of what capture sends.
func (o *streamOptions) applyTable() option.Table {
	return option.Table{
		option.New("agents", "number", "16", "Sessions that apply transactions, 1 to 128.", option.Number(1, mostAgents, &o.spec.Apply.Agents)).For("replicate cutover apply").CommonTo("replicate apply"),
		option.New("commit-order", "dependent|source", "dependent", "Commit independent transactions as soon as they are ready, or all in the source's order.", option.Word(&o.spec.Apply.SourceOrder, map[string]bool{"dependent": false, "source": true})).For("replicate cutover apply"),
		option.New("commit-count", "number", "0", "Source transactions that an agent may combine into one target transaction, up to 1000; 0: one, and up to 100 during catch-up.", option.Number(0, 1000, &o.spec.Apply.CommitCount)).For("replicate cutover apply"),
		option.New("apply-mode", "auto|transactional|batch", "auto", "Apply transactions one by one, or merge many into one that writes only the net change of each row; auto: in batches during catch-up. There are no batches with --commit-order source, with --ok-sqlstates, with --conflict other than stop and stop-queue, or with foreign keys whose actions are not in the log; auto does not batch with --commit-count either.", option.Word(&o.spec.Apply.Mode, map[string]apply.Mode{"auto": apply.Auto, "transactional": apply.Transactional, "batch": apply.Batch})).For("replicate cutover apply"),
		option.New("conflict", "text", "stop", "How to handle a change that does not fit the target: stop, stop-queue, ignore, force or disable. Or one action per kind of change: insert=force,update=ignore,delete=ignore (a kind that is not listed: stop). A change conflicts if its row already exists, is missing, or differs under the conflict rule. stop: stop the stream; stop-queue: stop apply, but keep filling the queue, unless it is direct; ignore: skip the change; force: make the target's row equal to the source's; disable: stop only that table, see tidemark sub. The last three record the change, see tidemark exceptions.", func(v string) error { return o.spec.Conflict.SetActions(v) }).For("replicate cutover apply").CommonTo("replicate apply"),
		option.New("conflict-rule", "key|changed|all", "key", "What must match between the target's row and the source's old row before an update or a delete: the key; also the columns that an update changes, which then writes no others; or all columns.", option.OneOf(tidemark.ConflictRules, &o.spec.Conflict.Rule)).For("replicate cutover capture apply check"),
		option.New("new-tables", "announce|follow", "announce", "Tables created on the source while the stream runs, if the rules select them: announce how to add them, or add and load them at once.", option.Word(&o.spec.FollowTables, map[string]bool{"announce": false, "follow": true})).For("replicate capture"),
		option.New("follow-ddl", "on/off", "off", "Replicate changed definitions from a PostgreSQL source. Event triggers write them into the log, in order with the rows, so that columns, enum labels and partitions follow. The triggers stay until the stream is removed, even if a later run does not set this. Needs a superuser, or a role that the server allows to create event triggers.", option.OnOff(&o.spec.FollowDDL)).For("replicate capture"),
		option.New("on-ddl", "stop|reload", "stop", "What happens to a table whose definition changed on the source in a way that cannot be replicated: it stops until tidemark sub reload; or the target's table gets the source's definition (columns that only the target has are dropped), is emptied, and is loaded again beside the stream.", option.Word(&o.spec.ReloadChanged, map[string]bool{"stop": false, "reload": true})).For("replicate"),
		option.New("changed-columns", "on/off", "off", "Send only the changed columns of an update, plus key columns (IBM's CHANGED_COLS_ONLY). An update that changes nothing is not sent. So updates of different columns of a row on both sides merge. On PostgreSQL: for tables with REPLICA IDENTITY FULL and a primary key.", option.OnOff(&o.spec.OnlyChanged)).For("replicate cutover capture"),
		option.New("ok-sqlstates", "list", "", "Target errors to tolerate, as SQLSTATEs separated by commas: the change is skipped and recorded.", sqlStates(&o.spec.Apply.OKStates)).For("replicate cutover apply"),
		option.New("capture-memory", "size", "32MB", "Memory for transactions that a PostgreSQL source sends before they commit (those above its logical_decoding_work_mem); the largest go to files.", option.Size(&o.spec.CaptureMemory)).For("replicate cutover capture"),
		option.New("apply-memory", "size", "64MB", "Memory for transactions that are read but not applied yet; a larger one is applied alone.", option.Size(&o.spec.Apply.MemoryLimit)).For("replicate cutover apply"),
	}.In(option.Applying)
}

// monitorTable has the options of what a stream reports.
func (o *streamOptions) monitorTable() option.Table {
	return option.Table{
		option.New("monitor-interval", "duration", "5s", "How often to show and record the state of a stream, at least 1s.", func(v string) error {
			d, err := time.ParseDuration(v)
			if err == nil && d < time.Second {
				err = fmt.Errorf("must be 1s or longer")
			}
			o.spec.Interval = d
			return err
		}).For("replicate cutover capture apply"),
		option.New("monitor-tables", "on/off", "off", "Also record the figures of every monitor interval in tables on the target, for a week: applymon, capmon and capqmon, with the columns of IBM's tables of these names.", option.OnOff(&o.spec.Monitor)).For("replicate apply"),
		option.New("monitor-to", "text", "", "Record these tables in the database at this URL instead of the target: the only way for tidemark capture, which does not connect to the target. The source works too. If that database is unavailable, the stream continues without these rows.", option.Text(&o.spec.MonitorTo)).For("replicate capture apply"),
	}.In(option.Figures)
}

func (o *streamOptions) metricsTable() option.Table {
	return option.Table{metricsLine(&o.metrics)}.In(option.Figures)
}

// metricsLine is an option of streams and archives.
func metricsLine(at *string) option.Line {
	return option.New("metrics", "text", "", "Serve Prometheus metrics at this address. They cover the stream or the archive; such as 127.0.0.1:9187, path /metrics.", option.Text(at)).For("replicate capture apply archive").CommonTo("archive")
}

// spanTable has the options of where a stream starts and stops.
func (o *streamOptions) spanTable() option.Table {
	return option.Table{
		option.New("from", "text", "", "Start without a copy: now, or at a log position or time. Positions are an LSN, FILE:OFFSET or GTID; times look like 2026-11-21T10:00:00Z. PostgreSQL can go back only as far as an existing slot tidemark_NAME.", pointOf(&o.spec.From)).For("replicate capture").CommonTo("replicate capture"),
		option.New("until", "text", "never", "When to stop: never, now, or at a log position or time. now: once the target has everything that was in the source's log at the start; a position: LSN, FILE:OFFSET or GTID; a time (2026-11-21T10:00:00Z): before the first transaction that was committed later.", pointOf(&o.spec.Until)).For("replicate capture apply").CommonTo("replicate capture apply"),
		option.New("stop-after", "never|copy|changes", "never", "Stop once, in the run that makes the copy: after the copy, before any change is applied (DMS's StopTaskCachedChangesNotApplied), or after the changes that arrived during the copy are applied (StopTaskCachedChangesApplied). The same command continues.", option.OneOf(stream.Pauses, &o.spec.Pause)).For("replicate apply"),
		option.New("no-copy", "on/off", "off", "Skip the copy: the target already has all rows, follow from now on.", option.OnOff(&o.spec.NoCopy)).For("replicate apply check").CommonTo("replicate apply"),
	}.In(option.Streams)
}

// sidesTable has the options of streams that have moved, or are to be removed.
func (o *streamOptions) sidesTable() option.Table {
	return option.Table{
		option.New("bidirectional", "on/off", "off", "Do not send back what a stream has applied on the source: for two streams in opposite directions.", option.OnOff(&o.spec.BreakLoops)).For("replicate cutover capture"),
		option.New("source-moved", "on/off", "off", "SOURCE is a different server: a replica that was promoted in its place. The stream continues there.", option.OnOff(&o.spec.SourceMoved)).For("replicate cutover capture"),
		option.New("target-moved", "on/off", "off", "TARGET is the same database under another URL, or one made from it (a replica, a restored backup). The stream continues there if the changes applied to it prove that.", option.OnOff(&o.spec.TargetMoved)).For("replicate cutover capture apply"),
		option.New("from-target", "on/off", "off", "The queue was lost or damaged: rebuild it from the target's log position, if the source still has its log from there. MySQL and MariaDB have it as long as their binlogs; PostgreSQL has already released what was in the queue.", option.OnOff(&o.spec.From.Target)).For("replicate capture"),
		option.New("anew", "on/off", "off", "Discard an earlier stream of this name, and copy again. See --prep for existing tables.", option.OnOff(&o.spec.Anew)).For("replicate capture apply").CommonTo("replicate"),
		option.New("remove", "on/off", "off", "Only remove the stream; rows stay. Its slot and publication are dropped, and its progress on the target is deleted.", option.OnOff(&o.spec.Remove)).For("replicate capture apply").CommonTo("replicate capture apply"),
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

func pointOf(at *point.Point) func(string) error { return option.Parsed(at, point.Parse) }
