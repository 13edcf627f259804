// Package mysql is the engine for MySQL 8.0 and later and MariaDB 10.6 and
// later: as a source and as a target of rows, and as a reader and a writer of
// schemas.
//
// An Engine is put together of its parts, whose methods are its own: server.Server (connections, errors, places of
// the log), schema.Schema (definitions), bulk.Bulk (rows), preflight.Checks (a look at the server before anything moves), stream.Source
// (the log), and here Target (the log's changes applied). None calls one that stands above it.
//
// # Reading order
//
// mysql/server, mysql/schema, mysql/bulk; mysql/stream (changes out, with mysql/event and mysql/history), apply.go (a stream
// of changes in: apply_plan.go how a table's are written, apply_batch.go many rows a statement, apply_value.go what stands in it).
package mysql
