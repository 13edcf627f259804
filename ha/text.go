package ha

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// A block is one of the eight distributions of the text form.
type block struct {
	title, unit string
	known       string // part of its title in any scanner's text
	decimals    int    // of the average
	at          func(*Distributions) *Distribution
}

var blocks = []block{
	{"Log write rate", "MB/s", "write rate", 3, func(d *Distributions) *Distribution { return &d.Rate }},
	{"Flush size", "page", "flush size", 1, func(d *Distributions) *Distribution { return &d.FlushPages }},
	{"Flush duration", "second", "flush duration", 6, func(d *Distributions) *Distribution { return &d.FlushTime }},
	{"Record size", "byte", "record size", 0, func(d *Distributions) *Distribution { return &d.RecordSize }},
	{"Transaction size", "byte", "transaction size", 0, func(d *Distributions) *Distribution { return &d.TxSize }},
	{"Transaction duration", "second", "transaction duration", 6, func(d *Distributions) *Distribution { return &d.TxTime }},
	{"Commit interval", "second", "commit interval", 6, func(d *Distributions) *Distribution { return &d.CommitTime }},
	{"Open transactions", "number", "open transactions", 1, func(d *Distributions) *Distribution { return &d.Open }},
}

// maxShares is how many tables and classes the text lists.
const maxShares = 20

// WriteText writes the profile in the form of Db2's scanner: rate lines, open transactions, eight
// distributions, and a closing line; before the closing line, additions of our own. took is the
// length of the scan.
func (p *Profile) WriteText(w io.Writer, took time.Duration) error {
	out := bufio.NewWriter(w)
	p.header(out)
	file := 0
	files := func(before int) {
		for ; file < len(p.FileList) && p.FileList[file].Intervals <= before; file++ {
			f := p.FileList[file]
			fmt.Fprintf(out, "\nFile %s from %s: %d records, %d bytes\n", f.Name, f.From, f.Records, f.Bytes)
		}
	}
	for i, l := range p.Lines() {
		files(i)
		fmt.Fprintln(out, l)
	}
	files(len(p.Intervals))
	t := p.Transactions
	fmt.Fprintf(out, "\nTransactions: %d committed, %d rolled back, %d bytes; open at the end %d, %d bytes\n", t.Committed, t.RolledBack, t.Bytes, t.OpenAtEnd, t.OpenBytes)
	if checkCommits(p, "") != nil {
		fmt.Fprint(out, noCommits)
	} else {
		for _, b := range blocks {
			b.write(out, b.at(&p.Distributions))
		}
	}
	p.extras(out)
	mb := float64(p.Bytes+p.Headers) / MiB
	fmt.Fprintf(out, "\nScanned %.3f MB in %.3f seconds, %.3f MB/s\n", mb, took.Seconds(), perSecond(mb, took.Seconds()))
	return out.Flush()
}

func (p *Profile) header(w io.Writer) {
	fmt.Fprintf(w, "Log of %s\n", strings.TrimSpace(p.Engine+" "+p.Version))
	if p.System != "" {
		fmt.Fprintf(w, "Server %s, from %s to %s, files: %d\n", p.System, p.From, p.To, p.Files)
	}
	fmt.Fprintf(w, "Units: 1 MB is %d bytes, 1 pg is %d bytes; times are UTC (local time now %s)\n", MiB, Page, time.Now().Format("2006-01-02 15:04:05 -07:00 MST"))
	fmt.Fprintf(w, "Flushes: %s\n", p.Flushes)
}

// String returns the number of flushes, and how it is known.
func (f Flushes) String() string {
	switch f.Basis {
	case EstimatedFlushes:
		return fmt.Sprintf("%.0f, estimated for a write of %.6f s (%.0f if it took half as long, %.0f if twice)", f.Count, f.Write, f.High, f.Low)
	case CalibratedFlushes:
		return fmt.Sprintf("%.0f, as the server has counted, which a write of %.6f s gives", f.Count, f.Write)
	case UpperBoundFlushes:
		return fmt.Sprintf("%.0f or more: sizes are upper bounds, of what could have been flushed together", f.Count)
	case ExactFlushes:
		return fmt.Sprintf("%.0f, as the log tells", f.Count)
	}
	return fmt.Sprintf("%.0f", f.Count)
}

