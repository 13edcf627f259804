// Package load copies whole tables: it plans what is created and which ranges move, runs readers
// and writers over lanes, builds keys and indexes while other tables still load, and resumes after
// a crash from the marker rows it finds.
//
// Its nouns: a Plan (objects, moves, ranges; printable, storable), a Run of it, a lane (one source
// session and one target session with a buffer between them), and the board, which decides what
// each worker does next.
//
// Start reading at Run (run.go), then board.go.
package load
