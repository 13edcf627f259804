// Package repo is the format of a backup repository: which objects a store.Store has, how their
// bytes are sealed, and in which order they are written and removed, so that whatever is listed is
// complete. It knows no engine. doc/format/repository.md describes the format for others.
//
// Its nouns: a *piece* is up to MaxPiece bytes of the source, sealed separately; a *pack* is many
// pieces and their index; a *manifest* describes what a backup consists of, and is written last; a
// *log* is a file of a server's log; a *lock* records what a process uses.
//
// Start with Repo (config.go), Writer (pack.go), Opener (read.go), Manifest (manifest.go). seal.go
// has how bytes are sealed, object.go how sealed frames make an object that is read from its
// beginning.
package repo
