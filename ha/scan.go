package ha

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Options control how a log becomes a Profile. The zero value suits PostgreSQL's.
type Options struct {
	// Interval is the length of a rate line; default a minute. Below 0: one per file.
	Interval time.Duration
	// Grouped means that the log names, or bounds, what was flushed together: MySQL's and
	// MariaDB's. Otherwise commit times are replayed.
	Grouped bool
	// Syncs is how often the server synced the log while it wrote the scanned part; 0: unknown.
	// Inferred flushes are calibrated to this number.
	Syncs int64
	// Counted means that the log may supply this number (LogScan.Syncs): a server's log does.
	Counted bool
	// Disk is the write time used if flushes are inferred and Syncs is unknown; zero: a guess.
	Disk Disk
	// Files requests a list of the files.
	Files bool
	// Trace receives single events found by the scan; may be empty.
	Trace Trace
}

// A Trace receives single events while a log is scanned. Each may be nil.
type Trace struct {
	Flush func(Flush)
	Began func(Tx)
	Ended func(Tx)
	Open  func(Tx) // at the end
}

// A Flush is one flush that was found.
type Flush struct {
	Number int64
	Bytes  int64
	Begin  time.Time // end of the flush before
	End    time.Time
}

// A Tx is a transaction of the log. Its Begin is between two of the log's timestamps, which are at
// most Uncertain apart.
type Tx struct {
	ID         uint64
	Begin, End time.Time
	Uncertain  time.Duration
	Bytes      int64
	How        tidemark.LogEnd
}

// maxIntervals bounds the memory of a scan.
const maxIntervals = 200_000

// Scan reads a log to its end and returns a profile of the workload.
func Scan(ctx context.Context, log Log, opt Options) (*Profile, error) {
	p := NewProfiler(opt)
	scan, err := log.Scan(ctx, p.Add)
	if err != nil {
		return nil, err
	}
	return p.Finish(scan), nil
}

// A Profiler builds a Profile from a log's records. Its memory does not grow with the log, but with
// the number of intervals (which is bounded), of tables, and of transactions open at once.
//
// Only ends of transactions have times. Everything between two of them is assumed to be evenly
// spread: bytes, begins of transactions, and the ends of intervals.
type Profiler struct {
	opt     Options
	profile Profile
	grouper grouper
	images  distances
	marks   marks
	txs     transactions

	shares  [2][]Share // by class, by table
	records counter
	sizes   counter // of transactions
	times   counter // of transactions
	open    counter
	bytes   int64 // of records so far
	gaps    int64
	place   uint64 // of the last record

	started bool  // a timestamp was seen since the beginning or a gap
	now     int64 // the last timestamp, in microseconds since 1970
	pending tally // since then
	openAt  int   // transactions open then
	file    bool  // a file has begun since the last time
	current span
	spans   []span
	tooMany bool
}

// A tally is bytes of log.
type tally struct{ bytes, images int64 }

// A span is an interval before rounding.
type span struct {
	begin, end   int64
	written      tally
	ended, bytes int64
	took         float64 // seconds, sum over the transactions that ended
	open         float64 // transactions x microseconds
	flushes      []int64 // of each of the grouper's candidates, up to the end
}

// NewProfiler returns a Profiler without records.
func NewProfiler(opt Options) *Profiler {
	if opt.Interval == 0 {
		opt.Interval = time.Minute
	}
	p := &Profiler{opt: opt, times: counter{decimals: 6}}
	p.grouper = newGrouper(opt)
	p.txs = newTransactions()
	return p
}

// Add processes the next record.
func (p *Profiler) Add(r *tidemark.LogRecord) error {
	if r.Gap != "" {
		p.gap(r.Gap)
	}
	if r.File != "" {
		p.newFile(r)
	}
	p.profile.Records++
	p.place = r.Place
	size := int64(r.Size)
	p.bytes += size
	if n := len(p.profile.FileList); n > 0 {
		f := &p.profile.FileList[n-1]
		f.Records++
		f.Bytes += size
	}
	p.pending.bytes += size
	p.pending.images += int64(r.Image)
	p.records.add(size)
	p.share(0, int(r.Class), size, int64(r.Image))
	if r.Shares == nil {
		p.share(1, int(r.Table), size, int64(r.Image))
	}
	for _, s := range r.Shares {
		p.share(1, int(s.Table), int64(s.Size), 0)
	}
	p.images.add(r, p.now)
	if r.Redo != 0 {
		p.images.checkpoint(r.Redo)
	}
	if r.Tx == 0 {
		p.profile.NoTxBytes += size
	} else if p.txs.add(r, p.bytes-size) {
		p.began(r)
	}
	if r.Open != nil {
		p.txs.list(r.Open)
	}
	switch {
	case r.Ended != tidemark.StillOpen:
		p.tick(max(r.Time, p.now))
		p.end(r)
	case r.Exact && r.Time > p.now && p.started:
		p.tick(r.Time)
	}
	if p.tooMany {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Err: fmt.Errorf("more than %d intervals", maxIntervals), Hint: "Choose a longer --interval."}
	}
	return nil
}

