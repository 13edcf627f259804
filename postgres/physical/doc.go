// Package physical knows a PostgreSQL server as files and as a log of changes to their pages: it backs the files up by
// itself or has the server send them, finds which pages have changed, prepares a recovery, starts a restored server to
// try it, and receives and scans the log.
//
//   - Cluster: a server seen so; all else begins with one of its methods.
//   - Backup: one whose files are read here (backup*.go); BaseBackup: one that the server sends (basebackup*.go).
//   - changed pages since an earlier backup (changes*.go), by the log, by summaries, or by looking at all of them.
//   - recovery.go, partial.go: what a restored folder needs to come up; trial*.go: a server started on it to look.
//   - Receiver: the log as the server sends it (receive*.go); scan.go: what the log says, for HA planning.
package physical
