// Package postgres is the engine for PostgreSQL, servers 13 to 18: one Engine composed of the
// packages below, whose methods are its own.
//
//   - server: sessions, lanes, errors, quoting: the base of the others.
//   - schema: describes and renders the objects of a database (Schema).
//   - bulk: reads and writes the rows of tables (Bulk).
//   - stream: follows the log (Source). apply: applies changes (Target).
//   - physical: the files of a server and its log (Cluster); wal: decodes that log.
//   - preflight: checks before anything moves (Checks).
//
// Start reading at server, then bulk.
package postgres
