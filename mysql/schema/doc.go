// Package schema reads the catalogue of a server and writes definitions.
//
// A Schema describes tables in the vocabulary (describe*.go) and other objects as the text of SHOW
// CREATE (describe_native.go); it renders a move's objects for this server: native ones rewritten
// (native*.go), those of other engines built (render*.go, with the types of types.go). Definitions
// finds the changes that make two definitions equal (define.go). A Shown is the current
// information_schema entry of one table (shown.go), by which streams and chunks are read.
package schema
