// Package stream follows the log of a server: the binlog as transactions of changes, and scans of it.
//
// A Source is the side of a server that streams follow, a Stream (stream.go, with what it is put together of) reads the
// packets of a replica's connection: event.go (events), gtid.go, xa.go and tx.go (transactions), row_events.go and table.go
// (rows), statement.go, look.go and kept.go (what tables are there, by mysql/event and mysql/history), boundary.go and
// skip.go (where it begins, and what it leaves out). journal.go is what streams remember of the log beside the catalogue,
// moved.go a server that another one has taken the place of. scan.go reads a log for figures only.
package stream