func (p *Profiler) newFile(r *tidemark.LogRecord) {
	if p.profile.Files++; p.profile.Files > 1 {
		p.file = true
		p.grouper.file()
	}
	if p.opt.Files {
		p.profile.FileList = append(p.profile.FileList, File{Name: r.File, place: r.Place, Intervals: len(p.spans)})
	}
}

func (p *Profiler) share(kind, index int, size, images int64) {
	s := p.shares[kind]
	if index >= len(s) {
		s = append(s, make([]Share, index+1-len(s))...)
		p.shares[kind] = s
	}
	x := &s[index]
	x.Records++
	x.Bytes += size
	x.ImageBytes += images
}

// began counts a transaction's begin.
func (p *Profiler) began(r *tidemark.LogRecord) {
	if !p.opt.Grouped {
		p.open.add(int64(len(p.txs.open)))
	}
	if p.opt.Trace.Began != nil {
		p.opt.Trace.Began(Tx{ID: r.Tx, Begin: moment(p.now)})
	}
}

// tick advances the clock to a timestamp of the log.
func (p *Profiler) tick(t int64) {
	if !p.started {
		p.started = true
		if p.profile.Begin.IsZero() {
			p.profile.Begin = moment(t)
		}
		p.now, p.current, p.pending = t, span{begin: t}, tally{} // records before the first timestamp have no time
	}
	switch {
	case p.opt.Interval > 0:
		p.close(t)
	case p.file && p.now > p.current.begin:
		p.cut()
	}
	p.file = false
	p.pass(t, t)
	if p.opt.Counted {
		p.marks.add(t, p.place, p.grouper.counts)
	}
	p.txs.setBegins(t, p.bytes)
	p.openAt = len(p.txs.open)
}

// close ends the interval that is over at t. A longer time without a timestamp becomes one interval
// of its own.
func (p *Profiler) close(t int64) {
	length := p.opt.Interval.Microseconds()
	if end := p.current.begin + length; t >= end {
		p.pass(end, t)
		p.cut()
	}
	if n := (t - p.current.begin) / length; n > 0 {
		p.pass(p.current.begin+n*length, t)
		p.cut()
	}
}

// pass assigns to the current interval the part up to the time to of what was written up to the
// next timestamp.
func (p *Profiler) pass(to, next int64) {
	part := 1.0
	if next > p.now {
		part = float64(to-p.now) / float64(next-p.now)
	}
	take := tally{int64(part * float64(p.pending.bytes)), int64(part * float64(p.pending.images))}
	p.pending.bytes -= take.bytes
	p.pending.images -= take.images
	p.current.written.bytes += take.bytes
	p.current.written.images += take.images
	p.current.open += float64(p.openAt+len(p.txs.open)) / 2 * float64(to-p.now)
	p.now = to
}

// cut ends the current interval now.
func (p *Profiler) cut() {
	p.current.end = p.now
	p.current.flushes = p.grouper.counts()
	if len(p.spans) < maxIntervals {
		p.spans = append(p.spans, p.current)
	} else {
		p.tooMany = true
	}
	p.current = span{begin: p.now}
}

// end counts the end of a transaction, at the current time.
func (p *Profiler) end(r *tidemark.LogRecord) {
	if p.profile.Transactions.Committed+p.profile.Transactions.RolledBack == 0 && !r.Exact {
		p.times.decimals = 0
	}
	p.profile.Exact = p.profile.Exact || r.Exact
	if r.Ended != tidemark.RolledBack {
		p.grouper.commit(r, p.now, p.bytes)
	}
	if r.Ended == tidemark.Prepared {
		p.profile.Transactions.Prepared++
		return
	}
	tx, ok := p.txs.end(r, p.now)
	if !ok {
		p.profile.Transactions.Savepoints++
		return
	}
	if r.Ended == tidemark.Committed {
		p.profile.Transactions.Committed++
	} else {
		p.profile.Transactions.RolledBack++
	}
	p.profile.Transactions.Bytes += tx.bytes
	p.current.ended++
	p.current.bytes += tx.bytes
	p.current.took += tx.took(p.now)
	p.sizes.add(tx.bytes)
	p.times.seconds(max(0, tx.took(p.now)))
	if p.opt.Grouped {
		p.open.add(p.grouper.together(r))
	} else {
		p.open.add(int64(len(p.txs.open)) + 1)
	}
	if p.opt.Trace.Ended != nil {
		p.opt.Trace.Ended(Tx{ID: r.Tx, Begin: moment(tx.begin), End: moment(p.now), Uncertain: time.Duration(tx.uncertain) * time.Microsecond, Bytes: tx.bytes, How: r.Ended})
	}
	p.txs.free(tx)
}

// gap discards the present state, since part of the log is missing.
func (p *Profiler) gap(why string) {
	if p.gaps++; p.gaps <= 10 {
		p.profile.Findings = append(p.profile.Findings, "The log has a gap: "+why)
	}
	if p.started && p.now > p.current.begin {
		p.cut()
	}
	p.started, p.now = false, 0
	p.txs.forget()
	p.grouper.gap()
	p.images.gap()
}

