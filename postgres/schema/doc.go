// Package schema is what a PostgreSQL database is made of: a Schema describes it in the vocabulary and as native objects
// (describe*.go, native*.go), renders moves to objects of its own (render*.go, types*.go), and reads and alters definitions
// of tables for a stream (definition*.go). Definitions compares those of two databases (define*.go).
//
// Start reading at describe.go, native.go and render.go.
package schema
