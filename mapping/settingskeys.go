package mapping

import (
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// An inert is a key of DMS task settings that a full load here does not need.
type inert struct {
	name     string
	usual    []string // DMS's default, and what its console writes: not reported
	severity tidemark.Severity
	does     string // its effect in DMS
	hint     string // how to get the same effect here
}

// normal reports whether a value changes nothing in DMS either.
func (k *inert) normal(v string) bool { return slices.Contains(k.usual, v) }

func usual(values ...string) []string { return values }

const (
	changes = "it is for changes after the load; tidemark replicate has its own options for them"
	streams = "it is for streaming targets"
	logs    = "it is for CloudWatch logs"
	retries = "it is for retries after a broken connection; a copy retries by itself and can be resumed"
)

// inertKeys are the known keys of groups, besides those that are used.
var inertKeys = map[string][]inert{
	"TargetMetadata": {
		{"LobChunkSize", usual("0", "64"), tidemark.Note, "it is the piece size of large values in full mode; values of any size stream here", ""},
		{"InlineLobMaxSize", usual("0"), tidemark.Note, "it says which large values go inline; here all do", ""},
		{"LoadMaxFileSize", usual("0"), tidemark.Note, "it is the size of files between source and target; there are none here", ""},
		{"ParallelLoadThreads", usual("0"), tidemark.Note, streams, ""},
		{"ParallelLoadBufferSize", usual("0", "50"), tidemark.Note, streams, ""},
		{"ParallelLoadQueuesPerThread", usual("0", "1"), tidemark.Note, streams, ""},
		{"ParallelApplyThreads", usual("0"), tidemark.Warning, changes, ""},
		{"ParallelApplyBufferSize", usual("0", "50", "100"), tidemark.Note, changes, ""},
		{"ParallelApplyQueuesPerThread", usual("0", "1"), tidemark.Note, changes, ""},
		{"TaskRecoveryTableEnabled", usual("false"), tidemark.Warning, "it writes awsdms_txn_state on the target; a run keeps its marks in its own table", "Resume with --resume."},
	},
	"ErrorBehavior": {
		{"DataMaskingErrorPolicy", usual("STOP_TASK"), tidemark.Note, "it is for masking rules, which are not supported", ""},
		{"EventErrorPolicy", usual("IGNORE", ""), tidemark.Note, "it is for events of the DMS task", ""},
		{"TableErrorPolicy", usual("STOP_TASK"), tidemark.Warning, "it suspends a table with an error and continues; here the copy stops and can be resumed", "Fix the cause and continue with --resume, or use --on-table-error continue."},
		{"TableErrorEscalationPolicy", usual("STOP_TASK"), tidemark.Note, "it is for suspended tables, and a copy suspends none", ""},
		{"TableErrorEscalationCount", usual("0", "50"), tidemark.Note, "it is for suspended tables, and a copy suspends none", ""},
		{"RecoverableErrorCount", usual("-1", "0"), tidemark.Note, retries, ""},
		{"RecoverableErrorInterval", usual("5"), tidemark.Note, retries, ""},
		{"RecoverableErrorThrottling", usual("true"), tidemark.Note, retries, ""},
		{"RecoverableErrorThrottlingMax", usual("1800"), tidemark.Note, retries, ""},
		{"RecoverableErrorStopRetryAfterThrottlingMax", usual("true", "false"), tidemark.Note, retries, ""},
		{"ApplyErrorEscalationPolicy", usual("LOG_ERROR"), tidemark.Warning, changes, ""},
		{"ApplyErrorEscalationCount", usual("0"), tidemark.Warning, changes, ""},
		{"ApplyErrorFailOnTruncationDdl", usual("false"), tidemark.Warning, changes, ""},
		{"FailOnTransactionConsistencyBreached", usual("false"), tidemark.Note, "it is for Oracle sources; a copy always reads one consistent snapshot", ""},
		{"FailOnNoTablesCaptured", usual("true"), tidemark.Warning, "rules that select no table are always an error", ""},
		{"FullLoadIgnoreConflicts", usual("true"), tidemark.Note, changes, ""},
	},
	"ChangeProcessingTuning": {
		{"BatchApplyPreserveTransaction", usual("true"), tidemark.Note, "a batch always ends with a transaction of the source", ""},
		{"BatchApplyTimeoutMin", usual("1"), tidemark.Note, "a batch is applied once it is full, or after 0.1 s without changes", ""},
		{"BatchApplyTimeoutMax", usual("30"), tidemark.Note, "a batch is applied once it is full, or after 0.1 s without changes", ""},
		{"BatchApplyMemoryLimit", usual("500"), tidemark.Note, "a batch uses at most half of --apply-memory", ""},
		{"BatchSplitSize", usual("0"), tidemark.Note, "a batch ends at 500,000 changes or half of --apply-memory, whichever comes first", ""},
		{"MinTransactionSize", usual("1000"), tidemark.Note, "transactions are not collected before they are applied; how many one commit holds depends on the load, or on --commit-count", ""},
		{"CommitTimeout", usual("1"), tidemark.Note, "no commit waits to become larger", ""},
		{"MemoryKeepTime", usual("60"), tidemark.Note, "a transaction goes to a file because of its size (--apply-memory, --capture-memory), never its age", ""},
		{"StatementCacheSize", usual("50"), tidemark.Note, "each session caches the statements of its tables", ""},
		{"RecoveryTimeout", usual("-1"), tidemark.Note, "a stream continues from the target's log position, as long as the source has the log", ""},
	},
	"ChangeProcessingDdlHandlingPolicy": {
		{"HandleSourceTableDropped", usual("true"), tidemark.Note, changes, ""},
		{"HandleSourceTableTruncated", usual("true"), tidemark.Note, changes, ""},
		{"HandleSourceTableAltered", usual("true"), tidemark.Note, changes, ""},
	},
	"ValidationSettings": {
		{"EnableValidation", usual("false"), tidemark.Warning, "it compares rows after the load", "Compare with tidemark diff SOURCE TARGET after the copy."},
		{"ValidationOnly", usual("false"), tidemark.Warning, "it compares without loading, and a copy loads", "Use tidemark diff SOURCE TARGET instead of copy."},
		{"ValidationMode", usual("ROW_LEVEL"), tidemark.Note, validates, ""},
		{"ThreadCount", usual("5"), tidemark.Note, validates, ""},
		{"PartitionSize", usual("10000"), tidemark.Note, validates, ""},
		{"FailureMaxCount", usual("10000"), tidemark.Note, validates, ""},
		{"TableFailureMaxCount", usual("1000"), tidemark.Note, validates, ""},
		{"RecordFailureDelayInMinutes", usual("0", "5"), tidemark.Note, validates, ""},
		{"RecordFailureDelayLimitInMinutes", usual("0"), tidemark.Note, validates, ""},
		{"RecordSuspendDelayInMinutes", usual("30"), tidemark.Note, validates, ""},
		{"MaxKeyColumnSize", usual("8096"), tidemark.Note, validates, ""},
		{"HandleCollationDiff", usual("false"), tidemark.Note, validates, ""},
		{"SkipLobColumns", usual("false"), tidemark.Note, validates, ""},
		{"ValidationPartialLobSize", usual("0"), tidemark.Note, validates, ""},
		{"ValidationQueryCdcDelaySeconds", usual("0", "180"), tidemark.Note, validates, ""},
		{"ValidationS3Mask", usual("0"), tidemark.Note, validates, ""},
		{"ValidationS3Time", usual("0"), tidemark.Note, validates, ""},
	},
	"ResyncSettings": {
		{"EnableResync", usual("false"), tidemark.Warning, "it repairs rows that differ", "Use tidemark diff, then copy the tables that differ again."},
		{"ResyncSchedule", usual(""), tidemark.Note, validates, ""},
		{"MaxResyncTime", usual(""), tidemark.Note, validates, ""},
		{"ValidationTaskId", usual(""), tidemark.Note, validates, ""},
	},
	"StreamBufferSettings": {
		{"StreamBufferCount", usual("3"), tidemark.Note, buffers, ""},
		{"StreamBufferSizeInMB", usual("8"), tidemark.Note, buffers, ""},
		{"CtrlStreamBufferSizeInMB", usual("5"), tidemark.Note, buffers, ""},
	},
	"ControlTablesSettings": {
		{"ControlSchema", usual(""), tidemark.Note, control, ""},
		{"HistoryTimeslotInMinutes", usual("5"), tidemark.Note, control, ""},
		{"historyTimeslotInMinutes", usual("5"), tidemark.Note, control, ""},
		{"HistoryTableEnabled", usual("false"), tidemark.Warning, control, see},
		{"SuspendedTablesTableEnabled", usual("false"), tidemark.Warning, control, see},
		{"StatusTableEnabled", usual("false"), tidemark.Warning, control, see},
		{"FullLoadExceptionTableEnabled", usual("false"), tidemark.Warning, control, see},
	},
	"Logging": {
		{"EnableLogging", usual("false", "true"), tidemark.Note, logs, ""},
		{"EnableLogContext", usual("false", "true"), tidemark.Note, logs, ""},
		{"DeleteTaskLogs", usual("false", "true"), tidemark.Note, logs, ""},
		{"CloudWatchLogGroup", usual(""), tidemark.Note, logs, ""},
		{"CloudWatchLogStream", usual(""), tidemark.Note, logs, ""},
		{"LogComponents", usual(""), tidemark.Note, logs, ""},
		{"LogConfiguration", usual(""), tidemark.Note, logs, ""},
	},
	"CharacterSetSettings": {
		{"CharacterReplacements", usual(""), tidemark.Warning, "it replaces or deletes characters; text is copied unchanged", "Correct the text on the source, or copy a view that does."},
		{"CharacterSetSupport", usual(""), tidemark.Warning, "it replaces characters that a character set lacks; text is copied unchanged", "Correct the text on the source, or copy a view that does."},
	},
	"BeforeImageSettings": {
		{"EnableBeforeImage", usual("false"), tidemark.Warning, changes, ""},
		{"FieldName", usual(""), tidemark.Note, changes, ""},
		{"ColumnFilter", usual("", "pk-only"), tidemark.Note, changes, ""},
	},
	"LoopbackPreventionSettings": {
		{"SourceSchema", usual(""), tidemark.Note, changes, ""},
		{"TargetSchema", usual(""), tidemark.Note, changes, ""},
	},
	"TTSettings": {
		{"EnableTT", usual("false"), tidemark.Note, "it is for traces of the DMS task", ""},
		{"TTS3Settings", usual(""), tidemark.Note, "it is for traces of the DMS task", ""},
		{"TTRecordSettings", usual(""), tidemark.Note, "it is for traces of the DMS task", ""},
	},
}

const (
	validates = "it is for the comparison after the load, which is tidemark diff here"
	buffers   = "it is for buffers of the DMS task"
	control   = "it is for DMS's own tables on the target"
	see       = "Use tidemark report, which has what those tables hold."
)

// inertGroups are the top-level keys that are not read otherwise.
var inertGroups = []inert{
	{name: "ValidationSettings"}, {name: "ResyncSettings"}, {name: "ChangeProcessingDdlHandlingPolicy"},
	{name: "StreamBufferSettings"}, {name: "ControlTablesSettings"}, {name: "Logging"}, {name: "CharacterSetSettings"},
	{name: "BeforeImageSettings"}, {name: "TTSettings"},
	{"PostProcessingRules", nil, tidemark.Warning, "it is for S3 targets", ""},
	{"FailTaskWhenCleanTaskResourceFailed", usual("false", "true"), tidemark.Note, "it is for resources of the DMS task", ""},
}
