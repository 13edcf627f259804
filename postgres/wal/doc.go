// Package wal reads PostgreSQL's write-ahead log, versions 13 to 18, from pg_wal, from archives or
// from the replication protocol, and decodes each record to a tidemark.LogRecord. It hides how
// records are laid out over pages and segments, how the end of a log without an end mark is found,
// and how archives are packed.
//
// Its nouns: a segment is a file of the log (16 MB by default), which consists of pages (8 kB),
// each with its position (LSN) in its header. Records follow one another across pages. A scanner
// takes pages in order; Files feeds it from segments, Stream from bytes as they arrive. Changes are
// the pages of relations that a part of the log changes, found by scanning it or read from the
// server's own summaries.
//
// A log has no end mark. It ends where the next bytes cannot be its continuation: a length of 0, a
// page with another position in its header (the file was another segment before and was reused), or
// a record with a wrong link to the previous one or a wrong checksum.
//
// Start reading at scanner.page, then record; commit.go decodes the ends of transactions, files.go
// orders segments, changes.go and changes_scan.go collect what a log changes.
//
// Source: the layouts in PostgreSQL's headers access/xlog_internal.h, access/xlogrecord.h and
// access/xact.h, versions 13 to 18.
package wal
