package ha

import (
	"math/rand/v2"
	"slices"
)

// How many commits are simulated: for figures, and for charts and what-ifs.
const (
	longRun  = 20_000
	shortRun = 3_000
)

// A queueModel simulates a load that commits, in simulated time, through what commits wait for:
//
//	think -> the primary -> [the group's turn] -> each standby's path: link, half a round trip,
//	disk, replay, the other half, hop -> as many acknowledgements as are waited for
//
// The formulas of doc/manual/ha-models.md result if one of these waits dominates; if several do,
// and for percentiles, means do not add up. Therefore events are simulated: who waits in AFTER_SYNC
// depends on who came back when. The same inputs give the same outcome: the seed is fixed.
//
// The primary is one station shared by all clients; with n clients its progress a second is what n
// clients were measured to make: processors, locks and group commit of the local log are in that
// curve. A client that waits for a standby is not at the station, so the local part of a commit is
// that of fewer clients (Lq of the formulas).
type queueModel struct {
	load  Load
	sites Sites
	mode  commitMode
	rng   *rand.Rand
	now   float64

	events eventHeap // pending
	local  station
	paths  []standbyPath
	acks   []float64
	quorum int
	first  bool // the first ones in order, not any

	slower  Sampler // relative to the median, of a write on the primary's disk
	write   float64 // of a group of one, on the primary's disk: removed from the local part if groups are written here
	queue   []commit
	joined  []commit // MySQL: written, waiting for their turn
	lastAck float64  // of joined
	writing bool     // the log is in use
	waiting bool     // MySQL: a group waits for its acknowledgement

	done   []float64 // latencies
	groups int
	in     int // commits in groups
	begun  float64
	skip   int // to warm up

	idle []float64 // when each client's last commit left the primary
}

// A commit in progress: since when, and of which client.
type commit struct {
	since  float64
	client int
}

