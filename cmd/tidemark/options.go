package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/postgres"
)

// An option is a line of the one table of options, from which flags, the task
// file's keys, --help and the manual's page are made.
type option struct {
	name  string
	form  string // "number", "size", "duration", "on/off", "text", "file", "list", or the choices parted by |
	def   string // as the user would write it; "" none
	help  string // one sentence
	verbs string // which commands know it
	set   func(*settings, string) error
}

// settings is what the options say, for all verbs.
type settings struct {
	config, mappings, taskSettings string
	include, exclude, names        []string
	targetSchema                   string
	plan                           load.PlanOptions
	load                           load.Options
	engine                         engines.Options
	lob                            tidemark.Lob
	rejectLimit                    int64
	rejectDir                      string
	resume                         string
	planOnly                       bool
	json                           bool
	progress                       string
	state                          string
	maxPrinted                     int
	readRows                       bool
	zeroDates                      string // for diff: as a copy has written them
	noNumberIsNull                 bool
	limit                          int
	exceptions                     tidemark.ExceptionFilter
	stream                         job.ReplicateSpec
	queue                          queueSettings
	watch, fence                   bool
	live, execute, printSQL        bool
	look                           lookSettings
	define                         definitionSettings
	liveSpec                       job.LiveSpec
	repairLog                      string
	metrics                        string
	noLoad                         bool
	ha                             haSettings
	verify                         verifySettings
	pin, unpin                     string // backups
	prune                          pruneSettings
	measure                        measureSettings
	repo                           repoSettings
	backup                         backupSettings
	arch                           archiveSettings
	to                             recoverySettings
}

const (
	onCopy   = "copy replicate apply"
	onMoves  = "copy diff repair check replicate capture apply cutover"
	onRuns   = "backup restore archive verify runs utilities report status exceptions peek set sub skip"
	onStream = "replicate capture apply cutover status exceptions peek diff repair set sub skip"
	// Commands of the group ha are under its name.
	onMeasure = "ha-measure-disk ha-measure-network ha-simulate"
	onPlan    = "ha-plan"
	onAll     = "utilities backup restore backups verify prune copy diff repair check replicate capture apply cutover runs report status exceptions peek set sub skip engines ha-scan ha-calculate"
)

