package ha

import (
	"math"
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// A grouper determines which commits were flushed together. It follows one or several candidates at
// a time, since the choice is made at the end of the log, and the log is read once.
type grouper interface {
	// commit receives one commit, with the bytes of log up to its end.
	commit(r *tidemark.LogRecord, now, bytes int64)
	// together returns how many commits could have been flushed with one.
	together(r *tidemark.LogRecord) int64
	// file is called when another file of the log begins.
	file()
	// gap is called when log is missing.
	gap()
	// counts returns the flushes of each candidate so far.
	counts() []int64
	// finish ends the flushes in progress.
	finish()
	// choose selects among the candidates; syncs is the server's own count over the part of the log
	// in which the candidates have these counts.
	choose(syncs int64, counts []int64) mix
}

func newGrouper(opt Options) grouper {
	if opt.Grouped {
		return newGroups(opt)
	}
	return newReplay(opt)
}

// flushes has their sizes, in pages and bytes, and the times between them.
type flushes struct{ pages, sizes, times counter }

// add adds a fraction of another's counts.
func (f *flushes) add(of *flushes, part float64) {
	f.pages.merge(&of.pages, part)
	f.sizes.merge(&of.sizes, part)
	f.times.merge(&of.times, part)
}

// A candidate holds the flushes that would result if a write took the given time.
type candidate struct {
	write float64 // microseconds
	n     int64
	flushes
	last               int64 // microseconds since 1970, of the last flush; 0: none
	until              int64 // bytes of log flushed so far
	busy               float64
	waiting            bool
	first, members     int64 // of the group being gathered: its first commit's Sequence or time, and its number of commits
	began, ended, upTo int64 // of its commits: the first one's time, the last one's, and the log's bytes then
}

// flush counts a flush that ends at a time with so many bytes of log.
func (c *candidate) flush(at, bytes int64, trace func(Flush)) {
	size := bytes - c.until
	c.n++
	c.until = bytes
	c.sizes.add(size)
	c.pages.add((size + Page - 1) / Page)
	if c.last != 0 {
		c.times.add(at - c.last)
	}
	if trace != nil {
		trace(Flush{Number: c.n, Bytes: size, Begin: moment(c.last), End: moment(at)})
	}
	c.last = at
}

// A bank holds candidates with ever longer writes.
type bank []candidate

// bankOf returns candidates for writes of so many microseconds.
func bankOf(writes ...float64) bank {
	bank := make(bank, len(writes))
	for i, w := range writes {
		bank[i].write, bank[i].times.decimals = w, 6
	}
	return bank
}

func (b bank) counts() []int64 {
	out := make([]int64, len(b))
	for i := range b {
		out[i] = b[i].n
	}
	return out
}

// restart forgets the time of the last flush.
func (b bank) restart() {
	for i := range b {
		b[i].last = 0
	}
}

// perDoubling is how many candidates a ladder has for each doubling of the write's time.
const perDoubling = 2

// ladder returns write times from 8 microseconds or less to half a second or more, including the
// given one: between two of them, flush counts are interpolated linearly.
func ladder(with float64) []float64 {
	var out []float64
	step := math.Pow(2, 1.0/perDoubling)
	for w := with / step; w > 8/step; w /= step {
		out = append(out, w)
	}
	slices.Reverse(out)
	out = append(out, with)
	for w := with * step; w < 0.5e6*step; w *= step {
		out = append(out, w)
	}
	return out
}

// guessedWrite is the assumed time of a write in microseconds, including waking up the waiter:
// under load, 700 to 1000 were measured on a virtual machine whose disk takes 80. guessedRate is in
// bytes a second.
const (
	guessedWrite = 800.0
	guessedRate  = 200 * MiB
)

// A replay infers flushes from commit times as PostgreSQL makes them: one flusher, which is busy
// for the time of a write. Commits that arrive while it is busy are in the next flush, which has
// everything written until it begins. In addition, the end of a file causes a flush, and so does a
// pause of walWriterDelay with something to write.
type replay struct {
	bank
	rate        float64 // bytes a microsecond
	trace       func(Flush)
	guess       int   // of bank: the one that is traced, and used if nothing is known
	doubling    int   // distance in bank to a write that takes twice as long
	last, bytes int64 // time of the last commit, and bytes of log then
	started     bool
}

// walWriterDelay is PostgreSQL's default of wal_writer_delay, in microseconds.
const walWriterDelay = 200_000

// walPage is the page size of PostgreSQL's log; without commits its writer writes only whole pages.
const walPage = 8192

func newReplay(opt Options) *replay {
	g := &replay{rate: guessedRate / 1e6, trace: opt.Trace.Flush}
	if opt.Disk.Rate > 0 {
		g.rate = opt.Disk.Rate / 1e6
	}
	guess := guessedWrite
	if opt.Disk.Overhead > 0 {
		guess = opt.Disk.Overhead * 1e6
	}
	if opt.Syncs > 0 || opt.Counted {
		g.bank, g.doubling = bankOf(ladder(guess)...), perDoubling
		g.guess = slices.IndexFunc(g.bank, func(c candidate) bool { return c.write == guess })
	} else {
		g.bank, g.guess, g.doubling = bankOf(guess/2, guess, 2*guess), 1, 1
	}
	return g
}

func (g *replay) commit(r *tidemark.LogRecord, now, bytes int64) {
	idle := int64(0)
	if g.started {
		idle = min((now-g.last)/walWriterDelay, (bytes-g.bytes)/walPage)
	} else {
		for i := range g.bank {
			g.bank[i].until = bytes - int64(r.Size) // there are no times before the first commit
		}
		g.started = true
	}
	for i := range g.bank {
		c := &g.bank[i]
		var trace func(Flush)
		if i == g.guess {
			trace = g.trace
		}
		g.start(c, float64(now), trace)
		for k := int64(1); k < idle; k++ {
			c.flush(g.last+k*walWriterDelay, g.bytes+(bytes-g.bytes)*k/idle, trace)
		}
		switch {
		case c.waiting: // joins
		case float64(now) >= c.busy:
			c.busy = float64(now) + g.took(c, bytes-c.until)
			c.flush(now, bytes, trace)
		default:
			c.waiting = true
		}
	}
	g.last, g.bytes = now, bytes
}

// start begins the flush that a commit waits for, if that is before now.
func (g *replay) start(c *candidate, now float64, trace func(Flush)) {
	if !c.waiting || now < c.busy {
		return
	}
	at := c.busy
	c.busy += g.took(c, g.bytes-c.until)
	c.flush(int64(at), g.bytes, trace)
	c.waiting = false
}

func (g *replay) took(c *candidate, bytes int64) float64 { return c.write + float64(bytes)/g.rate }

func (g *replay) together(*tidemark.LogRecord) int64 { return 1 }

// file counts a flush: PostgreSQL syncs a segment when it is full.
func (g *replay) file() {
	for i := range g.bank {
		g.bank[i].n++
	}
}

func (g *replay) gap() {
	g.finish()
	g.restart()
	g.started = false
}

func (g *replay) finish() {
	for i := range g.bank {
		g.start(&g.bank[i], math.Inf(1), nil)
	}
}

func (g *replay) choose(syncs int64, counts []int64) mix {
	if syncs > 0 {
		return calibrate(g.bank, syncs, counts)
	}
	m := mixOf(g.bank, g.guess, 0, 1)
	n := len(g.bank)
	m.result = Flushes{Count: float64(g.bank[g.guess].n), Basis: EstimatedFlushes, Write: g.bank[g.guess].write / 1e6,
		High: float64(g.bank[max(0, g.guess-g.doubling)].n), Low: float64(g.bank[min(n-1, g.guess+g.doubling)].n)}
	return m
}

// A mix interpolates between two candidates, and scales the result. It pays off only with dense
// commits, for which the counts of neighbours differ little.
type mix struct {
	first, second int
	part, scale   float64
	flushes
	result Flushes
}

func mixOf(bank bank, i int, part, scale float64) mix {
	m := mix{first: i, second: min(i+1, len(bank)-1), part: part, scale: scale}
	m.times.decimals = bank[i].times.decimals
	a, b := &bank[m.first], &bank[m.second]
	m.result.Count = (float64(a.n)*(1-part) + float64(b.n)*part) * scale
	m.add(&a.flushes, (1-part)*scale)
	m.add(&b.flushes, part*scale)
	return m
}

// count returns the flushes between two counts of all candidates; from nil: since the beginning.
func (m *mix) count(to, from []int64) float64 {
	n := func(of []int64) float64 {
		if of == nil {
			return 0
		}
		return float64(of[m.first])*(1-m.part) + float64(of[m.second])*m.part
	}
	return (n(to) - n(from)) * m.scale
}

// calibrate finds the mix that has so many flushes, given each candidate's count. If there is none,
// it scales the nearest candidate's.
func calibrate(bank bank, syncs int64, counts []int64) mix {
	want := float64(syncs)
	i := 0
	for i < len(bank)-2 && float64(counts[i+1]) > want {
		i++
	}
	a, b := float64(counts[i]), float64(counts[i+1])
	part := 0.0
	if a > b {
		part = min(max(0, (a-want)/(a-b)), 1)
	}
	scale := 1.0
	if have := a*(1-part) + b*part; have > 0 {
		scale = want / have
	}
	m := mixOf(bank, i, part, scale)
	m.result.Basis = CalibratedFlushes
	m.result.Write = bank[i].write / 1e6
	if next := bank[i+1].write; !math.IsInf(next, 0) {
		m.result.Write += part * (next - bank[i].write) / 1e6
	}
	return m
}
