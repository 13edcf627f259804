package ha

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A Load is the committing workload. With Rate 0 it is a closed loop: each of Clients waits Think
// between the end of a commit and the beginning of its next. With a Rate, commits come at that rate
// whatever they wait for, and Clients is how many can be open at once.
type Load struct {
	Clients int     `json:"clients"`
	Think   float64 `json:"think_seconds"`
	Rate    float64 `json:"commits_per_second,omitempty"`
	Bytes   float64 `json:"bytes_per_commit"` // of the log
	// Local is how long a commit, and everything else that a client does between two think times,
	// takes without waiting for a standby. Without it, it is calculated from the primary's disk.
	Local []Local `json:"local,omitempty"`
	// Pauses are how much longer it takes after a pause: caches are cold then, and processors
	// asleep.
	Pauses []Pause `json:"pauses,omitempty"`
	// LogRates are the log's bytes a second in intervals of Step seconds, over a day or a week: the
	// basis for gaps. Without them, the log's rate is assumed to be constant.
	LogRates []float64 `json:"log_rates,omitempty"`
	Step     float64   `json:"step_seconds,omitempty"`
	From     *Origin   `json:"from,omitempty"` // if it comes from a scan
}

// A Local is the measured commits a second and waits of so many clients without think time, on the
// primary alone (PostgreSQL: synchronous_commit=local).
type Local struct {
	Clients   int        `json:"clients"`
	Rate      float64    `json:"commits_per_second"`
	Quantiles []Quantile `json:"quantiles,omitempty"`
}

// A Pause is the median time of a commit of one client on the primary alone, if the client was idle
// for so long before it. In seconds.
type Pause struct {
	Seconds float64 `json:"pause_seconds"`
	Commit  float64 `json:"commit_seconds"`
}

// A Near is what so many clients without think time commit a second in a mode while the standby is
// this near: it shows the cost of waiting in processors and locks, apart from distance.
type Near struct {
	Mode    string  `json:"mode"`
	Clients int     `json:"clients"`
	Rate    float64 `json:"commits_per_second"`
	RTT     float64 `json:"rtt_seconds"` // without the hop
}

// A Standby is a server that commits may wait for.
type Standby struct {
	Name    string  `json:"name"`
	Network Network `json:"network"`
	Disk    Disk    `json:"disk"`
	// Replay is how many bytes of log it applies a second; 0: unknown, and no limit. ReplayDelay is
	// how long it takes to apply a commit record that is on its disk.
	Replay      float64 `json:"replay_bytes_per_second,omitempty"`
	ReplayDelay float64 `json:"replay_delay_seconds,omitempty"`
	// HopWrites means that Network.Hop was measured on a real pair of servers in this very mode, so
	// it includes the standby's own work for one commit: its write to disk, and applying it, if the
	// mode waits for that.
	HopWrites bool `json:"hop_has_disk,omitempty"`
	// SyncRelay: MySQL and MariaDB write their relay log to disk before they acknowledge
	// (sync_relay_log=1). PostgreSQL's modes define this themselves.
	SyncRelay bool `json:"sync_relay_log,omitempty"`
}

// Sites are the servers: a primary, and its standbys in the order of their priority.
type Sites struct {
	Engine   string    `json:"engine"`            // postgres, mysql or mariadb
	Version  string    `json:"version,omitempty"` // of the primary: determines names of settings
	Primary  Disk      `json:"primary_disk"`
	Standbys []Standby `json:"standbys"`
	Near     []Near    `json:"near,omitempty"` // of the first standby
	// A commit waits for Wait standbys (0 means 1): for the first ones in order or, with Any, for
	// any.
	Wait int  `json:"wait_for,omitempty"`
	Any  bool `json:"any,omitempty"`
	// Free is the free space of the primary's log disk, in bytes; 0: unknown.
	Free float64 `json:"free_bytes,omitempty"`
	// Outage is the assumed length of a standby's outage, in seconds (0 means an hour), and Timeout
	// the time after which MySQL and MariaDB stop waiting for it (0 means 10 s).
	Outage  float64 `json:"outage_seconds,omitempty"`
	Timeout float64 `json:"timeout_seconds,omitempty"`
	// Backlog is the log that the standbys lack, in bytes, when a mode that waits for them is
	// switched on; 0: the most that they lack by the scanned rates, or as an example 100 MiB.
	Backlog float64 `json:"backlog_bytes,omitempty"`
	// Unlisted: synchronous_standby_names was found empty, or semi-sync off.
	Unlisted bool `json:"unlisted,omitempty"`

	work map[string]polyline // see works
}

