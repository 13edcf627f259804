package ha

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// PlanFormat is the version of a Plan's JSON form.
const PlanFormat = 1

// A PlanSpec is the input of a plan: what was scanned, measured, given and simulated.
type PlanSpec struct {
	Server  string // whose log it is, for people: without a password
	Standby string // its host; "": none yet
	Scans   []Scanned
	Sites   Sites   // with one standby
	Local   []Local // see Load
	Pauses  []Pause // see Load
	Basis   []Basis
	Clients []int // numbers of sessions without think time for which latencies are reported
	Modes   []string
	Trials  []Trial
	Doubts  []tidemark.Finding // about what was measured

	// hop is what both ends of trials add to a round trip, in seconds; guessed means that servers
	// are assumed to add the same.
	hop     float64
	guessed bool
}

// A Source is the origin of a figure.
type Source string

const (
	Measured Source = "measured"
	Given    Source = "given"
	Assumed  Source = "assumed"
)

// A Basis is a figure that a plan is based on, and its origin.
type Basis struct {
	What   string `json:"what"`
	Source Source `json:"source"`
	Text   string `json:"text"`
}

// A Trial is the result of one simulation: commits a second, and their latency; without a rate
// there were none.
type Trial struct {
	Mode      string
	Clients   int
	Simulated Point
}

// A Plan is the effect of synchronous replication to one standby, in each mode. Times are seconds,
// rates bytes a second.
type Plan struct {
	Format   int       `json:"format"`
	Made     time.Time `json:"made"`
	Server   string    `json:"server"`
	Standby  string    `json:"standby"`
	Engine   string    `json:"engine"`
	Version  string    `json:"version,omitempty"`
	Chosen   string    `json:"recommended"` // the mode; one that does not wait if no waiting mode carries the load
	Answer   []string  `json:"answer"`      // sentences; the first one is the answer
	Why      []string  `json:"why"`
	Workload Workload  `json:"workload"`
	Basis    []Basis   `json:"made_from"`
	Modes    []Advice  `json:"modes"`
	Checks   []Check   `json:"predicted_and_simulated,omitempty"`
	Parts    []Part    `json:"parts_of_a_commit"` // of what a commit waits for in the mode that Reference names
	Gains    []Gain    `json:"gains"`             // in the same mode
	// Reference is the recommended mode, or the strongest that waits if that one waits for nothing.
	Reference string          `json:"reference_mode"`
	Outages   []StandbyOutage `json:"outages"`
	ByClients []Series        `json:"by_clients"`
	ByRTT     []Series        `json:"by_round_trip"`
	Caveats   []string        `json:"caveats,omitempty"`
	// Forecast is the complete calculation.
	Forecast *Forecast `json:"forecast"`
}

// Workload is the result of the scan.
type Workload struct {
	Begin     time.Time `json:"begin"`
	Seconds   float64   `json:"seconds"`
	Step      float64   `json:"interval_seconds"` // of most intervals
	Intervals []Moment  `json:"intervals"`
	Mean      float64   `json:"bytes_per_second"`
	Peak      float64   `json:"peak_bytes_per_second"`      // of an interval
	Commits   float64   `json:"peak_commits_per_second"`    // of the interval with the most
	Bytes     float64   `json:"bytes_per_commit"`           // in that interval
	Tables    []Share   `json:"tables_with_most,omitempty"` // five at most
	Sessions  int       `json:"sessions"`                   // commits in progress at once, at most
}

// A Moment is an interval of the log.
type Moment struct {
	End     time.Time `json:"end"`
	Seconds float64   `json:"seconds"`
	Rate    float64   `json:"bytes_per_second"`
	Commits float64   `json:"commits_per_second"`
}

// A Check is a simulated mode, next to its prediction. Errors are above 0 if the prediction was too
// high.
type Check struct {
	Mode      string  `json:"mode"`
	Clients   int     `json:"clients"`
	Predicted Point   `json:"predicted"`
	Simulated Point   `json:"simulated"`
	RateError float64 `json:"rate_error"`
	P50Error  float64 `json:"p50_error"`
	P99Error  float64 `json:"p99_error"`
}

// A Part is one part of what a commit waits for.
type Part struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

// A Gain is the effect of one change on a commit. Less is below 0 if the commit becomes faster.
type Gain struct {
	If   string  `json:"if"`
	P50  float64 `json:"p50_seconds"`
	P99  float64 `json:"p99_seconds"`
	Less float64 `json:"p50_change_seconds"`
}

