package stream

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/queue"
)

// A Spec says what to keep equal, and how.
type Spec struct {
	Copy   job.CopySpec // source, target, rules, and how the copy before the stream is made
	Name   string       // of the stream
	Apply  apply.Options
	Buffer int64 // bytes between capture and apply
	// Conflict is what becomes of changes that the target does not fit, where the rules say
	// nothing of their table.
	Conflict tidemark.Conflict
	// CaptureMemory is for transactions that come before they are committed; files of
	// Apply.Spool have the rest.
	CaptureMemory int64
	// CommitInterval is the least time between two writes to a durable queue.
	CommitInterval time.Duration
	// Queue is what lies between the two: direct, durable or the URL of a server; "" means
	// what the stream has, and direct for a new one. OpenQueue opens one that is not direct.
	Queue       string
	OpenQueue   func(ctx context.Context, stream, where string) (*queue.Log, error)
	RemoveQueue func(ctx context.Context, stream, where string) error
	From        Point // begin there, without a copy
	Until       Point // end when the target has all up to there
	Pause       Pause // or once, after the copy
	// BreakLoops keeps what a stream has applied on the source from going on: for two
	// streams against each other.
	BreakLoops bool
	// OnlyChanged leaves out of updates what they have not changed.
	OnlyChanged bool
	Monitoring
	NoCopy bool // the target has all already
	// FollowTables adds tables that the source gets to the stream; otherwise they are announced.
	FollowTables bool
	// FollowDDL makes a PostgreSQL source's log have changed definitions, by event triggers, for as long as the stream is there.
	FollowDDL bool
	MovedEnds
	Anew   bool // forget an earlier stream of that name, and copy again
	Remove bool // only forget it
	Half   Half
	// Change, if not nil, gives the spec with other values of options, which are by name.
	Change func(values map[string]string) (Spec, error)
}

// Monitoring says how often samples are taken, and which tables have them besides the catalogue.
type Monitoring struct {
	Interval time.Duration
	// Monitor keeps samples in tables of the target; MonitorTo, if not empty, in those of the
	// database at this URL, which need not be there all the time.
	Monitor   bool
	MonitorTo string
}

// MovedEnds says which ends have another URL than before.
type MovedEnds struct {
	SourceMoved bool // a replica has taken its server's place
	TargetMoved bool // what was applied there has to prove it
}