// options is the table. Adding a line here is all that a new option needs.
var options = []option{
	{"config", "file", "", "Read a task file: source, target, rules and any of these options.", onMoves, text(func(s *settings) *string { return &s.config })},
	{"table-mappings", "file", "", "Read selection, transformation and table-settings rules in AWS DMS's JSON.", onMoves + " restore", text(func(s *settings) *string { return &s.mappings })},
	{"task-settings", "file", "", "Read AWS DMS's task settings JSON (FullLoadSettings, TargetMetadata, ErrorBehavior).", onMoves, text(func(s *settings) *string { return &s.taskSettings })},
	{"include", "list", "", "Take only tables that match SCHEMA.TABLE; * stands for any run of characters. May be repeated.", onMoves + " restore backup", list(func(s *settings) *[]string { return &s.include })},
	{"exclude", "list", "", "Leave out tables that match SCHEMA.TABLE. May be repeated.", onMoves + " restore backup", list(func(s *settings) *[]string { return &s.exclude })},
	{"table", "list", "", "Take only tables of this name, SCHEMA.TABLE, in which no character stands for others; each has to be there. May be repeated.", "backup restore", list(func(s *settings) *[]string { return &s.names })},
	{"target-schema", "text", "", "Put tables into this schema (PostgreSQL) or database (MySQL) where no rule says otherwise.", onMoves + " restore", text(func(s *settings) *string { return &s.targetSchema })},
	{"prep", "empty|keep|drop|truncate", "empty", "What to do with tables that the target has: refuse those with rows, keep, drop and create, or truncate.", "copy check replicate apply restore", choose(map[string]func(*settings){
		"empty": func(s *settings) { s.plan.Prep = load.MustBeEmpty }, "keep": func(s *settings) { s.plan.Prep = load.KeepTables },
		"drop": func(s *settings) { s.plan.Prep = load.DropTables }, "truncate": func(s *settings) { s.plan.Prep = load.Truncate }})},
	{"lanes", "number", "0", "Sessions that read and as many that write, 1 to 64; for copy, 0 starts with 2 and adds while throughput gains a tenth; for diff it means 2.", onMoves + " restore", number(0, 64, func(s *settings) *int { return &s.load.Lanes })},
	{"finishers", "number", "2", "Sessions that build keys and indexes while rows still move, 1 to 64.", onCopy + " restore", number(1, 64, func(s *settings) *int { return &s.load.Finishers })},
	{"range-size", "size", "0", "How much of a table one transaction moves; 0 chooses by size and lanes (64 MB to 1 GB).", onCopy + " restore", size(func(s *settings) *int64 { return &s.plan.RangeBytes })},
	{"buffer", "size", "8MB", "Memory between each reader and its writer.", "copy replicate cutover capture apply restore", size(func(s *settings) *int64 { return &s.load.Buffer })},
	{"retry-for", "duration", "5m", "How long a range, an object or a comparison that fails by a cut connection, a server that restarts, a deadlock and the like is tried again before the run stops; 0s: not at all.", onCopy + " restore diff repair", func(s *settings, v string) error {
		err := duration(func(s *settings) *time.Duration { return &s.load.RetryFor })(s, v)
		if s.load.RetryFor == 0 {
			s.load.RetryFor = -1
		}
		return err
	}},
	{"resume", "text", "", "Resume this run: an ID, the beginning of one, or last, which is the last one of this source and target.", "copy restore", text(func(s *settings) *string { return &s.resume })},
	{"plan", "on/off", "off", "Print what would happen and touch nothing.", "copy restore", onOff(func(s *settings) *bool { return &s.planOnly })},
	{"zero-dates", "error|null|epoch", "error", "MySQL dates that are none (0000-00-00, 2024-02-31), towards another engine: stop, NULL, or 1970-01-01.", onMoves + " restore", choose(map[string]func(*settings){
		"error": zeroDates(mysql.Refuse, ""), "null": zeroDates(mysql.Null, "null"), "epoch": zeroDates(mysql.Epoch, "epoch")})},
	{"unrepresentable", "error|null", "error", "Values that MySQL has no form for (infinity, NaN, dates before year 0): stop, or NULL.", onMoves + " restore", choose(map[string]func(*settings){
		"error": func(s *settings) { s.engine.MySQL.Unrepresentable, s.noNumberIsNull = mysql.Refuse, false },
		"null":  func(s *settings) { s.engine.MySQL.Unrepresentable, s.noNumberIsNull = mysql.Null, true }})},
	{"tinyint1-bool", "on/off", "off", "Take MySQL's tinyint(1) as boolean; a value other than 0 and 1 is then true.", onMoves + " restore", func(s *settings, v string) error {
		on, err := parseOnOff(v)
		s.engine.MySQL.TinyInt1Bool, s.engine.Postgres.TinyInt1Bool = on, on
		return err
	}},
	{"run-as-me", "on/off", "off", "Write to PostgreSQL as a superuser also where functions of other roles (of triggers, constraints, defaults, indexes) would run with its rights.", onMoves + " restore", onOff(func(s *settings) *bool { return &s.engine.Postgres.RunAsMe })},
	{"owners", "on/off", "off", "Carry owners over, PostgreSQL to PostgreSQL; the roles must exist.", onCopy + " restore backup diff cutover", onOff(func(s *settings) *bool { return &s.engine.Postgres.Owners })},
	{"grants", "on/off", "off", "Carry privileges over, PostgreSQL to PostgreSQL; the roles must exist.", onCopy + " restore backup diff cutover", onOff(func(s *settings) *bool { return &s.engine.Postgres.Grants })},
	{"lob-max", "size", "0", "Cut text and bytes to this size (DMS's limited LOB mode) and report each cut row; 0 never cuts.", onCopy + " check", func(s *settings, v string) error {
		n, err := parseSize(v)
		if err == nil && n > 0 {
			s.lob = tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: n}
		} else {
			s.lob = tidemark.Lob{}
		}
		return err
	}},
	{"reject-limit", "number", "0", "Set up to this many bad rows aside in a file instead of stopping at the first.", "copy restore", number64(func(s *settings) *int64 { return &s.rejectLimit })},
	{"on-table-error", "stop|continue", "stop", "Of a table that cannot be made or filled: stop, or reject that table with its reason, copy all else, and end with code 16.", "copy restore", choose(map[string]func(*settings){
		"stop": func(s *settings) { s.load.RejectTables = false }, "continue": func(s *settings) { s.load.RejectTables = true }})},
	{"reject-dir", "file", "", "Folder for the files of rejected rows and of cut values; default: beside the catalogue.", "copy restore", text(func(s *settings) *string { return &s.rejectDir })},
	{"lock", "auto|global|backup|tables|none", "auto", "How a MySQL source is held still for the moment in which all lanes take their view.", "copy diff repair replicate cutover capture apply backup", choose(map[string]func(*settings){
		"auto": func(s *settings) { s.engine.MySQL.Lock = mysql.LockAuto }, "global": func(s *settings) { s.engine.MySQL.Lock = mysql.LockGlobal },
		"backup": func(s *settings) { s.engine.MySQL.Lock = mysql.LockBackup }, "tables": func(s *settings) { s.engine.MySQL.Lock = mysql.LockTables },
		"none": func(s *settings) { s.engine.MySQL.Lock = mysql.LockNone }})},
	{"lock-wait", "duration", "60s", "How long to wait for that lock (DMS's TransactionConsistencyTimeout).", "copy diff repair replicate cutover capture apply backup", func(s *settings, v string) error {
		d, err := time.ParseDuration(v)
		s.engine.MySQL.LockWait = d
		return err
	}},
	{"definer", "keep|current", "keep", "Views, triggers and routines of MySQL: keep their DEFINER, whose account must exist, or make them under one's own.", onCopy + " restore", choose(map[string]func(*settings){
		"keep": func(s *settings) { s.engine.MySQL.Definer = mysql.KeepDefiner }, "current": func(s *settings) { s.engine.MySQL.Definer = mysql.CurrentDefiner }})},
	{"no-binlog", "on/off", "off", "Keep what is written out of a MySQL target's binlog (needs the privilege; replicas will not get it).", onCopy + " restore", onOff(func(s *settings) *bool { return &s.engine.MySQL.NoBinlog })},
	{"index-memory", "size", "256MB", "maintenance_work_mem of each session that builds indexes on PostgreSQL.", onCopy + " restore", size(func(s *settings) *int64 { return &s.engine.Postgres.MaintenanceMem })},
	{"index-workers", "number", "0", "max_parallel_maintenance_workers of these sessions; 0 keeps the server's, -1 means none.", onCopy + " restore", number(-1, 64, func(s *settings) *int { return &s.engine.Postgres.IndexWorkers })},
	{"read-rows", "on/off", "off", "Read all rows and hash them here (128 bits), also where two PostgreSQL servers could hash them (64 bits).", "diff repair cutover", onOff(func(s *settings) *bool { return &s.readRows })},
	{"max-printed", "number", "20", "Differing rows to print for each table.", "diff repair cutover", count0(1<<30, func(s *settings) *int { return &s.maxPrinted })},
	{"definitions", "off|on|only", "off", "Compare definitions too, or alone: tables, columns, keys, indexes, constraints, sequences, views, programs, types. Prints the SQL that brings the target up. --definitions alone means on.", "diff", oneOf([]string{"off", "on", "only"}, func(s *settings) *string { return &s.define.diff })},
	{"definitions", "on|accept|off", "on", "Compare definitions too: where they differ, both sides are not equal, unless that is accepted.", "cutover", oneOf([]string{"on", "accept", "off"}, func(s *settings) *string { return &s.define.cutover })},
	{"live", "on/off", "off", "Compare while both sides are written to and a stream runs: rows that differ are looked at again when the target has caught up.", "diff repair", onOff(func(s *settings) *bool { return &s.live })},
	{"live-timeout", "duration", "60s", "With --live: how long rows that still change are looked at again.", "diff repair", duration(func(s *settings) *time.Duration { return &s.liveSpec.Timeout })},
	{"live-rows", "number", "20000", "With --live: differing rows of a table that are watched at once, 100 to 10000000, of about 200 bytes each; if more differ, the table is read again.", "diff repair", number(100, 10_000_000, func(s *settings) *int { return &s.liveSpec.Keep })},
	{"settle", "duration", "5s", "With --live, where the target knows of no stream: how long a row has to stay as it is to count as different.", "diff repair", duration(func(s *settings) *time.Duration { return &s.liveSpec.Settle })},
	{"execute", "on/off", "off", "Make the changes; without it they are only printed.", "repair", onOff(func(s *settings) *bool { return &s.execute })},
	{"print", "on/off", "off", "Print the SQL of each change also with --execute.", "repair", onOff(func(s *settings) *bool { return &s.printSQL })},
	{"repair-log", "file", "", "File in which changes are noted, as JSON lines, before they are committed; default: a new one beside the catalogue.", "repair", text(func(s *settings) *string { return &s.repairLog })},
	{"replicate", "on/off", "off", "Look also at what a stream needs on both sides: settings, privileges, slots, replica identities, how long the log is kept.", "check", onOff(func(s *settings) *bool { return &s.look.replicate })},
	{"lobs", "sample|whole|none", "sample", "How to look for the largest value of each column without a length: in some 2,000 rows of each table, in all rows (the tables are read), or not.", "check", oneOf([]job.LobLook{job.LobsSampled, job.LobsWhole, job.LobsNone}, func(s *settings) *job.LobLook { return &s.look.lobs })},
	{"name", "text", "main", "The stream's name: of its slot on the source, and of its progress on the target. Small letters, digits, underscores.", onStream + " check", text(func(s *settings) *string { return &s.stream.Name })},
	{"agents", "number", "16", "Sessions that apply transactions, 1 to 128.", "replicate cutover apply", number(1, 128, func(s *settings) *int { return &s.stream.Apply.Agents })},
	{"commit-order", "dependent|source", "dependent", "Commit transactions that have nothing to do with each other as they are ready, or all in the source's order.", "replicate cutover apply", choose(map[string]func(*settings){"dependent": func(s *settings) { s.stream.Apply.SourceOrder = false }, "source": func(s *settings) { s.stream.Apply.SourceOrder = true }})},
	{"commit-count", "number", "0", "Transactions of the source that an agent may put into one of the target, up to 1000; 0: one, and up to 100 while there is much to catch up with.", "replicate cutover apply", number(0, 1000, func(s *settings) *int { return &s.stream.Apply.CommitCount })},
	{"apply-mode", "auto|transactional|batch", "auto", "Apply transactions one by one, or many as one with what they come to for each row; auto: in batches while there is much to catch up with. With --commit-order source, --ok-sqlstates, --conflict other than stop and stop-queue, or foreign keys whose work is not in the log, there are no batches; nor by auto with --commit-count.", "replicate cutover apply", choose(map[string]func(*settings){
		"auto": func(s *settings) { s.stream.Apply.Mode = apply.Auto }, "transactional": func(s *settings) { s.stream.Apply.Mode = apply.Transactional },
		"batch": func(s *settings) { s.stream.Apply.Mode = apply.Batch }})},
	{"conflict", "text", "stop", "stop, stop-queue, ignore, force or disable, or one for each kind of change: insert=force,update=ignore,delete=ignore (a kind that is not named: stop). What becomes of a change that the target does not fit (its row is there already, or is not there, or is not as the conflict rule wants it): stop; apply nothing more and go on filling the queue, where that is not direct; pass it over; make the target's row what the source's is; or stop its table alone, see tidemark sub. The last three note it, see tidemark exceptions.", "replicate cutover apply", func(s *settings, v string) error { return s.stream.Conflict.SetActions(v) }},
	{"conflict-rule", "key|changed|all", "key", "What of a row of the target has to be as the source's was before an update or a delete: what tells the row; also the columns that an update changes, which then writes no others; or all.", "replicate cutover capture apply check", oneOf(tidemark.ConflictRules, func(s *settings) *tidemark.ConflictRule { return &s.stream.Conflict.Rule })},
	{"new-tables", "announce|follow", "announce", "Tables that the source gets while the stream runs, and that the rules select: say how to add them, or add and load them at once.", "replicate capture", choose(map[string]func(*settings){"announce": func(s *settings) { s.stream.FollowTables = false }, "follow": func(s *settings) { s.stream.FollowTables = true }})},
	{"follow-ddl", "on/off", "off", "On a PostgreSQL source: make event triggers that write changed definitions into the log, in their place among the rows, so that columns, labels and partitions go along. They stay until the stream is removed, also where a later run does not say it. Needs a superuser, or the role that the server lets make event triggers.", "replicate capture", onOff(func(s *settings) *bool { return &s.stream.FollowDDL })},
	{"changed-columns", "on/off", "off", "Send with an update only what it has changed, and the columns of keys (IBM's CHANGED_COLS_ONLY), and no update that has changed nothing: so those of different columns of a row on both sides merge. On PostgreSQL of tables with REPLICA IDENTITY FULL and a primary key.", "replicate cutover capture", onOff(func(s *settings) *bool { return &s.stream.OnlyChanged })},
	{"ok-sqlstates", "list", "", "Errors of the target with these SQLSTATEs, parted by commas, are no end: the change is passed over and noted.", "replicate cutover apply", sqlStates},
	{"capture-memory", "size", "32MB", "Memory for transactions that a PostgreSQL source sends before they are committed (those above its logical_decoding_work_mem); the largest go to files.", "replicate cutover capture", size(func(s *settings) *int64 { return &s.stream.CaptureMemory })},
	{"apply-memory", "size", "64MB", "Memory for transactions that were read and are not applied yet; a larger one goes alone.", "replicate cutover apply", size(func(s *settings) *int64 { return &s.stream.Apply.MemoryLimit })},
	{"queue", "text", "", "What lies between capture and apply: direct (memory; the source keeps its log until it is applied), durable (a queue on this machine's disk), or the URL of servers: nats://user@host:4222, tls://... (NATS with JetStream), kafka://user@host:9092/topic, kafka+tls://... (Kafka); default: direct, and for a stream that is there what it has.", "replicate cutover peek capture apply", func(s *settings, v string) error {
		s.stream.Queue = v
		return checkQueue(v)
	}},
	{"queue-dir", "file", "", "Folder of the durable queue; default: beside the catalogue.", "replicate cutover peek", text(func(s *settings) *string { return &s.queue.dir })},
	{"queue-size", "size", "10GB", "What the queue holds at most; when it is full, capture waits, and the source keeps its log.", "replicate cutover capture apply", size(func(s *settings) *int64 { return &s.queue.size })},
	{"queue-message", "size", "1000kB", "Size of a message in the queue at most, 4kB to 32MB (IBM's MAX_MESSAGE_SIZE).", "replicate cutover capture apply", size(func(s *settings) *int64 { return &s.queue.message })},
	{"trans-batch", "number", "0", "Transactions of the source in a message of the queue at most (IBM's TRANS_BATCH_SZ); 0: as many as fit.", "replicate cutover capture", number(0, 1<<20, func(s *settings) *int { return &s.queue.transactions })},
	{"commit-interval", "duration", "0s", "Least time between two writes to a durable queue (IBM's COMMIT_INTERVAL): fewer and larger messages, for latency; 0s: write what has come as soon as the write before is done.", "replicate cutover capture", duration(func(s *settings) *time.Duration { return &s.stream.CommitInterval })},
	{"queue-compress", "on/off", "off", "Pack the queue's messages with zstd.", "replicate cutover capture apply", onOff(func(s *settings) *bool { return &s.queue.compress })},
	{"queue-replicas", "number", "0", "On how many servers of a cluster each message is, 1 to 5; 0 means one with NATS, and what the cluster has as default with Kafka.", "replicate cutover capture apply", number(0, 5, func(s *settings) *int { return &s.queue.replicas })},
	{"monitor-interval", "duration", "5s", "How often the state of a stream is shown and kept, from 1s.", "replicate cutover capture apply", func(s *settings, v string) error {
		d, err := time.ParseDuration(v)
		if err == nil && d < time.Second {
			err = fmt.Errorf("must be 1s or longer")
		}
		s.stream.Interval = d
		return err
	}},
	{"monitor-tables", "on/off", "off", "Keep the figures of every monitor interval in tables of the target too, for a week: applymon, capmon and capqmon, with the columns of IBM's tables of these names.", "replicate apply", onOff(func(s *settings) *bool { return &s.stream.Monitor })},
	{"monitor-to", "text", "", "Keep these tables in the database at this URL, in place of the target: the way for tidemark capture, which does not see the target. The source will do too. If that database goes away, the stream goes on without the rows.", "replicate capture apply", text(func(s *settings) *string { return &s.stream.MonitorTo })},
	{"metrics", "text", "", "Show the figures of the stream or the archive to Prometheus at this address, such as 127.0.0.1:9187 (path /metrics).", "replicate capture apply archive", text(func(s *settings) *string { return &s.metrics })},
	{"from", "text", "", "Begin without a copy: now, at a position of the log (LSN, FILE:OFFSET or GTID), or at a time (2026-11-21T10:00:00Z). PostgreSQL can look back only as far as a slot tidemark_NAME that is there already.", "replicate capture", point(func(s *settings) *job.Point { return &s.stream.From })},
	{"until", "text", "never", "When to end: never; now, when the target has all that the source's log holds at the start; at a position (LSN, FILE:OFFSET or GTID); or before the first transaction that was committed later than a time (2026-11-21T10:00:00Z).", "replicate capture apply", point(func(s *settings) *job.Point { return &s.stream.Until })},
	{"stop-after", "never|copy|changes", "never", "Stop once, in the run that has made the copy: when that is done, before any change is applied (DMS's StopTaskCachedChangesNotApplied), or when the changes that came during it are applied (StopTaskCachedChangesApplied). The same command goes on.", "replicate apply", oneOf(job.Pauses, func(s *settings) *job.Pause { return &s.stream.Pause })},
	{"no-copy", "on/off", "off", "The target has all that the source has: only follow, from now on.", "replicate apply check", onOff(func(s *settings) *bool { return &s.stream.NoCopy })},
	{"no-load", "on/off", "off", "For sub start: the user loads the table, and says tidemark sub loaddone then.", "sub", onOff(func(s *settings) *bool { return &s.noLoad })},
	{"bidirectional", "on/off", "off", "Do not send on what a stream has applied on the source: for two streams against each other.", "replicate cutover capture", onOff(func(s *settings) *bool { return &s.stream.BreakLoops })},
	{"source-moved", "on/off", "off", "SOURCE is another server than before: a replica that has taken its place. The stream goes on there.", "replicate cutover capture", onOff(func(s *settings) *bool { return &s.stream.SourceMoved })},
	{"target-moved", "on/off", "off", "TARGET is the same database as before under another URL, or one that was made of it (a replica, a backup). The stream goes on there, if what was applied to it proves that.", "replicate cutover capture apply", onOff(func(s *settings) *bool { return &s.stream.TargetMoved })},
	{"from-target", "on/off", "off", "The queue was lost or damaged: begin it anew from where the target is, if the source still has its log from there. MySQL and MariaDB have it as long as their binlogs; PostgreSQL has released what was in the queue.", "replicate capture", onOff(func(s *settings) *bool { return &s.stream.From.Target })},
	{"anew", "on/off", "off", "Forget an earlier stream of that name on both sides, and copy again (see --prep).", "replicate capture apply", onOff(func(s *settings) *bool { return &s.stream.Anew })},
	{"remove", "on/off", "off", "Only forget the stream: its slot and publication, its progress on the target. Rows stay as they are.", "replicate capture apply", onOff(func(s *settings) *bool { return &s.stream.Remove })},
	{"fence", "on/off", "off", "Make a PostgreSQL source read-only first, and end all sessions of others on its database.", "cutover", onOff(func(s *settings) *bool { return &s.fence })},
	{"watch", "on/off", "off", "Show it again, with every new sample, until stopped.", "status utilities", onOff(func(s *settings) *bool { return &s.watch })},
	{"limit", "number", "20", "How many runs, exceptions or transactions to list.", "runs exceptions peek", number(1, 1<<30, func(s *settings) *int { return &s.limit })},
	{"table", "text", "", "Only of this table of the target: schema.name, or the name alone.", "exceptions", text(func(s *settings) *string { return &s.exceptions.Table })},
	{"since", "text", "", "Only what was noted from then on: 90m, 2h or 7d ago, or a date with or without a time.", "exceptions", func(s *settings, v string) (err error) {
		s.exceptions.Since, err = parsePast(v)
		return err
	}},
	{"purge", "text", "", "Remove what was noted before then (as --since has it), of the stream and table that are named, and show nothing.", "exceptions", func(s *settings, v string) (err error) {
		s.exceptions.Before, err = parsePast(v)
		return err
	}},
	{"progress", "auto|bars|lines|none", "auto", "How to show progress; auto takes bars on a terminal and lines elsewhere.", "copy diff repair replicate cutover capture apply ha-scan ha-plan backup restore verify archive", choose(map[string]func(*settings){
		"auto": func(s *settings) { s.progress = "auto" }, "bars": func(s *settings) { s.progress = "bars" },
		"lines": func(s *settings) { s.progress = "lines" }, "none": func(s *settings) { s.progress = "none" }})},
	{"interval", "duration", "60s", "What one line of rates covers, from 1ms; a number alone is seconds; 0: a file.", "ha-scan", scanInterval},
	{"from", "text", "", "Of a server: where to begin, at an LSN or FILE:OFFSET; default: at the first that it still has.", "ha-scan", text(func(s *settings) *string { return &s.ha.from })},
	{"until", "text", "", "Of a server: where to end, at an LSN or FILE:OFFSET; where it does not exist yet, the scan waits for it; default: where the log ends now.", "ha-scan", text(func(s *settings) *string { return &s.ha.until })},
	{"for", "duration", "0s", "Of a server: how long to take part in what it writes from now on; 0: read what it has.", "ha-scan", duration(func(s *settings) *time.Duration { return &s.ha.lookOn })},
	{"syncs", "number", "0", "How often the server has synced its log while it wrote what is scanned (PostgreSQL: wal_sync of pg_stat_wal, from 18 on fsyncs of pg_stat_io): flushes that the log does not tell are then found as many; 0: not known.", "ha-scan", number64(func(s *settings) *int64 { return &s.ha.syncs })},
	{"retrieve", "text", "", "Run this command of the shell, with the file's name behind it, before each file is opened: it may fetch, unpack or decrypt it.", "ha-scan", text(func(s *settings) *string { return &s.ha.retrieve })},
	{"info-level", "rate|file|flush|record", "rate", "How much to print: rates of intervals; also each file; also each flush; also each record.", "ha-scan", choose(map[string]func(*settings){
		"rate": func(s *settings) { s.ha.info = rateLevel }, "file": func(s *settings) { s.ha.info = fileLevel },
		"flush": func(s *settings) { s.ha.info = flushLevel }, "record": func(s *settings) { s.ha.info = recordLevel }})},
	{"trans-level", "summary|open|all", "summary", "How much to print of transactions: what they come to; also those that are open at the end; also each begin and end.", "ha-scan", choose(map[string]func(*settings){
		"summary": func(s *settings) { s.ha.trans = summaryLevel }, "open": func(s *settings) { s.ha.trans = openLevel }, "all": func(s *settings) { s.ha.trans = allLevel }})},
	{"disk", "text", "", "The disk of the log: RATE,OVERHEAD of one write, such as 200MiB/s,1ms (numbers alone are MiB/s and seconds, as for IBM's calculator), or a file that ha measure disk --json has written. ha simulate then writes nothing, and takes as long as it says.", "ha-scan ha-calculate ha-simulate", func(s *settings, v string) (err error) {
		s.ha.disk, err = parseDisk(v)
		return err
	}},
	{"network", "list", "", "The network to the standby: RATE,RTT, such as 10MiB/s,100ms or 1Gbit/s,0.2ms, with what both ends add to a round trip by waking up behind it or not (1Gbit/s,5ms,0.2ms), or a file that ha measure network --json has written. Once for each standby, whose name may stand before it (london=1Gbit/s,5ms); Db2's formulas take one.", "ha-calculate ha-plan", func(s *settings, v string) error {
		n, err := parseNetwork(v)
		s.ha.networks = append(s.ha.networks, n)
		return err
	}},
	{"standby-disk", "list", "", "The disk of the standby's log, as --disk has it; once for all standbys or once for each, in the order of --network; default: as the primary's. Not of Db2.", "ha-calculate", func(s *settings, v string) error {
		d, err := parseDisk(v)
		s.ha.standbyDisks = append(s.ha.standbyDisks, d)
		return err
	}},
	{"replay", "list", "", "How the standby applies the log: RATE, such as 50MiB/s, or any, and behind it how long a commit takes to be applied once it is on disk (any,1ms); once for all standbys or once for each. Not of Db2.", "ha-calculate ha-plan", func(s *settings, v string) error {
		r, err := parseReplay(v)
		s.ha.replays = append(s.ha.replays, r)
		return err
	}},
	{"local", "list", "", "What so many clients, who do not think, were measured to commit a second without a standby, as CLIENTS=RATE (8=3400), with percentiles or not (8=3400,2ms,9ms: p50, p99), once for each number of clients; or a JSON file of them. Without it, it is calculated from --disk. Not of Db2.", "ha-calculate ha-plan", func(s *settings, v string) error {
		l, err := parseLocal(v)
		s.ha.local = append(s.ha.local, l...)
		return err
	}},
	{"paused", "list", "", "What a commit of one client takes without a standby after the client has done nothing for so long, as PAUSE=TIME (10ms=1.2ms); once for each pause. Clients that wait for a standby pause for about a round trip. Not of Db2.", "ha-calculate ha-plan", func(s *settings, v string) error {
		x, err := parsePaused(v)
		s.ha.paused = append(s.ha.paused, x)
		return err
	}},
	{"near", "list", "", "What so many clients commit a second in a mode with a standby nearby, as MODE:CLIENTS=RATE,RTT (on:32=7200,0.4ms): what waiting costs besides the way. Once for each mode and number of clients. Not of Db2.", "ha-calculate ha-plan", func(s *settings, v string) error {
		x, err := parseNear(v)
		s.ha.near = append(s.ha.near, x)
		return err
	}},
	{"quorum", "text", "FIRST 1", "How many standbys a commit waits for: FIRST n, in their order, or ANY n. Not of Db2.", "ha-calculate", parseQuorum},
	{"semisync-timeout", "duration", "10s", "After how long MySQL and MariaDB stop waiting for a replica.", "ha-calculate ha-plan", duration(func(s *settings) *time.Duration { return &s.ha.timeout })},
	{"backlog", "size", "0", "What the standby lacks of the log when a mode that waits for it is switched on; 0: the most that it would lack by the scan. Not of Db2.", "ha-calculate ha-plan", size(func(s *settings) *int64 { return &s.ha.backlog })},
	{"what-if", "list", "", "Also calculate with something else: WORD=VALUE, several separated by ;, such as 'rtt=5ms; disk=200MiB/s,1ms'. Words: rtt, hop, network, standby-disk, replay, sync-relay (of one standby: rtt@NAME), disk, clients, rate (commits a second), quorum; of Db2 rtt, network and disk. May be repeated.", "ha-calculate", func(s *settings, v string) error {
		w, err := parseWhatIf(v)
		s.ha.whatIfs = append(s.ha.whatIfs, w)
		return err
	}},
	{"sweep", "list", "", "Also print a table over what varies: rtt, network, clients, rate (commits a second), disk or standby-disk (time of a write), with values (rtt=1ms,5ms,20ms) or without; of Db2 rtt, network and disk. May be repeated.", "ha-calculate", func(s *settings, v string) error {
		x, err := parseSweep(v)
		s.ha.sweeps = append(s.ha.sweeps, x)
		return err
	}},
	{"clients", "number", "0", "Sessions that commit, each waiting for one commit before its next, as in a pool of connections; 0: commits come at the scan's rate, whatever they wait for. Not of Db2.", "ha-calculate", number(0, 100_000, func(s *settings) *int { return &s.ha.clients })},
	{"free", "size", "0", "What the disk of the primary's log has left, to say when it would be full while a standby is away; 0: not known. Not of Db2.", "ha-calculate ha-plan", size(func(s *settings) *int64 { return &s.ha.free })},
	{"outage", "duration", "1h", "For how long a standby is taken to be away. Not of Db2.", "ha-calculate ha-plan", duration(func(s *settings) *time.Duration { return &s.ha.outage })},
	{"syncmode", "text", "", "Only these modes, parted by commas; default: all of the engine, of Db2 SYNC, NEARSYNC and ASYNC.", "ha-calculate ha-plan ha-check", func(s *settings, v string) error {
		s.ha.modes = v
		return nil
	}},
	{"engine", "db2|postgres|mysql|mariadb", "", "Whose modes are meant, or whose way of writing a log; default: of whose log was scanned (ha calculate), postgres (ha measure disk), whose mode it is (ha simulate).", "ha-calculate ha-measure-disk ha-simulate", choose(map[string]func(*settings){
		"db2": func(s *settings) { s.ha.engine = "db2" }, "postgres": func(s *settings) { s.ha.engine = "postgres" },
		"mysql": func(s *settings) { s.ha.engine = "mysql" }, "mariadb": func(s *settings) { s.ha.engine = "mariadb" }})},
	{"time", "duration", "20s", "How long it takes, in all.", onMeasure, duration(func(s *settings) *time.Duration { return &s.measure.time })},
	{"size", "size", "64MB", "Size of each of the two files that are written to, at most; a tenth of what is free is not exceeded.", "ha-measure-disk", size(func(s *settings) *int64 { return &s.measure.size })},
	{"force", "on/off", "off", "Write also where a database's files are.", onMeasure + " " + onPlan, onOff(func(s *settings) *bool { return &s.measure.force })},
	{"listen", "on/off", "off", "Be the other end, at this address (all, and port 7455, unless it says otherwise).", "ha-measure-network", onOff(func(s *settings) *bool { return &s.measure.listen })},
	{"once", "on/off", "off", "As the other end: end when the first peer has gone.", "ha-measure-network ha-simulate", onOff(func(s *settings) *bool { return &s.measure.once })},
	{"secret-file", "file", "", "A file with the secret that both sides share, of 16 bytes or more; default: TIDEMARK_HA_SECRET. Needed to listen where other machines reach it.", "ha-measure-network ha-simulate " + onPlan, text(func(s *settings) *string { return &s.measure.secret.file })},
	{"delay", "duration", "0s", "Go through a proxy in this process, with so much longer a round trip.", "ha-measure-network ha-simulate ha-plan", duration(func(s *settings) *time.Duration { return &s.measure.delay })},
	{"bandwidth", "text", "0", "The same with a rate, such as 10MiB/s or 100Mbit/s; 0 does not limit it.", "ha-measure-network ha-simulate ha-plan", bytesPerSecond(func(s *settings) *float64 { return &s.measure.rate })},
	{"flush-size", "size", "0", "How large flushes are: for the buffer's size (ha measure network); of Db2's modes, where 0 is 64kB (ha simulate).", "ha-measure-network ha-simulate", size(func(s *settings) *int64 { return &s.measure.flush })},
	{"primary", "on/off", "off", "Ship a log to the standby at HOST:PORT.", "ha-simulate", onOff(func(s *settings) *bool { return &s.measure.simulate.primary })},
	{"standby", "on/off", "off", "Be the standby, at this address (all, and port 7455, unless it says otherwise).", "ha-simulate", onOff(func(s *settings) *bool { return &s.measure.simulate.standby })},
	{"mode", "SYNC|NEARSYNC|ASYNC|SUPERASYNC|local|remote_write|on|remote_apply|AFTER_COMMIT|AFTER_SYNC", "on", "What a commit waits for: of Db2 the first four, of PostgreSQL the next, of MySQL and MariaDB the last two.", "ha-simulate", oneOf(ha.SimModes(), func(s *settings) *string { return &s.measure.simulate.mode })},
	{"dir", "file", "", "Write the log below this folder; without it, writes take no time. Of who listens: the same, and its disk may be measured from the other side.", "ha-simulate ha-measure-network", text(func(s *settings) *string { return &s.measure.simulate.dir })},
	{"standby-dir", "file", "", "The same of a standby in this process.", "ha-simulate", text(func(s *settings) *string { return &s.measure.simulate.standbyDir })},
	{"commit-size", "size", "1kB", "Bytes of log for each commit.", "ha-simulate", size(func(s *settings) *int64 { return &s.measure.simulate.commit })},
	{"profile", "file", "", "Take the sizes of flushes or commits from what ha scan has written, as text or JSON.", "ha-simulate", text(func(s *settings) *string { return &s.measure.simulate.profile })},
	{"committers", "number", "8", "How many commit at the same time (not in Db2's modes, which flush one after the other).", "ha-simulate", number(1, 10000, func(s *settings) *int { return &s.measure.simulate.committers })},
	{"think", "duration", "0s", "How long each committer waits between two commits.", "ha-simulate", duration(func(s *settings) *time.Duration { return &s.measure.simulate.think })},
	{"count", "number", "0", "End after so many flushes or commits; 0 does not.", "ha-simulate", number64(func(s *settings) *int64 { return &s.measure.simulate.count })},
	{"target", "text", "0", "Log no more than this, such as 3MiB/s; 0 does not limit it.", "ha-simulate", bytesPerSecond(func(s *settings) *float64 { return &s.measure.simulate.target })},
	{"socket-buffer", "size", "0", "Size of the sockets' buffers on both sides; 0 leaves them to TCP.", "ha-simulate", size(func(s *settings) *int64 { return &s.measure.simulate.buffer })},
	{"receive-buffer", "size", "0", "What Db2's standby holds that it has not written yet; 0 means four flushes.", "ha-simulate", size(func(s *settings) *int64 { return &s.measure.simulate.receive })},
	{"sync-relay", "on/off", "off", "MySQL and MariaDB: the replica's relay log is on disk before it acknowledges (sync_relay_log=1).", "ha-simulate ha-calculate ha-plan", onOff(func(s *settings) *bool { return &s.measure.simulate.syncRelay })},
	{"apply-delay", "duration", "0s", "remote_apply: from on disk to applied.", "ha-simulate", duration(func(s *settings) *time.Duration { return &s.measure.simulate.applyDelay })},
	{"standby", "text", "", "The standby's host, where tidemark ha measure network --listen runs: HOST or HOST:PORT.", onPlan, text(func(s *settings) *string { return &s.ha.plan.standby })},
	{"scan", "list", "", "Take what tidemark ha scan has written, instead of a server's log. May be repeated, for scans of several days of one server.", onPlan, list(func(s *settings) *[]string { return &s.ha.plan.scans })},
	{"for", "duration", "60s", "How long to take part in what the server writes.", onPlan, duration(func(s *settings) *time.Duration { return &s.ha.plan.watch })},
	{"disk", "text", "", "The disk of the primary's log: a folder on it, which is measured; or RATE,OVERHEAD of one write, such as 200MiB/s,1ms, or a file of ha measure disk --json.", onPlan, planDisk},
	{"standby-disk", "text", "", "The same of the standby, as RATE,OVERHEAD or a file; default: measured where it listens with --dir, else taken to be as the primary's.", onPlan, func(s *settings, v string) error {
		d, err := parseDisk(v)
		s.ha.plan.standbyDisk = &d
		return err
	}},
	{"clients", "list", "1,8,32", "Numbers of sessions that commit without a pause: latencies are told, and simulated, for each.", onPlan, planClients},
	{"time", "duration", "10s", "How long each disk, and the network, is measured.", onPlan, duration(func(s *settings) *time.Duration { return &s.ha.plan.time })},
	{"simulate", "duration", "3s", "How long each mode is simulated with each number of sessions; 0s leaves that out.", onPlan, duration(func(s *settings) *time.Duration { return &s.ha.plan.simulate })},
	{"out", "file", "", "Keep what each step gives in this folder, as JSON, and take from there what is there already.", onPlan, text(func(s *settings) *string { return &s.ha.plan.out })},
	{"html", "file", "", "Write the report as one page, with charts, that a browser shows without anything else.", onPlan, text(func(s *settings) *string { return &s.ha.plan.html })},
	{"for", "duration", "10s", "How long to watch.", onCheck, duration(func(s *settings) *time.Duration { return &s.ha.check.watch })},
	{"forecast", "file", "", "Compare with this: what ha calculate --json has written.", onCheck, text(func(s *settings) *string { return &s.ha.check.forecast })},
	{"replica", "text", "", "URL of a replica of MySQL or MariaDB, which is asked how far it is behind.", onCheck, text(func(s *settings) *string { return &s.ha.check.replica })},
	{"max-wait", "duration", "5s", "Too long for one commit to wait for a standby.", onCheck, duration(func(s *settings) *time.Duration { return &s.ha.check.longest })},
	{"max-mean-wait", "duration", "20ms", "Too long for commits to wait on average.", onCheck, duration(func(s *settings) *time.Duration { return &s.ha.check.mean })},
	{"max-lag", "duration", "1s", "Too far behind for a standby's applying.", onCheck, duration(func(s *settings) *time.Duration { return &s.ha.check.lag })},
	{"max-off", "number", "25", "By how many percent commits may wait longer than forecast.", onCheck, number(0, 10_000, func(s *settings) *int { return &s.ha.check.off })},
	{"compress", "text", "zstd:1", "How pieces are compressed: none, lz4, s2 or zstd:1 to zstd:22. Where it is not set, archive packs with s2 while it is more than 128 MB behind.", "backup archive archive-push", func(s *settings, v string) (err error) {
		if s.repo.codec, err = repo.ParseCodec(v); err != nil {
			err = fmt.Errorf("must be none, lz4, s2, zstd or zstd:1 to zstd:22")
		}
		return err
	}},
	{"stripe", "on/off", "off", "Spread a new repository over all places that are named, so that each has a part of it and their rates add up, instead of writing all of it to each. One that is there takes note where its places are now.", "backup", onOff(func(s *settings) *bool { return &s.repo.stripe })},
	{"stripe-place", "list", "", "Where a place of a striped repository is now, if it is not where the repository says: it has moved, or is called otherwise from here. May be repeated.", onRepo, list(func(s *settings) *[]string { return &s.repo.places })},
	{"encrypt", "list", "", "Encrypt a new repository for this public key of age (age1...); may be repeated. One that is there keeps its keys.", "backup archive", list(func(s *settings) *[]string { return &s.repo.encrypt })},
	{"identity", "file", "", "File with the private key of age that opens the repository (age-keygen makes it).", onRepo, text(func(s *settings) *string { return &s.repo.identity })},
	{"passphrase-file", "file", "", "File whose first line is the passphrase of the repository, instead of keys.", onRepo, text(func(s *settings) *string { return &s.repo.passphraseFile })},
	{"max-rate", "size", "0", "Read from and write to the repository no more than so many bytes a second; 0 does not limit it.", onRepo, size(func(s *settings) *int64 { return &s.repo.rate })},
	{"parallelism", "number", "0", "Workers at the server's files, 1 to 256 (Db2's buffer manipulators); 0: one for each processor, at least 2, and more while that gains. With --logical: sessions that read, each with one that writes; 0 begins with 2 and adds while throughput gains a tenth.", "backup restore", number(0, 256, func(s *settings) *int { return &s.backup.parallelism })},
	{"sessions", "number", "0", "Workers at the repository, 1 to 256 (Db2's media controllers); 0: half as many as at the files, at least 2, and more while that gains.", "backup restore", number(0, 256, func(s *settings) *int { return &s.backup.sessions })},
	{"buffers", "number", "0", "Buffers between these workers, 1 to 65536; 0: as many as are of use.", "backup restore", number(0, 1<<16, func(s *settings) *int { return &s.backup.buffers })},
	{"memory", "size", "0", "What buffers and workers may take, as far as their numbers are left open, besides the program and the list of files; 0: 96MB, or what is asked for with them.", "backup restore", size(func(s *settings) *int64 { return &s.backup.memory })},
	{"buffer-size", "size", "0", "Size of a buffer, which becomes a piece in the repository: 64kB to 64MB, in steps of 64kB; 0: 1MB, less where --memory is short.", "backup", size(func(s *settings) *int64 { return &s.backup.bufferSize })},
	{"direct-io", "on/off", "off", "Read and write the server's files without the system's cache (O_DIRECT), and leave nothing of a repository in a folder there. Linux only.", "backup restore", onOff(func(s *settings) *bool { return &s.backup.direct })},
	{"incremental", "on/off", "off", "Only what has changed since the last full backup.", "backup", func(s *settings, v string) error { return basis(s, v, backup.LastFull) }},
	{"delta", "on/off", "off", "Only what has changed since the last backup of any kind.", "backup", func(s *settings, v string) error { return basis(s, v, backup.LastAny) }},
	{"parent", "text", "", "Only what has changed since this backup.", "backup", text(func(s *settings) *string { return &s.backup.parent })},
	{"resume", "text", "", "Go on with a backup that was not finished (an ID, the beginning of one, or last: the last one of the kind asked for): what is stored of it is not stored again. Where last has none, a new one begins.", "backup", text(func(s *settings) *string { return &s.backup.resume })},
	{"note-every", "duration", "30s", "How often a backup notes in the repository what it has stored, so that --resume can go on with it.", "backup", duration(func(s *settings) *time.Duration { return &s.backup.noteEvery })},
	{"changes-by", "auto|summaries|log|pages", "auto", "How to find what has changed: by the server's summaries of its log (17 and later), by the log, or by looking at all pages; auto takes what reads least.", "backup", choose(map[string]func(*settings){
		"auto": func(s *settings) { s.backup.way = postgres.AnyWay }, "summaries": func(s *settings) { s.backup.way = postgres.BySummaries },
		"log": func(s *settings) { s.backup.way = postgres.ByLog }, "pages": func(s *settings) { s.backup.way = postgres.ByPages }})},
	{"delta", "on/off", "off", "DIR has an older or damaged state of the same server: compare, write only what differs, and remove what the backup does not have.", "restore", onOff(func(s *settings) *bool { return &s.backup.delta })},
	{"force", "on/off", "off", "With --delta: also where DIR has another server's data, or nobody can say whose.", "restore", onOff(func(s *settings) *bool { return &s.backup.force })},
	{"server", "text", "", "The server, in a repository that has backups of several: by the name that backup --server gave it, its system identifier, or host and port. Of backup: the name it is to have.", "backup restore verify backups", text(func(s *settings) *string { return &s.backup.server })},
	{"label", "text", "", "A text that is kept with the backup.", "backup", text(func(s *settings) *string { return &s.backup.label })},
	{"data-dir", "file", "", "The server's data folder, where it has another path here than on the server: seen from beside a container.", "backup", text(func(s *settings) *string { return &s.backup.dataDir })},
	{"via", "auto|files|protocol", "auto", "How the server's files are had: read on its own host (files), or sent by it (protocol), which needs REPLICATION and no more; auto reads them where it can.", "backup", choose(map[string]func(*settings){
		"auto": func(s *settings) { s.backup.via = engines.AsCan }, "files": func(s *settings) { s.backup.via = engines.AsFiles }, "protocol": func(s *settings) { s.backup.via = engines.ViaProtocol }})},
	{"checkpoint", "fast|spread", "fast", "Begin with a checkpoint at once, or let the server take its time for it.", "backup", choose(map[string]func(*settings){
		"fast": func(s *settings) { s.backup.spread = false }, "spread": func(s *settings) { s.backup.spread = true }})},
	{"logical", "on/off", "off", "Back up rows and definitions, as psql and mysql read them, instead of the server's files: of one database of PostgreSQL, MySQL or MariaDB, from anywhere, by any user who may read them.", "backup", onOff(func(s *settings) *bool { return &s.backup.logical })},
	{"physical", "on/off", "off", "Back up the server's files: what is done without --logical too.", "backup", onOff(func(s *settings) *bool { return &s.backup.physical })},
	{"tablespace", "list", "", "With --logical: take only tables that lie in this tablespace of PostgreSQL. May be repeated.", "backup", list(func(s *settings) *[]string { return &s.backup.inSpaces })},
	{"damaged", "stop|note", "stop", "What to do with a page whose checksum is wrong: stop, or take it as it is, name it, and end with code 16.", "backup", choose(map[string]func(*settings){
		"stop": func(s *settings) { s.backup.keepDamaged = false }, "note": func(s *settings) { s.backup.keepDamaged = true }})},
	{"tablespace-map", "list", "", "Put the tablespace that was in folder OLD into folder NEW: OLD=NEW. May be repeated.", "restore", tablespaceMap},
	{"database", "list", "", "Of a server's files restore only this database, and those of the system; the others can be dropped then, and nothing else; may be repeated. Of logical backups: the database whose latest one is meant.", "restore", list(func(s *settings) *[]string { return &s.backup.databases })},
	{"to", "text", "", "Recover with the archived log up to there: end, immediate, a time, an LSN, xid:NUMBER, or the name of a restore point (name:TEXT if it looks like another).", "restore", recoveryTarget},
	{"exclusive", "on/off", "off", "End just before that time, place or transaction, and not just behind it.", "restore", onOff(func(s *settings) *bool { return &s.to.target.Exclusive })},
	{"timeline", "number", "0", "Recover into this timeline; 0: the newest that comes from the backup.", "restore", func(s *settings, v string) error {
		n, err := strconv.ParseUint(v, 10, 32)
		s.to.target.Timeline = uint32(n)
		return err
	}},
	{"action", "promote|pause|shutdown", "promote", "What the server does when it is there: take writes, wait as a standby that can be looked at, or stop.", "restore", oneOf([]string{"promote", "pause", "shutdown"}, func(s *settings) *string { return &s.to.action })},
	{"standby", "text", "", "Make the copy a standby of this primary, postgres://user@host:port/?passfile=FILE, without a password in it.", "restore", text(func(s *settings) *string { return &s.to.primary })},
	{"standby-slot", "text", "", "The physical slot of the primary that keeps the log for the standby; it has to be there.", "restore", text(func(s *settings) *string { return &s.to.slot })},
	{"program", "file", "", "Where the restored server finds this program, which fetches the log for it; default: where it is now.", "restore", text(func(s *settings) *string { return &s.to.program })},
	{"slot", "text", "", "Physical replication slot that keeps the server's log until it is archived; none: what the server removes first is a gap.", "archive", text(func(s *settings) *string { return &s.arch.slot })},
	{"slot-use", "there|make|temporary", "there", "The slot has to be there; make it if it is not, or if the server has given it up; or make one that lasts as long as the connection.", "archive", choose(map[string]func(*settings){
		"there": func(s *settings) { s.arch.use = postgres.UseSlot }, "make": func(s *settings) { s.arch.use = postgres.MakeSlot }, "temporary": func(s *settings) { s.arch.use = postgres.TemporarySlot }})},
	{"drop-slot", "on/off", "off", "Only remove the slot, so that the server keeps no log for it any more.", "archive", onOff(func(s *settings) *bool { return &s.arch.dropSlot })},
	{"partial", "duration", "5s", "How often a segment that is not full is archived, if something has come; 0s: only when the connection ends.", "archive", duration(func(s *settings) *time.Duration { return &s.arch.partial })},
	{"skip-gap", "on/off", "off", "Go on with the oldest log that the server still has, where it has removed what comes next: the archive then has a gap, and needs a new backup.", "archive", onOff(func(s *settings) *bool { return &s.arch.skipGap })},
	{"ahead", "number", "0", "Files that are pushed, or fetched, at the same time before the server asks for them, 0 to 64.", "archive-push archive-get", number(0, 64, func(s *settings) *int { return &s.arch.ahead })},
	{"queue-max", "size", "0", "Give up files, and say in the server's log which, when more than this waits because the archive cannot be written; 0: never, and the server's disk may fill.", "archive-push", size(func(s *settings) *int64 { return &s.arch.queueMax })},
	{"quick", "on/off", "off", "Read only manifests, and look whether all objects are there with their sizes.", "verify", onOff(func(s *settings) *bool { return &s.verify.quick })},
	{"restore-and-start", "on/off", "off", "Restore the backup into a temporary folder, start the server's program there, and check tables, indexes and pages.", "verify", onOff(func(s *settings) *bool { return &s.verify.start })},
	{"work-dir", "file", "", "Folder in which --restore-and-start makes its own, which is removed at the end; without it the system's for temporary files.", "verify", text(func(s *settings) *string { return &s.verify.dir })},
	{"server-program", "file", "", "The program postgres of the server's major version, for --restore-and-start; without it, it is looked for where packages put it.", "verify", text(func(s *settings) *string { return &s.verify.program })},
	{"workers", "number", "2", "Packs and files of the log that are read at once, 1 to 64.", "verify", number(1, 64, func(s *settings) *int { return &s.verify.workers })},
	{"keep", "text", "", "Which backups stay, parts with commas between: last=7 (the newest), within=30d (that began so long ago at most), hourly=24, daily=14, weekly=8, monthly=12, yearly=3 (the newest of each of so many hours, days and so on in which there is one, by UTC), logs=60d (how far back the log has no gap; without it as far as the oldest backup that stays).", "prune", func(s *settings, v string) (err error) {
		if s.prune.keep, err = repo.ParseKeep(v); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "keep "))
		}
		s.prune.given = true
		return nil
	}},
	{"pin", "text", "", "Let this backup, and those that it builds on, stay whatever prune is told to keep.", "backups", text(func(s *settings) *string { return &s.pin })},
	{"unpin", "text", "", "Take that back.", "backups", text(func(s *settings) *string { return &s.unpin })},
	{"keep-unfinished", "duration", "24h", "How long a backup that was not finished stays, so that tidemark backup --resume can go on with it; 0s: not at all.", "prune", duration(func(s *settings) *time.Duration { return &s.prune.unfinished })},
	{"dry-run", "on/off", "off", "Say what would be removed, and remove nothing.", "prune", onOff(func(s *settings) *bool { return &s.prune.dryRun })},
	{"json", "on/off", "off", "Print JSON: events line by line while a job runs, one document for the others.", onAll + " archive " + onMeasure + " " + onPlan + " " + onCheck, onOff(func(s *settings) *bool { return &s.json })},
	{"state", "file", "", "Where the catalogue of runs is kept; default: catalog.db in the user's state folder, or TIDEMARK_STATE.", onMoves + " " + onRuns, text(func(s *settings) *string { return &s.state })},
}

