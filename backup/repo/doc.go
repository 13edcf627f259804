// Package repo is the format of a repository of backups: what objects there are in a
// store.Store, how their bytes are sealed, and in which order they are written and removed, so
// that whatever is listed is whole. It knows no engine. doc/format/repository.md describes the
// format for others.
//
// Its nouns: a *piece* is up to MaxPiece bytes of the source, sealed by itself; a *pack* is many
// pieces and their index; a *manifest* says of what a backup is made, and is written last; a *log*
// is a file of a server's log; a *lock* says what somebody uses.
//
// Start with Repo (config.go), Writer (pack.go), Opener (read.go), Manifest (manifest.go). How bytes
// are sealed is in seal.go, and how an object that is read from its beginning is made of such,
// in object.go.
package repo
