// Package bulk moves the rows of PostgreSQL's tables: it opens many sessions on one snapshot of a
// database, splits tables into ranges, reads and writes their rows by COPY, keeps the marker rows,
// and computes checksums of tables for comparison.
//
//   - Bulk: the sessions of one database that do this.
//   - leader: the session that owns the snapshot of a frozen source, and reads its catalogue (freeze.go).
//   - lane: a session that moves rows or runs statements, owned by one worker at a time (lane.go).
//   - range: a part of a table that is read in one go and written in one transaction with its marker (split.go, ledger.go).
//   - conversion: how a value of another engine is rewritten for the target column's type (convert.go).
//
// Start reading at lane.go, then freeze.go, split.go, read.go and write.go; reject.go handles rows
// that the target refuses.
package bulk
