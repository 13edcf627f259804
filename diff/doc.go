// Package diff compares two databases row by row, in parallel and in bounded memory, whatever their
// engines and whatever the order of their rows.
//
// It needs no sorting. A first pass hashes every row of both sides, and sums the hashes in buckets
// chosen by the row's key: sums do not depend on order. Only tables with a bucket whose sums differ
// are read again: the hashes of the rows in such buckets are held, those without a counterpart are
// the differences, and the ranges in which the first few of those were found are read once more,
// for their text.
//
// Memory is 24 bytes a bucket (one for about 4000 rows) in the first pass and a fixed number of row
// hashes in the second, whatever the size.
//
// The nouns: a Pair of tables, a Side of the comparison, a Result with the Rows that differ. Values
// that engines write differently although they are equal are made equal before they are hashed: see
// normal.go for what counts as equal.
//
// Start reading at Compare, then sums.go (first pass), descend.go (second).
package diff