// A discipline is which commits wait while one waits for a standby.
type discipline uint8

const (
	nobodyWaits  discipline = iota // for a standby
	pipelined                      // each for its own log position
	groupHeld                      // MariaDB AFTER_SYNC: the next group is written when the one before is acknowledged
	groupsJoined                   // MySQL AFTER_SYNC: groups written while one waits continue together
)

// A commitMode is one way to commit.
type commitMode struct {
	name     string
	engine   string // prefix of the engines that have it: "postgres", "m"
	unsynced bool   // does not wait for the primary's disk either
	rule     discipline
	writes   bool // waits for the standby's disk
	applies  bool // and its replay
	relay    bool // waits for its disk if the relay log is synced
	loses    string
}

// commitModes are ordered from the weakest to the strongest of each engine.
var commitModes = []commitMode{
	{name: "off", engine: "postgres", unsynced: true, loses: "the commits of the last three wal_writer_delay (0.6 s by default), and what the standby has not received"},
	{name: "local", engine: "postgres", loses: "what the standby has not received"},
	{name: "remote_write", engine: "postgres", rule: pipelined, loses: "nothing, unless the standby's operating system crashes too"},
	{name: "on", engine: "postgres", rule: pipelined, writes: true, loses: "nothing"},
	{name: "remote_apply", engine: "postgres", rule: pipelined, writes: true, applies: true, loses: "nothing, and the standby shows every commit"},
	{name: "async", engine: "m", loses: "what the replica has not received"},
	{name: "AFTER_COMMIT", engine: "m", rule: pipelined, relay: true, loses: "no confirmed commit; others may have seen commits that are lost"},
	{name: "AFTER_SYNC", engine: "mysql", rule: groupsJoined, relay: true, loses: "nothing"},
	{name: "AFTER_SYNC", engine: "mariadb", rule: groupHeld, relay: true, loses: "nothing"},
}

// Modes returns the names of an engine's modes, from the weakest to the strongest.
func Modes(engine string) (names []string) {
	for _, m := range commitModes {
		if strings.HasPrefix(engine, m.engine) {
			names = append(names, m.name)
		}
	}
	return names
}

func modeOf(engine, name string) (commitMode, bool) {
	i := slices.IndexFunc(commitModes, func(m commitMode) bool { return strings.HasPrefix(engine, m.engine) && strings.EqualFold(m.name, name) })
	if i < 0 {
		return commitMode{}, false
	}
	return commitModes[i], true
}

// Waits reports whether commits wait for a standby in a mode of an engine.
func Waits(engine, mode string) bool {
	m, _ := modeOf(engine, mode)
	return m.rule != nobodyWaits
}

// Latency is of commits, in seconds.
type Latency struct {
	P50  float64 `json:"p50_seconds"`
	P99  float64 `json:"p99_seconds"`
	Mean float64 `json:"mean_seconds"`
}

// FlushSize is the size of a write of the primary's log, in bytes: of one commit, as predicted, and
// when all clients commit together.
type FlushSize struct {
	Min       float64 `json:"min_bytes"`
	Predicted float64 `json:"predicted_bytes"`
	Max       float64 `json:"max_bytes"`
}

