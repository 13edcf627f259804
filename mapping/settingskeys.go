package mapping

import (
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// An inert is a key of DMS task settings that a full load here does without.
type inert struct {
	name     string
	usual    []string // DMS's default, and what its console writes: not worth a word
	severity tidemark.Severity
	does     string // what it does in DMS
	hint     string // what does the same here
}

// normal reports whether a value is one that changes nothing in DMS either.
func (k *inert) normal(v string) bool { return slices.Contains(k.usual, v) }

func usual(values ...string) []string { return values }

const (
	changes = "it is about changes that follow the load; tidemark replicate has options of its own for them"
	streams = "it is about targets that are streams"
	logs    = "it is about logs in CloudWatch"
	retries = "it is about retries after a broken connection; a copy tries again by itself and can be resumed"
)

// inertKeys are the known keys of groups, besides those that are honoured.
var inertKeys = map[string][]inert{
	"TargetMetadata": {
		{"LobChunkSize", usual("0", "64"), tidemark.Note, "it is the size of the pieces of large values in full mode; values of any size stream here", ""},
		{"InlineLobMaxSize", usual("0"), tidemark.Note, "it says which large values go inline; all of them do here", ""},
		{"LoadMaxFileSize", usual("0"), tidemark.Note, "it is the size of files between source and target; there are none here", ""},
		{"ParallelLoadThreads", usual("0"), tidemark.Note, streams, ""},
		{"ParallelLoadBufferSize", usual("0", "50"), tidemark.Note, streams, ""},
		{"ParallelLoadQueuesPerThread", usual("0", "1"), tidemark.Note, streams, ""},
		{"ParallelApplyThreads", usual("0"), tidemark.Warning, changes, ""},
		{"ParallelApplyBufferSize", usual("0", "50", "100"), tidemark.Note, changes, ""},
		{"ParallelApplyQueuesPerThread", usual("0", "1"), tidemark.Note, changes, ""},
		{"TaskRecoveryTableEnabled", usual("false"), tidemark.Warning, "it writes awsdms_txn_state on the target; a run keeps its marks in a table of its own", "Resume with --resume."},
	},
	"ErrorBehavior": {
		{"DataMaskingErrorPolicy", usual("STOP_TASK"), tidemark.Note, "it is about masking rules, which are refused", ""},
		{"EventErrorPolicy", usual("IGNORE", ""), tidemark.Note, "it is about events of the DMS task", ""},
		{"TableErrorPolicy", usual("STOP_TASK"), tidemark.Warning, "it leaves a table with an error out and goes on; here the copy stops and can be resumed", "Resume with --resume once the cause is gone, or use --on-table-error continue."},
		{"TableErrorEscalationPolicy", usual("STOP_TASK"), tidemark.Note, "it is about tables that were left out, and none is", ""},
		{"TableErrorEscalationCount", usual("0", "50"), tidemark.Note, "it is about tables that were left out, and none is", ""},
		{"RecoverableErrorCount", usual("-1", "0"), tidemark.Note, retries, ""},
		{"RecoverableErrorInterval", usual("5"), tidemark.Note, retries, ""},
		{"RecoverableErrorThrottling", usual("true"), tidemark.Note, retries, ""},
		{"RecoverableErrorThrottlingMax", usual("1800"), tidemark.Note, retries, ""},
		{"RecoverableErrorStopRetryAfterThrottlingMax", usual("true", "false"), tidemark.Note, retries, ""},
		{"ApplyErrorEscalationPolicy", usual("LOG_ERROR"), tidemark.Warning, changes, ""},
		{"ApplyErrorEscalationCount", usual("0"), tidemark.Warning, changes, ""},
		{"ApplyErrorFailOnTruncationDdl", usual("false"), tidemark.Warning, changes, ""},
		{"FailOnTransactionConsistencyBreached", usual("false"), tidemark.Note, "it is about Oracle sources; a copy always reads one consistent view", ""},
		{"FailOnNoTablesCaptured", usual("true"), tidemark.Warning, "rules that select no table are always an error", ""},
		{"FullLoadIgnoreConflicts", usual("true"), tidemark.Note, changes, ""},
	},
	"ChangeProcessingTuning": {
		{"BatchApplyPreserveTransaction", usual("true"), tidemark.Note, "a batch always ends where a transaction of the source ends", ""},
		{"BatchApplyTimeoutMin", usual("1"), tidemark.Note, "a batch is applied when there is enough for one, or nothing more has come for 0.1 s", ""},
		{"BatchApplyTimeoutMax", usual("30"), tidemark.Note, "a batch is applied when there is enough for one, or nothing more has come for 0.1 s", ""},
		{"BatchApplyMemoryLimit", usual("500"), tidemark.Note, "a batch takes up to half of --apply-memory", ""},
		{"BatchSplitSize", usual("0"), tidemark.Note, "a batch ends at 500,000 changes or half of --apply-memory, whatever comes first", ""},
		{"MinTransactionSize", usual("1000"), tidemark.Note, "transactions are not gathered before they are applied; how many one commit holds follows the load, or --commit-count", ""},
		{"CommitTimeout", usual("1"), tidemark.Note, "nothing waits for a commit to become larger", ""},
		{"MemoryKeepTime", usual("60"), tidemark.Note, "a transaction goes to a file by its size alone (--apply-memory, --capture-memory), not by its age", ""},
		{"StatementCacheSize", usual("50"), tidemark.Note, "each session keeps the statements of the tables that it has met", ""},
		{"RecoveryTimeout", usual("-1"), tidemark.Note, "a stream goes on from where the target is, as long as the source has its log", ""},
	},
	"ChangeProcessingDdlHandlingPolicy": {
		{"HandleSourceTableDropped", usual("true"), tidemark.Note, changes, ""},
		{"HandleSourceTableTruncated", usual("true"), tidemark.Note, changes, ""},
		{"HandleSourceTableAltered", usual("true"), tidemark.Note, changes, ""},
	},
	"ValidationSettings": {
		{"EnableValidation", usual("false"), tidemark.Warning, "it compares the rows after the load", "Compare with tidemark diff SOURCE TARGET after the copy."},
		{"ValidationOnly", usual("false"), tidemark.Warning, "it compares without loading, and this copies", "Use tidemark diff SOURCE TARGET instead of copy."},
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
		{"EnableResync", usual("false"), tidemark.Warning, "it repairs rows that the comparison found different", "Use tidemark diff, and copy the tables that differ again."},
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
		{"CharacterReplacements", usual(""), tidemark.Warning, "it replaces or deletes characters; texts are copied as they are", "Correct the texts on the source, or copy a view that does."},
		{"CharacterSetSupport", usual(""), tidemark.Warning, "it replaces characters that a character set lacks; texts are copied as they are", "Correct the texts on the source, or copy a view that does."},
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
		{"EnableTT", usual("false"), tidemark.Note, "it is about traces of the DMS task", ""},
		{"TTS3Settings", usual(""), tidemark.Note, "it is about traces of the DMS task", ""},
		{"TTRecordSettings", usual(""), tidemark.Note, "it is about traces of the DMS task", ""},
	},
}

const (
	validates = "it is about the comparison after the load, which is tidemark diff here"
	buffers   = "it is about buffers of the DMS task"
	control   = "it is about tables of DMS on the target"
	see       = "See tidemark report for what such tables hold."
)

// inertGroups are the keys of the top level that are not read otherwise.
var inertGroups = []inert{
	{name: "ValidationSettings"}, {name: "ResyncSettings"}, {name: "ChangeProcessingDdlHandlingPolicy"},
	{name: "StreamBufferSettings"}, {name: "ControlTablesSettings"}, {name: "Logging"}, {name: "CharacterSetSettings"},
	{name: "BeforeImageSettings"}, {name: "TTSettings"},
	{"PostProcessingRules", nil, tidemark.Warning, "it is about S3 targets", ""},
	{"FailTaskWhenCleanTaskResourceFailed", usual("false", "true"), tidemark.Note, "it is about resources of the DMS task", ""},
}
