// Package postgres is the PostgreSQL engine, for servers 13 to 18: it reads the
// catalogue, freezes one view of a database over many sessions, cuts tables into
// ranges, reads and writes rows by COPY, and keeps the marker rows. It hides the
// protocol, the settings of a session and what an SQLSTATE means.
//
// # Nouns
//
//   - Engine: one database of one server, put together of the parts below, whose methods are its own (engine.go).
//   - Schema, Bulk, Source, Target, Cluster, Checks: each stands on a server.Server and has its own state. Bulk knows
//     Schema's names, Source and Target use Bulk; none calls upwards.
//   - leader: the session that owns the snapshot of a frozen source, and reads its catalogue.
//   - lane: a session that moves rows or runs statements, owned by one worker at a time.
//   - wire: the COPY sub-protocol spoken straight on a lane's socket.
//
// Start reading at engine.go and server (sessions, errors), then lane.go, freeze.go, split.go,
// read.go and write.go.
package postgres
