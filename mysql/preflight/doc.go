// Package preflight looks at a server before anything moves, and changes nothing: what would go wrong or slow with a copy
// (preflight.go), what a stream wants of its source and its target (needs.go), and how large values are (lobs.go).
package preflight
