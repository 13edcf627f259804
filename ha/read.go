package ha

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// ReadProfile reads the output of a scan: JSON, or the text form of our scanner or Db2's. Errors
// call it object. Any other file is BadInput.
func ReadProfile(data []byte, object string) (*Profile, error) {
	if head := bytes.TrimLeft(data, " \t\r\n"); len(head) > 0 && head[0] == '{' {
		return readJSON(data, object)
	}
	return readText(string(data), object)
}

const scanHint = "Give the output of tidemark ha scan, as text or with --json, or that of Db2's db2logscan."

func readJSON(data []byte, object string) (*Profile, error) {
	var p Profile
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "read scan", Object: object, Err: errors.New("is not a scan in JSON: " + err.Error()), Hint: scanHint}
	}
	if p.Format != ProfileFormat {
		return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "read scan", Object: object, Err: fmt.Errorf("is not a scan, or of another version of tidemark (format %d, not %d)", p.Format, ProfileFormat), Hint: scanHint}
	}
	for _, i := range p.Intervals {
		if i.Seconds <= 0 || i.Bytes < 0 || i.Flushes < 0 {
			return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "read scan", Object: object, Err: errors.New("has an interval of zero length, or with negative numbers"), Hint: scanHint}
		}
	}
	return &p, checkCommits(&p, object)
}

// noCommits is a line of a scan's text.
const noCommits = "\nNo commits in this log: nothing to plan for.\n"

var errNoCommits = errors.New("no commits in this log: nothing to plan for")

// checkCommits returns an error if there is nothing to calculate with.
func checkCommits(p *Profile, object string) error {
	for _, i := range p.Intervals {
		if i.Ended > 0 && i.Flushes > 0 {
			return nil
		}
	}
	return &tidemark.Error{Kind: tidemark.Empty, Op: "read scan", Object: object, Err: errNoCommits, Hint: "Scan the log of a busy time: at least two commits are needed."}
}

func readText(text, object string) (*Profile, error) {
	r := textReader{p: &Profile{Format: ProfileFormat, Engine: "db2"}, block: -1}
	for line := range strings.Lines(text) {
		r.line(strings.TrimRight(line, "\r\n"))
	}
	p := r.p
	if len(p.lines) == 0 && strings.Contains(text, noCommits) {
		return nil, checkCommits(p, object)
	}
	if len(p.lines) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "read scan", Object: object, Err: errors.New("has no rate line (DATE TIME  n MB/s, n sec, n pg/f, ...)"), Hint: scanHint}
	}
	r.finish()
	return p, checkCommits(p, object)
}

// A textReader reads the text form line by line.
type textReader struct {
	p     *Profile
	block int // index in blocks of the one being read; -1: none
	ended int // how many blocks have had their first line
	total bool
}

var (
	engineLine = regexp.MustCompile(`^Log of (\S+) ?(.*)$`)
	flushLine  = regexp.MustCompile(`^Flushes: ([\d.]+)(?:, (estimated|as the server|as the log)| (or more))`)
	writeText  = regexp.MustCompile(`write of ([\d.]+) s`)
	totalLine  = regexp.MustCompile(`Total\s+(\d+) numbers,\s+Sum\s+([\d.]+),\s+Min\s+([\d.]+),\s+Max\s+([\d.]+),\s+Avg\s+([\d.]+)`)
	bucketLine = regexp.MustCompile(`(?:(Zero)|Exactly\s+([\d.]+)|From\s+([\d.]+)\s+to\s+([\d.]+))\s+(\d+) numbers`)
	percentile = regexp.MustCompile(`^Percentiles 50% ([\d.]+), 90% ([\d.]+), 99% ([\d.]+), 99.9% ([\d.]+)`)
)

func (r *textReader) line(s string) {
	if l, ok := ParseLine(s); ok {
		r.p.lines = append(r.p.lines, l)
		r.p.Intervals = append(r.p.Intervals, l.interval())
		return
	}
	if m := engineLine.FindStringSubmatch(s); m != nil && r.p.Engine == "db2" {
		r.p.Engine, r.p.Version = m[1], strings.TrimSpace(m[2])
		return
	}
	if m := flushLine.FindStringSubmatch(s); m != nil {
		r.flushes(m, s)
		return
	}
	r.distribution(s)
}