func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Finish returns the Profile.
func (p *Profiler) Finish(scan tidemark.LogScan) *Profile {
	out := &p.profile
	out.Format, out.Engine, out.Version, out.System = ProfileFormat, scan.Engine, scan.Version, scan.System
	out.From, out.To, out.EndOfLog = PlaceText(scan.Engine, scan.From), PlaceText(scan.Engine, scan.To), scan.End
	for i := range out.FileList {
		out.FileList[i].From = PlaceText(scan.Engine, out.FileList[i].place)
	}
	if p.started && p.now > p.current.begin {
		p.cut()
	} else if n := len(p.spans); n > 0 && p.started { // transactions that ended at the same moment as the last one
		last := &p.spans[n-1]
		last.ended, last.bytes, last.took = last.ended+p.current.ended, last.bytes+p.current.bytes, last.took+p.current.took
	}
	out.End = moment(p.now)
	out.Bytes, out.Headers, out.ImageBytes = p.bytes, scan.Headers, 0
	out.IntervalSeconds = max(0, p.opt.Interval.Seconds())
	out.Classes, out.Tables = shares(p.shares[0], scan.Classes), shares(p.shares[1], scan.Tables)
	for _, c := range out.Classes {
		out.ImageBytes += c.ImageBytes
	}
	p.txs.finish(&out.Transactions, p.opt.Trace.Open)
	out.Images = p.images.finish(p.now)
	p.finishFlushes(out, scan)
	p.finishIntervals(out)
	d := &out.Distributions
	d.RecordSize, d.TxSize, d.TxTime, d.Open = p.records.distribution(), p.sizes.distribution(), p.times.distribution(), p.open.distribution()
	out.Findings = append(out.Findings, p.findings()...)
	out.Findings = append(out.Findings, scan.Findings...)
	return out
}

func (p *Profiler) finishFlushes(out *Profile, scan tidemark.LogScan) {
	p.grouper.finish()
	syncs, counts := p.opt.Syncs, p.grouper.counts()
	if scan.Syncs > 0 && syncs == 0 {
		syncs, counts = scan.Syncs, p.marks.between(scan.SyncsFrom, scan.SyncsTo, counts)
	}
	mix := p.grouper.choose(syncs, counts)
	out.Flushes = mix.result
	d := &out.Distributions
	d.FlushPages, d.FlushBytes, d.FlushTime = mix.pages.distribution(), mix.sizes.distribution(), mix.times.distribution()
	if n := len(p.spans); n > 0 {
		p.spans[n-1].flushes = p.grouper.counts() // includes those still in progress at the end
	}
	for i := range p.spans {
		var before []int64
		if i > 0 {
			before = p.spans[i-1].flushes
		}
		out.Intervals = append(out.Intervals, Interval{Flushes: mix.count(p.spans[i].flushes, before)})
	}
}

func (p *Profiler) finishIntervals(out *Profile) {
	rates, commits := counter{decimals: 3}, counter{decimals: 6}
	for i, s := range p.spans {
		x := &out.Intervals[i]
		x.End, x.Seconds = moment(s.end), float64(s.end-s.begin)/1e6
		x.Bytes, x.ImageBytes = s.written.bytes, s.written.images
		x.Ended, x.TxBytes, x.TxSeconds = s.ended, s.bytes, max(0, s.took)
		x.Open = s.open / float64(s.end-s.begin)
		if p.opt.Grouped { // in a binlog a transaction appears at its end: its duration is known
			x.Open = perSecond(x.TxSeconds, x.Seconds)
		}
		out.Seconds += x.Seconds
		rates.seconds(x.Rate() / MiB)
		if x.Ended > 0 {
			commits.seconds(x.Seconds / float64(x.Ended))
		}
	}
	out.Distributions.Rate, out.Distributions.CommitTime = rates.distribution(), commits.distribution()
}

func (p *Profiler) findings() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	t := p.profile.Transactions
	if p.gaps > 10 {
		say("The log has %d more gaps.", p.gaps-10)
	}
	if t.Committed == 0 {
		say("No transaction was committed in this log.")
	}
	if t.Savepoints > 0 {
		say("%d rollbacks may be of savepoints, and are not counted as transactions: the log does not tell them apart.", t.Savepoints)
	}
	if p.opt.Grouped {
		say("A binlog has a transaction once it ends: the number of open transactions is derived from their duration, and its distribution is of those that could commit at the same time.")
	}
	if !p.profile.Exact && t.Committed > 0 {
		say("Times are whole seconds.")
	}
	return out
}

// shares names the shares and sorts them, the largest first, without empty ones.
func shares(of []Share, names []string) []Share {
	var out []Share
	for i, s := range of {
		if s.Records == 0 {
			continue
		}
		if i < len(names) {
			s.Name = names[i]
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Share) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}

// PlaceText formats a log position as its engine does: an LSN, or file number:offset.
func PlaceText(engine string, place uint64) string {
	if engine == "postgres" {
		return fmt.Sprintf("%X/%X", place>>32, uint32(place))
	}
	return fmt.Sprintf("%d:%d", place>>32, uint32(place))
}
