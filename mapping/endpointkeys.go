package mapping

import "github.com/tidemarkdb/tidemark"

const (
	inURL   = "where an endpoint is, and who connects, the URL says"
	csv     = "it is about files between source and target; there are none here"
	session = "it is about the session of the endpoint; give such settings with the URL, or to the user on the server"
	beats   = "it is about heartbeats that DMS writes on the source; the stream asks the source itself where its log ends, and writes nothing there"
	mapped  = "it says what DMS makes of a type; rules say that here"
	byRule  = "Use change-data-type (task file: types)."
	ddlLog  = "it is about DDL that DMS writes into tables of the source; tidemark looks at the catalogue and the log"
)

// endpointKeys are the settings of endpoints of DMS, which stand in a file of their own or beside the task's: none of them
// is honoured.
var endpointKeys = map[string][]inert{
	"MySQLSettings": append([]inert{
		{"AfterConnectScript", usual(""), tidemark.Warning, session, ""},
		{"CleanSourceMetadataOnMismatch", usual("false"), tidemark.Note, "it is about metadata that DMS keeps of the source; here it is read anew", ""},
		{"EventsPollInterval", usual("5"), tidemark.Note, "it is how often the binlog is asked for; the server sends it here as it is written", ""},
		{"ExecuteTimeout", usual("60"), tidemark.Note, session, ""},
		{"MaxFileSize", usual("32768"), tidemark.Note, csv, ""},
		{"ParallelLoadThreads", usual("1"), tidemark.Note, "it is how many sessions fill one table; lanes do here", "Use --lanes."},
		{"ServerTimezone", usual(""), tidemark.Note, "sessions are in UTC here, and times are converted by the server", ""},
		{"TargetDbType", usual("SPECIFIC_DATABASE", "specific-database"), tidemark.Warning, "it puts each schema into a database of its own name; here the URL's database, or rules, say where tables go", "Leave the database out of the target's URL, or use rename rules."},
		{"AuthenticationMethod", usual(""), tidemark.Note, inURL, ""},
	}, connection...),
	"PostgreSQLSettings": append([]inert{
		{"AfterConnectScript", usual(""), tidemark.Warning, session, ""},
		{"CaptureDdls", usual("true"), tidemark.Note, ddlLog, ""},
		{"DdlArtifactsSchema", usual("public"), tidemark.Note, ddlLog, ""},
		{"MaxFileSize", usual("32768"), tidemark.Note, csv, ""},
		{"ExecuteTimeout", usual("60"), tidemark.Note, session, ""},
		{"FailTasksOnLobTruncation", usual("false"), tidemark.Warning, "it ends the task where a value would be cut; here each row that is cut is reported", "Copy values whole: FullLobMode."},
		{"HeartbeatEnable", usual("false"), tidemark.Note, beats, ""},
		{"HeartbeatSchema", usual("public"), tidemark.Note, beats, ""},
		{"HeartbeatFrequency", usual("5"), tidemark.Note, beats, ""},
		{"SlotName", usual(""), tidemark.Warning, "the slot is called tidemark_ and the stream's name", "Use --name."},
		{"PluginName", usual("no-preference", "pgoutput"), tidemark.Note, "the log is read by pgoutput", ""},
		{"TrimSpaceInChar", usual("true"), tidemark.Note, "blanks behind values of character(n) are the server's, and mean nothing there", ""},
		{"MapBooleanAsVarchar", usual("false"), tidemark.Warning, mapped, byRule},
		{"MapJsonbAsClob", usual("false"), tidemark.Warning, mapped, byRule},
		{"MapLongVarcharAs", usual("wstring"), tidemark.Warning, mapped, byRule},
		{"DatabaseMode", usual("default"), tidemark.Note, "it is about Babelfish", ""},
		{"BabelfishDatabaseName", usual(""), tidemark.Note, "it is about Babelfish", ""},
		{"DisableUnicodeSourceFilter", usual("false"), tidemark.Note, "filters are texts of the source's own character set", ""},
		{"AuthenticationMethod", usual(""), tidemark.Note, inURL, ""},
	}, connection...),
}

// connection says where an endpoint is; its values are not printed.
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

const otherTarget = "it is about an endpoint of another kind (WriteBufferSize, MaxFileSize and the like are of its files)"

// endpointGroups are the keys of the top level that are about endpoints.
var endpointGroups = []inert{
	{name: "MySQLSettings"}, {name: "PostgreSQLSettings"},
	{"RedshiftSettings", nil, tidemark.Note, otherTarget, ""},
	{"S3Settings", nil, tidemark.Note, otherTarget, ""},
	{"ExtraConnectionAttributes", usual(""), tidemark.Warning, "it sets what endpoint settings do, as text", "Give such settings with the URL, or as options: --lanes, --lob-max, --name."},
}
