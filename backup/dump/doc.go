// Package dump is the form of a logical backup: the rows of tables as text that the engine's own
// client program reads, and the statements that make everything else, as plain objects of a
// repository (repo.PlainWriter). doc/format/dump.md describes it for others.
//
// Its nouns: *rows* are the text of one range of a table, in one object; the *description* is what
// a program needs to know of all of them, and of the database; the *scripts* are the same for
// people. A Writer makes them, and is where a load.Run writes to; a Dump reads them.
//
// Start with Writer (write.go), then Dump (read.go).
package dump
