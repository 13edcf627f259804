// Package wal reads PostgreSQL's write-ahead log, versions 13 to 18, as it lies in pg_wal,
// in archives, or comes over the replication protocol, and says of each record what
// tidemark.LogRecord has. It hides how records are laid over pages and segments, where a log
// ends that has no end mark, and how archives are packed.
//
// Its nouns: a segment is a file of the log (16 MB by default), which consists of pages (8 kB),
// each with its place (LSN) in its header. Records follow one another over the pages. A scanner
// takes pages in order; Files feeds it from segments, Stream from bytes as they come. Changes are
// the pages of relations that a part of the log changes, by a scan of it or by the server's own
// summaries of it.
//
// A log has no end mark. It ends where what follows cannot be its continuation: a length of 0,
// a page with another place in its header (the segment was another before and has been used
// again), a record whose link to the one before or whose checksum is wrong.
//
// Start reading at scanner.page, then record; commit.go has the ends of transactions, files.go
// the order of segments, changes.go and changes_scan.go what a log changes.
//
// Source: the layouts in PostgreSQL's headers access/xlog_internal.h, access/xlogrecord.h and
// access/xact.h, versions 13 to 18.
package wal
