// Package flow is the kernel of every job: workers, bounded buffers between them, and clocks that
// account for all of a worker's time. It hides goroutines, cancellation and waiting; it knows
// nothing of databases and imports only the standard library.
//
// The nouns: a Group runs the workers of a job; each worker has a Clock, and belongs to a role
// ("Reader"); workers hand values on through a Buffer; a Report shows where the time went, and
// which role limits the job.
//
// Start reading at Clock, then Buffer, Group, Report.
package flow
