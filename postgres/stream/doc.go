// Package stream follows the log of a PostgreSQL server by logical decoding, as the source of a
// stream.
//
//   - Source: a database whose log is followed. It creates its slot and publication (slot*.go, publish.go, identity.go).
//   - Stream: the log from a place on, as transactions (follow*.go); large ones arrive in pieces before their commit
//     (follow_open.go), definitions as messages (follow_ddl.go).
//   - chunk: a part of a table that is read while the stream runs, for a load within it (chunk.go).
//   - history: the timeline to which a position belongs (history.go).
package stream
