package screen

import (
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark/load"
)

// A phase counts the objects of a kind that are created after the rows.
type phase struct {
	Name    string `json:"name"`
	Done    int    `json:"done"`
	Total   int    `json:"total"`
	running int
}

func (p phase) String() string { return fmt.Sprintf("%s %d/%d", p.Name, p.Done, p.Total) }

// phaseNames are the names of the phases.
var phaseNames = [...]string{load.Indexes: "indexes", load.Keys: "keys", load.ForeignKeys: "foreign keys", load.OtherObjects: "others"}

func phases(kinds map[string]load.KindBuild) []phase {
	var all [len(phaseNames)]phase
	for kind, k := range kinds {
		p := &all[load.PhaseOf(kind)]
		p.Done, p.Total, p.running = p.Done+k.Ended, p.Total+k.Total, p.running+k.Running
	}
	var out []phase
	for i, p := range all {
		if p.Name = phaseNames[i]; p.Total > 0 {
			out = append(out, p)
		}
	}
	return out
}

// A forecast is the progress of a job and the estimated time remaining. Rows move at the speed of
// the last seconds; keys and indexes are built at the speed of those already built, and until there
// are some, at that of rows.
type forecast struct {
	elapsed time.Duration
	share   float64       // of the whole job; -1 unknown
	left    time.Duration // 0 unknown
	speed   float64       // bytes of rows a second

	rows, place rate
	steps       rate    // definitions, tables and objects
	lanes       int     // the most objects that were built at once
	mean        float64 // bytes of rows a second, since the start
}

func (f *forecast) update(t tally, elapsed time.Duration, now time.Time) {
	if elapsed < f.elapsed { // it is counted anew once all definitions are created
		f.rows, f.place, f.steps = rate{}, rate{}, rate{}
	}
	f.elapsed = elapsed
	f.speed = f.rows.of(t.Bytes-t.earlier, elapsed)
	if t.moving() && elapsed > 0 {
		f.mean = float64(t.Bytes-t.earlier) / elapsed.Seconds()
	}
	f.lanes = max(f.lanes, len(t.heavy.Running), 2) // two are built at once by default
	done, total := float64(min(t.Done, t.Total)), float64(t.Total)
	steps, allSteps := t.steps()
	built, left, known := f.objects(t.heavy, now)
	f.share, f.left = -1, 0
	if whole := total + float64(t.heavy.Bytes) + stepBytes*float64(allSteps); (total > 0 || allSteps > 0) && whole > 0 {
		f.share = (done + built + stepBytes*float64(steps)) / whole
	}
	if rest := total - done; rest > 0 {
		speed := f.place.of(t.Done, elapsed)
		if known = (known || allSteps > 0) && speed > 0 && len(f.place.times) > 1; known {
			left += rest / speed
		}
	}
	if allSteps > 0 {
		speed := f.steps.of(steps, elapsed)
		if known = speed > 0 && (known || steps < allSteps); known {
			left = max(left, float64(allSteps-steps)/speed)
		}
	}
	if known {
		f.left = time.Duration(left * float64(time.Second))
	}
}

// If there are many tables, each definition, table and object counts as much as these bytes, and
// the time remaining is also estimated by how many are done in a second.
const (
	manySteps = 1000
	stepBytes = 64 << 10
)

// steps are the definitions, tables and objects that are done, and all of them; none unless there
// are many.
func (t tally) steps() (done, all int64) {
	all = int64(t.Define + t.Tables + t.Objects)
	if all < manySteps {
		return 0, 0
	}
	return int64(t.Defined + t.TablesDone + t.Built), all
}

// settle is how long objects must have been built until their own speed counts for as much as that
// of rows.
const settle = 3.0

// objects estimates how many bytes of the heavy objects are done, and the seconds that the rest
// takes.
func (f *forecast) objects(h load.HeavyBuild, now time.Time) (built, seconds float64, known bool) {
	built = float64(h.Done)
	rest := float64(h.Bytes - h.Done)
	if rest <= 0 {
		return built, 0, true
	}
	speed := (built + f.mean*settle) / (h.Took.Seconds() + settle)
	if speed <= 0 {
		return built, 0, false
	}
	longest, sum := float64(h.Largest)/speed, 0.0
	for _, b := range h.Running {
		bytes, since := float64(b.Bytes), now.Sub(b.Since).Seconds()
		left := max(bytes/speed-since, since/5) // one that is late may take a while longer
		part := since / (since + left)
		built += part * bytes
		rest -= bytes
		sum += left
		longest = max(longest, left)
	}
	sum += rest / speed
	return built, max(longest, sum/float64(f.lanes)), true
}
