package stream

import (
	"context"
	"github.com/tidemarkdb/tidemark/job/stream/point"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/queue"
)

// A Spec says what to replicate, and how.
type Spec struct {
	Copy   job.CopySpec // source, target, rules, and how the copy before the stream is made
	Name   string       // of the stream
	Apply  apply.Options
	Buffer int64 // bytes between capture and apply
	// Conflict tells how to handle changes that do not fit the target, unless the rules set that
	// for their table.
	Conflict tidemark.Conflict
	// CaptureMemory is for transactions that arrive before they commit; the rest goes to files in
	// Apply.Spool.
	CaptureMemory int64
	// CommitInterval is the minimum time between two writes to a durable queue.
	CommitInterval time.Duration
	// Queue connects the two halves: direct, durable or the URL of a server; "" means the stream's
	// present queue, and direct for a new stream. OpenQueue opens one that is not direct.
	Queue       string
	OpenQueue   func(ctx context.Context, stream, where string) (*queue.Log, error)
	RemoveQueue func(ctx context.Context, stream, where string) error
	From        point.Point // begin there, without a copy
	Until       point.Point // stop once the target has everything up to there
	Pause       Pause       // or once, after the copy
	// BreakLoops keeps what a stream has applied on the source from being sent back: for two
	// streams in opposite directions.
	BreakLoops bool
	// OnlyChanged leaves unchanged columns out of updates.
	OnlyChanged bool
	Monitoring
	NoCopy bool // the target has all rows already
	// FollowTables adds new tables of the source to the stream; otherwise they are announced.
	FollowTables bool
	// FollowDDL makes a PostgreSQL source's log contain changed definitions, by event triggers, for
	// as long as the stream exists.
	FollowDDL bool
	// ReloadChanged loads a table again that would stop because its definition was changed.
	ReloadChanged bool
	MovedEnds
	Anew   bool // discard an earlier stream of this name, and copy again
	Remove bool // only remove it
	Role   Role
	// Change, if not nil, gives the spec with other values of options, by their names.
	Change func(values map[string]string) (Spec, error)
}

// Monitoring sets how often samples are taken, and which tables have them besides the catalogue.
type Monitoring struct {
	Interval time.Duration
	// Monitor stores samples in tables of the target; MonitorTo, if not empty, in those of the
	// database at this URL, which may be unavailable at times.
	Monitor   bool
	MonitorTo string
}

// MovedEnds tells which of source and target have another URL than before.
type MovedEnds struct {
	SourceMoved bool // a replica has taken its server's place
	TargetMoved bool // the changes applied there must prove it
}