// Kinds of events.
const (
	begins = iota // a client begins
	ends          // a commit is acknowledged
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

func newQueueModel(load Load, sites Sites, m commitMode) *queueModel {
	p := &queueModel{load: load, sites: sites, mode: m, rng: rand.New(rand.NewPCG(1, 2)), slower: Sampler{1}, quorum: sites.Wait, first: !anyWill(sites, m)}
	grouped := m.rule == groupHeld || m.rule == groupsJoined
	if len(load.Local) == 0 { // otherwise the slow ones are in the curve
		p.slower = sites.Primary.Slowness()
	}
	off := 0.0
	if grouped || m.unsynced {
		p.write = sites.Primary.Write(load.Bytes)
		off = p.write * p.slower.mean()
	}
	p.local = newStation(load, sites, m, off)
	p.idle = make([]float64, load.Clients)
	if m.rule != nobodyWaits {
		for _, s := range sites.Standbys {
			p.paths = append(p.paths, newStandbyPath(s, m, load.Bytes))
		}
		if p.first {
			p.paths = p.paths[:p.quorum]
		}
		p.acks = make([]float64, len(p.paths))
	}
	return p
}

// An outcome is the result of a run of the model.
type outcome struct {
	rate    float64 // commits/s
	latency Latency
	group   float64 // mean commits of a group; 0 without groups
}

// run runs until the given number of commits is done, after a tenth as warm-up.
func (p *queueModel) run(commits int) outcome {
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
	out.latency.P50, out.latency.P99 = QuantileOf(got, 0.5), QuantileOf(got, 0.99)
	if p.groups > 0 {
		out.group = float64(p.in) / float64(p.groups)
	}
	return out
}

// pause returns an exponentially distributed time with this mean: users do not keep step.
func (p *queueModel) pause(mean float64) float64 {
	if mean == 0 {
		return 0
	}
	return p.rng.ExpFloat64() * mean
}

func (p *queueModel) push(e event) { p.events.push(e) }

// step advances to the next event.
func (p *queueModel) step() {
	served := p.local.next(p.now)
	if len(p.events) == 0 || served < p.events[0].at {
		c := p.local.removeDone()
		p.now = served
		p.written(c)
		return
	}
	e := p.events.pop()
	p.local.advance(p.now, e.at)
	p.now = e.at
	switch e.what {
	case begins:
		p.local.add(commit{since: p.now, client: e.who.client}, p.paused(e.who.client), p.rng)
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

// paused returns how long a client has been idle on the primary, in seconds.
func (p *queueModel) paused(client int) float64 {
	if p.load.Rate > 0 { // as many sessions alternate
		return float64(p.load.Clients) / p.load.Rate
	}
	return p.now - p.idle[client]
}

// written continues a commit that is written on the primary.
func (p *queueModel) written(c commit) {
	if p.load.Rate == 0 {
		p.idle[c.client] = p.now
	}
	switch p.mode.rule {
	case nobodyWaits:
		p.end(c)
	case pipelined:
		p.push(event{at: p.ship(1), what: ends, who: c})
	default:
		p.queue = append(p.queue, c)
		p.writeGroup()
	}
}

// writeGroup writes all waiting commits together, if the log is free. MySQL can write the next
// group as soon as this one is written. MariaDB, as a rule, does not write it before this one is
// acknowledged: see doc/decision/015-what-commits-wait-for.md.
func (p *queueModel) writeGroup() {
	if p.writing || len(p.queue) == 0 {
		return
	}
	group := p.queue
	p.queue, p.writing = nil, true
	began := p.now
	p.now += p.sites.Primary.Write(float64(len(group))*p.load.Bytes) * p.slower.Draw(p.rng)
	ack, written := p.ship(len(group)), p.now
	p.now = began
	if p.mode.rule == groupsJoined {
		p.push(event{at: written, what: groupWritten, all: group, ack: ack})
		p.push(event{at: written, what: logFree})
		return
	}
	p.groups, p.in = p.groups+1, p.in+len(group)
	p.push(event{at: ack, what: logFree})
	p.push(event{at: ack, what: groupEnds, all: group})
}

// awaitGroup makes everything that MySQL has written wait together for the last one's
// acknowledgement, if no group waits: LOCK_commit is held meanwhile.
func (p *queueModel) awaitGroup() {
	if p.mode.rule != groupsJoined || p.waiting || len(p.joined) == 0 {
		return
	}
	p.waiting = true
	p.groups, p.in = p.groups+1, p.in+len(p.joined)
	p.push(event{at: max(p.now, p.lastAck), what: groupEnds, all: p.joined})
	p.joined, p.lastAck = nil, 0
}

// end confirms a commit to its client.
func (p *queueModel) end(c commit) {
	p.done = append(p.done, p.now-c.since)
	if len(p.done) == p.skip {
		p.begun = p.now
		p.groups, p.in = 0, 0
	}
	if p.load.Rate == 0 {
		p.push(event{at: p.now + p.pause(p.load.Think), what: begins, who: commit{client: c.client}})
	}
}

// ship returns when so many commits, which are durable on the primary now, are acknowledged by the
// required standbys: the slowest of the first ones, or the last one needed of any.
func (p *queueModel) ship(commits int) float64 {
	bytes := float64(commits) * p.load.Bytes
	for i := range p.paths {
		p.acks[i] = p.paths[i].ack(p.now, bytes, bytes+float64(commits)*wrapping(p.sites.Engine), p.rng)
	}
	slices.Sort(p.acks)
	return p.acks[p.quorum-1]
}

// A standbyPath is the path to one standby and back. Link, disk and replay take commits in order,
// and acknowledgements return in order. A round trip is drawn once for everything sent before it
// ends: pings show how much of the time the line is slow, not how many messages are, and everything
// sent together sees the same line. Drawn per commit, it would split consecutive groups.
type standbyPath struct {
	rtt     Sampler
	perByte float64
	hop     Sampler
	writes  bool
	disk    Disk
	slower  Sampler // of a write, relative to the median
	replay  float64 // seconds a byte
	delay   float64
	single  float64 // the disk's part of a single commit, if the hop includes it

	drawn, drawnUntil                                 float64 // the round trip now
	linkFree, diskFree, nextFree, replayFree, lastAck float64
}

func newStandbyPath(s Standby, m commitMode, bytes float64) standbyPath {
	w := standbyPath{rtt: logNormalOf(s.Network.Quantiles, s.Network.RTT, 1).sampler(), perByte: perByte(s.Network.Rate), hop: logNormalOf(s.Network.Hops, s.Network.Hop, 1).sampler(), disk: s.Disk, slower: s.Disk.Slowness()}
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

// ack returns when data that is durable on the primary at a moment is acknowledged: so many bytes
// of log, which are more on the link.
func (w *standbyPath) ack(at, bytes, onLink float64, rng *rand.Rand) float64 {
	w.linkFree = max(w.linkFree, at) + onLink*w.perByte
	if at >= w.drawnUntil {
		w.drawn = w.rtt.Draw(rng)
		w.drawnUntil = at + w.drawn
	}
	rtt := w.drawn
	there := w.linkFree + rtt/2
	if w.writes {
		there = w.write(there, bytes, w.slower.Draw(rng)) - w.single
	}
	if w.replay > 0 {
		w.replayFree = max(w.replayFree, there) + bytes*w.replay
		there = w.replayFree
	}
	w.lastAck = max(w.lastAck, there+w.delay+rtt/2+w.hop.Draw(rng))
	return w.lastAck
}

// wrapping returns what the protocol adds to a commit, in bytes: PostgreSQL a message with three
// positions (CopyData and XLogData, 5 and 25), MySQL and MariaDB 7 for each of some five events
// (the packet's head, a status, and two for semi-sync).
func wrapping(engine string) float64 {
	if engine == "postgres" {
		return 30
	}
	return 35
}

// write simulates the standby's group commit: what arrives during one write is the next.
func (w *standbyPath) write(at, bytes, slower float64) float64 {
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

// An eventHeap has the earliest event first.
type eventHeap []event

func (h *eventHeap) push(e event) {
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

func (h *eventHeap) pop() event {
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
