package ha

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// openClients is how many commits can be open at once if a scan has seen fewer: waiting sessions
// are not in the log.
const openClients = 100

// A Scanned is a profile and the file that it comes from.
type Scanned struct {
	Name    string
	Profile *Profile
}

// An Origin is the interval that a Load was taken from.
type Origin struct {
	Scan      string    `json:"scan"` // the scan that contains it
	Interval  RateLine  `json:"busiest_interval"`
	Intervals int       `json:"intervals"` // of all scans
	Scans     int       `json:"scans"`
	Begin     time.Time `json:"begin"` // of the first scan
	End       time.Time `json:"end"`   // of the last one
	// Overlaps names two scans that overlap in time; their log is then counted twice.
	Overlaps []string `json:"overlaps,omitempty"`
}

// Busiest returns the interval with the most commits a second.
func (p *Profile) Busiest() Interval {
	var out Interval
	for _, i := range p.Intervals {
		if i.Flushes > 0 && perSecond(float64(i.Ended), i.Seconds) > perSecond(float64(out.Ended), out.Seconds) {
			out = i
		}
	}
	return out
}

// Load returns the demand of the profile's busiest interval on a standby; see LoadOf.
func (p *Profile) Load(clients int, disk Disk) Load {
	l, _ := LoadOf([]Scanned{{Profile: p}}, clients, disk, nil) // one scan is of one engine
	return l
}

// LoadOf returns the demand of the busiest interval of all these scans on a standby. With clients
// it is a closed loop of that many, whose think time is what remains of the time between two
// commits after a commit on the primary alone; the time of that commit is as measured (local), or
// calculated for this disk. Without clients, commits come at the rate seen, whatever they wait for.
// The log's rates are those of all scans, in order of time. Scans of different engines are Invalid.
func LoadOf(scans []Scanned, clients int, disk Disk, local []Local) (Load, error) {
	scans = slices.Clone(scans)
	slices.SortStableFunc(scans, func(a, b Scanned) int { return a.Profile.Begin.Compare(b.Profile.Begin) })
	first, last := scans[0].Profile, scans[len(scans)-1].Profile
	o := &Origin{Scans: len(scans), Begin: first.Begin, End: last.End}
	var busy Interval
	var open float64
	var all []Interval
	for i, s := range scans {
		p := s.Profile
		if p.Engine != first.Engine {
			return Load{}, &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: s.Name, Err: errors.New("is of " + p.Engine + ", and " + scans[0].Name + " of " + first.Engine), Hint: "Calculate each server's scans separately."}
		}
		if i > 0 && !p.Begin.IsZero() && p.Begin.Before(scans[i-1].Profile.End) {
			o.Overlaps = append(o.Overlaps, scans[i-1].Name+" and "+s.Name)
		}
		if x := p.Busiest(); i == 0 || perSecond(float64(x.Ended), x.Seconds) > perSecond(float64(busy.Ended), busy.Seconds) {
			busy, o.Scan = x, s.Name
		}
		open = math.Max(open, p.Distributions.Open.Max)
		o.Intervals += len(p.Intervals)
		all = append(all, p.Intervals...)
	}
	o.Interval = busy.Line()
	l := Load{Clients: clients, Local: local, From: o}
	rate := perSecond(float64(busy.Ended), busy.Seconds)
	if rate == 0 {
		return l, nil
	}
	l.Bytes = math.Max(1, float64(busy.Bytes)/float64(busy.Ended))
	l.LogRates, l.Step = rates(all)
	if clients <= 0 {
		l.Rate, l.Clients = rate, max(openClients, int(open))
		return l, nil
	}
	l.Think = math.Max(0, float64(clients)/rate-localWait(l, disk, rate))
	return l, nil
}

// localWait returns the time of a commit on the primary alone at a rate: for the n = rate x wait
// clients present then, the measured curve returns the rate; or W(b) (1 + u/2) of the disk.
func localWait(l Load, disk Disk, rate float64) float64 {
	if len(l.Local) == 0 {
		write := disk.Write(l.Bytes)
		return disk.Write(l.Bytes*math.Max(1, rate*write)) * (1 + math.Min(1, rate*write)/2)
	}
	curve := slices.Clone(l.Local)
	slices.SortFunc(curve, func(a, b Local) int { return a.Clients - b.Clients })
	before := Local{}
	for _, c := range curve {
		if c.Rate >= rate && c.Rate > before.Rate {
			part := (rate - before.Rate) / (c.Rate - before.Rate)
			there := float64(before.Clients) + part*float64(c.Clients-before.Clients)
			return there / rate
		}
		before = c
	}
	return float64(before.Clients) / rate // more than measured: all clients are present
}

// rates returns the log's rates over intervals of the most frequent length; longer intervals count
// as several.
func rates(intervals []Interval) (rates []float64, step float64) {
	const most = 1 << 20
	var lengths []float64
	for _, i := range intervals {
		lengths = append(lengths, i.Seconds)
	}
	slices.Sort(lengths)
	step = lengths[len(lengths)/2]
	for _, i := range intervals {
		for n := math.Round(i.Seconds / step); n > 0 && len(rates) < most; n-- {
			rates = append(rates, i.Rate())
		}
	}
	return rates, step
}
