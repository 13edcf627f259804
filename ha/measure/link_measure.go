package measure

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A LinkSpec specifies a measurement.
type LinkSpec struct {
	Peer   string        // HOST or HOST:PORT of a Listen; "": one in this process
	Time   time.Duration // total, about; 0: 20 s
	Line   Line          // added on the way there
	Secret string        `json:"-"` // of the Listen, if it has one
	Flush  float64       // the largest expected flush in bytes, for the advice; 0: unknown
}

// A LinkReport is the result for a link. In its Network, Rate is the best one measured, RTT the
// median while nothing else was sent.
type LinkReport struct {
	ha.Network
	Peer    string      `json:"peer"`
	Added   *Line       `json:"added,omitempty"` // by a proxy of ours
	Seconds float64     `json:"seconds"`
	Idle    Spread      `json:"rtt_idle"`
	Loaded  Spread      `json:"rtt_under_load"`
	Sizes   []TimedSize `json:"flush_to_ack"` // from the beginning of a message until its acknowledgement
	Fit     Fit         `json:"flush_to_ack_fit"`
	Rates   []LinkRate  `json:"rates"` // the first is without buffer sizes of our own: TCP tunes them
	TCP     *TCPState   `json:"tcp,omitempty"`
	// Window is rate x RTT, in bytes: the data in flight when the link is full.
	Window float64 `json:"bandwidth_delay_product_bytes"`
	// Buffer is the recommended size of the sockets' buffers, on both sides, in bytes.
	Buffer   int                `json:"buffer_bytes"`
	Advice   string             `json:"buffer_advice"`
	Clock    ClockOffset        `json:"clock"`
	Findings []tidemark.Finding `json:"findings,omitempty"`
}

// A LinkRate is how fast bytes arrived, as counted by the other side.
type LinkRate struct {
	Asked    int       `json:"buffer_asked"`     // 0: none was set
	Sending  int       `json:"buffer_sending"`   // as the kernel reports it: Linux doubles the request; 0: unknown
	Receives int       `json:"buffer_receiving"` // the same on the other side
	Rate     float64   `json:"bytes_per_second"` // median of Rounds
	Rounds   []float64 `json:"rounds"`
}

// TCPState is what the sending side's kernel reports about a connection. Times are seconds.
type TCPState struct {
	Congestion      string  `json:"congestion_control"`
	RTT             float64 `json:"rtt"`
	RTTVar          float64 `json:"rtt_variation"`
	MinRTT          float64 `json:"rtt_min"`
	Cwnd            int     `json:"congestion_window_segments"`
	MSS             int     `json:"segment_bytes"`
	Retransmits     int     `json:"retransmitted_segments"`
	DeliveryRate    float64 `json:"delivery_bytes_per_second"`
	ReceiverLimited float64 `json:"limited_by_receive_window"` // fraction of the time in which there was something to send
	BufferLimited   float64 `json:"limited_by_send_buffer"`
}

// ClockOffset is by how many seconds the other side's clock is ahead, and the possible error of
// that.
type ClockOffset struct {
	Ahead     float64 `json:"ahead_seconds"`
	Uncertain float64 `json:"uncertain_seconds"`
}

const (
	noticeable   = 1.03 // a rate counts as higher only above this factor
	sendPiece    = 128 << 10
	maxLinkTime  = 10 * time.Minute
	warmUpPart   = 4 // this part of a run (a quarter) is warm-up, until TCP has found its rate
	roundsOfRate = 3
)

// A linkRun performs a measurement. Its control connection is the peer's first one, and stays open.
type linkRun struct {
	LinkSpec
	ctx     context.Context
	addr    string
	control *link
	report  *LinkReport
	best    time.Duration // shortest round trip so far
}

// MeasureLink measures a link to a Listen. Errors: those of dialLink, Cancelled.
func MeasureLink(ctx context.Context, spec LinkSpec) (*LinkReport, error) {
	spec.Time = min(cmp.Or(spec.Time, 20*time.Second), maxLinkTime)
	way, err := connectTo(ctx, spec.Peer, spec.Secret, spec.Line, &StandbySpec{})
	if err != nil {
		return nil, err
	}
	defer way.end()
	spec.Peer = way.peer
	r := &linkRun{LinkSpec: spec, ctx: ctx, addr: way.addr, report: &LinkReport{Peer: way.name, Added: way.added}}
	begin := time.Now()
	if r.control, err = dialLink(ctx, r.addr, hello{Purpose: "measure", secret: spec.Secret}); err != nil {
		return nil, err
	}
	defer r.control.close()
	for _, step := range []func() error{r.idle, r.sizes, r.rates, r.loaded} {
		if err := step(); err != nil {
			return nil, linkError(ctx, spec.Peer, err)
		}
	}
	if err := r.control.bye(&struct{}{}); err != nil {
		return nil, linkError(ctx, spec.Peer, err)
	}
	r.report.Seconds = time.Since(begin).Seconds()
	r.advise()
	return r.report, nil
}

