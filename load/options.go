package load

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// Options shape a run. The zero value is good.
type Options struct {
	Run       string        // the run's name, in marker rows
	Lanes     int           // sessions on each side; 0 starts with 2 and adds while throughput gains
	MaxLanes  int           // for Lanes 0: the maximum; 0 means 8
	RoundTrip time.Duration // to the farther end, if significant; otherwise 0
	Finishers int           // sessions that build keys and indexes; 0 means 2
	RetryFor  time.Duration // how long transient errors are retried; 0 means 5 minutes, negative not at all
	Buffer    int64         // bytes between a reader and its writer; 0 means 8 MB
	// RejectTables lets the run continue without tables that cannot be created or filled.
	RejectTables bool
	// Reject, if not nil, receives each bad row of a move with the reason.
	Reject func(m *tidemark.Move, f tidemark.Format, row []byte, reason string) error
	// Cut, if not nil, receives each value that limited LOB mode truncated.
	Cut func(m *tidemark.Move, key, column string, bytes int64)
	// Auto, with Lanes 0, does not end the search for the best number of lanes.
	Auto bool
	// Turned, if not nil, is called after each try.
	Turned func(Turn)
	// Experiment measures, while rows move, what would make them move faster (Run.Tried).
	Experiment bool
	// Pace, if not nil, says how many lanes may take ranges now, instead of the search for the best
	// number; 0: none.
	Pace func() int
	// Sample says that the job may set Watch.
	Sample bool
	// Watch, if not nil, runs beside the workers until they end; states is flow.Group.States.
	Watch func(ctx context.Context, states func(role string) []flow.State)
}

func (o Options) defaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MaxLanes, 8)
	def(&o.Finishers, 2)
	if o.RetryFor == 0 {
		o.RetryFor = 5 * time.Minute
	}
	if o.Buffer == 0 {
		o.Buffer = 8 << 20
	}
	return o
}

// RetryTime returns RetryFor, or its default.
func (o Options) RetryTime() time.Duration { return o.defaults().RetryFor }

// LaneCount returns the number of source lanes to freeze for these options.
func (o Options) LaneCount() int {
	if o.Lanes > 0 {
		return o.Lanes
	}
	return o.defaults().MaxLanes
}

// lightFrom is how many objects are worth more sessions than Finishers: each waits for the disk a
// few times, since a server writes the file of a new index to disk at once.
const lightFrom = 500

// light returns how many sessions create small objects besides the Finishers. How many objects a
// script has is not known: -1. Far away they mostly wait for round trips.
func (o Options) light(objects int) int {
	if objects >= lightFrom || objects < 0 && o.RoundTrip > 0 {
		return 2 * o.defaults().Finishers
	}
	return 0
}

// ScriptLane returns the target's lane for an import's own statements, which run while the others
// write and build.
func (o Options) ScriptLane() int { return o.LaneCount() + o.defaults().Finishers + o.light(-1) }
