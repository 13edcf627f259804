package ha

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// An Advice describes a mode to help choose one.
type Advice struct {
	Mode     string  `json:"mode"`
	Set      string  `json:"set"` // its name in the server's settings
	Verdict  Verdict `json:"verdict"`
	Protects string  `json:"protects_from"`
	Costs    string  `json:"costs"`
	Outage   string  `json:"standby_away"`
	// Headroom is what it carries divided by the log's rate in the busiest interval.
	Headroom float64    `json:"carries_times_the_peak"`
	Settings []Settings `json:"settings,omitempty"`
	Prediction
}

// A Verdict is whether a mode carries the load.
type Verdict string

const (
	Roomy   Verdict = "carries it"
	Tight   Verdict = "tight"
	TooSlow Verdict = "too slow"
)

// How often the busiest interval has to fit into what the mode carries.
const (
	roomyFrom = 2.0
	tightFrom = 1.2
)

// protects describes the protection of each mode; for MySQL and MariaDB without a synced relay log.
var protects = map[string]string{
	"off":          "Damaged data only: a crash of the primary loses the commits of its last 0.6 s or so (three times wal_writer_delay). If its disk or site is lost, so is what the standby has not received yet.",
	"local":        "A crash of the primary. If its disk or site is lost, so is what the standby has not received yet.",
	"remote_write": "The loss of the primary, unless the standby's operating system crashes at the same time.",
	"on":           "The loss of the primary, even if the standby loses power at the same time: both disks have each commit.",
	"remote_apply": "The same as on; and reads from the standby see every confirmed commit.",
	"async":        "A crash of the primary. If its disk or site is lost, so is what the replica has not received yet.",
	"AFTER_COMMIT": "The loss of the primary, for confirmed commits; others may have read commits that are lost.",
	"AFTER_SYNC":   "The loss of the primary; nobody has read a commit that is lost.",
}

// preferred lists the modes to recommend, the best first: the first one that carries the load is
// chosen. remote_apply is for reading from a standby, not for safety.
var preferred = map[string][]string{
	"postgres": {"on", "remote_write", "local"},
	"mysql":    {"AFTER_SYNC", "AFTER_COMMIT", "async"},
	"mariadb":  {"AFTER_SYNC", "AFTER_COMMIT", "async"},
}

// advise describes each mode, and chooses one.
func (p *Plan) advise(s PlanSpec) {
	for _, x := range p.Forecast.Predictions {
		m, _ := modeOf(p.Engine, x.Mode)
		a := Advice{Mode: x.Mode, Set: modeName(p.Engine, x.Mode), Prediction: x, Protects: protects[x.Mode], Verdict: Roomy}
		if p.Workload.Peak > 0 {
			a.Headroom = x.Sustainable / p.Workload.Peak
		}
		switch {
		case x.Capped || a.Headroom < tightFrom:
			a.Verdict = TooSlow
		case a.Headroom < roomyFrom:
			a.Verdict = Tight
		}
		if m.rule == nobodyWaits {
			a.Costs = fmt.Sprintf("Nothing: a commit takes %s at p50, %s at p99.", TimeText(x.Commit.P50), TimeText(x.Commit.P99))
		} else {
			a.Costs = fmt.Sprintf("A commit takes %s more at p50, %s more at p99 (%s, %s in all).", TimeText(x.Added.P50), TimeText(x.Added.P99), TimeText(x.Commit.P50), TimeText(x.Commit.P99))
		}
		if m.applies && p.Forecast.Sites.Standbys[0].ReplayDelay == 0 {
			a.Costs += " Replay comes on top: it was not measured."
		}
		a.Outage = p.whileAway(m)
		for _, set := range p.Forecast.Settings {
			if set.Mode == x.Mode || set.Mode == "" && m.rule != nobodyWaits {
				a.Settings = append(a.Settings, set)
			}
		}
		p.Modes = append(p.Modes, a)
	}
	p.Chosen = p.choose()
	p.Reference = p.Chosen
	if m, ok := modeOf(p.Engine, p.Chosen); !ok || m.rule == nobodyWaits {
		p.Reference = s.strongest()
	}
	p.parts(s)
	p.gains()
}

// whileAway describes the effect of the standby's outage on commits.
func (p *Plan) whileAway(m commitMode) string {
	switch {
	case m.rule == nobodyWaits:
		return "Commits continue; the primary keeps the log for the standby."
	case p.Engine == "postgres":
		return "Commits stop until it is back or the mode is changed; a second standby would let them continue."
	}
	return fmt.Sprintf("Commits wait %s once, then continue without it, asynchronously.", TimeText(p.Forecast.Sites.Timeout))
}

