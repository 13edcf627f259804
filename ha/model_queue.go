package ha

import (
	"math"
	"math/rand/v2"
	"slices"
)

// How many commits a play has: for figures, and for charts and what-ifs.
const (
	longPlay  = 20_000
	shortPlay = 3_000
)

// A play lets a load commit, in a time of its own, through what commits wait for:
//
//	think -> the primary -> [the group's turn] -> each standby's way: link, half a round trip,
//	disk, replay, the other half, hop -> as many acknowledgements as are waited for
//
// The formulas of doc/manual/ha-models.md are what comes out where one of these waits
// rules; where several do, and for percentiles, means do not add up, and so the queue is played.
// Played rather than sampled, because who waits in AFTER_SYNC depends on who came
// back when. The same inputs give the same outcome: the seed is fixed.
//
// The primary is one station that all clients share, with as much progress a second, for n
// of them, as n clients were measured to make: processors, locks and group commit of the
// local log are in that curve. A client that waits for a standby is not there, so that the
// local part of a commit is that of fewer clients (Lq of the formulas).
type play struct {
	load  Load
	sites Sites
	mode  commitMode
	rng   *rand.Rand
	now   float64

	events agenda // of what follows
	local  station
	ways   []way
	acks   []float64
	quorum int
	first  bool // of the first so many, not of any

	slower  die     // than the median, a write of the primary's disk
	write   float64 // of a group of one, on the primary's disk: taken out of the local part where groups are written here
	queue   []commit
	joined  []commit // MySQL: written, waiting for their turn
	lastAck float64  // of joined
	writing bool     // somebody has the log
	turn    float64  // MariaDB: when the group before has got its acknowledgement
	waiting bool     // MySQL: a group waits for its acknowledgement

	done   []float64 // latencies
	groups int
	in     int // commits in groups
	begun  float64
	skip   int // to warm up
}

// A commit is one that is under way, since when, and of whom.
type commit struct {
	since  float64
	client int
}

// What happens at a moment.
const (
	begins = iota // a client begins
	ends          // a commit has got what it waited for
	logFree
	groupWritten
	groupEnds
)

type event struct {
	at   float64
	what int
	who  commit
	all  []commit
	ack  float64
}

func newPlay(load Load, sites Sites, m commitMode) *play {
	p := &play{load: load, sites: sites, mode: m, rng: rand.New(rand.NewPCG(1, 2)), slower: die{1}, quorum: sites.Wait, first: !anyWill(sites, m)}
	grouped := m.rule == groupHeld || m.rule == groupsJoined
	off := 0.0
	if grouped || m.unsynced {
		p.write = sites.Primary.Write(load.Bytes)
		off = p.write
	}
	if len(load.Local) == 0 { // else the slow ones are in the curve
		p.slower = diskDie(sites.Primary)
	}
	p.local = newStation(load, sites.Primary, off)
	if m.rule != nobodyWaits {
		for _, s := range sites.Standbys {
			p.ways = append(p.ways, newWay(s, m, load.Bytes))
		}
		if p.first {
			p.ways = p.ways[:p.quorum]
		}
		p.acks = make([]float64, len(p.ways))
	}
	return p
}

// An outcome is what a play comes to.
type outcome struct {
	rate    float64 // commits/s
	latency Latency
	group   float64 // mean commits of a group; 0 without groups
}

// run plays until so many commits are done, after a tenth to warm up.
func (p *play) run(commits int) outcome {
	commits = max(commits, 20*min(p.load.Clients, 2000))
	p.skip = commits/10 + 2*p.load.Clients
	p.done = make([]float64, 0, commits+p.skip)
	if p.load.Rate > 0 {
		p.push(event{at: p.pause(1 / p.load.Rate), what: begins})
	} else {
		for i := range p.load.Clients {
			p.push(event{at: p.pause(p.load.Think), what: begins, who: commit{client: i}})
		}
	}
	for len(p.done) < commits+p.skip {
		p.step()
	}
	got := p.done[p.skip:]
	out := outcome{rate: float64(len(got)) / (p.now - p.begun)}
	for _, l := range got {
		out.latency.Mean += l / float64(len(got))
	}
	slices.Sort(got)
	out.latency.P50, out.latency.P99 = rank(got, 0.5), rank(got, 0.99)
	if p.groups > 0 {
		out.group = float64(p.in) / float64(p.groups)
	}
	return out
}

