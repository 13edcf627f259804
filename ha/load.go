package ha

import (
	"math"
	"slices"
)

// openClients is how many commits can be open at once where a scan has seen fewer: sessions
// that wait are in no log.
const openClients = 100

// Busiest is the interval with the most commits a second.
func (p *Profile) Busiest() Interval {
	var out Interval
	for _, i := range p.Intervals {
		if i.Flushes > 0 && perSecond(float64(i.Ended), i.Seconds) > perSecond(float64(out.Ended), out.Seconds) {
			out = i
		}
	}
	return out
}

// Load is what the profile's busiest interval asks of a standby. With clients it is a closed
// loop of so many, who think for as long as their commits, which wait for this disk, leave of the time
// between two; without, commits come as they came, whatever they wait for.
func (p *Profile) Load(clients int, disk Disk) Load {
	busy := p.Busiest()
	l := Load{Clients: clients}
	rate := perSecond(float64(busy.Ended), busy.Seconds)
	if rate == 0 {
		return l
	}
	l.Bytes = math.Max(1, float64(busy.Bytes)/float64(busy.Ended))
	l.LogRates, l.Step = p.rates()
	if clients <= 0 {
		l.Rate, l.Clients = rate, max(openClients, int(p.Distributions.Open.Max))
		return l
	}
	write := disk.Write(l.Bytes)
	u := math.Min(1, rate*write)
	l.Think = math.Max(0, float64(clients)/rate-disk.Write(l.Bytes*math.Max(1, rate*write))*(1+u/2))
	return l
}

// rates are the log's over intervals of the one length that most have; longer ones are
// several.
func (p *Profile) rates() (rates []float64, step float64) {
	const most = 1 << 20
	var lengths []float64
	for _, i := range p.Intervals {
		lengths = append(lengths, i.Seconds)
	}
	slices.Sort(lengths)
	step = lengths[len(lengths)/2]
	for _, i := range p.Intervals {
		for n := math.Round(i.Seconds / step); n > 0 && len(rates) < most; n-- {
			rates = append(rates, i.Rate())
		}
	}
	return rates, step
}