// A Prediction is the result for one mode.
type Prediction struct {
	Mode string `json:"mode"`
	// Rate and LogRate are what is committed: less than the load if the mode does not carry it.
	Rate    float64 `json:"commits_per_second"`
	LogRate float64 `json:"bytes_per_second"`
	// Sustainable is the log rate of that many clients without think time, and Limit what bounds
	// it.
	Sustainable float64 `json:"sustainable_bytes_per_second"`
	Limit       string  `json:"limit"`
	// Capped means that the load exceeds what the mode carries.
	Capped bool      `json:"capped,omitempty"`
	Commit Latency   `json:"commit"`
	Local  Latency   `json:"local"` // without a standby
	Added  Latency   `json:"added"` // the quantile with a standby, less that without
	Flush  FlushSize `json:"flush"`
	Group  float64   `json:"commits_per_group,omitempty"` // sharing one acknowledgement; serialised modes only
	Marker string    `json:"marker"`                      // "", "?", "??" or "???": how costly this mode is
	Loses  string    `json:"lost_if_primary_is_lost"`
	Outage *Outage   `json:"outage,omitempty"`
}

// A Forecast is the result of Predict.
type Forecast struct {
	Load        Load         `json:"load"`
	Sites       Sites        `json:"sites"`
	Predictions []Prediction `json:"predictions"`
	Buffer      []Buffer     `json:"socket_buffers"`     // one for each standby
	WhatIfs     []WhatIf     `json:"what_ifs,omitempty"` // "as it is" first
	Series      []Series     `json:"series,omitempty"`
	Changes     []Change     `json:"mode_changes,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`
	Settings    []Settings   `json:"settings,omitempty"` // of the modes that wait for a standby
}

// Predict returns what each mode would carry and what its commits would cost. Without names it
// takes all modes of the engine. Errors are Invalid.
func Predict(load Load, sites Sites, names ...string) (*Forecast, error) {
	load, sites, err := checked(load, sites)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = Modes(sites.Engine)
	}
	f := &Forecast{Load: load, Sites: sites}
	for _, name := range names {
		m, err := known(sites, name)
		if err != nil {
			return nil, err
		}
		f.Predictions = append(f.Predictions, predict(load, sites, m))
	}
	f.Buffer = buffers(f)
	f.whatIfs()
	axes := []Axis{ByRTT, ByClients}
	if load.Rate > 0 { // an open loop has no number of clients
		axes[1] = ByRate
	}
	for _, by := range axes {
		if err := f.Sweep(by); err != nil {
			return nil, err
		}
	}
	f.Changes = changes(f)
	f.Warnings = warnings(f)
	f.Settings = settings(f)
	return f, nil
}

// PredictMode predicts one mode only. Errors are Invalid.
func PredictMode(load Load, sites Sites, name string) (Prediction, error) {
	load, sites, err := checked(load, sites)
	if err != nil {
		return Prediction{}, err
	}
	m, err := known(sites, name)
	if err != nil {
		return Prediction{}, err
	}
	return predict(load, sites, m), nil
}

// known returns the mode of that name.
func known(sites Sites, name string) (commitMode, error) {
	m, ok := modeOf(sites.Engine, name)
	if !ok {
		return m, &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: name, Err: errors.New("not a mode of " + sites.Engine), Hint: "The modes are " + strings.Join(Modes(sites.Engine), ", ") + "."}
	}
	if m.rule != nobodyWaits && len(sites.Standbys) == 0 {
		return m, &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: name, Err: errors.New("there is no standby"), Hint: "Give at least one network to a standby."}
	}
	return m, nil
}

