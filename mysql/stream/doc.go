// Package stream follows the log of a server: the binlog as transactions of changes, and scans of
// it.
//
// A Source is the part of a server that streams follow. A Stream (stream.go, which also lists its
// parts) reads the packets of a replica's connection: event.go (events), gtid.go, xa.go and tx.go
// (transactions), row_events.go and table.go (rows), statement.go, look.go and kept.go (table
// definitions, by mysql/event and mysql/history), boundary.go and skip.go (where it begins, and
// what it leaves out). journal.go is what streams remember of the log besides the catalogue,
// moved.go continues on a server that has replaced another. scan.go reads a log only for figures.
package stream
