package help

import "strings"

// A word is a command or an option of another program, and its counterpart here.
type word struct {
	theirs string // without dashes; several are separated by spaces
	ours   string // the options that may be meant; a command usually has one of them
	say    string // a sentence, if the command has none of these
}

// otherCommands are commands of pgcopydb, mydumper, pgBackRest, PostgreSQL's and MySQL's programs,
// AWS DMS and kubectl, and words for common tasks.
var otherCommands = []word{
	// pgcopydb
	{"clone fork copy-db", "", "tidemark copy copies a database; tidemark replicate follows its changes too."},
	{"follow stream", "", "tidemark replicate copies a database and follows its changes; --no-copy only follows."},
	{"compare", "", "tidemark diff compares rows, and with --definitions=only definitions."},
	{"snapshot", "", "Each command takes its own snapshot: tidemark copy, tidemark diff, tidemark backup --logical."},
	{"sentinel", "", "tidemark set changes a running stream, tidemark cutover ends it."},
	{"list ls", "", "tidemark runs lists runs, tidemark status lists streams, tidemark backups REPO lists backups."},
	// dumps
	{"dump mydumper pg_dump pg_dumpall mysqldump mariadb-dump export", "", "tidemark backup SOURCE REPO --logical backs up rows and definitions; tidemark copy needs no intermediate dump."},
	{"load import myloader pg_restore mysql psql", "", "tidemark copy FILE TARGET loads a dump; tidemark restore restores a backup of tidemark backup."},
	{"pg_basebackup mariabackup xtrabackup basebackup", "", "tidemark backup SOURCE REPO backs up a PostgreSQL server's files."},
	{"pg_verifybackup", "", "tidemark verify REPO checks every byte of a repository against its checksums."},
	{"pg_receivewal receive-wal", "", "tidemark archive SOURCE REPO receives a server's log."},
	// pgBackRest, WAL-G, Barman
	{"info backup-list list-backups list-backup show-backup", "", "tidemark backups REPO lists the backups of a repository."},
	{"expire expire-backup delete-backup retain", "", "tidemark prune REPO --keep ... removes backups."},
	{"archive-push wal-push", "", "tidemark archive push REPO FILE is the archive_command."},
	{"archive-get wal-fetch", "", "tidemark archive get REPO NAME FILE is the restore_command."},
	{"stanza-create stanza-upgrade stanza-delete repo-create init", "", "tidemark backup creates the repository if it does not exist."},
	{"backup-push", "", "tidemark backup SOURCE REPO makes a backup."},
	{"backup-fetch recover", "", "tidemark restore REPO [BACKUP] DIR restores a backup."},
	{"annotate", "", "tidemark backup --label stores a label with a backup."},
	// AWS DMS
	{"full-load", "", "tidemark copy copies a database."},
	{"cdc", "", "tidemark replicate --no-copy follows the changes only; --from starts at a log position or time."},
	{"full-load-and-cdc create-replication-task start-replication-task start-replication", "", "tidemark replicate copies a database and follows its changes; it reads DMS files with --table-mappings and --task-settings."},
	{"describe-table-statistics table-statistics", "", "tidemark report last shows the tables of the last run, tidemark sub those of a stream."},
	{"describe-replication-tasks", "", "tidemark status shows streams, tidemark runs lists all runs."},
	{"stop-replication-task", "", "End the process (Ctrl-C or SIGTERM); the same command resumes it. tidemark sub stop TABLE stops one table."},
	{"delete-replication-task", "", "tidemark replicate SOURCE TARGET --remove removes a stream."},
	{"reload-tables", "", "tidemark sub reload TABLE loads a table of a stream again."},
	{"start-replication-task-assessment assess assessment premigration", "", "tidemark check SOURCE TARGET finds what would go wrong."},
	{"validate validation checksum", "", "tidemark diff SOURCE TARGET compares two databases row by row."},
	// kubectl
	{"get", "", "tidemark status shows streams, tidemark runs lists runs, tidemark backups REPO lists backups; each takes --json."},
	{"describe", "", "tidemark report RUN shows a run, tidemark status --name NAME a stream."},
	{"logs log", "", "tidemark report last shows the last run, tidemark status the streams, tidemark exceptions the changes that did not fit."},
	{"top ps", "", "tidemark utilities shows what is running now."},
	{"delete remove rm drop", "", "tidemark replicate SOURCE TARGET --remove removes a stream; tidemark prune REPO --keep ... removes backups."},
	{"create run start", "", "tidemark copy or tidemark replicate starts one, with SOURCE TARGET or --config FILE."},
	{"config", "", "Put options into a task file: tidemark copy --config FILE."},
	{"explain", "", "tidemark COMMAND --help-all lists all options, tidemark check shows what a copy would do."},
	// tasks
	{"migrate move transfer", "", "tidemark copy copies a database once; tidemark replicate, then tidemark cutover, moves a database in use."},
	{"sync mirror cdc-start subscribe", "", "tidemark replicate copies a database and follows its changes."},
	{"plan preview dry-run", "", "tidemark copy SOURCE TARGET --plan shows what a copy would do; tidemark check finds what would stop it."},
	{"test doctor preflight lint precheck", "", "tidemark check SOURCE TARGET finds what would go wrong."},
	{"monitor watch lag progress", "", "tidemark status --watch shows streams, tidemark utilities --watch everything that runs."},
	{"history jobs tasks", "", "tidemark runs lists the runs of this machine."},
	{"resume continue restart", "", "tidemark copy SOURCE TARGET --resume last resumes a copy; the same command resumes a stream."},
	{"stop pause kill cancel", "", "End the process (Ctrl-C or SIGTERM); all can be resumed. tidemark sub stop TABLE stops one table of a stream."},
	{"switchover failover promote finish", "", "tidemark cutover SOURCE TARGET ends a stream and proves both sides equal."},
	{"errors conflicts rejects", "", "tidemark exceptions shows changes that did not fit, tidemark report RUN the rows that a run has rejected."},
	{"schema ddl definitions", "", "tidemark diff SOURCE TARGET --definitions=only compares definitions and prints the SQL that makes them equal."},
	{"fix sync-rows pt-table-sync", "", "tidemark repair SOURCE TARGET prints the changes that make rows equal; --execute makes them."},
	{"tables table", "", "tidemark sub shows the tables of a stream, tidemark report RUN those of a run."},
	{"options help-all", "", "tidemark COMMAND --help-all shows all options of a command."},
	{"features", "", "tidemark engines shows what each engine can do."},
}

