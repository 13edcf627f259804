// Package stream is the life of a stream: it is set up, its tables are copied, the source's log is captured and applied, by
// one process or by two, and what befalls it on the way is dealt with. Package job makes the copy.
//
// Start reading at Replicate (replicate.go) and at the table of transitions (state.go), whose steps and actions are a life's
// (life.go). A setup begins a stream, or goes on with one (setup.go, copyfirst.go, fromtarget.go, handover.go); a session is
// the time between two connections (session.go, prepare.go, link.go, contact.go, apart.go). Where capture and apply are two
// processes, each does a Half (halves.go, loads.go).
//
// The tables of a stream have states of their own (sub.go, subscribe.go, newtables.go): they are loaded while it flows
// (reload.go), and their definitions are followed (bind.go, shape.go, alter.go, definitions.go, follow_ddl.go, following.go).
// What a stream is at is sampled (sampler.go, pulse.go) for status, metrics and monitor tables (monitor.go). Cutover brings
// one to its end (cutover.go).
package stream