// pause is a time that is exponential with this mean: users do not keep step.
func (p *play) pause(mean float64) float64 {
	if mean == 0 {
		return 0
	}
	return p.rng.ExpFloat64() * mean
}

func (p *play) push(e event) { p.events.push(e) }

// step goes on to whatever happens next.
func (p *play) step() {
	served := p.local.next(p.now)
	if len(p.events) == 0 || served < p.events[0].at {
		c := p.local.take(served)
		p.now = served
		p.written(c)
		return
	}
	e := p.events.pop()
	p.local.advance(p.now, e.at)
	p.now = e.at
	switch e.what {
	case begins:
		p.local.add(commit{since: p.now, client: e.who.client}, p.rng)
		if p.load.Rate > 0 {
			p.push(event{at: p.now + p.pause(1/p.load.Rate), what: begins})
		}
	case ends:
		p.end(e.who)
	case logFree:
		p.writing = false
		p.writeGroup()
	case groupWritten:
		p.joined, p.lastAck = append(p.joined, e.all...), max(p.lastAck, e.ack)
		p.awaitGroup()
	case groupEnds:
		for _, c := range e.all {
			p.end(c)
		}
		p.waiting = false
		p.awaitGroup()
	}
}

// written is where a commit goes on that is done on the primary.
func (p *play) written(c commit) {
	switch p.mode.rule {
	case nobodyWaits:
		p.end(c)
	case pipelined:
		p.push(event{at: p.ship(p.load.Bytes), what: ends, who: c})
	default:
		p.queue = append(p.queue, c)
		p.writeGroup()
	}
}

// writeGroup has all that wait written together, if the log is free. On MariaDB their leader
// keeps the log until the group before has its acknowledgement: LOCK_after_binlog_sync is
// taken before LOCK_log is let go, so that one group waits, one is written and sent, and who comes then is
// in a third. On MySQL the log is free as soon as it is written.
func (p *play) writeGroup() {
	if p.writing || len(p.queue) == 0 {
		return
	}
	group := p.queue
	p.queue, p.writing = nil, true
	bytes := float64(len(group)) * p.load.Bytes
	began := p.now
	p.now += p.sites.Primary.Write(bytes) * p.slower.throw(p.rng)
	ack, written := p.ship(bytes), p.now
	p.now = began
	if p.mode.rule == groupsJoined {
		p.push(event{at: written, what: groupWritten, all: group, ack: ack})
		p.push(event{at: written, what: logFree})
		return
	}
	p.groups, p.in = p.groups+1, p.in+len(group)
	free := max(written, p.turn)
	p.turn = max(free, ack)
	p.push(event{at: free, what: logFree})
	p.push(event{at: p.turn, what: groupEnds, all: group})
}

// awaitGroup has all that MySQL has written wait together for the last one's
// acknowledgement, if nobody waits: LOCK_commit is held meanwhile.
func (p *play) awaitGroup() {
	if p.mode.rule != groupsJoined || p.waiting || len(p.joined) == 0 {
		return
	}
	p.waiting = true
	p.groups, p.in = p.groups+1, p.in+len(p.joined)
	p.push(event{at: max(p.now, p.lastAck), what: groupEnds, all: p.joined})
	p.joined, p.lastAck = nil, 0
}

// end is a commit that its client is told of.
func (p *play) end(c commit) {
	p.done = append(p.done, p.now-c.since)
	if len(p.done) == p.skip {
		p.begun = p.now
		p.groups, p.in = 0, 0
	}
	if p.load.Rate == 0 {
		p.push(event{at: p.now + p.pause(p.load.Think), what: begins, who: commit{client: c.client}})
	}
}

