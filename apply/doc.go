// Package apply applies transactions of a source to a target: in parallel, whole, and
// in an order that produces the same rows as the source's.
//
// A Run applies them; a Tracker decides what may run at once.
package apply
