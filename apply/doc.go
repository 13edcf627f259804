// Package apply applies transactions of a source to a target: in parallel, whole, and
// in an order that gives the same rows as the source's.
//
// So far it holds the part that decides what may run at once (Tracker).
package apply
