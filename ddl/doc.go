// Package ddl decides what happens to a change of a table's definition in a stream: it is
// replicated, it concerns only the source, or it stops its table, and only that table. Everything
// that handles such a change calls Decide; the manual's table is generated from the same rules.
//
// Start reading at Decide.
package ddl
