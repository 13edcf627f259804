// Package dump is the form of a logical backup: the rows of tables as text for the engine's own
// client program, and the statements that create everything else, as plain objects of a repository
// (repo.PlainWriter). doc/format/dump.md describes it for others.
//
// Its nouns: *rows* are the text of one range of a table, in one object; the *description* is what
// a program must know about them all, and about the database; the *scripts* are the same for
// people. A load.Run writes to a Writer, which makes them all; a Dump reads them.
//
// Start with Writer (write.go), then Dump (read.go).
package dump
