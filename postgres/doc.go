// Package postgres is the engine for PostgreSQL, servers 13 to 18: one Engine put together of its rooms, whose methods are
// its own.
//
//   - server: sessions, lanes, errors, quoting: what the others stand on.
//   - schema: what a database is made of, described and rendered (Schema).
//   - bulk: rows of tables, read and written (Bulk).
//   - stream: the log followed (Source). apply: changes applied (Target).
//   - physical: the files of a server and its log (Cluster); wal: what that log says.
//   - preflight: what is looked at before anything moves (Checks).
//
// Start reading at server, then bulk.
package postgres