// pings sends small messages one after the other for a while, or until stop returns true (nil:
// never), and times each.
func (r *linkRun) pings(d time.Duration, stop func() bool) ([]float64, error) {
	var times []float64
	for end := time.Now().Add(d); len(times) < 10 || len(times) < keptSamples && time.Now().Before(end) && (stop == nil || !stop()); {
		if err := cancelled(r.ctx, "measure network"); err != nil {
			return nil, err
		}
		before := time.Now()
		a, took, err := r.control.flush(0)
		if err != nil {
			return nil, err
		}
		times = append(times, took.Seconds())
		if r.best == 0 || took < r.best {
			r.best = took
			r.report.Clock = ClockOffset{Uncertain: took.Seconds() / 2,
				Ahead: (time.Duration(a.wall-before.UnixNano()) - took/2).Seconds()}
		}
	}
	return times, nil
}

func (r *linkRun) idle() error {
	if _, err := r.pings(r.Time/100, nil); err != nil { // warm up routes and caches
		return err
	}
	times, err := r.pings(r.Time*14/100, nil)
	r.report.Idle = summarize(times)
	r.report.RTT, r.report.Quantiles = r.report.Idle.P50, r.report.Idle.Quantiles()
	return err
}

// sizes times flushes from a page to 256 pages, in three rounds.
func (r *linkRun) sizes() error {
	var bytes []int
	for n := 4 << 10; n <= 1<<20; n *= 2 {
		bytes = append(bytes, n)
	}
	times := make([][]float64, len(bytes))
	slice := r.Time * 20 / 100 / time.Duration(3*len(bytes))
	for range 3 {
		for i, n := range bytes {
			if i > 0 && times[i-1][0] > r.Time.Seconds()/10 { // on so slow a link small ones are sufficient
				break
			}
			for end, first := time.Now().Add(slice), true; first || time.Now().Before(end); first = false {
				if err := cancelled(r.ctx, "measure network"); err != nil {
					return err
				}
				_, took, err := r.control.flush(n)
				if err != nil {
					return err
				}
				times[i] = append(times[i], took.Seconds())
			}
		}
	}
	r.report.Sizes, r.report.Fit = fitSizes(bytes, times)
	return nil
}

// rates sends as fast as possible, with TCP's own buffers, and with buffers that are doubled until
// that has not helped twice; then it repeats all of these.
func (r *linkRun) rates() error {
	slice := r.Time * 50 / 100 / (roundsOfRate * 9)
	rates := []LinkRate{{}}
	best, idle := 0.0, 0
	for n := ha.LeastBuffer; n <= ha.MostBuffer; n *= 2 {
		rates = append(rates, LinkRate{Asked: n})
		x := &rates[len(rates)-1]
		if err := r.rate(x, slice); err != nil {
			return err
		}
		if x.Rounds[0] > best*noticeable {
			best, idle = x.Rounds[0], 0
		} else if idle++; idle == 2 {
			break
		}
	}
	for round := range roundsOfRate {
		for i := range rates {
			if round == 0 && i > 0 {
				continue // that was the search
			}
			if err := r.rate(&rates[i], slice); err != nil {
				return err
			}
		}
	}
	for i := range rates {
		x := &rates[i]
		x.Rate = ha.QuantileOf(slices.Sorted(slices.Values(x.Rounds)), 0.5)
		r.report.Rate = max(r.report.Rate, x.Rate)
	}
	r.report.Rates = rates
	return nil
}