func (r *textReader) flushes(m []string, s string) {
	f := &r.p.Flushes
	f.Count = parse(m[1])
	f.Basis = map[string]FlushBasis{"estimated": EstimatedFlushes, "as the server": CalibratedFlushes, "as the log": ExactFlushes, "": UpperBoundFlushes}[m[2]]
	if w := writeText.FindStringSubmatch(s); w != nil {
		f.Write = parse(w[1])
	}
}

// distribution reads a line of one of the blocks. If a title is unknown, the remaining blocks are
// expected in order.
func (r *textReader) distribution(s string) {
	if m := totalLine.FindStringSubmatch(s); m != nil {
		if r.block < 0 || r.total {
			r.block = r.ended
		}
		r.total = true
		r.ended++
		if d := r.current(); d != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64)
			*d = Distribution{Count: n, Sum: parse(m[2]), Min: parse(m[3]), Max: parse(m[4]), Mean: parse(m[5]), Buckets: []Band{}}
			if _, after, ok := strings.Cut(m[3], "."); ok {
				d.Decimals = len(after)
			}
			if n > 0 {
				d.Mean = d.Sum / float64(n)
			}
		}
		return
	}
	d := r.current()
	if m := bucketLine.FindStringSubmatch(s); m != nil && d != nil && r.total {
		n, _ := strconv.ParseInt(m[5], 10, 64)
		b := Band{From: parse(m[3]), To: parse(m[4]), Count: n}
		if m[2] != "" {
			b.From = parse(m[2])
			b.To = b.From
		}
		d.Buckets = append(d.Buckets, b)
		return
	}
	if m := percentile.FindStringSubmatch(s); m != nil && d != nil && r.total {
		d.P50, d.P90, d.P99, d.P999 = parse(m[1]), parse(m[2]), parse(m[3]), parse(m[4])
		return
	}
	low := strings.ToLower(s)
	for i, b := range blocks {
		if strings.Contains(low, b.known) {
			r.block, r.total = i, false
		}
	}
}

func (r *textReader) current() *Distribution {
	if r.block < 0 || r.block >= len(blocks) {
		return nil
	}
	return blocks[r.block].at(&r.p.Distributions)
}

// inBlock reports whether the last line belonged to a distribution.
func (r *textReader) inBlock(s string) bool {
	return totalLine.MatchString(s) || bucketLine.MatchString(s) || percentile.MatchString(s)
}

func parse(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return v
}

// finish sums what the text has no line for.
func (r *textReader) finish() {
	p := r.p
	flushes := 0.0
	for i := range p.Intervals {
		x := &p.Intervals[i]
		p.Seconds += x.Seconds
		p.Bytes += x.Bytes
		p.Transactions.Committed += x.Ended // including those rolled back
		p.Transactions.Bytes += x.TxBytes
		flushes += x.Flushes
		p.IntervalSeconds = math.Max(p.IntervalSeconds, x.Seconds)
		if p.Begin.IsZero() && !x.End.IsZero() {
			p.Begin = x.End.Add(-time.Duration(x.Seconds * float64(time.Second)))
		}
		p.End = x.End
	}
	if p.Flushes.Basis == "" {
		p.Flushes = Flushes{Count: flushes, Basis: ExactFlushes}
	}
	for _, b := range blocks {
		b.at(&p.Distributions).percentiles()
	}
	d := &p.Distributions
	d.FlushBytes = d.FlushPages.times(Page)
	p.Records = d.RecordSize.Count
}

// percentiles sets those of a distribution that has only buckets: the upper bound of the bucket
// that contains each.
func (d *Distribution) percentiles() {
	if d.Count == 0 || d.P999 > 0 {
		return
	}
	at := func(q float64) float64 {
		rank, seen := int64(math.Ceil(q*float64(d.Count))), int64(0)
		for _, b := range d.Buckets {
			if seen += b.Count; seen >= rank {
				return math.Min(b.To, d.Max)
			}
		}
		return d.Max
	}
	d.P50, d.P90, d.P99, d.P999 = at(.5), at(.9), at(.99), at(.999)
}

// times returns the distribution with all numbers multiplied by n.
func (d Distribution) times(n float64) Distribution {
	out := d
	out.Sum, out.Min, out.Max, out.Mean = d.Sum*n, d.Min*n, d.Max*n, d.Mean*n
	out.P50, out.P90, out.P99, out.P999 = d.P50*n, d.P90*n, d.P99*n, d.P999*n
	out.Buckets = nil
	for _, b := range d.Buckets {
		out.Buckets = append(out.Buckets, Band{From: b.From * n, To: b.To * n, Count: b.Count})
	}
	return out
}
