package ha

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A station is the primary: so many commits there together make as much progress a second as that
// many clients were measured to commit. In a mode that waits for a standby it is slower, as
// measured with a standby nearby: sending, being woken and whatever else the mode costs the primary
// (and its processors, if the standby shares them) is work.
type station struct {
	rate   []float64 // by the number of commits; the last also for more
	shapes []shape
	more   float64  // work of a commit in this mode, relative to a local one
	cold   polyline // and relative to that, by how long its client has paused

	progress float64 // of each commit that was there since the beginning
	inWork   eventHeap
}

// A shape is the spread of the work of commits around its mean, as measured with so many clients.
type shape struct {
	clients int
	work    Sampler
}

// A polyline is linear between points, and constant outside.
type polyline []struct{ x, y float64 }

func (c polyline) at(x float64) float64 {
	if len(c) == 0 {
		return 1
	}
	i := slices.IndexFunc(c, func(p struct{ x, y float64 }) bool { return p.x >= x })
	switch {
	case i < 0:
		return c[len(c)-1].y
	case i == 0:
		return c[0].y
	}
	a, b := c[i-1], c[i]
	return a.y + (b.y-a.y)*(x-a.x)/(b.x-a.x)
}

func (c *polyline) add(x, y float64) { *c = append(*c, struct{ x, y float64 }{x, y}) }

func (c polyline) sort() {
	slices.SortFunc(c, func(a, b struct{ x, y float64 }) int { return cmp.Compare(a.x, b.x) })
}

// newStation returns a station from the measured curve, or else from the disk: Lq = W(b) (1 + u/2),
// where b is what arrives during a write. off is subtracted from each commit: its work elsewhere.
func newStation(load Load, sites Sites, m commitMode, off float64) station {
	local := load.Local
	if len(local) == 0 {
		local = diskCurve(load, sites.Primary)
	}
	rates := polyline{{0, 0}}
	for _, l := range local { // the rate is more nearly linear than the latency
		measured := float64(l.Clients) / l.Rate
		rates.add(float64(l.Clients), float64(l.Clients)/max(measured-off, measured/10))
	}
	s := station{rate: []float64{0}, cold: coldCurve(load, local[0]), more: sites.work[m.name].at(float64(load.Clients))}
	for n := 1; n <= local[len(local)-1].Clients; n++ {
		s.rate = append(s.rate, rates.at(float64(n)))
	}
	for _, l := range local {
		work := Sampler{1}
		if len(l.Quantiles) > 0 {
			work = logNormalOf(l.Quantiles, 0, 1).sampler()
			for i, mean := 0, work.mean(); i < len(work); i++ {
				work[i] /= mean
			}
		}
		s.shapes = append(s.shapes, shape{l.Clients, work})
	}
	return s
}

// coldCurve returns how many times as long a commit takes after a pause as without one.
func coldCurve(load Load, fewest Local) (c polyline) {
	if len(load.Pauses) == 0 {
		return nil
	}
	hot := float64(fewest.Clients) / fewest.Rate
	if len(fewest.Quantiles) > 0 {
		hot = logNormalOf(fewest.Quantiles, 0, 1).at(0.5)
	}
	c.add(0, 1)
	for _, p := range load.Pauses {
		c.add(p.Seconds, max(1, p.Commit/hot))
	}
	c.sort()
	return c
}

// works returns, for each mode measured nearby and by the number of clients, the work of a commit
// relative to a local one: the value with which the model reproduces what was measured, with the
// standby as near.
func works(load Load, sites Sites) map[string]polyline {
	out := map[string]polyline{}
	near := sites.Near
	sites.Near, sites.work = nil, nil
	load.Think, load.Rate = 0, 0
	for _, n := range near {
		m, ok := modeOf(sites.Engine, n.Mode)
		if !ok || m.rule == nobodyWaits || len(sites.Standbys) == 0 {
			continue
		}
		there := sites
		there.Standbys = slices.Clone(sites.Standbys[:1])
		there.Wait, there.Any = 1, false
		there.Standbys[0].Network = there.Standbys[0].Network.WithRTT(n.RTT)
		load.Clients = n.Clients
		lo, hi := 1.0, 8.0 // it is never less than 1
		for range 12 {
			mid := math.Sqrt(lo * hi)
			there.work = map[string]polyline{m.name: {{0, mid}}}
			if newQueueModel(load, there, m).run(shortRun).rate > n.Rate {
				lo = mid
			} else {
				hi = mid
			}
		}
		c := out[m.name]
		c.add(float64(n.Clients), lo)
		out[m.name] = c
	}
	for _, c := range out {
		c.sort()
	}
	return out
}

// diskCurve returns what so many clients would commit if the primary's disk were the only limit.
// Rates follow from the mean time of a write: a disk's line is through medians.
func diskCurve(load Load, disk Disk) (curve []Local) {
	slow := disk.Slowness().mean()
	write := func(bytes float64) float64 { return disk.Write(bytes) * slow }
	for n := 1; ; n = min(n*2, load.Clients) {
		x := 1 / write(load.Bytes)
		for range 1000 {
			w := write(load.Bytes)
			if n > 1 {
				w = write(load.Bytes * min(max(1, x*w), float64(n)))
			}
			u := 1.0
			if n == 1 {
				u = 0 // no other write is in the way
			}
			next := float64(n) / (w * (1 + u/2))
			if settled := math.Abs(next-x) < 0.001*x; settled {
				break
			}
			x = (x + next) / 2
		}
		curve = append(curve, Local{Clients: n, Rate: x, Quantiles: disk.Quantiles})
		if n == load.Clients {
			return curve
		}
	}
}

func (s *station) speed() float64 {
	n := len(s.inWork)
	if n == 0 {
		return 0
	}
	return s.rate[min(n, len(s.rate)-1)] / float64(n)
}

func (s *station) advance(from, to float64) { s.progress += (to - from) * s.speed() }

// next returns when the first of them will be done.
func (s *station) next(now float64) float64 {
	if len(s.inWork) == 0 {
		return math.Inf(1)
	}
	return now + max(0, s.inWork[0].at-s.progress)/s.speed()
}

// removeDone removes the first that is done.
func (s *station) removeDone() commit {
	s.progress = max(s.progress, s.inWork[0].at)
	return s.inWork.pop().who
}

// add adds a commit whose client has paused so long. Work beyond a local commit's is the same for
// all commits: it has no long tail of its own.
func (s *station) add(c commit, paused float64, rng *rand.Rand) {
	n := len(s.inWork) + 1
	i, _ := slices.BinarySearchFunc(s.shapes, n, func(s shape, n int) int { return s.clients - n })
	i = min(i, len(s.shapes)-1)
	if i > 0 && n-s.shapes[i-1].clients < s.shapes[i].clients-n {
		i--
	}
	more := s.more*s.cold.at(paused) - 1
	s.inWork.push(event{at: s.progress + s.shapes[i].work.Draw(rng) + more, who: c})
	if s.progress > 1e6 { // keep precision
		for i := range s.inWork {
			s.inWork[i].at -= s.progress
		}
		s.progress = 0
	}
}