// ship gives when so many bytes, which are durable on the primary now, are acknowledged by
// as many standbys as are waited for: the slowest of the first, or the last that is needed of any.
func (p *play) ship(bytes float64) float64 {
	for i := range p.ways {
		p.acks[i] = p.ways[i].ack(p.now, bytes, p.rng)
	}
	slices.Sort(p.acks)
	return p.acks[p.quorum-1]
}

// A way is to one standby and back. Link, disk and replay take commits in their order. Round trips are
// drawn for each commit by itself: were a later acknowledgement held back by an earlier slow one, as on a
// line it is, what was measured as one ping in a hundred would befall all the commits that
// are under way beside it, though that is already in the measured share.
type way struct {
	rtt     die
	perByte float64
	hop     die
	writes  bool
	disk    Disk
	slower  die     // than the median, a write
	replay  float64 // seconds a byte
	delay   float64
	single  float64 // the disk's part of a commit alone, where the hop has it already

	linkFree, diskFree, nextFree, replayFree float64
}

func newWay(s Standby, m commitMode, bytes float64) way {
	w := way{rtt: lawOf(s.Network.Quantiles, s.Network.RTT, 1).die(), perByte: perByte(s.Network.Rate), hop: lawOf(s.Network.Hops, s.Network.Hop, 1).die(), disk: s.Disk, slower: diskDie(s.Disk)}
	w.writes = m.writes || m.relay && s.SyncRelay
	if m.applies {
		w.replay, w.delay = perByte(s.Replay), s.ReplayDelay
	}
	if s.HopWrites {
		w.delay = 0
		if w.writes {
			w.single = min(s.Disk.Write(bytes), s.Network.Hop)
		}
	}
	return w
}

func (w *way) ack(at, bytes float64, rng *rand.Rand) float64 {
	w.linkFree = max(w.linkFree, at) + bytes*w.perByte
	rtt := w.rtt.throw(rng)
	there := w.linkFree + rtt/2
	if w.writes {
		there = w.write(there, bytes, w.slower.throw(rng)) - w.single
	}
	if w.replay > 0 {
		w.replayFree = max(w.replayFree, there) + bytes*w.replay
		there = w.replayFree
	}
	return there + w.delay + rtt/2 + w.hop.throw(rng)
}

// diskDie throws how much slower than the median one a write is.
func diskDie(d Disk) die {
	if len(d.Quantiles) == 0 {
		return die{1}
	}
	law := lawOf(d.Quantiles, 0, 1)
	return lawOf(d.Quantiles, 0, 1/law.at(0.5)).die()
}

// write is the standby's group commit: what comes during one write is the next.
func (w *way) write(at, bytes, slower float64) float64 {
	if at >= w.diskFree && w.nextFree > w.diskFree {
		w.diskFree = w.nextFree
	}
	switch {
	case at >= w.diskFree:
		w.diskFree = at + w.disk.Write(bytes)*slower
		w.nextFree = w.diskFree
		return w.diskFree
	case w.nextFree == w.diskFree:
		w.nextFree = w.diskFree + w.disk.Write(bytes)*slower
	default:
		w.nextFree += bytes * perByte(w.disk.Rate)
	}
	return w.nextFree
}

// A station is the primary: so many that are there make, together, as much progress a second
// as so many clients were measured to commit.
type station struct {
	rate   []float64 // by their number; the last is for more
	shapes []shape

	progress float64 // of each that has been there since the beginning
	there    jobs
}

// A shape is how the work of commits is spread around its mean, as measured with so many clients.
type shape struct {
	clients int
	work    die
}

