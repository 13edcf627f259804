// Package stream follows the log of a PostgreSQL server by logical decoding, as the source of a stream.
//
//   - Source: a database whose log is followed. Its slot and publication are made here (slot*.go, publish.go, identity.go).
//   - Stream: the log from a place on, as transactions (follow*.go); large ones come in pieces before they are committed
//     (follow_open.go), definitions as messages (follow_ddl.go).
//   - chunk: a piece of a table that is read while the stream runs, for a load within it (chunk.go).
//   - history: which line of a server's history a place belongs to (history.go).
package stream
