// Package physical treats a PostgreSQL server as files and as a log of changes to their pages: it
// backs the files up itself or has the server send them, finds changed pages, prepares a recovery,
// starts a restored server to test it, and receives and scans the log.
//
//   - Cluster: a server as such; everything else begins with one of its methods.
//   - Backup: an online backup whose files are read here (backup*.go); BaseBackup: one that the server sends (basebackup*.go).
//   - pages changed since an earlier backup (changes*.go): by the log, by summaries, or by reading all pages.
//   - recovery.go, partial.go: what a restored folder needs to start; trial*.go: a server started on it as a test.
//   - Receiver: the log as the server sends it (receive*.go); scan.go: the contents of the log, for HA planning.
package physical
