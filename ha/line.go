package ha

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// A RateLine is a rate line of Db2's scanner: an interval in Db2's units. Rate is MiB a second,
// sizes are Pages, times seconds.
type RateLine struct {
	At            string  `json:"at"` // the end, as written in the text
	Rate          float64 `json:"rate_mib_per_second"`
	Seconds       float64 `json:"seconds"`
	FlushPages    float64 `json:"flush_pages"`
	FlushSeconds  float64 `json:"flush_seconds"`
	TxPages       float64 `json:"transaction_pages"`
	TxSeconds     float64 `json:"transaction_seconds"`
	CommitSeconds float64 `json:"commit_interval_seconds"`
	Open          float64 `json:"open_transactions"`
}

// String formats the line as the scanner prints it. Sizes below a page, which Db2 does not have,
// get more decimals.
func (l RateLine) String() string {
	return fmt.Sprintf("%s  %.3f MB/s, %s sec, %s pg/f, %.6f sec/f, %s pg/tr, %.6f sec/tr, %.6f sec/cmt, nOpenTrans %.1f",
		l.At, l.Rate, shortSeconds(l.Seconds), pages(l.FlushPages), l.FlushSeconds, pages(l.TxPages), l.TxSeconds, l.CommitSeconds, l.Open)
}

func pages(n float64) string {
	if n > 0 && n < 0.95 {
		return fmt.Sprintf("%.3f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

// shortSeconds formats whole seconds, with thousandths if they matter.
func shortSeconds(s float64) string {
	if s >= 10 || math.Abs(s-math.Round(s)) < 0.0005 {
		return fmt.Sprintf("%.0f", s)
	}
	return fmt.Sprintf("%.3f", s)
}

var rateLine = regexp.MustCompile(`(\d{4}-\d\d-\d\d[ T-]\d\d[:.]\d\d[:.]\d\d(?:\.\d+)?)\s+([\d.]+) MB/s,\s+([\d.]+) sec,\s+([\d.]+) pg/f,?\s+([\d.]+) sec/f,\s+([\d.]+) pg/tr,\s+([\d.]+) sec/tr,\s+([\d.]+) sec/cmt,\s+nOpenTrans\s+([\d.]+)`)

// ParseLine reads a rate line; false if s is not one.
func ParseLine(s string) (RateLine, bool) {
	m := rateLine.FindStringSubmatch(s)
	if m == nil {
		return RateLine{}, false
	}
	l := RateLine{At: m[1]}
	for i, at := range []*float64{&l.Rate, &l.Seconds, &l.FlushPages, &l.FlushSeconds, &l.TxPages, &l.TxSeconds, &l.CommitSeconds, &l.Open} {
		v, err := strconv.ParseFloat(m[i+2], 64)
		if err != nil {
			return RateLine{}, false
		}
		*at = v
	}
	return l, true
}

// Line returns the interval as a rate line. An interval without commits has zeros for unknown
// values.
func (i Interval) Line() RateLine {
	layout := time.DateTime
	if i.Seconds < 1 {
		layout += ".000"
	}
	l := RateLine{At: i.End.UTC().Format(layout), Rate: i.Rate() / MiB, Seconds: i.Seconds, Open: i.Open}
	if i.Flushes > 0 {
		l.FlushPages = float64(i.Bytes) / Page / i.Flushes
		l.FlushSeconds = i.Seconds / i.Flushes
	}
	if i.Ended > 0 {
		n := float64(i.Ended)
		l.TxPages, l.TxSeconds, l.CommitSeconds = float64(i.TxBytes)/Page/n, i.TxSeconds/n, i.Seconds/n
	}
	return l
}

// interval returns the interval that a line describes.
func (l RateLine) interval() Interval {
	i := Interval{Seconds: l.Seconds, Bytes: int64(math.Round(l.Rate * l.Seconds * MiB)), Open: l.Open}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02-15.04.05", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, l.At); err == nil {
			i.End = t
		}
	}
	if l.FlushSeconds > 0 {
		i.Flushes = l.Seconds / l.FlushSeconds
	}
	if l.CommitSeconds > 0 {
		n := math.Round(l.Seconds / l.CommitSeconds)
		i.Ended, i.TxBytes, i.TxSeconds = int64(n), int64(math.Round(n*l.TxPages*Page)), n*l.TxSeconds
	}
	return i
}

// Lines returns the rate lines: for a scanner's text, those in it.
func (p *Profile) Lines() []RateLine {
	if p.lines != nil {
		return p.lines
	}
	out := make([]RateLine, len(p.Intervals))
	for i, x := range p.Intervals {
		out[i] = x.Line()
	}
	return out
}
