// Package logs keeps a PostgreSQL server's log in a repository, gives it back for recovery, and
// says beforehand how far a recovery can get with it. It hides what segments are called in the
// repository, what becomes of the one that is not full yet, and how the timelines' histories
// lead from a backup to where its server is now.
//
// Its nouns: a segment is a file of the log; a history is a file that says from where a timeline
// has come; an open segment is one that is not full yet, which is replaced as it grows and goes
// when the whole one is there. Reach is the log that is there from a place on without a gap.
//
// What is in the archive is never replaced by anything else, and of each timeline it goes from
// its first segment to its last: so whoever is killed goes on behind the last one, and of two
// that archive the same server the second finds that all is there.
//
// Start reading with Archive; get.go and push.go have what a server's restore_command and
// archive_command do, reach.go what is asked before a restore.
package logs
