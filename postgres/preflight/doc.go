// Package preflight checks, before anything moves and while it does, for what would fail or be slow
// on a PostgreSQL server: rights, settings, extensions and disks (preflight.go), what a stream
// needs (needs.go), large values (lobs.go), and locks that our sessions wait for (waits.go). All
// are methods of Checks.
package preflight