// A StandbyOutage is an outage of a standby that commits do not wait for meanwhile.
type StandbyOutage struct {
	Outage
	Rate float64 `json:"log_bytes_per_second"` // of the worst period of that length
	Send float64 `json:"catch_up_bytes_per_second"`
}

// CheckScans rejects scans that cannot be the basis of a plan.
func CheckScans(scans []Scanned) error {
	for _, x := range scans {
		if !slices.Contains([]string{"postgres", "mysql", "mariadb"}, x.Profile.Engine) {
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "plan", Object: x.Name, Err: errors.New("this is a log of " + x.Profile.Engine), Hint: "Plan for PostgreSQL, MySQL or MariaDB, or use tidemark ha calculate, which has Db2's formulas."}
		}
		if err := checkCommits(x.Profile, x.Name); err != nil {
			return err
		}
	}
	_, err := LoadOf(scans, 0, Disk{}, nil)
	return err
}

// load returns the demand of the scans' busiest interval, whatever commits wait for.
func (s PlanSpec) load() Load {
	l, _ := LoadOf(s.Scans, 0, s.Sites.Primary, s.Local) // CheckScans has checked them
	l.Pauses = s.Pauses
	return l
}

// closed returns the load of so many sessions without think time.
func (s PlanSpec) closed(clients int) Load {
	l := s.load()
	return Load{Clients: clients, Bytes: l.Bytes, Local: l.Local, Pauses: l.Pauses}
}

// busiest returns the scan with the busiest interval.
func (s PlanSpec) busiest() *Profile {
	from := s.load().From
	for _, x := range s.Scans {
		if from != nil && x.Name == from.Scan {
			return x.Profile
		}
	}
	return s.Scans[0].Profile
}

// names returns the modes of the plan.
func (s PlanSpec) names() []string {
	if len(s.Modes) > 0 {
		return s.Modes
	}
	return Modes(s.Sites.Engine)
}

// Waiting returns the modes of the plan that wait for a standby, from the weakest on.
func (s PlanSpec) Waiting() (names []string) {
	for _, name := range s.names() {
		if m, ok := modeOf(s.Sites.Engine, name); ok && m.rule != nobodyWaits {
			names = append(names, m.name)
		}
	}
	return names
}

// CommitSizes returns the mean bytes of log of a commit in the busiest interval, and their
// distribution according to the scan; nil if it has none.
func (s PlanSpec) CommitSizes() (mean float64, spread *Distribution) {
	mean = s.load().Bytes
	if d := s.busiest().Distributions.TxSize; d.Count > 0 {
		d.Mean = mean // includes log outside transactions
		spread = &d
	}
	return mean, spread
}

// WithHop returns the plan with the hop derived from a commit of one session without disks, which
// took so many seconds. A hop already known for servers stays; trials have their own.
func (s PlanSpec) WithHop(commit float64) (PlanSpec, float64) {
	s.Sites.Standbys = slices.Clone(s.Sites.Standbys)
	n := &s.Sites.Standbys[0].Network
	s.hop = max(0, commit-n.RTT-n.Send(s.load().Bytes))
	if n.Hop == 0 {
		n.Hop, s.guessed = s.hop, true
	}
	return s, s.hop
}

// MakePlan calculates all modes, compares them with the simulations, and recommends one. Errors are
// Invalid, and CheckScans'.
func MakePlan(s PlanSpec) (*Plan, error) {
	if err := CheckScans(s.Scans); err != nil {
		return nil, err
	}
	if len(s.Sites.Standbys) != 1 {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "plan", Err: fmt.Errorf("%d standbys", len(s.Sites.Standbys)), Hint: "Plan with one standby, or use tidemark ha calculate with several networks."}
	}
	f, err := Predict(s.load(), s.Sites, s.Modes...)
	if err != nil {
		return nil, err
	}
	s.Sites = f.Sites
	p := &Plan{Format: PlanFormat, Made: time.Now().UTC().Truncate(time.Second), Server: s.Server, Standby: s.Standby, Engine: s.Sites.Engine, Version: s.Sites.Version,
		Workload: s.workload(f.Load), Basis: s.Basis, Forecast: f, Caveats: slices.Clone(f.Warnings)}
	for _, d := range s.Doubts {
		p.Caveats = append(p.Caveats, fmt.Sprintf("%s: %s. %s", d.Object, d.Text, d.Hint))
	}
	if p.Checks, err = s.checks(); err != nil {
		return nil, err
	}
	p.ByClients = s.byClients()
	for _, series := range f.Series {
		if series.By == ByRTT {
			p.ByRTT = append(p.ByRTT, series)
		}
	}
	p.advise(s)
	p.Outages = s.outages(f)
	p.sentences(s)
	return p, nil
}

