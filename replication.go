package tidemark

import "time"

// A Replication is a snapshot of a server whose log standbys follow. Counters count from some
// moment in the past: compare two snapshots. What the server does not report is -1.
type Replication struct {
	At  time.Time
	Log float64 // bytes of its log so far
	// Commits are transactions that have written so far; Waits of them have waited for a standby,
	// for WaitSeconds in all.
	Commits, Waits int64
	WaitSeconds    float64
	// Mode is what a commit waits for now, as ha calls it; "" does not wait. Degraded means that
	// the server is configured to wait and does not, since no standby has answered in time.
	Mode     string
	Degraded bool
	Waiting  []WaitingCommit
	Standbys []FollowingStandby
}

// A WaitingCommit is a session that waits for a standby now.
type WaitingCommit struct {
	Session int64
	Seconds float64 // for how long the statement has been running
	Only    bool    // the statement is only the commit, so all of Seconds is waiting
}

// A FollowingStandby is what a server knows of one of its standbys. Write, Flush and Replay are how
// long recent log took until it was written, on disk and applied there, in seconds; -1 if nothing
// came recently. Behind is what it has not applied yet, in bytes.
type FollowingStandby struct {
	Name                 string
	Waited               bool // commits may wait for it
	Write, Flush, Replay float64
	Behind               float64
}

// LogKept is the log that a source keeps for a stream.
type LogKept struct {
	Bytes int64 // from the position from which the stream would ask for it again
	// Room is how many bytes the log may still grow before the server removes what the stream
	// needs; -1: the server has no limit but its disk.
	Room int64
	// Expiry is the age at which the server removes its log, read or not; 0: never.
	Expiry time.Duration
	// Open is the age of the oldest transaction that has written (MySQL, MariaDB: or locked rows)
	// and is open, and OpenBy whose it is; 0: there is none, or this user may not know. Then OpenBy
	// is the statement that grants that, if there is one.
	Open   time.Duration
	OpenBy string
	// HeldBy names the standbys' slots that the server waits for before it sends more of its log;
	// "": it does not wait.
	HeldBy string
}
