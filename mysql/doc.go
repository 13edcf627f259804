// Package mysql is the engine for MySQL 8.0 and later and MariaDB 10.6 and
// later: as a source and as a target of rows, and as a reader and a writer of
// schemas.
//
// An Engine is put together of its rooms, whose methods are its own: server.Server (connections, errors, places of
// the log), schema.Schema (definitions), bulk.Bulk (rows), preflight.Checks (a look at the server before anything moves),
// stream.Source (the log) and apply.Target (the log's changes applied). None calls one that stands above it.
//
// # Reading order
//
// mysql/server, mysql/schema, mysql/bulk; mysql/stream (changes out, with mysql/event and mysql/history) and mysql/apply
// (changes in).
package mysql
