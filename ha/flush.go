package ha

import (
	"math"
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// A grouper finds out which commits were flushed together. It follows one or several
// candidates at a time, since what the flushes were is decided at the end of the log, and the
// log is read once.
type grouper interface {
	// commit is told of a commit at a time, with bytes of log up to its end.
	commit(r *tidemark.LogRecord, now, bytes int64)
	// together is how many commits could have been with one.
	together(r *tidemark.LogRecord) int64
	// file is told that another file of the log begins.
	file()
	// gap is told that log is missing.
	gap()
	// counts are the flushes of each candidate so far.
	counts() []int64
	// finish ends the flushes that are under way.
	finish()
	// choose says which of the candidates it was; counted are the syncs that the server has
	// counted while it wrote what gave each candidate these counts.
	choose(syncs int64, counts []int64) mix
}

func newGrouper(opt Options) grouper {
	if opt.Grouped {
		return newGroups(opt)
	}
	return newReplay(opt)
}

// flushes are how large they were, in pages and bytes, and how long after each other.
type flushes struct{ pages, sizes, times counter }

// add counts parts of others'.
func (f *flushes) add(of *flushes, part float64) {
	f.pages.merge(&of.pages, part)
	f.sizes.merge(&of.sizes, part)
	f.times.merge(&of.times, part)
}

// A candidate is what the flushes would be if a write took so long.
type candidate struct {
	write float64 // microseconds
	n     int64
	flushes
	last               int64 // microseconds since 1970: when the last one was; 0: none
	until              int64 // bytes of log that are flushed
	busy               float64
	waiting            bool
	first, members     int64 // of the group that is gathered: its first commit's Sequence or time, how many
	began, ended, upTo int64 // of its commits: the first one's time, the last one's, and the log's bytes then
}

// flush counts one that ends at a time with so many bytes of log.
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

// A bank is candidates, of ever longer writes.
type bank []candidate

// bankOf makes candidates, for writes of so many microseconds.
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

// restart forgets when the last flush was.
func (b bank) restart() {
	for i := range b {
		b[i].last = 0
	}
}

// perDoubling is how many candidates a ladder has for each doubling of the write's time.
const perDoubling = 2

// ladder is writes from 8 microseconds or less to half a second or more, among them one of
// that time: between two of them counts of flushes are taken to lie on a line.
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

// guessedWrite is what a write takes where nobody says, in microseconds, with the waking up of
// who waits for it: 700 to 1000 were found under load on a virtual machine whose disk takes 80.
// guessedRate is in bytes a second.
const (
	guessedWrite = 800.0
	guessedRate  = 200 * MiB
)

// A replay infers flushes from commit times as PostgreSQL makes them: one flusher, that is
// busy for as long as a write takes. Who commits while it is busy is in the next flush, which
// has all that was written until it begins. Besides, the end of a file is a flush, and a
// pause of walWriterDelay with something to write.
type replay struct {
	bank
	rate        float64 // bytes a microsecond
	trace       func(Flush)
	guess       int   // of bank: the one that is traced, and taken where nothing is known
	doubling    int   // how far in bank a write is that takes twice as long
	last, bytes int64 // the last commit's time, and bytes of log then
	started     bool
}

// walWriterDelay is PostgreSQL's default of wal_writer_delay, in microseconds.
const walWriterDelay = 200_000

// walPage is the page of PostgreSQL's log that its writer writes, when nobody commits, only
// whole.
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
			g.bank[i].until = bytes - int64(r.Size) // what was before the first commit has no time
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

// start begins the flush for which somebody waits, if that is before now.
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

// file: PostgreSQL syncs a segment when it is full.
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

// A mix is what lies between two candidates: part of the way from the first to the second, and
// that scaled. Of commits as dense as in a log that is worth it, the counts of neighbours
// differ little.
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

// count is the flushes between two counts of all candidates; nil: from the beginning.
func (m *mix) count(to, from []int64) float64 {
	n := func(of []int64) float64 {
		if of == nil {
			return 0
		}
		return float64(of[m.first])*(1-m.part) + float64(of[m.second])*m.part
	}
	return (n(to) - n(from)) * m.scale
}

// calibrate finds the mix that has so many flushes where each candidate has these counts. If
// none has, the nearest candidate's are scaled.
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
