package backup

import (
	"fmt"
	"runtime"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/store"
)

// The useful number of workers depends on what they will wait for, so it is not known in advance. A
// pipeline begins with what the processors can do; a governor reads the workers' clocks, adds
// workers to the limiting side, and continues as long as that gains. The user's settings stay, and
// memory limits everything.

// sizes are the tunable numbers.
type sizes struct{ parallelism, sessions, buffers int }

// buffersFor returns how many buffers are useful. More than the workers of both sides and two do
// not help: with those, every worker can work on one while another waits for it.
func buffersFor(parallelism, sessions int) int { return max(2*sessions, sessions+parallelism+2) }

// costs are the bytes of memory that one of each uses.
type costs struct{ buffer, worker, session int64 }

func (s sizes) cost(c costs) int64 {
	return int64(s.buffers)*c.buffer + int64(s.parallelism)*c.worker + int64(s.sessions)*c.session
}

const (
	defaultBuffer = 1 << 20
	leastBuffer   = 256 << 10 // when we choose the size: below it, call overhead dominates
	bufferUnit    = 64 << 10  // whole pages, of whatever size

	// defaultMemory leaves enough of 256 MB for the program, lists of files, and the garbage of
	// several seconds.
	defaultMemory = 96 << 20

	parallelismMost = 32
	sessionsMost    = 16
)

// A tuned pipeline has its initial sizes, and the maximum ones.
type tuned struct {
	begin, most sizes
	buffer      int64 // bytes of one
}

// set returns options with the initial sizes.
func (t tuned) set(o Options) Options {
	o.Parallelism, o.Sessions, o.Buffers, o.BufferSize = t.begin.parallelism, t.begin.sessions, t.begin.buffers, t.buffer
	return o
}

// tuned fills in what was left open. piece is the piece size of the backup to restore; 0: a new
// backup.
func (o Options) tuned(place store.Store, piece int64) (tuned, error) {
	t := tuned{buffer: choose(piece, choose(o.BufferSize, defaultBuffer))}
	if o.BufferSize != 0 && (o.BufferSize < bufferUnit || o.BufferSize > repo.MaxPiece || o.BufferSize%bufferUnit != 0) {
		return t, &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Err: fmt.Errorf("a buffer of %d bytes is not possible", o.BufferSize), Hint: fmt.Sprintf("Choose 64kB to %dMB, in steps of 64kB.", repo.MaxPiece>>20)}
	}
	procs := max(runtime.GOMAXPROCS(0), 2)
	t.begin.parallelism = choose(o.Parallelism, min(procs, parallelismMost))
	t.begin.sessions = choose(o.Sessions, max(t.begin.parallelism/2, 2, places(place)))
	t.begin.buffers = choose(o.Buffers, buffersFor(t.begin.parallelism, t.begin.sessions))
	if err := t.fit(o, place, piece > 0); err != nil {
		return t, err
	}
	t.grow(o, place, piece > 0)
	return t, nil
}

// places returns how many places can be written to, or read from, at the same time.
func places(s store.Store) int {
	if t := store.StripeOf(s); t != nil {
		return len(t.Places())
	}
	return 1
}

// fit reduces sizes until memory suffices.
func (t *tuned) fit(o Options, place store.Store, restore bool) error {
	memory := choose(o.Memory, defaultMemory)
	for s := &t.begin; s.cost(o.costs(place, t.buffer, restore)) > memory; {
		switch {
		case !restore && o.BufferSize == 0 && t.buffer > leastBuffer && int64(s.buffers+s.parallelism)*t.buffer > memory/2: // the rest is tables of the compressing workers
			t.buffer /= 2
		case o.Sessions == 0 && s.sessions > 1:
			s.sessions--
		case o.Parallelism == 0 && s.parallelism > 1:
			s.parallelism--
		case o.Memory == 0 || restore:
			return nil // the user wants it so, or the pieces are that large
		default:
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Err: fmt.Errorf("the requested buffers and workers need %d MB of memory", s.cost(o.costs(place, t.buffer, restore))>>20), Hint: "Raise --memory, or lower --buffers, --buffer-size, --parallelism or --sessions."}
		}
		s.buffers = choose(o.Buffers, buffersFor(s.parallelism, s.sessions))
	}
	return nil
}

// grow sets the maximum sizes.
func (t *tuned) grow(o Options, place store.Store, restore bool) {
	t.most = t.begin
	for grown := true; grown; {
		grown = false
		for _, more := range []sizes{{parallelism: 1}, {sessions: 1}} {
			next := t.most
			if o.Parallelism == 0 && next.parallelism < parallelismMost {
				next.parallelism += more.parallelism
			}
			if o.Sessions == 0 && next.sessions < sessionsMost {
				next.sessions += more.sessions
			}
			if o.Buffers == 0 {
				next.buffers = max(next.buffers, buffersFor(next.parallelism, next.sessions))
			}
			if next != t.most && next.cost(o.costs(place, t.buffer, restore)) <= choose(o.Memory, defaultMemory) {
				t.most, grown = next, true
			}
		}
	}
}

