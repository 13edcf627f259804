package mapping

import "github.com/tidemarkdb/tidemark"

const (
	inURL   = "the URL says where an endpoint is, and who connects"
	csv     = "it is for files between source and target; there are none here"
	session = "it is for the endpoint's session; give such settings in the URL, or set them for the user on the server"
	beats   = "it is for heartbeats that DMS writes on the source; a stream asks the source for the end of its log, and writes nothing there"
	mapped  = "it sets how DMS maps a type; here rules do"
	byRule  = "Use change-data-type (task file: types)."
	ddlLog  = "it is for DDL that DMS writes into tables of the source; tidemark reads the catalogue and the log"
)

// endpointKeys are the settings of endpoints of DMS, in a file of their own or together with the
// task's: none of them is used.
var endpointKeys = map[string][]inert{
	"MySQLSettings": append([]inert{
		{"AfterConnectScript", usual(""), tidemark.Warning, session, ""},
		{"CleanSourceMetadataOnMismatch", usual("false"), tidemark.Note, "it is for metadata of the source that DMS caches; here each run reads it", ""},
		{"EventsPollInterval", usual("5"), tidemark.Note, "it is how often DMS polls the binlog; here the server sends it as it is written", ""},
		{"ExecuteTimeout", usual("60"), tidemark.Note, session, ""},
		{"MaxFileSize", usual("32768"), tidemark.Note, csv, ""},
		{"ParallelLoadThreads", usual("1"), tidemark.Note, "it is the number of sessions that load one table; here lanes do", "Use --lanes."},
		{"ServerTimezone", usual(""), tidemark.Note, "sessions are in UTC here, and the server converts times", ""},
		{"TargetDbType", usual("SPECIFIC_DATABASE", "specific-database"), tidemark.Warning, "it puts each schema into a database of that name; here the URL's database or rename rules say where tables go", "Leave the database out of the target's URL, or use rename rules."},
		{"AuthenticationMethod", usual(""), tidemark.Note, inURL, ""},
	}, connection...),
	"PostgreSQLSettings": append([]inert{
		{"AfterConnectScript", usual(""), tidemark.Warning, session, ""},
		{"CaptureDdls", usual("true"), tidemark.Note, ddlLog, ""},
		{"DdlArtifactsSchema", usual("public"), tidemark.Note, ddlLog, ""},
		{"MaxFileSize", usual("32768"), tidemark.Note, csv, ""},
		{"ExecuteTimeout", usual("60"), tidemark.Note, session, ""},
		{"FailTasksOnLobTruncation", usual("false"), tidemark.Warning, "it ends the task if a value would be truncated; here each truncated row is reported", "Copy values whole: FullLobMode."},
		{"HeartbeatEnable", usual("false"), tidemark.Note, beats, ""},
		{"HeartbeatSchema", usual("public"), tidemark.Note, beats, ""},
		{"HeartbeatFrequency", usual("5"), tidemark.Note, beats, ""},
		{"SlotName", usual(""), tidemark.Warning, "the slot's name is tidemark_ and the stream's name", "Use --name."},
		{"PluginName", usual("no-preference", "pgoutput"), tidemark.Note, "the log is read by pgoutput", ""},
		{"TrimSpaceInChar", usual("true"), tidemark.Note, "trailing blanks of character(n) values come from the server, and are not significant there", ""},
		{"MapBooleanAsVarchar", usual("false"), tidemark.Warning, mapped, byRule},
		{"MapJsonbAsClob", usual("false"), tidemark.Warning, mapped, byRule},
		{"MapLongVarcharAs", usual("wstring"), tidemark.Warning, mapped, byRule},
		{"DatabaseMode", usual("default"), tidemark.Note, "it is for Babelfish", ""},
		{"BabelfishDatabaseName", usual(""), tidemark.Note, "it is for Babelfish", ""},
		{"DisableUnicodeSourceFilter", usual("false"), tidemark.Note, "filters are in the source's character set", ""},
		{"AuthenticationMethod", usual(""), tidemark.Note, inURL, ""},
	}, connection...),
}

// connection keys define an endpoint's address; their values are not printed.
var connection = []inert{
	{"DatabaseName", usual(""), tidemark.Note, inURL, ""},
	{"ServerName", usual(""), tidemark.Note, inURL, ""},
	{"Port", usual(""), tidemark.Note, inURL, ""},
	{"Username", usual(""), tidemark.Note, inURL, ""},
	{"Password", usual(""), tidemark.Note, inURL, ""},
	{"SecretsManagerAccessRoleArn", usual(""), tidemark.Note, inURL, ""},
	{"SecretsManagerSecretId", usual(""), tidemark.Note, inURL, ""},
	{"ServiceAccessRoleArn", usual(""), tidemark.Note, inURL, ""},
}

const otherTarget = "it is for another kind of endpoint (WriteBufferSize, MaxFileSize and the like are for its files)"

// endpointGroups are the top-level keys of endpoints.
var endpointGroups = []inert{
	{name: "MySQLSettings"}, {name: "PostgreSQLSettings"},
	{"RedshiftSettings", nil, tidemark.Note, otherTarget, ""},
	{"S3Settings", nil, tidemark.Note, otherTarget, ""},
	{"ExtraConnectionAttributes", usual(""), tidemark.Warning, "it sets what endpoint settings do, as text", "Give such settings in the URL, or as options: --lanes, --lob-max, --name."},
}