// checked fills in defaults, and rejects invalid values.
func checked(load Load, sites Sites) (Load, Sites, error) {
	bad := func(what, cause, hint string) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: what, Err: errors.New(cause), Hint: hint}
	}
	switch sites.Engine {
	case "postgres", "mysql", "mariadb":
	default:
		return load, sites, bad(sites.Engine, "there is no model of this engine", "Choose postgres, mysql or mariadb.")
	}
	type number struct {
		what string
		v    float64
		zero bool // may be zero
	}
	numbers := []number{{"bytes per commit", load.Bytes, false}, {"think time", load.Think, true}, {"commit rate", load.Rate, true}, {"overhead of the primary's disk", sites.Primary.Overhead, len(load.Local) > 0},
		{"rate of the primary's disk", sites.Primary.Rate, true}, {"free space", sites.Free, true}, {"outage", sites.Outage, true}, {"timeout", sites.Timeout, true}, {"backlog", sites.Backlog, true}, {"interval", load.Step, len(load.LogRates) == 0}}
	for _, s := range sites.Standbys {
		numbers = append(numbers, number{"round trip to " + s.Name, s.Network.RTT, true}, number{"rate of the network to " + s.Name, s.Network.Rate, false}, number{"hop to " + s.Name, s.Network.Hop, true},
			number{"disk of " + s.Name, s.Disk.Overhead, true}, number{"disk of " + s.Name, s.Disk.Rate, true}, number{"replay of " + s.Name, s.Replay, true}, number{"replay delay of " + s.Name, s.ReplayDelay, true})
	}
	for _, r := range load.LogRates {
		numbers = append(numbers, number{"log rate", r, true})
	}
	for _, l := range load.Local {
		numbers = append(numbers, number{"local commit rate", l.Rate, false}, number{"number of local clients", float64(l.Clients), false})
	}
	for _, p := range load.Pauses {
		numbers = append(numbers, number{"pause", p.Seconds, false}, number{"commit after a pause", p.Commit, false})
	}
	for _, n := range sites.Near {
		numbers = append(numbers, number{"commit rate of " + n.Mode, n.Rate, false}, number{"clients of " + n.Mode, float64(n.Clients), false}, number{"round trip of " + n.Mode, n.RTT, true})
	}
	for _, n := range numbers {
		if n.v < 0 || math.IsNaN(n.v) || math.IsInf(n.v, 0) || n.v == 0 && !n.zero {
			want := "Give a number above 0."
			if n.zero {
				want = "Give a number of at least 0."
			}
			return load, sites, bad(n.what, fmt.Sprintf("%g is out of range", n.v), want)
		}
	}
	const most = 100_000
	if load.Clients < 1 || load.Clients > most {
		return load, sites, bad("clients", fmt.Sprintf("%d is out of range", load.Clients), fmt.Sprintf("Give a number from 1 to %d.", most))
	}
	sites.Wait = max(sites.Wait, 1)
	if n := len(sites.Standbys); n > 0 && sites.Wait > n {
		return load, sites, bad("standbys", fmt.Sprintf("commits cannot wait for %d of %d", sites.Wait, n), "Give a network to each standby.")
	}
	if sites.Outage == 0 {
		sites.Outage = 3600
	}
	if sites.Timeout == 0 {
		sites.Timeout = 10
	}
	load.Local = slices.Clone(load.Local)
	slices.SortFunc(load.Local, func(a, b Local) int { return a.Clients - b.Clients })
	if sites.work == nil && len(sites.Near) > 0 {
		sites.work = works(load, sites)
	}
	return load, sites, nil
}

// predict runs the load in one mode and, for comparison, without a standby.
func predict(load Load, sites Sites, m commitMode) Prediction {
	p := quick(load, sites, m, longRun)
	p.Outage = outage(load, sites, m, p)
	return p
}

// quick is predict with so many commits, without the derived results.
func quick(load Load, sites Sites, m commitMode, commits int) Prediction {
	local := commitMode{name: "local", unsynced: m.unsynced}
	p := Prediction{Mode: m.name, Loses: m.loses}
	busy := load
	busy.Think, busy.Rate = 0, 0
	most := newQueueModel(busy, sites, m).run(commits)
	limit, what := caps(load, sites, m)
	p.Sustainable, p.Limit = most.rate*load.Bytes, "round trips of "+Counted(load.Clients, "client")
	if m.rule == nobodyWaits {
		p.Limit = "the primary"
	}
	if limit <= p.Sustainable*1.05 {
		p.Sustainable, p.Limit = min(limit, p.Sustainable), what
	}
	got := most
	if load.Think > 0 {
		got = newQueueModel(load, sites, m).run(commits)
	}
	if load.Rate > 0 {
		if load.Rate*load.Bytes >= p.Sustainable {
			p.Capped = true
		} else {
			got = newQueueModel(load, sites, m).run(commits)
		}
	}
	alone := newQueueModel(load, sites, local)
	if p.Capped { // an open loop above what is carried has no latency; at the cap the clients of a closed one wait
		alone = newQueueModel(busy, sites, local)
	}
	without := alone.run(commits)
	p.Rate, p.LogRate = min(got.rate, p.Sustainable/load.Bytes), min(got.rate*load.Bytes, p.Sustainable)
	p.Commit, p.Local, p.Group = got.latency, without.latency, got.group
	p.Added = Latency{max(0, p.Commit.P50-p.Local.P50), max(0, p.Commit.P99-p.Local.P99), max(0, p.Commit.Mean-p.Local.Mean)}
	p.Flush = flushSize(load, sites.Primary, p.Rate, got.group)
	if m.rule != nobodyWaits {
		p.Marker = costMarker(load, p, without)
	}
	return p
}