// newStation makes it from the measured curve, or else from the disk: Lq = W(b) (1 + u/2),
// with b what comes during a write. off is taken out of each commit: what it does elsewhere.
func newStation(load Load, disk Disk, off float64) station {
	curve := load.Local
	if len(curve) == 0 {
		curve = diskCurve(load, disk)
	}
	latency := func(l Local) float64 {
		measured := float64(l.Clients) / l.Rate
		return max(measured-off, measured/10)
	}
	s := station{rate: []float64{0}}
	last := curve[len(curve)-1].Clients
	for n := 1; n <= last; n++ {
		i, found := slices.BinarySearchFunc(curve, n, func(l Local, n int) int { return l.Clients - n })
		var rate float64
		switch at := func(i int) float64 { return float64(curve[i].Clients) / latency(curve[i]) }; {
		case found:
			rate = at(i)
		case i == 0:
			rate = at(0) * float64(n) / float64(curve[0].Clients)
		default: // the rate bends less than the latency does
			part := float64(n-curve[i-1].Clients) / float64(curve[i].Clients-curve[i-1].Clients)
			rate = at(i-1) + (at(i)-at(i-1))*part
		}
		s.rate = append(s.rate, rate)
	}
	for _, l := range curve {
		work := die{1}
		if len(l.Quantiles) > 0 {
			work = lawOf(l.Quantiles, 0, 1).die()
			for i, mean := 0, work.mean(); i < len(work); i++ {
				work[i] /= mean
			}
		}
		s.shapes = append(s.shapes, shape{l.Clients, work})
	}
	return s
}

// diskCurve is what so many clients would commit if the primary's disk were all there is.
func diskCurve(load Load, disk Disk) (curve []Local) {
	var shape []Quantile
	if len(disk.Quantiles) > 0 {
		shape = disk.Quantiles
	}
	for n := 1; ; n = min(n*2, load.Clients) {
		x := 1 / disk.Write(load.Bytes)
		for range 1000 {
			w := disk.Write(load.Bytes)
			if n > 1 {
				w = disk.Write(load.Bytes * min(max(1, x*w), float64(n)))
			}
			u := 1.0
			if n == 1 {
				u = 0 // nobody else's write is in the way
			}
			next := float64(n) / (w * (1 + u/2))
			if settled := math.Abs(next-x) < 0.001*x; settled {
				break
			}
			x = (x + next) / 2
		}
		curve = append(curve, Local{Clients: n, Rate: x, Quantiles: shape})
		if n == load.Clients {
			return curve
		}
	}
}

func (s *station) speed() float64 {
	n := len(s.there)
	if n == 0 {
		return 0
	}
	return s.rate[min(n, len(s.rate)-1)] / float64(n)
}

func (s *station) advance(from, to float64) { s.progress += (to - from) * s.speed() }

// next is when the first of them will be done.
func (s *station) next(now float64) float64 {
	if len(s.there) == 0 {
		return math.Inf(1)
	}
	return now + max(0, s.there[0].at-s.progress)/s.speed()
}

// take removes the one that is done then.
func (s *station) take(float64) commit {
	s.progress = max(s.progress, s.there[0].at)
	return s.there.pop().who
}

func (s *station) add(c commit, rng *rand.Rand) {
	n := len(s.there) + 1
	i, _ := slices.BinarySearchFunc(s.shapes, n, func(s shape, n int) int { return s.clients - n })
	i = min(i, len(s.shapes)-1)
	if i > 0 && n-s.shapes[i-1].clients < s.shapes[i].clients-n {
		i--
	}
	s.there.push(event{at: s.progress + s.shapes[i].work.throw(rng), who: c})
	if s.progress > 1e6 { // keep its digits
		for i := range s.there {
			s.there[i].at -= s.progress
		}
		s.progress = 0
	}
}

// A agenda has the earliest event first.
type agenda []event

type jobs = agenda

func (h *agenda) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].at <= s[i].at {
			break
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *agenda) pop() event {
	s := *h
	top := s[0]
	n := len(s) - 1
	s[0], s[n] = s[n], event{}
	s = s[:n]
	for i := 0; ; {
		least := i
		for _, c := range []int{2*i + 1, 2*i + 2} {
			if c < n && s[c].at < s[least].at {
				least = c
			}
		}
		if least == i {
			break
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
	*h = s
	return top
}