func (p *Plan) choose() string {
	for _, name := range preferred[p.Engine] {
		if a := p.Mode(name); a != nil && a.Verdict != TooSlow {
			return name
		}
	}
	for _, a := range p.Modes { // only others were requested, or none carries it: the weakest costs least
		if a.Verdict != TooSlow {
			return a.Mode
		}
	}
	return p.Modes[0].Mode
}

// Mode returns the plan's advice on a mode; nil if there is none.
func (p *Plan) Mode(name string) *Advice {
	if i := slices.IndexFunc(p.Modes, func(a Advice) bool { return a.Mode == name }); i >= 0 {
		return &p.Modes[i]
	}
	return nil
}

// parts calculates what a commit of the reference mode waits for, by medians.
func (p *Plan) parts(s PlanSpec) {
	a := p.Mode(p.Reference)
	if a == nil {
		return
	}
	m, _ := modeOf(p.Engine, p.Reference)
	b, bytes := p.Forecast.Sites.Standbys[0], p.Forecast.Load.Bytes
	add := func(what string, seconds float64) {
		if seconds > 0 {
			p.Parts = append(p.Parts, Part{what, seconds})
		}
	}
	add("the primary alone", a.Local.P50)
	add("the round trip", b.Network.RTT)
	add("transfer", b.Network.Send(bytes))
	if m.writes || m.relay && b.SyncRelay {
		add("the standby's disk", b.Disk.Write(bytes))
	}
	if m.applies {
		add("replay on the standby", b.ReplayDelay)
	}
	add("waking up on both sides", b.Network.Hop)
	var sum float64
	for _, x := range p.Parts {
		sum += x.Seconds
	}
	if rest := a.Commit.P50 - sum; rest > 0.05*a.Commit.P50 {
		add("queues and slow moments", rest)
	}
}

// gains calculates the effect of changes on the reference mode.
func (p *Plan) gains() {
	var now *Point
	for _, w := range p.Forecast.WhatIfs {
		i := slices.IndexFunc(w.Modes, func(x Point) bool { return x.Mode == p.Reference })
		if i < 0 {
			continue
		}
		x := w.Modes[i]
		if now == nil { // the first is the present state
			now = &x
		}
		if strings.HasPrefix(w.If, "twice the clients") {
			continue // in an open loop that is twice the load
		}
		g := Gain{If: w.If, P50: x.P50, P99: x.P99, Less: x.P50 - now.P50}
		if math.Abs(g.Less) < 0.01*now.P50 {
			g.Less = 0 // the model is not more exact
		}
		p.Gains = append(p.Gains, g)
	}
}

