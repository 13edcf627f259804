// Package server is a PostgreSQL server as the other rooms of the engine stand on it: a Server has one database's sessions,
// a Lane is a session on whose socket COPY and streams are spoken. It hides the settings of a session, what an SQLSTATE
// asks of the user, and how names and values are quoted.
//
// Claims to tables, the monitor's tables, whose code would run with our rights (strangers.go) and what two databases are
// to each other (same.go) are here too, since every side of a job asks for them.
//
// Start reading at connect.go, then wire.go and errors.go.
package server
