package manual

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/metrics"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// monitor describes what a stream measures.
func monitor(w io.Writer) {
	fmt.Fprint(w, "# What a stream measures\n\nMade by `tidemark manual monitor`. `--monitor-tables` writes these tables at every `--monitor-interval` and keeps their rows for a week: into the schema\n`tidemark` of a PostgreSQL target, and as `tidemark_applymon` and so on into the database of a MySQL target, with times in UTC. `--monitor-to URL` writes them into another database,\nwhich may be away for a while: `tidemark capture` has no other way, since it does not see the target. The same figures are\nin `tidemark status --json`. Counters are since the process began, latencies of the interval, in milliseconds; places are positions in the source's log, as numbers.\n")
	for _, t := range stream.MonitorTables() {
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n| column | | what it is |\n|---|---|---|\n", t.Name, t.Help)
		for _, c := range t.Columns {
			fmt.Fprintf(w, "| `%s` | %s | %s |\n", c.Name, c.Kind, c.Help)
		}
	}
	fmt.Fprint(w, "\n## Prometheus\n\n`--metrics ADDRESS` shows these at `/metrics`, each with the label `stream`. Watch `sample_timestamp_seconds` for a stream that hangs, `tables_stopped`, `exceptions_total`\nand `queue_full` for one that wants somebody, `target_unreachable` and `source_unreachable` for an end that is away, `log_room_bytes` and `log_kept_bytes` for a source whose disk fills, and `behind_seconds` for one that is slow.\n\n| `"+metrics.Prefix+"...` | kind | what it is |\n|---|---|---|\n")
	fmt.Fprintf(w, "| `latency_seconds` | gauge | %s Labels: `stage` (end_to_end, capture, queue, apply) and `quantile` (0.5, 0.99, 1) |\n", metrics.LatencyHelp)
	fmt.Fprintf(w, "| `state` | gauge | %s Label: `state` (%s) |\n", metrics.StateHelp, strings.Join(stateNames(), ", "))
	for _, m := range metrics.Figures {
		kind := "gauge"
		if m.Kind == prometheus.CounterValue {
			kind = "counter"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", m.Name, kind, m.Help)
	}
}

func stateNames() (out []string) {
	for _, s := range job.States {
		out = append(out, string(s))
	}
	return out
}

// A parameter is a column of one of IBM Q Replication's parameter tables, and what does the same here.
type parameter struct {
	ibm, option string // an option, if it is one
	note        string
}

// A parameterTable is one of these tables.
type parameterTable struct {
	title, about string
	rows         []parameter
}

var captureParameters = parameterTable{"Parameters of capture", "IBMQREP_CAPPARMS of IBM Q Replication, and what does the same in `tidemark replicate` and `tidemark capture`.", []parameter{
	{"STARTMODE", "from", "A stream that is there goes on (warm); a new one begins with a copy, or with `--from`; `--anew` is a cold start."},
	{"MEMORY_LIMIT", "capture-memory", "Of a PostgreSQL source. MySQL's and MariaDB's logs have whole transactions, which pass in pieces."},
	{"", "buffer", "Between capture and what comes after it. While it is full, capture waits: WaitBuffer."},
	{"COMMIT_INTERVAL", "commit-interval", ""},
	{"TRANS_BATCH_SZ", "trans-batch", ""},
	{"MSG_PERSISTENCE", "queue", "`direct` keeps no messages, and loses nothing: the source keeps its log. All others are persistent."},
	{"QFULL_NUM_RETRIES, QFULL_RETRY_DELAY", "", "Capture waits for room as long as it takes."},
	{"AUTOSTOP", "until", "`--until now`."},
	{"MONITOR_INTERVAL", "monitor-interval", ""},
	{"MONITOR_LIMIT, TRACE_LIMIT, PRUNE_INTERVAL", "", "A week (10080 minutes), pruned with each row."},
	{"SIGNAL_LIMIT", "", "There is no signal table: commands are in the catalogue, see `tidemark sub` and `tidemark set`."},
	{"SLEEP_INTERVAL", "", "The source sends by itself: nothing is polled."},
	{"LOB_SEND_OPTION", "", "Large values are in the messages of their rows, in parts where they are larger than a message."},
	{"STARTALLQ", "", "One process has one stream."},
	{"MAX_TRANS", "", "Without a limit but memory: those that do not fit go to files."},
	{"IGNTRAN", "bidirectional", "Transactions that a stream has applied; not those of a user."},
	{"CAPTURE_PATH", "state", "Files lie beside the catalogue."},
	{"CAPTURE_SERVER, QMGR, RESTARTQ, ADMINQ", "", "The command's arguments, and `--queue`. Where to restart is in the queue's messages and in the target's progress."},
	{"", "metrics", ""},
	{"", "monitor-to", "IBMQREP_CAPMON and CAPQMON, beside the source as there or elsewhere: see [monitor](monitor.md)."},
	{"", "source-moved", ""},
	{"", "from-target", ""},
	{"", "lock", ""},
	{"", "lock-wait", ""},
}}

var queueParameters = parameterTable{"Parameters of a queue", "IBMQREP_SENDQUEUES and IBMQREP_RECVQUEUES of IBM Q Replication, and what does the same here.", []parameter{
	{"PUBQMAPNAME, SENDQ, RECVQ", "name", "One name for the stream, its slot, its queue and its progress."},
	{"", "queue", "What it is, and where."},
	{"", "queue-dir", ""},
	{"MAX_MESSAGE_SIZE", "queue-message", ""},
	{"MESSAGE_FORMAT, MSG_CONTENT_TYPE", "", "Whole transactions in the form of [queue.md](../format/queue.md)."},
	{"ERROR_ACTION", "", "A queue that cannot be written or read stops the stream. Nothing is lost by that."},
	{"HEARTBEAT_INTERVAL", "", "Every 10 s it is noted how far the log was read where nothing comes for the stream."},
	{"NUM_PARALLEL_SENDQS", "", "One. Several streams of groups of tables without foreign keys between them run beside each other."},
	{"NUM_APPLY_AGENTS", "agents", ""},
	{"MEMORY_LIMIT", "apply-memory", ""},
	{"MAXAGENTS_CORRELID", "", "The logs of PostgreSQL and MySQL know of no jobs."},
	{"STATE", "", "`tidemark status`."},
	{"", "queue-size", ""},
	{"", "queue-compress", ""},
	{"", "queue-replicas", ""},
}}

var applyParameters = parameterTable{"Parameters of apply", "IBMQREP_APPLYPARMS of IBM Q Replication, and what does the same in `tidemark replicate` and `tidemark apply`.", []parameter{
	{"COMMIT_COUNT", "commit-count", ""},
	{"DEADLOCK_RETRIES", "", "3, with pauses; then the stream connects anew and goes on."},
	{"", "commit-order", ""},
	{"", "apply-mode", ""},
	{"RICHKLVL", "", "All that can be known of foreign keys is found up front, what cannot is tried, and tried again in order."},
	{"MAX_PARALLEL_LOADS", "lanes", "Of the copy. Tables that are loaded beside a stream come one after the other."},
	{"SPILL_COMMIT_COUNT", "", "There are no spill queues: a load is put into the stream in chunks."},
	{"INSERT_BIDI_SIGNAL", "bidirectional", "Each transaction that a stream applies carries a mark, whatever this says."},
	{"AUTOSTOP", "until", ""},
	{"", "stop-after", ""},
	{"MONITOR_INTERVAL", "monitor-interval", ""},
	{"", "target-moved", ""},
	{"", "monitor-tables", "IBMQREP_APPLYMON, CAPMON and CAPQMON: see [monitor](monitor.md)."},
	{"PRUNE_METHOD, PRUNE_BATCH_SIZE", "", "There is no IBMQREP_DONEMSG: progress is a row for each agent, which is overwritten."},
	{"IGNBADDATA", "ok-sqlstates", ""},
	{"SERIALIZE_TRUNCATES", "", "Always: a TRUNCATE waits for all changes of its table before it, and holds up those behind it."},
	{"APPLY_PATH", "state", "Files lie beside the catalogue."},
	{"PWDFILE", "", "Passwords are in URLs, task files (`${VARIABLE}`), password files or the environment."},
	{"", "retry-for", ""},
}}

var tableParameters = parameterTable{"Parameters of a table", "IBMQREP_SUBS and IBMQREP_TARGETS of IBM Q Replication: one table of a stream. Rules are those of [mapping](mapping.md), keys those of a task file under `tables:`.", []parameter{
	{"SUBNAME", "", "The table's name on the source."},
	{"SOURCE_OWNER, SOURCE_NAME", "include", "And `exclude`, `--table-mappings`."},
	{"TARGET_OWNER, TARGET_NAME", "target-schema", "And `rename:` of a task file, `rename` rules."},
	{"SEARCH_CONDITION", "", "`where:`; `filters` in table mappings."},
	{"IBMQREP_SRC_COLS, TRG_COLS", "", "`drop:`, `rename:`, `types:`; `remove-column` and others in table mappings."},
	{"CHANGED_COLS_ONLY", "changed-columns", ""},
	{"ALL_CHANGED_ROWS", "", "With `--changed-columns` an update that changes none of the columns that are replicated goes no further."},
	{"BEFORE_VALUES", "conflict-rule", "`changed` and `all` have them sent."},
	{"SUPPRESS_DELETES", "", "None: see `--conflict ignore`."},
	{"HAS_LOADPHASE", "no-copy", "None; for one table `tidemark sub start --no-load` (manual) and `start` (automatic)."},
	{"LOAD_TYPE", "", "One kind: COPY, LOAD DATA."},
	{"CAPTURE_LOAD", "", "A bulk load at the source is in its log."},
	{"CONFLICT_RULE", "conflict-rule", "Also `conflict-rule:` of a table."},
	{"CONFLICT_ACTION", "conflict", "Also `conflict:` of a table."},
	{"ERROR_ACTION", "", "An error of a row that is no conflict, or of a definition, stops its table; one of the whole target stops the stream."},
	{"OKSQLSTATES", "ok-sqlstates", "Of all tables."},
	{"TARGET_TYPE", "", "Tables of users. No change history (CCD), no stored procedures."},
	{"SUBTYPE", "bidirectional", "U and B. No peer to peer (P)."},
	{"STATE, STATE_TIME, STATE_INFO", "", "`tidemark sub`."},
	{"DROPTAB_ACTION, IGNCASDEL, IGNTRIG", "", "A table that is dropped is stopped. Of a PostgreSQL source what cascades and triggers do is in the log; of MySQL what triggers do."},
}}

// print writes the table as a page; settable are the options that tidemark set takes. Defaults and sentences are those of the options.
func (t parameterTable) print(page string, book option.Book, settable []string) func(io.Writer) {
	return func(w io.Writer) {
		fmt.Fprintf(w, "# %s\n\nMade by `tidemark manual %s`. %s\nOptions are flags, and keys under `options:` of a task file; those with a * can be changed while a stream runs, with `tidemark set`.\n\n", t.title, page, t.about)
		fmt.Fprint(w, "| IBM's | option | default | what it does |\n|---|---|---|---|\n")
		for _, p := range t.rows {
			ibm, name, def, text := p.ibm, "", "", p.note
			if p.option != "" {
				o := book.Find(p.option)
				if name = "`" + o.Name + "`"; slices.Contains(settable, o.Name) {
					name += " *"
				}
				if def = o.Default; def == "" {
					def = "none"
				}
				text = strings.TrimSpace(o.Help + " " + p.note)
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", ibm, name, def, text)
		}
	}
}