// rate performs one run. Its first part, in which TCP still searches for its rate, does not count.
func (r *linkRun) rate(x *LinkRate, d time.Duration) error {
	if _, _, err := r.control.flush(0); err != nil { // so that it does not seem dead
		return err
	}
	l, err := dialLink(r.ctx, r.addr, hello{Purpose: "join", Token: r.control.granted.Token, secret: r.Secret, Buffer: x.Asked})
	if err != nil {
		return err
	}
	defer l.close()
	l.c.SetDeadline(time.Now().Add(d + idleTime))
	if err := r.fill(l, d/warmUpPart); err != nil {
		return err
	}
	if err := l.send(flushFrame, 0); err != nil { // a mark: its ack reports what had arrived by then
		return err
	}
	if err := r.fill(l, d-d/warmUpPart); err != nil {
		return err
	}
	x.Receives = l.granted.Granted
	x.Sending, _ = l.w.buffers()
	if state := l.w.state(); x.Asked == 0 {
		r.report.TCP = state
	}
	if err := l.send(flushFrame, 0); err != nil {
		return err
	}
	from, err := l.ack()
	if err != nil {
		return err
	}
	to, err := l.ack()
	if err != nil {
		return err
	}
	x.Rounds = append(x.Rounds, float64(to.bytes-from.bytes)/max(to.since-from.since, 1).Seconds())
	return nil
}

func (r *linkRun) fill(l *link, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := cancelled(r.ctx, "measure network"); err != nil {
			return err
		}
		if err := l.send(dataFrame, sendPiece); err != nil {
			return err
		}
	}
	return nil
}

// loaded times small messages while another connection sends as fast as possible.
func (r *linkRun) loaded() error {
	l, err := dialLink(r.ctx, r.addr, hello{Purpose: "join", Token: r.control.granted.Token, secret: r.Secret})
	if err != nil {
		return err
	}
	defer l.close()
	d := r.Time * 15 / 100
	l.c.SetDeadline(time.Now().Add(d + idleTime))
	done := make(chan error, 1)
	crash.Go(func() { done <- r.fill(l, d) })
	time.Sleep(d / warmUpPart)
	times, err := r.pings(d, func() bool { return len(done) > 0 })
	r.report.Loaded = summarize(times)
	if err != nil {
		l.close() // ends the load
	}
	if load := <-done; err == nil {
		err = load
	}
	return err
}

// advise recommends buffer sizes, and lists unreliable results.
func (r *linkRun) advise() {
	out := r.report
	out.Window = out.Rate * out.Idle.P99
	enough := 0
	for _, x := range out.Rates[1:] {
		if x.Rate*noticeable >= out.Rate && enough == 0 {
			enough = x.Asked
		}
	}
	out.Buffer = int(ha.SocketBuffer(out.Window, max(r.Flush, float64(enough))))
	switch tuned := out.Rates[0].Rate; {
	case tuned*noticeable >= out.Rate:
		out.Advice = fmt.Sprintf("leave the buffers alone: TCP autotuning is as fast; if you must set them, use %s on both sides", sizeText(out.Buffer))
	default:
		out.Advice = fmt.Sprintf("set %s on both sides: TCP autotuning reaches %.0f%% of the rate", sizeText(out.Buffer), 100*tuned/out.Rate)
	}
	warn := func(text, hint string) {
		out.Findings = append(out.Findings, tidemark.Finding{Severity: tidemark.Warning, Object: r.Peer, Text: text, Hint: hint})
	}
	for _, x := range out.Rates[1:] {
		if x.Sending > 0 && x.Sending < 2*x.Asked && x.Asked <= out.Buffer {
			warn(fmt.Sprintf("of a buffer of %s the kernel grants %s", sizeText(x.Asked), sizeText(x.Sending/2)), "Raise net.core.wmem_max and net.core.rmem_max on both sides.")
			break
		}
	}
	if bloat := out.Loaded.P50 / out.Idle.P50; bloat > 3 && out.Loaded.P50-out.Idle.P50 > 1e-3 {
		warn(fmt.Sprintf("under load a round trip takes %.0f times as long (%.1f ms): messages queue on the way", bloat, out.Loaded.P50*1e3),
			"Keep other traffic, such as base backups, off this link, or limit its rate.")
	}
	if t := out.TCP; t != nil && t.Retransmits > 0 && t.RTT > 0 {
		warn(fmt.Sprintf("%d segments were retransmitted", t.Retransmits), "Look at the tail of the times above: packet loss makes single commits slow.")
	}
	if c := out.Clock; math.Abs(c.Ahead) > c.Uncertain+0.1 {
		warn(fmt.Sprintf("the clocks differ by %.3f s", c.Ahead), "Synchronise both with NTP: lags measured across two clocks are wrong by that much.")
	}
}

// sizeText formats a size in the units of options: powers of 1024.
func sizeText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
