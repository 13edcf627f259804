// Package stream is the life of a stream: it is set up, its tables are copied, and the source's log
// is captured and applied, by one process or by two, through disconnects and other failures.
// Package job makes the copy.
//
// Start reading at Replicate (replicate.go) and at the table of transitions (state.go), whose steps
// and actions belong to a process (process.go). A setup begins or resumes a stream (setup.go,
// copyfirst.go, fromtarget.go, handover.go); a session is the time between two connections
// (session.go, prepare.go, link.go, contact.go, apart.go). If capture and apply are two processes,
// each has a Role (halves.go, loads.go).
//
// The tables of a stream have states of their own (sub.go, subscribe.go, newtables.go): they are
// loaded while the stream runs (reload.go), and their definitions are followed (bind.go, shape.go,
// alter.go, definitions.go, follow_ddl.go, following.go). A stream is sampled (sampler.go,
// statuskeeper.go) for status, metrics and monitor tables (monitor.go). Cutover ends a stream
// (cutover.go).
package stream