// A flagValue binds a line of the table to a flag: values are kept as text until
// the task file has been read, because flags come after it.
type flagValue struct {
	opt   *option
	given *[]string
}

func (f flagValue) String() string { return "" }
func (f flagValue) Type() string   { return f.opt.form }
func (f flagValue) Set(v string) error {
	if err := f.opt.set(&settings{}, v); err != nil {
		return err
	}
	*f.given = append(*f.given, v)
	return nil
}

// flags adds to a command the options that it knows. The function it gives reads
// them: defaults first, then what the task file says, then the flags.
func flags(cmd *cobra.Command) (read func(file map[string]string) (*settings, error)) {
	return flagsAs(cmd, cmd.Name())
}

// flagsAs does it under another name than the command's own: that of a command within a
// group is "ha-scan".
func flagsAs(cmd *cobra.Command, verb string) (read func(file map[string]string) (*settings, error)) {
	given := map[*option]*[]string{} // by option: a name may mean something else to another command
	for i := range options {
		o := &options[i]
		if !knows(o, verb) {
			continue
		}
		given[o] = new([]string)
		help := o.help
		if o.def != "" && o.def != "off" {
			help += " (default " + o.def + ")"
		}
		f := cmd.Flags().VarPF(flagValue{o, given[o]}, o.name, "", help)
		if o.form == "on/off" || o.name == "definitions" {
			f.NoOptDefVal = "on"
		}
		if strings.Contains(o.form, "|") {
			choices := strings.Split(o.form, "|")
			cmd.RegisterFlagCompletionFunc(o.name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	warn := warner(cmd)
	return func(file map[string]string) (*settings, error) {
		s := newSettings(warn)
		for i := range options {
			o := &options[i]
			if o.def != "" {
				if err := o.set(s, o.def); err != nil {
					return nil, fmt.Errorf("default of %s: %w", o.name, err)
				}
			}
		}
		if err := fromFile(s, verb, file); err != nil {
			return nil, err
		}
		for o, values := range given {
			for _, v := range *values {
				if err := o.set(s, v); err != nil {
					return nil, err
				}
			}
		}
		return s, nil
	}
}

// fromFile applies the options of a task file.
func fromFile(s *settings, verb string, file map[string]string) error {
	for name, v := range file {
		o := find(name)
		if o == nil || name == "config" {
			return tidemark.Errorf(tidemark.Invalid, "read task file", "option "+name, "there is no such option", "tidemark "+verb+" --help lists them")
		}
		if err := o.set(s, v); err != nil {
			return tidemark.Errorf(tidemark.Invalid, "read task file", "option "+name, fmt.Sprintf("%q %v", v, err), "it takes "+o.form)
		}
	}
	return nil
}

func find(name string) *option {
	for i := range options {
		if options[i].name == name {
			return &options[i]
		}
	}
	return nil
}

func knows(o *option, verb string) bool {
	for _, v := range strings.Fields(o.verbs) {
		if v == verb {
			return true
		}
	}
	return false
}

// statePath is where the catalogue is.
func (s *settings) statePath() (string, error) {
	if s.state != "" {
		return s.state, nil
	}
	if path := os.Getenv("TIDEMARK_STATE"); path != "" {
		return path, nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", tidemark.Errorf(tidemark.Invalid, "open catalogue", "", "no home folder", "name a file with --state")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "tidemark", "catalog.db"), nil
}
