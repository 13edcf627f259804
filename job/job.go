package job

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/sample"
)

// Database is an engine connected to one database, as any verb sees it.
type Database = engines.Database

// Destination is what a copy writes to.
type Destination = engines.Destination

// Opener connects to a database by its URL.
type Opener func(ctx context.Context, url string) (Database, error)

// Env is what a job needs of the program around it.
type Env struct {
	Open Opener
	// Far, if not nil, opens the target of a copy through a relay.
	Far     func(ctx context.Context, url string) (Destination, error)
	Catalog *catalog.Catalog
	Watch   Watcher
	Files   string // folder for reject and truncation files
	Now     func() time.Time
}

func (e Env) Time() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

// openTarget connects to the target of a copy.
func (e Env) openTarget(ctx context.Context, url string) (Destination, error) {
	if e.Far != nil {
		return e.Far(ctx, url)
	}
	return e.Open(ctx, url)
}

// Event tells the watcher of something that has just happened.
func (e Env) Event(x Event) {
	x.Time = e.Time()
	e.Watch.Event(x)
}

// Phase tells the watcher what the job begins to do.
func (e Env) Phase(text string) { e.Event(Event{Kind: "phase", Text: text}) }

// OpenEnds connects to source and target. If there is no error, the caller calls close.
func (e Env) OpenEnds(ctx context.Context, source, target string) (src, tgt Database, close func(), err error) {
	if src, err = e.Open(ctx, source); err != nil {
		return nil, nil, nil, err
	}
	if tgt, err = e.Open(ctx, target); err != nil {
		src.Close()
		return nil, nil, nil, err
	}
	return src, tgt, func() { tgt.Close(); src.Close() }, nil
}

// A Watcher receives what a job does, from several goroutines.
type Watcher interface {
	// Planned comes once, before anything is changed.
	Planned(run string, p *load.Plan)
	// Running comes once, when definitions are created and rows begin to move. What a job does
	// before, which takes a while if there are many tables, comes as events of kind phase.
	Running(p Progress)
	// Following comes when a stream starts to follow, after the copy.
	Following(p StreamProgress)
	// Event comes for everything else, in the order in which it happens.
	Event(e Event)
}

// Progress lets a watcher look at a running job.
type Progress interface {
	Totals() load.Totals
	Moving() []load.TableStatus // the tables that are being loaded
	Objects() load.Build
	Elapsed() time.Duration
	Position() (done, total int64) // bytes of the whole job; total 0 unknown
}

// StreamProgress lets a watcher look at a running stream.
type StreamProgress interface {
	// Status gives the last sample, and whether there is one yet.
	Status() (sampled.Status, bool)
	// Interval is how often there is a new one.
	Interval() time.Duration
}

// An Event is one thing that happened.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"event"` // phase, state, range, table, object, retry, finding, reject, truncated
	Object  string    `json:"object,omitempty"`
	Rows    int64     `json:"rows,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
	Seconds float64   `json:"seconds,omitempty"`
	Text    string    `json:"text,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// A Report is all that is kept of a finished job, to show now and later.
type Report struct {
	Verb         string             `json:"verb"`
	Seconds      float64            `json:"seconds"`
	Rows         int64              `json:"rows"`
	Bytes        int64              `json:"bytes"`
	EarlierRows  int64              `json:"earlier_rows,omitempty"` // of Rows: committed by earlier attempts
	EarlierBytes int64              `json:"earlier_bytes,omitempty"`
	Workers      flow.Report        `json:"workers"`
	Servers      *sample.Account    `json:"servers,omitempty"` // what the workers' I/O consisted of
	Limit        string             `json:"limit,omitempty"`   // the sentence that names the limiting stage
	Advice       []string           `json:"advice,omitempty"`
	Reasons      []advisor.Advice   `json:"reasons,omitempty"` // of the advice that rests on what servers told
	Experiments  []load.Experiment  `json:"experiments,omitempty"`
	Turns        []load.Turn        `json:"turns,omitempty"`
	Findings     []tidemark.Finding `json:"findings,omitempty"`
	Failed       []load.Failed      `json:"failed,omitempty"`
	Rejected     int64              `json:"rejected,omitempty"`
	Cut          int64              `json:"truncated_values,omitempty"`
	Files        []string           `json:"files,omitempty"`
	Objects      []ObjectTime       `json:"objects,omitempty"` // and Proof: the slowest first, at most 20
	Position     tidemark.Position  `json:"position,omitzero"`
	Ends         []EndFact          `json:"ends,omitempty"`
	Foreseen     *Foreseen          `json:"foreseen,omitempty"` // if there was a forecast
	PeakRSS      int64              `json:"peak_rss,omitempty"` // bytes
	Stream       *sampled.Report    `json:"stream,omitempty"`
	Sequences    []string           `json:"sequences,omitempty"` // advanced on the target at the end of a stream
}

// Proof is the ID of what is done once all objects are built, among the times of objects.
const Proof = "comparison of the target's definitions with the plan"

// ObjectTime is how long one object took to build.
type ObjectTime struct {
	ID      string  `json:"id"`
	Seconds float64 `json:"seconds"`
}

// PeakRSS reads the highest resident set size of this process in bytes; 0 where
// the system does not say.
func PeakRSS() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kb int64
			for _, ch := range strings.TrimSpace(rest) {
				if ch < '0' || ch > '9' {
					break
				}
				kb = kb*10 + int64(ch-'0')
			}
			return kb << 10
		}
	}
	return 0
}
