package advisor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/sample"
)

// A serverCase is what the rules about servers look at: the role that limits a job, what its I/O
// consisted of, and what was counted on its server.
type serverCase struct {
	split   sample.Split
	server  sample.Counted
	machine *sample.Machine
	engine  string
	wall    time.Duration // of the stage: the I/O divided by the workers is within it
	workers int           // of the role
	busy    float64       // how many of them did I/O side by side
	facts   Facts
	history []sample.Moment
}

// time returns how much of the stage's time some kinds of waiting were.
func (c *serverCase) time(kinds ...tidemark.WaitKind) time.Duration {
	return time.Duration(c.split.Share(kinds...) * float64(c.split.IO) / c.busy)
}

func (c *serverCase) arithmetic() string {
	return fmt.Sprintf("all of this waiting, divided by %.1f workers side by side", c.busy)
}

// evidence says how large some parts of the I/O were, and what the server calls the largest.
func (c *serverCase) evidence(kinds ...tidemark.WaitKind) string {
	sum, event := time.Duration(0), ""
	for _, p := range c.split.Parts {
		if slices.Contains(kinds, p.Kind) {
			sum += p.Time
			if event == "" && p.Event != "" {
				event = fmt.Sprintf(", most often %s", p.Event)
			}
		}
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return fmt.Sprintf("%.0f%% of the %ss' I/O on the %s were %s (%s of %s%s)", 100*c.split.Share(kinds...), strings.ToLower(c.split.Role), c.split.On,
		strings.Join(names, " and "), secs(sum), secs(c.split.IO), event)
}

func (c *serverCase) setting(name string) string { return c.server.Settings[name] }

func (c *serverCase) postgres() bool { return c.engine == engine.Postgres }

// A reason is what a rule concludes.
type reason struct {
	evidence   string // figures
	conclusion string // one sentence
	setting    string // what to change; "" if there is nothing to gain
	owner      string // whose setting: "tidemark", "source", "target", "hardware"
	now, try   string // its value, and the one to try
	gain       time.Duration
	arithmetic string // how gain was found
	gains      string // instead of both, where a gain is no time
	sure       Sureness
	cost       string // what the change costs or risks
}

func (r *reason) advice(rule string) Advice {
	a := Advice{Rule: rule, Finding: r.conclusion, Evidence: []string{r.evidence}, Sure: r.sure, Cost: r.cost}
	if r.setting == "" {
		a.Sure, a.Cost = "", ""
		return a
	}
	where := ""
	if r.owner == "source" || r.owner == "target" {
		where = " on the " + r.owner
	}
	switch {
	case r.now != "" && r.try != "":
		a.Do = fmt.Sprintf("Change %s%s from %s to %s.", r.setting, where, r.now, r.try)
		a.Settings = []Setting{{Name: r.setting, Now: r.now, Propose: r.try}}
	case strings.HasPrefix(r.setting, "--"):
		a.Do = fmt.Sprintf("Raise %s.", r.setting)
	default:
		a.Do = r.setting + where + "."
	}
	if r.gain > 0 {
		a.Seconds = r.gain.Seconds()
		a.Gain = fmt.Sprintf("at most %s: %s", secs(r.gain), r.arithmetic)
	}
	return a
}

// full is the share of processor time from which on a machine counts as full.
const full = 0.9

// A serverRule looks at a case; nil if it does not apply.
type serverRule struct {
	name string
	look func(c *serverCase) *reason
}

// serverRules, one for each cause. What they conclude is printed in the order of the time that it
// costs.
var serverRules = []serverRule{
	{"processors-full", processorsFull},
	{"log-syncs", logSyncs},
	{"forced-checkpoints", forcedCheckpoints},
	{"burst", burst},
	{"data-reads", dataReads},
	{"data-writes", dataWrites},
	{"temporary-io", temporaryIO},
	{"locks", locks},
	{"one-table", oneTable},
	{"network", network},
	{"standby", standby},
}

// processorsFull: nothing is gained by more work at the same time.
func processorsFull(c *serverCase) *reason {
	m, queue := c.machine, c.split.Share(tidemark.WaitProcessor)
	evidence := c.processors()
	if evidence == "" {
		return nil
	}
	a := &reason{
		evidence:   evidence,
		conclusion: fmt.Sprintf("Nothing to gain here from more lanes, index builders or memory: the %s's %d processors are full (%.0f%% busy).", c.split.On, m.Processors, 100*m.Busy),
		setting:    "Use more or faster processors", owner: "hardware", sure: Likely,
		gain: c.time(tidemark.WaitProcessor), cost: "another machine",
	}
	a.arithmetic = fmt.Sprintf("%s of I/O waited for a processor, divided by %.1f workers side by side", secs(time.Duration(queue*float64(c.split.IO))), c.busy)
	if a.gain < c.wall/50 {
		a.setting, a.gain = "", 0
	}
	return a
}

// processors says that the server is on this machine, whose processors are full of its work; "" if
// not.
func (c *serverCase) processors() string {
	m, work, queue := c.machine, c.split.Share(tidemark.WaitCPU), c.split.Share(tidemark.WaitProcessor)
	if m == nil || !c.split.Here || m.Busy+m.Steal < full || work+queue < 0.4 {
		return ""
	}
	return fmt.Sprintf("the %d processors of this machine, where the %s is, were %.0f%% busy (tidemark itself %.0f%%); %.0f%% of the %ss' I/O was work, and %.0f%% waiting for a processor",
		m.Processors, c.split.On, 100*m.Busy, 100*m.Own, 100*work, strings.ToLower(c.split.Role), 100*queue)
}

// fewerSyncs proposes a setting with which MySQL and MariaDB sync less, and reports whether there
// is one; crash is what the first one risks.
func (c *serverCase) fewerSyncs(a *reason, crash string) bool {
	switch {
	case c.setting("innodb_flush_log_at_trx_commit") == "1":
		a.setting, a.now, a.try, a.cost = "innodb_flush_log_at_trx_commit", "1", "2", crash
	case c.setting("sync_binlog") == "1" && c.setting("log_bin") == "ON":
		a.setting, a.now, a.try = "sync_binlog", "1", "0"
		a.cost = "after a crash of the machine replicas may have more than this server"
	default:
		return false
	}
	return true
}

// logSyncs: the log's disk is waited for.
func logSyncs(c *serverCase) *reason {
	kinds := []tidemark.WaitKind{tidemark.WaitLogSync, tidemark.WaitLogWrite}
	if c.split.On != "target" || c.split.Share(kinds...) < 0.2 {
		return nil
	}
	a := &reason{evidence: c.evidence(kinds...), conclusion: "The target's log limits: our sessions wait until it is written and synced.",
		owner: "target", gain: c.time(kinds...), sure: Likely, arithmetic: c.arithmetic()}
	if rate, ok := c.server.Rate(tidemark.LogBytes); ok {
		a.evidence += fmt.Sprintf("; the log grew by %.0f MB/s", rate/1e6)
	}
	switch {
	case c.postgres() && c.setting("wal_level") != "minimal" && c.setting("wal_level") != "":
		a.setting, a.now, a.try = "wal_level", c.setting("wal_level"), "minimal"
		a.cost = "a restart, and no standbys, archive or backups of that server while it is so: tables that a copy creates are then not logged at all"
	case c.postgres():
		a.setting, a.owner, a.cost = "Put pg_wal on a faster disk of its own", "hardware", "a disk"
	case c.fewerSyncs(a, "a crash of the machine during the copy may lose its last second: start the copy anew after one"):
	default:
		a.setting, a.owner, a.cost = "Put the redo log on a faster disk", "hardware", "a disk"
	}
	return a
}

// forcedCheckpoints: the log is too small for what is loaded.
func forcedCheckpoints(c *serverCase) *reason {
	n := c.server.Counters[tidemark.ForcedCheckpoints]
	if c.split.On != "target" || !c.postgres() || n < 2 || c.server.Took/time.Duration(n) > time.Minute {
		return nil
	}
	a := &reason{
		evidence:   fmt.Sprintf("%.0f checkpoints in %s, since max_wal_size was reached; %.0f full pages went to the log", n, secs(c.server.Took), c.server.Counters[tidemark.PageImages]),
		conclusion: "Checkpoints come too often: after each, every page that changes is written to the log whole.",
		setting:    "max_wal_size", owner: "target", now: c.setting("max_wal_size"), sure: Possible, cost: "disk space for the log, and a longer recovery after a crash",
	}
	bytes := c.server.Counters[tidemark.LogBytes]
	a.try = fmt.Sprintf("%d GB", max(4, int(bytes*1.2/(1<<30))+1))
	return a
}

// dataReads: the disk under tables and indexes limits reading.
func dataReads(c *serverCase) *reason {
	if c.split.Share(tidemark.WaitDataRead) < 0.3 {
		return nil
	}
	a := &reason{evidence: c.evidence(tidemark.WaitDataRead) + c.rates(tidemark.Reads, tidemark.ReadBytes), sure: Likely,
		conclusion: fmt.Sprintf("Reading from the %s's disk limits.", c.split.On), gain: c.time(tidemark.WaitDataRead), arithmetic: c.arithmetic(),
		setting: "Use a disk with more requests or bytes a second", owner: "hardware", cost: "a faster volume"}
	if c.split.Role == "Reader" && !c.facts.LanesTried {
		a.setting, a.owner, a.cost = "--lanes", "tidemark", "more load on the source's disk"
		a.now, a.try, a.sure = fmt.Sprint(c.facts.Lanes), fmt.Sprint(2*max(c.facts.Lanes, 1)), Possible
		a.gain /= 2
		a.arithmetic = "half of this waiting, if the disk serves twice as many requests at a time"
	}
	return a
}

// dataWrites: the disk under tables limits writing.
func dataWrites(c *serverCase) *reason {
	kinds := []tidemark.WaitKind{tidemark.WaitDataWrite, tidemark.WaitDisk}
	if c.split.Share(kinds...) < 0.3 {
		return nil
	}
	return &reason{evidence: c.evidence(kinds...) + c.rates(tidemark.Writes, tidemark.WriteBytes), sure: Likely,
		conclusion: fmt.Sprintf("Writing to the %s's disk limits.", c.split.On), gain: c.time(kinds...), arithmetic: c.arithmetic(),
		setting: "Use a disk with more requests or bytes a second", owner: "hardware", cost: "a faster volume"}
}

// temporaryIO: sorts do not fit into memory.
func temporaryIO(c *serverCase) *reason {
	if c.split.Share(tidemark.WaitTemp) < 0.15 {
		return nil
	}
	a := &reason{evidence: c.evidence(tidemark.WaitTemp), conclusion: "Sorts of index builds do not fit into memory.", setting: "--index-memory", owner: "tidemark",
		gain: c.time(tidemark.WaitTemp), arithmetic: c.arithmetic(), sure: Likely, cost: "that much memory of the target for each index builder"}
	if n := c.server.Counters[tidemark.TempBytes]; n > 0 {
		a.evidence += fmt.Sprintf("; %.0f MB of temporary files", n/1e6)
	}
	if !c.postgres() {
		a.setting, a.owner = "innodb_sort_buffer_size", "target"
		if v := c.setting("innodb_ddl_buffer_size"); v != "" {
			a.setting, a.now = "innodb_ddl_buffer_size", v
		}
	}
	return a
}

// locks: something else holds what we need.
func locks(c *serverCase) *reason {
	if c.split.Share(tidemark.WaitLock) < 0.2 {
		return nil
	}
	return &reason{evidence: c.evidence(tidemark.WaitLock), conclusion: fmt.Sprintf("Locks of others limit: sessions on the %s wait for them.", c.split.On),
		setting: "End or move the transactions that hold them", owner: c.split.On, gain: c.time(tidemark.WaitLock), arithmetic: c.arithmetic(),
		sure: Likely, cost: "those transactions"}
}

// oneTable: sessions that write to one table wait for each other while its file grows.
func oneTable(c *serverCase) *reason {
	if c.split.Role != "Writer" || c.workers < 2 || c.split.Share(tidemark.WaitLatch) < 0.25 {
		return nil
	}
	return &reason{evidence: c.evidence(tidemark.WaitLatch), conclusion: "The writers wait for each other inside the target, which happens where several write to one table.",
		setting: "--lanes", owner: "tidemark", now: fmt.Sprint(c.workers), try: fmt.Sprint(c.workers / 2), sure: Possible,
		cost: "less to do at the same time if there are several tables"}
}

// network: neither side works, rows are on their way.
func network(c *serverCase) *reason {
	if c.split.Share(tidemark.WaitNetwork) < 0.4 {
		return nil
	}
	return &reason{evidence: c.evidence(tidemark.WaitNetwork), conclusion: fmt.Sprintf("The link to the %s limits: its sessions waited for rows to arrive or to leave.", c.split.On),
		setting: "Run tidemark nearer to it, or a relay beside it", owner: "tidemark", gain: c.time(tidemark.WaitNetwork), arithmetic: c.arithmetic(),
		sure: Likely, cost: "a process beside the server"}
}

// standby: commits wait for another server.
func standby(c *serverCase) *reason {
	if c.split.Share(tidemark.WaitStandby) < 0.2 {
		return nil
	}
	a := &reason{evidence: c.evidence(tidemark.WaitStandby), conclusion: "Commits on the target wait for a synchronous standby.", owner: "target",
		gain: c.time(tidemark.WaitStandby), arithmetic: c.arithmetic(), sure: Likely,
		cost: "until it is set back, commits of others are not on the standby when they return", setting: "Load before the standby becomes synchronous"}
	if v := c.setting("synchronous_standby_names"); v != "" {
		a.setting, a.now, a.try = "synchronous_standby_names", v, "''"
	}
	return a
}

// rates says how many requests and bytes a second the server counted.
func (c *serverCase) rates(requests, bytes tidemark.Gauge) string {
	n, ok := c.server.Rate(requests)
	b, _ := c.server.Rate(bytes)
	if !ok || n < 1 {
		return ""
	}
	return fmt.Sprintf("; the server counted %.0f requests and %.1f MB/s, %.0f kB each", n, b/1e6, b/n/1e3) + c.ceilings(n, b)
}

// sideOf returns what the I/O of a role consisted of, and what was counted on its server; both are
// empty if that is unknown. a may be nil.
func sideOf(a *sample.Account, role string) (s sample.Split, c sample.Counted) {
	if a == nil {
		return s, c
	}
	for _, x := range a.Roles {
		if x.Role == role {
			s = x
		}
	}
	for _, x := range a.Servers {
		if x.On == s.On {
			c = x
		}
	}
	return s, c
}

// serverAdvice applies the rules to the role that limits.
func serverAdvice(rep flow.Report, f Facts, role string, wall time.Duration) []Advice {
	if f.Servers == nil {
		return nil
	}
	c := serverCase{machine: f.Servers.Machine, wall: wall, facts: f, engine: f.Target, history: f.Servers.History}
	c.split, c.server = sideOf(f.Servers, role)
	if c.split.IO < tooShort/2 {
		return nil
	}
	if c.split.On == "source" {
		c.engine = f.Source
	}
	for _, r := range rep.Roles {
		if r.Name == role {
			longest := time.Duration(1)
			for _, t := range r.Workers {
				longest = max(longest, t.IO)
			}
			c.workers, c.busy = len(r.Workers), max(1, float64(r.Sum().IO)/float64(longest))
		}
	}
	var out []Advice
	for _, rule := range serverRules {
		if a := rule.look(&c); a != nil {
			out = append(out, a.advice(rule.name))
		}
	}
	slices.SortStableFunc(out, func(a, b Advice) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return out
}