func choose[N int | int64](given, otherwise N) N {
	if given > 0 {
		return given
	}
	return otherwise
}

// costs returns those of a backup, or of a restore (of existing pieces).
func (o Options) costs(place store.Store, buffer int64, restore bool) costs {
	c := costs{buffer: buffer + buffer/100 + 1024, worker: buffer + o.Codec.Memory(), session: store.WriterMemory(place)}
	if restore {
		c.worker, c.session = buffer+(2<<20), 1<<20
	}
	return c
}

// A look is one measurement: bytes that passed the workers at the server's files, and the times of
// both sides.
type look struct {
	took          time.Duration
	bytes         int64
	server, place flow.Times
	restore       bool
}

// A governor decides how sizes grow. Looks are its only input.
type governor struct {
	now, most sizes
	procs     int
	before    float64 // bytes per second, before the current attempt
	tried     side
	settling  bool       // the next look still includes time from before
	spent     [sides]int // looks until it is tried again
}

// A side of the pipeline.
type side uint8

const (
	nothing side = iota
	atServer
	atPlace
	sides
)

const (
	// A look takes at least lookEvery and until lookBuffers have passed for each worker, but at
	// most lookMost.
	lookEvery   = 250 * time.Millisecond
	lookBuffers = 3
	lookMost    = 5 * time.Second
	// gain is the minimum gain of more workers: less is noise, and wasted memory.
	gain = 1.03
	// again is after how many looks an attempt that gained nothing is repeated: other files may
	// behave differently.
	again = 60
)

// nextSizes returns the sizes to use from now on.
func (g *governor) nextSizes(l look) sizes {
	if g.settling {
		g.settling = false
		return g.now
	}
	for s := range g.spent {
		g.spent[s] = max(g.spent[s]-1, 0)
	}
	rate := float64(l.bytes) / l.took.Seconds()
	switch {
	case g.tried == nothing:
	case rate < g.before*gain:
		g.spent[g.tried] = again
	default: // the other side may have gained nothing because this one was too small
		g.spent[atServer+atPlace-g.tried] = 0
	}
	g.before, g.tried = rate, nothing
	more := g.now
	switch s := g.limits(l); s {
	case atServer:
		more.parallelism = min(more.parallelism+max(more.parallelism/2, 1), g.most.parallelism)
		g.tried = s
	case atPlace:
		more.sessions = min(more.sessions+max(more.sessions/2, 1), g.most.sessions)
		g.tried = s
	}
	more.buffers = min(max(more.buffers, buffersFor(more.parallelism, more.sessions)), g.most.buffers)
	if more == g.now {
		g.tried = nothing
	}
	g.now, g.settling = more, more != g.now
	return g.now
}

// limits returns the side that the other one waits for, if more workers could help it.
func (g *governor) limits(l look) side {
	part := func(a, of time.Duration) float64 { return float64(a) / float64(max(of, 1)) }
	queue, placeQueue := l.server.WaitBuffer, l.place.WaitWork
	if l.restore {
		queue, placeQueue = l.server.WaitWork, l.place.WaitBuffer
	}
	io, cpu := part(l.server.IO, l.server.Total), part(l.server.Working, l.server.Total)
	waits, placeWaits := part(queue, l.server.Total), part(placeQueue, l.place.Total)
	switch {
	case waits >= placeWaits && part(l.place.Busy(), l.place.Total) > 0.3 && g.spent[atPlace] == 0:
		return atPlace
	case placeWaits > waits && (io > 0.1 || cpu > 0.3 && g.now.parallelism < g.procs) && g.spent[atServer] == 0:
		return atServer
	}
	return nothing
}

// sides sums up the workers' times, those at the server's files first.
func (w *crew) sides() (out [2]flow.Times) {
	names := [2]string{readerRole, writerRole}
	if w.restore {
		names = [2]string{writerRole, readerRole}
	}
	for _, r := range w.group.Report().Roles {
		for i, name := range names {
			if r.Name == name {
				out[i] = r.Sum()
			}
		}
	}
	return out
}

func less(a, b flow.Times) flow.Times {
	return flow.Times{Total: a.Total - b.Total, IO: a.IO - b.IO, Working: a.Working - b.Working, WaitBuffer: a.WaitBuffer - b.WaitBuffer, WaitWork: a.WaitWork - b.WaitWork}
}
