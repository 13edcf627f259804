// Package tidemark is the vocabulary of the program: what a table, a type, a
// range, a batch of rows, a position in a log and an error are. It does no I/O
// and imports only the standard library; every other package imports it.
//
// # The map of the house
//
// A package stands above all that it imports (layout_test.go holds the floors):
//
//	5  cmd/tidemark                       flags, printing, exit codes
//	4  job                                a run's life; the only one that knows all verbs
//	3  queue/jetstream queue/kafka        where a queue's messages are kept
//	   engines                            the explicit list of engines, and what each can do
//	2  postgres mysql sqlfile             engines: they know the vocabulary and nothing else
//	   mapping ddl                        rules of the user's, and for changed definitions
//	   load diff define lag catalog advisor   verbs: they see engines through their own interfaces
//	   capture queue apply                and those of streams: from a log, through a queue, to a target
//	   ha                                 what synchronous replication would cost
//	   backup                             files of servers into a repository, and back
//	   postgres/wal mysql/binlog          logs of engines, as they lie in files or come from a server
//	   store backup/repo backup/logs      where backups and servers' logs are kept, and in what form
//	   backup/dump                        logical backups: rows and definitions as objects for people
//	1  tidemark flow                      vocabulary and kernel
//
// # Reading order
//
// Start here: type.go (logical types), table.go (tables and what hangs on
// them), move.go (which rows go where: Move, Range, Split), batch.go (rows on
// their way), change.go (transactions of a log on their way), logrecord.go (what
// a scan says of a log), errors.go. Then flow (the kernel), load (the copy), and an engine.
package tidemark
