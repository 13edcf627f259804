// Package mysql is the engine for MySQL 8.0 and later and MariaDB 10.6 and later: as a source and
// as a target of rows, and as a reader and a writer of schemas.
//
// An Engine combines its parts, whose methods are its own: server.Server (connections, errors, log
// positions), schema.Schema (definitions), bulk.Bulk (rows), preflight.Checks (checks of the server
// before anything moves), stream.Source (the log) and apply.Target (the log's changes applied).
// None calls one that is listed after it.
//
// # Reading order
//
// mysql/server, mysql/schema, mysql/bulk; mysql/stream (changes out, with mysql/event and
// mysql/history) and mysql/apply (changes in).
package mysql
