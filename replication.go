package tidemark

import "time"

// A Replication is a look at a server whose log standbys follow. What is counted is counted since some
// moment in the past: two looks are compared. What the server does not tell is -1.
type Replication struct {
	At  time.Time
	Log float64 // bytes of its log so far
	// Commits are transactions that have written so far; Waits of them have waited for a standby, for
	// WaitSeconds in all.
	Commits, Waits int64
	WaitSeconds    float64
	// Mode is what a commit waits for now, as ha calls it; "" does not wait. Degraded says that the
	// server is told to wait and does not, since no standby has answered in time.
	Mode     string
	Degraded bool
	Waiting  []WaitingCommit
	Standbys []FollowingStandby
}

// A WaitingCommit is a session that waits for a standby now.
type WaitingCommit struct {
	Session int64
	Seconds float64 // for how long the statement has been running
	Only    bool    // the statement is nothing but the commit, so that all of Seconds is waiting
}

// A FollowingStandby is what a server knows of one of its standbys. Write, Flush and Replay are how
// long, lately, log has taken until it was written, on disk and applied there, in seconds; -1 where
// nothing came lately. Behind is what it has not applied yet, in bytes.
type FollowingStandby struct {
	Name                 string
	Waited               bool // commits may wait for it
	Write, Flush, Replay float64
	Behind               float64
}

// LogKept is what a source keeps of its log for a stream.
type LogKept struct {
	Bytes int64 // from the position from which the stream would ask for it again
	// Room is how many bytes the log may still grow before the server removes what the stream needs; -1: the server has
	// no limit but its disk.
	Room int64
	// Expiry is the age at which the server removes its log whether it was read or not; 0: it does not.
	Expiry time.Duration
}
