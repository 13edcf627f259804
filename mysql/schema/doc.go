// Package schema reads the catalogue of a server and writes definitions.
//
// A Schema describes tables in the vocabulary (describe*.go) and other objects as the text of SHOW CREATE (describe_native.go);
// it renders a move's objects for this server: the native ones rewritten (native*.go), those of other engines built (render*.go,
// types.go says of which types). Definitions orders what makes two equal (define.go). A Shown is what information_schema
// says of one table now (shown.go), which streams and chunks are read by.
package schema
