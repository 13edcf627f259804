// Package server is one MySQL or MariaDB server as a client sees it: what all of the engine stands on.
//
// A Server has an address (address.go), lets us in (login.go, greeting.go: who may see the password) and tells what it is
// (connect.go, limits.go). A Session is one connection of it: statements go through go-mysql's Client behind a guard
// (statements.go); rows do not: a Wire reads the packets of a result straight from the socket (wire.go). errors.go says what a
// server's errors mean, and quotes names and values; log.go names places in its log; own.go finds the tables of our own
// beside the user's, claim.go and monitor.go write some of them; same.go, replicates.go and watch.go say what servers are to
// each other.
package server
