// Package ddl decides what becomes of a change of a table's definition in a stream: it goes along to the target, it
// concerns the source alone, or it stops its table, and that table alone. All who meet such a change ask Decide; the
// manual's table is printed from the same rules.
//
// Start reading at Decide.
package ddl
