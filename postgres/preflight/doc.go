// Package preflight looks, before anything moves and while it does, for what would go wrong or slow with a PostgreSQL
// server: rights, settings, extensions and disks (preflight.go), what a stream needs (needs.go), large values (lobs.go),
// and locks that sessions of ours wait for (waits.go). All of it are methods of Checks.
package preflight
