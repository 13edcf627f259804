package measure

import (
	"math"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark/ha"
)

// TrialOf returns the simulation of a plan's mode with so many sessions, with commits as large as
// in the scan. The caller sets in spec where the log is written and how it is shipped.
func TrialOf(plan ha.PlanSpec, mode string, clients int, spec SimSpec) SimSpec {
	spec.Mode, spec.Engine, spec.Committers = mode, plan.Sites.Engine, clients
	b := plan.Sites.Standbys[0]
	spec.SyncRelay, spec.ApplyDelay = b.SyncRelay, time.Duration(b.ReplayDelay*float64(time.Second))
	mean, spread := plan.CommitSizes()
	spec.Sizes = Sizes{Fixed: int(math.Round(mean)), Spread: spread}
	return spec
}

// HopTrial returns the simulation that measures the hop: one session in the weakest mode that
// waits, without disks.
func HopTrial(plan ha.PlanSpec, spec SimSpec) SimSpec {
	modes := ha.Modes(plan.Sites.Engine)
	weakest := slices.IndexFunc(modes, func(mode string) bool { return ha.Waits(plan.Sites.Engine, mode) })
	spec = TrialOf(plan, modes[weakest], 1, spec)
	spec.Dir, spec.Disk, spec.Standby, spec.SyncRelay = "", nil, StandbySpec{Disk: &ha.Disk{}}, false
	return spec
}

// Trial returns what a plan needs from the report of a simulation with so many sessions.
func (r *SimReport) Trial(clients int) ha.Trial {
	t := ha.Trial{Mode: r.Mode, Clients: clients}
	if r.Commit != nil && r.Commit.N > 0 && r.Seconds > 0 {
		t.Simulated = ha.Point{Rate: float64(r.Commits) / r.Seconds, P50: r.Commit.P50, P99: r.Commit.P99}
	}
	return t
}
