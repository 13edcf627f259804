// Package backup copies the files of a server's data into a repository (backup/repo), and back. It
// hides the pipeline: who reads what, how files become pieces, and where the time goes. A Source
// tells it which files an engine has, and when they may be read.
//
// # The pipeline
//
//	Source -> Reader: read, check pages, compress, seal -> [ full buffers ] -> Writer: append to a pack
//	             ^                                                                  |
//	             +------------------------- [ empty buffers ] ----------------------+
//
// This is Db2's model: a Reader is its buffer manipulator, a Writer its media controller. A fixed
// number of buffers of a fixed size circulates between them, so memory is bounded whatever the size
// of the database. Files are handed out largest first, in stretches of several pieces, so that all
// readers can work on one large file; small files share a piece.
//
// A restore reverses this: Readers fetch sealed pieces, Writers open them and write files.
//
// An incremental backup has only pages of files (parent.go, changes.go). A restore overlays those
// of its chain before it writes (layers.go), and can write only what differs from the existing
// files (over.go).
//
// Start reading at Job (run.go), then plan.go, read.go, pages.go, finish.go; restore.go is the way
// back, and report.go reports on both.
package backup
