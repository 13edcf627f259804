// Package logs archives a PostgreSQL server's log in a repository, returns it for recovery, and
// reports in advance how far a recovery can get. It hides the names of segments in the repository,
// the handling of the segment that is not full yet, and the path through the timelines' histories
// from a backup to the server's present timeline.
//
// Its nouns: a segment is a file of the log; a history is a file that says where a timeline
// branched off; an open segment is not full yet: it is replaced as it grows, and removed once the
// full one is archived. Reach is the log without a gap from a position on.
//
// Archived files never change, and each timeline is archived in order. So a killed process resumes
// after the last segment, and of two processes that archive the same server, the second finds
// everything there.
//
// Start reading with Archive; get.go and push.go implement restore_command and archive_command,
// reach.go the check before a restore.
package logs
