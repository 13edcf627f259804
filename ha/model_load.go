package ha

import (
	"math"

	"github.com/tidemarkdb/tidemark"
)

// LoadOf is the load that a scan tells of: commits that come at the rate of its busiest interval,
// whatever they wait for, with as many of them open as were then; all of the log, with what is nobody's,
// is shared by them. Local latencies are in no log. Errors are Invalid: nothing was committed.
func LoadOf(p *Profile) (Load, error) {
	l := Load{Step: p.IntervalSeconds}
	var open float64
	for _, i := range p.Intervals {
		if i.Seconds <= 0 {
			continue
		}
		rate := float64(i.Ended) / i.Seconds
		if rate > l.Rate {
			l.Rate = rate
		}
		open = max(open, i.Open)
		l.LogRates = append(l.LogRates, float64(i.Bytes)/i.Seconds)
	}
	committed := p.Transactions.Committed
	if l.Rate == 0 || committed == 0 || p.Bytes == 0 {
		return Load{}, tidemark.Errorf(tidemark.Invalid, "calculate", "", "the scan has no commits", "Scan a time in which the applications work.")
	}
	if l.Step <= 0 {
		l.Step = p.Seconds / float64(len(l.LogRates))
	}
	l.Clients = max(1, int(math.Ceil(open)))
	l.Bytes = float64(p.Bytes+p.Headers) / float64(committed)
	return l, nil
}