func (b block) write(w io.Writer, d *Distribution) {
	v := func(x float64) string { return fmt.Sprintf("%.*f", d.Decimals, x) }
	fmt.Fprintf(w, "\n%s (%s)\n", b.title, b.unit)
	fmt.Fprintf(w, "Total %d numbers, Sum %s, Min %s, Max %s, Avg %.*f\n", d.Count, v(d.Sum), v(d.Min), v(d.Max), b.decimals, d.Mean)
	many := len(d.Buckets) > 0 && !single(d.Buckets)
	for _, x := range d.Buckets {
		what := "Exactly " + v(x.From)
		switch {
		case many && x.To == 0:
			what = "Zero"
		case many:
			what = "From " + v(x.From) + " to " + v(x.To)
		}
		fmt.Fprintf(w, "%-28s %12d numbers %3d%%\n", what, x.Count, x.Count*100/max(d.Count, 1))
	}
	if d.P999 > 0 {
		fmt.Fprintf(w, "Percentiles 50%% %s, 90%% %s, 99%% %s, 99.9%% %s\n", v(d.P50), v(d.P90), v(d.P99), v(d.P999))
	}
}

// single reports whether all buckets are single values: few different values have one each, while
// of more at least two share a bucket.
func single(of []Band) bool {
	for _, b := range of {
		if b.From != b.To {
			return false
		}
	}
	return len(of) <= maxValues
}

// extras writes what Db2's scanner does not.
func (p *Profile) extras(w io.Writer) {
	if len(p.Images) > 0 {
		fmt.Fprintf(w, "\nImages of pages, by distance from the last checkpoint's redo point: %d of %d bytes\n", p.ImageBytes, p.Bytes)
		for _, d := range p.Images {
			to := fmt.Sprintf("to %d MB", d.To/MiB)
			if d.To == 0 {
				to = "on"
			}
			fmt.Fprintf(w, "%-28s %s with, %s without, %3d%% images\n", fmt.Sprintf("From %d %s", d.From/MiB, to),
				rateOr(d.Bytes, d.Seconds), rateOr(d.Bytes-d.ImageBytes, d.Seconds), d.ImageBytes*100/max(d.Bytes, 1))
		}
	}
	p.shares(w, "Kinds of records", p.Classes)
	p.shares(w, "Tables", p.Tables)
	fmt.Fprintf(w, "\nOutside transactions: %d bytes; headers: %d bytes\n", p.NoTxBytes, p.Headers)
	if t := p.Transactions; t.Folded+t.Savepoints > 0 {
		fmt.Fprintf(w, "Subtransactions: %d were counted with their transactions, %d rollbacks could not be assigned\n", t.Folded, t.Savepoints)
	}
	if u := p.Transactions.Uncertainty; u.Max > 0 {
		fmt.Fprintf(w, "Transaction starts are known to within %.6f s on average, %.6f s at worst\n", u.Mean, u.Max)
	}
	if p.EndOfLog != "" {
		fmt.Fprintf(w, "The log ends at %s: %s\n", p.To, p.EndOfLog)
	}
	for _, f := range p.Findings {
		fmt.Fprintf(w, "Note: %s\n", f)
	}
}

func rateOr(bytes int64, seconds float64) string {
	if seconds <= 0 {
		return fmt.Sprintf("%12d bytes", bytes)
	}
	return fmt.Sprintf("%9.3f MB/s", float64(bytes)/MiB/seconds)
}

func (p *Profile) shares(w io.Writer, title string, of []Share) {
	if len(of) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s, by bytes\n", title)
	for i, s := range of {
		if i == maxShares {
			fmt.Fprintf(w, "and %d more\n", len(of)-i)
			return
		}
		name := s.Name
		if name == "" {
			name = "(none)"
		}
		images := ""
		if s.ImageBytes > 0 {
			images = fmt.Sprintf(", %d of images", s.ImageBytes)
		}
		fmt.Fprintf(w, "%-28s %12d records, %14d bytes %3d%%%s\n", name, s.Records, s.Bytes, s.Bytes*100/max(p.Bytes, 1), images)
	}
}
