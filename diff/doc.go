// Package diff compares two databases row by row, in parallel and in bounded
// memory, whatever their engines and whatever the order of their rows.
//
// Start reading at Compare.
package diff
