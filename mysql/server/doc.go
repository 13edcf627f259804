// Package server is one MySQL or MariaDB server as a client sees it: the base of the engine.
//
// A Server has an address (address.go), a login (login.go, greeting.go: which servers may see the
// password) and properties (connect.go, limits.go). A Session is one connection to it: statements
// go through go-mysql's Client behind a guard (statements.go); rows do not: a Wire reads the
// packets of a result directly from the socket (wire.go). errors.go classifies a server's errors
// and quotes names and values; log.go handles log positions; own.go finds our own tables among the
// user's, claim.go and monitor.go write some of them; same.go, replicates.go and watch.go report
// how servers relate to each other.
package server
