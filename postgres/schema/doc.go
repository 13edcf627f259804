// Package schema is the definition of a PostgreSQL database: a Schema describes it in the logical
// vocabulary and as native objects (describe*.go, native*.go), renders moves to objects of its own
// (render*.go, types*.go), and reads and alters definitions of tables for a stream
// (definition*.go). Definitions compares the definitions in two databases (define*.go).
//
// Start reading at describe.go, native.go and render.go.
package schema
