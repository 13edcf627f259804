// Package server is the base of the engine's other packages: a Server holds the sessions on one
// database, a Lane is a session whose socket is used directly for COPY and streams. It hides the
// settings of a session, what an SQLSTATE means for the user, and how names and values are quoted.
//
// Every part of a job also needs claims to tables, the monitor's tables, the check for code that
// would run with our rights (foreigncode.go) and how two databases are related (same.go), so these
// are here too.
//
// Start reading at connect.go, then wire.go and errors.go.
package server
