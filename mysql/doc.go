// Package mysql is the engine for MySQL 8.0 and later and MariaDB 10.6 and
// later: as a source and as a target of rows, and as a reader and a writer of
// schemas. It knows the vocabulary and nothing else of the program.
//
// Its nouns: an Engine is a server; a session is one connection of it; a lane is
// a numbered session of the caller's. Statements go through go-mysql's client;
// rows do not: wire.go reads the packets of a result straight from the socket,
// and transform*.go turn their bytes into batches, and batches into the stream of
// LOAD DATA LOCAL, without a value being made.
//
// # Reading order
//
// connect.go (sessions, URLs), freeze.go (one view on many lanes, and the
// position in the log), split.go (ranges), read.go and transform*.go (rows out),
// write.go (rows in, strict in spite of LOAD DATA LOCAL), ledger.go, apply.go (a
// stream of changes in: apply_plan.go how a table's are written, apply_batch.go many
// rows a statement, apply_value.go what stands in it), follow.go (the binlog as a stream
// of changes out: follow_event.go events, follow_tx.go transactions, follow_table.go what
// the log says of tables and what it does not, history*.go what tables were where the log
// has no names, follow_rows.go rows, chunk.go tables read beside it), preflight.go,
// errors.go.
// describe*.go, types*.go, native*.go and render*.go are the catalogue and DDL.
//
// # For whoever reads the catalogue
//
// leader lends a session; after Freeze it is the one on the frozen view. Call
// hold on it with the tables that were described: it takes their metadata locks,
// which keep them from being altered or dropped until Close.
package mysql
