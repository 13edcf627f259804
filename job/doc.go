// Package job is a job's life: it opens the two ends, plans, runs, records in the
// catalogue, resumes, and reports. It is the only package that knows all verbs,
// and it knows engines only as a Database.
//
// Start reading at Copy (copy.go); Diff, Check and Import follow the same shape.
package job