const (
	sayEnds = "Give SOURCE and TARGET without an option, as postgres://user@host/db or mysql://user@host/db."
	sayLog  = "Progress goes to standard error: --progress sets its form, and --json prints events."
)

// otherOptions are options of the same programs.
var otherOptions = []word{
	// where a database is: libpq's, MySQL's, mydumper's
	{"host hostname port username user dbname U d h p P u B", "", sayEnds},
	{"source target source-uri target-uri from-url to-url endpoint src dst", "", sayEnds},
	{"password passwd W no-password w", "password-file", "Give passwords in --password-file, PGPASSWORD, ~/.pgpass, MYSQL_PWD, ~/.my.cnf, or in the URL."},
	{"defaults-file defaults-extra-file defaults-group-suffix login-path", "", "What a mysql:// URL leaves out is read from ~/.my.cnf and ~/.mylogin.cnf; choose another group or login path with ?group=NAME."},
	{"ssl ssl-mode ssl-ca sslmode sslrootcert tls", "", "Put connection options into the URL: ?sslmode=verify-full for PostgreSQL, ?tls=verify-full for MySQL."},
	// how much at a time
	{"jobs j threads parallel table-jobs parallel-workers process-max max-full-load-sub-tasks concurrency workers", "lanes parallelism workers agents", ""},
	{"index-jobs restore-jobs vacuum-jobs max-threads-for-index-creation", "finishers", ""},
	{"split-tables-larger-than rows chunk-filesize chunk-size r rows-per-insert commit-rate", "range-size", ""},
	{"rate-limit bwlimit throttle bandwidth-limit", "max-rate bandwidth", ""},
	{"retries max-retries retry", "retry-for", ""},
	{"batch-size commit-batch", "commit-count range-size", ""},
	// which tables
	{"tables tables-list include-table include-tables", "table include", "--include takes patterns, SCHEMA.TABLE with *."},
	{"exclude-table exclude-tables ignore-table omit-from-file skip-table exclude-table-data", "exclude", ""},
	{"exclude-schema N ignore-database", "exclude", "--exclude takes patterns, SCHEMA.TABLE with *."},
	{"schemas namespace databases all-databases A all-namespaces", "schema include", "Name the database in the URL."},
	{"regex x filters filter where", "include config", "--include and --exclude take patterns; a task file takes where: for each table."},
	{"db-include", "database", ""}, {"db-exclude", "database", ""},
	// which parts of a table
	{"schema-only s no-data", "definitions", "tidemark diff --definitions=only prints the SQL of definitions; tidemark backup --logical stores them beside the rows."},
	{"data-only a no-create-info no-schema no-schemas", "prep", "With --prep keep or truncate, existing tables are filled, not created."},
	{"drop-if-exists clean c overwrite-tables overwrite add-drop-table drop-existing", "prep", "Use --prep drop with a command that creates tables."},
	{"truncate truncate-before-load", "prep", ""},
	{"no-owner no-privileges no-acl O skip-definer", "owners grants definer", "Owners and privileges are copied only with --owners and --grants."},
	{"roles globals globals-only g no-role-passwords", "owners", "Roles belong to the server: copy them with pg_dumpall --globals-only."},
	{"create C create-database", "", "Create the target database first."},
	{"triggers events routines E R G skip-triggers", "", "Triggers, events and routines are copied between databases of the same engine."},
	{"single-transaction lock-tables no-locks lock-all-tables consistent-snapshot no-backup-locks sync-thread-lock-mode ftwrl", "lock", "Every copy is a consistent snapshot of one moment."},
	{"not-consistent snapshot", "", "Every copy is a consistent snapshot, which it takes itself."},
	{"skip-large-objects skip-blobs no-blobs b", "lob-max", ""},
	{"skip-extensions skip-ext-comments skip-collations skip-vacuum skip-analyze", "", "Extensions that the target lacks are reported, and the rest is copied."},
	// where to
	{"file f F format outputdir o output output-dir dir directory", "out reject-dir", "Results go to standard output; --json prints JSON."},
	{"log-format as-json", "json", ""},
	{"filename manifest", "config", ""},
	{"compress-type compress-level Z compress-protocol", "compress", "There is no intermediate file to compress."},
	{"repo repo1-path repo-path repository", "", "Give the repository without an option: tidemark backup SOURCE REPO."},
	{"cipher-pass repo1-cipher-pass repo1-cipher-type encryption", "encrypt passphrase-file identity", ""},
	// pgBackRest
	{"stanza cluster", "server name", "A repository is named by its folder or URL; --server chooses among several servers."},
	{"type diff incr full", "incremental to", "Backups are full, or incremental with --incremental or --delta; restore --to recovers to a moment."},
	{"repo1-retention-full repo1-retention-diff repo1-retention-archive retention keep-last retention-policy", "keep", "Set what to keep with tidemark prune --keep."},
	{"set backup-name", "", "Name the backup after the repository: tidemark restore REPO BACKUP DIR."},
	{"target-time target-lsn target-xid target-name recovery-target recovery-target-time target-point", "to", ""},
	{"target-action recovery-target-action", "action", ""}, {"target-timeline", "timeline", ""},
	{"pg1-path pgdata D data-directory datadir", "data-dir", "Give the folder without an option: tidemark restore REPO DIR."},
	{"start-fast checkpoint-fast", "checkpoint", ""}, {"no-online", "", "Backups are taken while the server runs."},
	{"annotation", "label", ""},
	// streams: pgcopydb, DMS, Debezium
	{"follow cdc migration-type", "", "tidemark replicate copies a database and follows its changes."},
	{"slot-name slot publication plugin origin subscription replication-id task-name task", "name", "The slot and the publication are called tidemark_NAME, after --name."},
	{"endpos end-position cdc-stop-position stop-position stop-at to-lsn", "until", ""},
	{"startpos start-position cdc-start-position cdc-start-time start-lsn binlog-position gtid starting-position", "from", ""},
	{"replication-task-settings settings task-settings-file", "task-settings", ""},
	{"mappings transformation-rules selection-rules", "table-mappings", ""},
	{"restart reset fresh", "anew resume", ""}, {"drop cleanup delete stop-and-remove", "remove", "Remove a stream with tidemark replicate --remove."},
	{"on-conflict conflict-policy error-policy", "conflict", ""},
	{"wait follow-logs", "watch until", ""},
	{"for", "time duration", ""},
	{"validate verify enable-validation validation compare checksum", "definitions live", "tidemark diff compares two databases row by row."},
	// about the run itself
	{"dry-run plan-only noop what-if-plan check simulate-only explain", "plan dry-run", "tidemark check looks at both databases and changes nothing."},
	{"execute apply commit yes y force-yes", "execute", "There are no prompts: --plan, if the command has it, shows what would be done."},
	{"force overwrite-target", "force prep", ""},
	{"verbose debug log-level log loglevel trace logfile L", "verbose progress", sayLog},
	{"quiet silent no-progress", "quiet progress", sayLog},
	{"progress-interval interval poll", "monitor-interval watch", ""},
	{"work-dir workdir temp-dir tmpdir state-dir", "state work-dir", ""},
	{"profile context kubeconfig region", "", "Use one task file for each database or environment: --config FILE."},
	{"timeout connect-timeout", "retry-for", "Put the connect timeout into the URL: ?connect_timeout=10 for PostgreSQL, ?connect-timeout=10s for MySQL."},
	{"all l list last-run", "limit", ""},
}

// find gives the line of a word.
func find(in []word, theirs string) *word {
	for i := range in {
		for w := range strings.FieldsSeq(in[i].theirs) {
			if w == theirs {
				return &in[i]
			}
		}
	}
	return nil
}