// helping returns the changes that make a commit faster by a twentieth, the best first.
func (p *Plan) helping() (out []Gain) {
	for _, g := range p.Gains {
		if g.Less < -0.05*p.Gains[0].P50 {
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(a, b Gain) int { return cmp.Compare(a.Less, b.Less) })
	return out
}

// sentences writes the answer, and the reasons.
func (p *Plan) sentences(s PlanSpec) {
	chosen, strong := p.Mode(p.Chosen), p.Mode(p.Reference)
	m, _ := modeOf(p.Engine, p.Chosen)
	busiest := "your busiest " + stepText(p.Workload.Step)
	say := func(format string, args ...any) { p.Answer = append(p.Answer, fmt.Sprintf(format, args...)) }
	switch {
	case m.rule != nobodyWaits:
		say("%s with this standby adds %s to a commit at p50 and %s at p99, and carries %s.", chosen.Set, TimeText(chosen.Added.P50), TimeText(chosen.Added.P99), p.timesPeak(chosen, busiest))
		say("It protects from: %s", lowerFirst(chosen.Protects))
		say("If the standby is away: %s", lowerFirst(chosen.Outage))
	case strong == nil:
		say("%s carries %s; no mode that waits for the standby was requested.", chosen.Set, p.timesPeak(chosen, busiest))
	default:
		say("No mode that waits for this standby carries this load: stay with %s.", chosen.Set)
		say("%s would add %s to a commit at p50 and carries %s.", strong.Set, TimeText(strong.Added.P50), p.timesPeak(strong, busiest))
	}
	if chosen.Verdict == Tight {
		say("That leaves little headroom: in a busier hour than the scanned one, commits would queue for the standby.")
	}
	p.Answer = append(p.Answer, p.trust())
	p.why(s, strong)
}

// timesPeak words a mode's headroom for a sentence.
func (p *Plan) timesPeak(a *Advice, busiest string) string {
	if math.IsInf(a.Sustainable, 1) {
		return "more than the log of " + busiest
	}
	return fmt.Sprintf("%s times the log of %s (%s against %s; limited by %s)", FactorText(a.Headroom), busiest, RateText(a.Sustainable), RateText(p.Workload.Peak), a.Limit)
}

// trust words how well the simulation confirms the predictions.
func (p *Plan) trust() string {
	if len(p.Checks) == 0 {
		return "Nothing was simulated: these figures are calculated."
	}
	var p50, p99 []float64
	worst := p.Checks[0]
	for _, c := range p.Checks {
		p50, p99 = append(p50, math.Abs(c.P50Error)), append(p99, math.Abs(c.P99Error))
		if c.P50Error < worst.P50Error {
			worst = c
		}
	}
	slices.Sort(p50)
	slices.Sort(p99)
	text := fmt.Sprintf("Simulated with a log like this one (%d cells), the error of the predicted p50 was %s in the median and %s at worst, that of p99 %s and %s",
		len(p.Checks), percentText(QuantileOf(p50, 0.5)), percentText(p50[len(p50)-1]), percentText(QuantileOf(p99, 0.5)), percentText(p99[len(p99)-1]))
	if worst.P50Error < -0.25 {
		return text + fmt.Sprintf("; %s with %s was slower than predicted: trust the simulation there.", worst.Mode, Counted(worst.Clients, "session"))
	}
	return text + "."
}

// why explains the answer by the findings.
func (p *Plan) why(s PlanSpec, strong *Advice) {
	say := func(format string, args ...any) { p.Why = append(p.Why, fmt.Sprintf(format, args...)) }
	w := p.Workload
	say("The log grows by %s on average and %s in its busiest %s; at most %.0f commits a second, %s of log each.", RateText(w.Mean), RateText(w.Peak), stepText(w.Step), w.Commits, SizeText(w.Bytes))
	if strong == nil {
		return
	}
	var parts []string
	for _, x := range p.Parts {
		parts = append(parts, fmt.Sprintf("%s %s", x.What, TimeText(x.Seconds)))
	}
	say("A commit with %s waits %s at p50: %s.", strong.Mode, TimeText(strong.Commit.P50), strings.Join(parts, ", "))
	if one, alone := p.alone(p.Reference), p.alone(p.Modes[0].Mode); one > 0 && alone > 0 && p.Modes[0].Mode != p.Reference {
		base := p.Modes[0].Mode
		for _, a := range p.Modes {
			if m, _ := modeOf(p.Engine, a.Mode); m.rule == nobodyWaits {
				base = a.Mode
			}
		}
		others := "many concurrent sessions lose less, since each waits for itself"
		if m, _ := modeOf(p.Engine, p.Reference); m.rule == groupHeld {
			others = "concurrent sessions also wait for each other's groups"
		}
		say("A session that commits row by row, as a batch job may, makes %.0f commits a second instead of %.0f with %s; %s.", one, p.alone(base), base, others)
	}
	var help []string
	for _, g := range p.helping() {
		help = append(help, fmt.Sprintf("%s (%s)", g.If, TimeText(g.P50)))
	}
	if len(help) > 0 {
		say("A commit would be quicker than %s with: %s.", TimeText(p.Gains[0].P50), strings.Join(help, ", "))
	} else if len(p.Gains) > 0 {
		say("Neither a better link nor better disks would make a commit 5%% quicker.")
	}
	if w.Seconds < 3600 {
		p.Caveats = append(p.Caveats, fmt.Sprintf("The scan covers %s only. If that is not your busiest time, scan a day of archived log with tidemark ha scan, and give it with --scan.", TimeText(w.Seconds)))
	}
	if s.guessed {
		p.Caveats = append(p.Caveats, "The wake-up times of both ends are those of tidemark's own processes. Database servers do more for each message: some tenths of a millisecond.")
	}
}

// alone returns the commits a second of one session in a mode; 0: unknown.
func (p *Plan) alone(mode string) float64 {
	for _, series := range p.ByClients {
		if series.Mode == mode && len(series.Points) > 0 {
			return series.Points[0].Rate
		}
	}
	return 0
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// stepText words the length of an interval, to follow "the busiest".
func stepText(s float64) string {
	switch {
	case math.Abs(s-60) < 0.5:
		return "minute"
	case math.Abs(s-3600) < 30:
		return "hour"
	case s < 120:
		return fmt.Sprintf("%.3g seconds", s)
	}
	return TimeText(s)
}

func FactorText(v float64) string {
	if v >= 100 {
		return "over 100"
	}
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

func percentText(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }
