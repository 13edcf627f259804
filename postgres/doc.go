// Package postgres is the PostgreSQL engine, for servers 13 to 18: it reads the
// catalogue, freezes one view of a database over many sessions, cuts tables into
// ranges, reads and writes rows by COPY, and keeps the marker rows. It hides the
// protocol, the settings of a session and what an SQLSTATE means.
//
// # Nouns
//
//   - Engine: one database of one server, as a load.Source, load.Target and load.Ledger.
//   - leader: the session that owns the snapshot of a frozen source, and reads its catalogue.
//   - lane: a session that moves rows or runs statements, owned by one worker at a time.
//   - wire: the COPY sub-protocol spoken straight on a lane's socket.
//
// Start reading at connect.go (sessions), then freeze.go, split.go, wire.go,
// read.go and write.go. errors.go says what each SQLSTATE asks of the user.
package postgres
