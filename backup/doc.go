// Package backup copies the files of a server's data into a repository (backup/repo), and
// back. It hides the pipeline: who reads what, how files become pieces, and where the time
// goes. What an engine's files are, and when they may be read, it asks a Source.
//
// # How it goes
//
//	Source -> Reader: read, check pages, compress, seal -> [ full buffers ] -> Writer: append to a pack
//	             ^                                                                  |
//	             +------------------------- [ empty buffers ] ----------------------+
//
// It is Db2's model: a Reader is its buffer manipulator, a Writer its media controller, and
// between them goes a fixed number of buffers of a fixed size, so that the memory is bounded
// whatever the database is. Files are handed out largest first and in stretches of some
// pieces, so that all readers are busy with one large file; small ones share a piece.
//
// A restore turns it round: Readers fetch sealed pieces, Writers open them and write files.
//
// An incremental backup has pages of files only (parent.go, changes.go); a restore lays those of its
// chain over each other before it writes (layers.go), and may write only what differs from
// what is there (over.go).
//
// Start reading at Job (run.go), then plan.go, read.go, pages.go, finish.go; restore.go is the way back,
// and report.go what is said of both.
package backup
