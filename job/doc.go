// Package job is the life of a job: it opens source and target, plans, runs, records in the
// catalogue, resumes, and reports. With job/stream, which is the life of a stream, it is the only
// package that knows all verbs, and it knows engines only as a Database.
//
// Start reading at Copy (copy.go); Diff, Check and Import follow the same shape. Others are the
// comparison of databases that are being written to (live.go) and their repair, backups of files
// (backup.go) and of rows (logical.go), and their restore (refill.go). The status of a stream
// (status.go) is part of what a job reports.
package job
