// Package tidemark is the vocabulary of the program: what a table, a type, a
// range, a batch of rows, a position in a log and an error are. It does no I/O
// and imports only the standard library; every other package imports it.
//
// # The map of the house
//
// A package stands above all that it imports (layout_test.go holds the floors):
//
//	6  cmd/tidemark                       flags, printing, exit codes
//	5  job                                a run's life; with the next the only one that knows all verbs
//	   job/stream job/stream/limit        the life of a stream, and what limits it
//	   job/stream/making                  the tables that it makes on the target
//	   job/stream/loading                 what its catalogue keeps of each table
//	   job/stream/figure                  its figures, for Prometheus and the tables that monitor it
//	   job/stream/contact                 whether its servers answer
//	   job/stream/described               what a capture says of its source to an apply elsewhere
//	   job/stream/point                   where it begins and ends
//	   job/forecast                       how long a copy will take
//	   job/workload                       test transactions into a server, measured
//	   cmd/tidemark/option                what options commands have, on command lines and in files
//	   cmd/tidemark/address               where databases are, as users write it; passwords
//	   cmd/tidemark/help                  what commands are for: --help and --help-all
//	   cmd/tidemark/manual                pages that are made from the program's tables
//	   cmd/tidemark/notation              how users write disks, links and changes of them
//	   cmd/tidemark/metrics               figures for Prometheus
//	   cmd/tidemark/screen                what commands show: progress, reports, numbers as text
//	   cmd/tidemark/archiving             the progress of a log archive, shown
//	   cmd/tidemark/bundle                what a helper needs of a run, without secrets and values
//	   cmd/tidemark/holdings              what a repository of backups holds
//	4  queue/jetstream queue/kafka        where a queue's messages are kept
//	   engines                            the explicit list of engines, and what each can do
//	   engines/enginetest                 what every engine has to do
//	   relay/far                          the target of a copy, opened by a relay beside its server
//	   job/notice                         what of a copy people may notice later
//	3  postgres mysql db2 sqlfile         engines: they know words, and what both do alike
//	   mapping ddl                        rules of the user's, and for changed definitions
//	   load diff define lag catalog sample advisor   verbs: they see engines through their own interfaces
//	   diff/dumped                        a dump file as a side of a comparison
//	   capture queue apply                and those of streams: from a log, through a queue, to a target
//	   queue/peek                         what is in a queue, for people
//	   relay                              the link to a process beside a far server
//	   queue/queuetest                    what every store of a queue has to do
//	   apply/order apply/resolve          what may share a statement on a target; what becomes of what does not fit it
//	   db2/advise                         texts of Db2 from files, explained by the advisor
//	   db2/bulk db2/schema db2/server     rows, definitions, sessions and errors of Db2
//	   ha                                 what synchronous replication would cost
//	   ha/measure ha/report               what disks and links give to a log, and its simulation; plans as text and pages
//	   backup                             files of servers into a repository, and back
//	   mysql/bulk                         rows that are read and written on lanes
//	   mysql/history mysql/event mysql/preflight   what tables were in the log, its rows; a look before anything moves
//	   mysql/schema                       definitions
//	   mysql/mysqltest                    what tests of its rooms share
//	   mysql/stream mysql/apply           the log as transactions, and scanned; changes on a target, repair
//	   mysql/server                       connections, errors, places of the log
//	   postgres/stream postgres/apply     both sides of a stream
//	   postgres/preflight                 what is looked at before anything moves
//	   postgres/bulk                      rows of tables: frozen, cut into ranges, read, written, summed up
//	   postgres/pgtest                    what tests of its rooms share
//	   postgres/physical                  a server as files and as a log: backups, changed pages, recovery, receive
//	   postgres/schema                    what a PostgreSQL database is made of: described, rendered
//	   postgres/define                    its definitions, compared and altered as texts
//	   postgres/server                    sessions, errors and quoting, which all of PostgreSQL's engine stands on
//	   postgres/wal mysql/binlog          logs of engines, as they lie in files or come from a server
//	   store backup/repo backup/logs      where backups and servers' logs are kept, and in what form
//	   backup/dump                        logical backups: rows and definitions as objects for people
//	2  change                             what a log says: transactions, rows, groups, conflicts
//	   engine                             what engines differ in: a row of traits for each
//	   mysqltype                          how MySQL spells types
//	   sqltext                            SQL as tokens
//	   db2/text                           what Db2 and its tools print, as figures
//	   db2/drda                           what Db2 speaks: its protocol, as a client
//	1  tidemark flow                      vocabulary and kernel
//
// # Reading order
//
// Start here: type.go (logical types), table.go (tables and what hangs on
// them), move.go (which rows go where: Move, Range, Split), batch.go (rows on
// their way), logrecord.go (what a scan says of a log), errors.go. Then flow (the kernel),
// change (transactions of a log on their way), load (the copy), and an engine.
package tidemark
