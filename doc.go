// Package tidemark is the vocabulary of the program: what a table, a type, a
// range, a batch of rows, a position in a log and an error are. It does no I/O
// and imports only the standard library; every other package imports it.
//
// # The map of the house
//
// doc/ARCHITECTURE.md has it: every package, the floor that it stands on, and what it is for.
//
// # Reading order
//
// Start here: type.go (logical types), table.go (tables and what hangs on
// them), move.go (which rows go where: Move, Range, Split), batch.go (rows on
// their way), logrecord.go (what a scan says of a log), errors.go. Then flow (the kernel),
// change (transactions of a log on their way), load (the copy), and an engine.
package tidemark
