// Package preflight checks a server before any data moves, and changes nothing: what would fail or
// slow down a copy (preflight.go), what a stream requires of its source and target (needs.go), and
// how large values are (lobs.go).
package preflight