func (s PlanSpec) workload(l Load) Workload {
	w := Workload{Step: l.Step, Commits: l.Rate, Bytes: l.Bytes, Sessions: l.Clients}
	var bytes float64
	for _, x := range s.Scans {
		for _, i := range x.Profile.Intervals {
			w.Intervals = append(w.Intervals, Moment{i.End, i.Seconds, i.Rate(), perSecond(float64(i.Ended), i.Seconds)})
			w.Peak = max(w.Peak, i.Rate())
			bytes, w.Seconds = bytes+float64(i.Bytes), w.Seconds+i.Seconds
		}
	}
	slices.SortStableFunc(w.Intervals, func(a, b Moment) int { return a.End.Compare(b.End) })
	w.Begin, w.Mean = l.From.Begin, perSecond(bytes, w.Seconds)
	for _, t := range s.busiest().Tables {
		if t.Name != "" && len(w.Tables) < 5 {
			w.Tables = append(w.Tables, t)
		}
	}
	return w
}

// checks compares trials with their predictions.
func (s PlanSpec) checks() (out []Check, err error) {
	sites := s.Sites // of trials: processes of ours, not servers
	sites.Near, sites.Standbys = nil, slices.Clone(sites.Standbys)
	b := &sites.Standbys[0]
	b.Network.Hop, b.Network.Hops, b.Replay = s.hop, nil, 0
	for _, t := range s.Trials {
		if t.Simulated.Rate == 0 {
			continue
		}
		p, err := PredictMode(Load{Clients: t.Clients, Bytes: s.load().Bytes}, sites, t.Mode)
		if err != nil {
			return nil, err
		}
		c := Check{Mode: t.Mode, Clients: t.Clients, Predicted: Point{Rate: p.Rate, P50: p.Commit.P50, P99: p.Commit.P99}, Simulated: t.Simulated}
		c.RateError, c.P50Error, c.P99Error = excess(c.Predicted.Rate, c.Simulated.Rate), excess(c.Predicted.P50, c.Simulated.P50), excess(c.Predicted.P99, c.Simulated.P99)
		out = append(out, c)
	}
	return out, nil
}

// excess returns the relative excess of a prediction.
func excess(predicted, seen float64) float64 {
	if seen == 0 {
		return 0
	}
	return predicted/seen - 1
}

// byClients returns the waits of sessions without think time in each mode, by their number.
func (s PlanSpec) byClients() (out []Series) {
	var numbers []int
	for n := 1; n <= 256; n *= 2 {
		numbers = append(numbers, n)
	}
	numbers = append(numbers, s.Clients...)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for _, name := range s.names() {
		m, _ := modeOf(s.Sites.Engine, name)
		series := Series{Mode: m.name, By: ByClients}
		for _, n := range numbers {
			series.Points = append(series.Points, point(s.closed(n), s.Sites, m, float64(n)))
		}
		out = append(out, series)
	}
	return out
}

// outages returns outages of several lengths, of a standby that commits do not wait for meanwhile.
func (s PlanSpec) outages(f *Forecast) (out []StandbyOutage) {
	lengths := []float64{600, 3600, 8 * 3600, f.Sites.Outage}
	slices.Sort(lengths)
	alone := commitMode{name: "local"}
	for _, length := range slices.Compact(lengths) {
		sites := f.Sites
		sites.Outage = length
		o := outage(f.Load, sites, alone, Prediction{})
		out = append(out, StandbyOutage{*o, peakHour(f.Load, length), sendRate(sites.Standbys[0])})
	}
	return out
}

// strongest returns the last of the modes that wait; "" if none does.
func (s PlanSpec) strongest() string {
	if all := s.Waiting(); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// modeName returns the setting of a mode.
func modeName(engine, mode string) string {
	switch {
	case engine == "postgres":
		return "synchronous_commit = " + mode
	case mode == "async":
		return "asynchronous replication"
	}
	return "semi-synchronous " + strings.ToUpper(mode)
}