// flushSize solves b = w max(1, X W(b)): the commits during one write are the next write.
func flushSize(load Load, disk Disk, rate, group float64) FlushSize {
	w := load.Bytes
	f := FlushSize{Min: w, Max: w * float64(load.Clients)}
	size := f.Max // if the disk limits the log's rate
	if part := 1 - w*rate*perByte(disk.Rate); part > 0 {
		size = w * rate * disk.Overhead / part
	}
	f.Predicted = min(max(size, w*group, f.Min), f.Max)
	return f
}

// perByte returns 1/rate, and 0 for an unlimited rate.
func perByte(rate float64) float64 {
	if rate == 0 {
		return 0
	}
	return 1 / rate
}

// caps returns the highest possible log rate, whatever the commits wait for, and what bounds it.
func caps(load Load, sites Sites, m commitMode) (rate float64, what string) {
	all := load.Bytes * float64(load.Clients)
	rate, what = math.Inf(1), "the primary"
	lower := func(r float64, w string) {
		if r > 0 && r < rate {
			rate, what = r, w
		}
	}
	if !m.unsynced && sites.Primary.Overhead > 0 {
		lower(all/sites.Primary.Write(all), "the primary's disk")
	}
	if m.rule == nobodyWaits {
		return rate, what
	}
	type bound struct {
		rate float64
		what string
	}
	var bounds []bound
	for _, s := range sites.Standbys {
		w := bound{s.Network.Rate * load.Bytes / (load.Bytes + wrapping(sites.Engine)), "the network to " + s.Name}
		if m.writes || m.relay && s.SyncRelay {
			if r := all / max(s.Disk.Write(all), 1e-12); r < w.rate {
				w = bound{r, "the disk of " + s.Name}
			}
		}
		if m.applies && s.Replay > 0 && s.Replay < w.rate {
			w = bound{s.Replay, "replay on " + s.Name}
		}
		bounds = append(bounds, w)
	}
	if !anyWill(sites, m) {
		bounds = bounds[:sites.Wait]
	}
	slices.SortStableFunc(bounds, func(a, b bound) int { return -cmp.Compare(a.rate, b.rate) })
	slowest := bounds[sites.Wait-1]
	lower(slowest.rate, slowest.what)
	return rate, what
}

// anyWill reports whether any standbys suffice: MySQL and MariaDB have no order of standbys.
func anyWill(sites Sites, m commitMode) bool { return sites.Any || m.engine != "postgres" }

// costMarker returns the worse of two markers: what the mode adds to the time between two commits
// of a client (1, 5 and 25%), and the load as a fraction of what the mode carries (a quarter, a
// half, all).
func costMarker(load Load, p Prediction, without outcome) string {
	interval := without.latency.Mean + load.Think
	wanted := without.rate * load.Bytes
	if load.Rate > 0 {
		interval, wanted = float64(load.Clients)/load.Rate, load.Rate*load.Bytes
	}
	n := max(level(p.Added.Mean/interval, 0.01, 0.05, 0.25), level(wanted/p.Sustainable, 0.25, 0.5, 1))
	return strings.Repeat("?", n)
}

func level(v float64, limits ...float64) (n int) {
	for _, l := range limits {
		if v > l {
			n++
		}
	}
	return n
}

func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
