package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
)

// truthName is the command that compares ha.Predict with real pairs of servers. It is not in the
// list of jobs: it compares no tools.
const truthName = "ha-truth"

// A truthSpec defines which cells are measured.
type truthSpec struct {
	modes        []string // the modes that wait for the standby
	rtts         []time.Duration
	clients      []int
	localClients []int // client counts for measuring the primary alone, before the cells of each round trip
	limitedAt    time.Duration
	limit        float64 // bytes a second of the link, for additional cells at that round trip; 0: none
	rounds       int     // each measures everything at one round trip, so that other load on the machine affects all of it
	warm, length time.Duration
	pings        int
	pauses       int // minimum number of paused commits to measure
}

func fullTruth(engine string, scale float64) truthSpec {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return truthSpec{
		modes: ha.Modes(engine)[modesAlone(engine):], rtts: []time.Duration{ms(0.2), ms(1), ms(5), ms(10), ms(50)},
		clients: []int{1, 8, 32}, localClients: []int{1, 2, 4, 8, 16, 32}, limitedAt: ms(5), limit: 200_000,
		rounds: 3, warm: ms(250 * scale), length: ms(1200 * scale), pings: 100, pauses: 40,
	}
}

// modesAlone returns how many modes of an engine wait for no standby.
func modesAlone(engine string) int {
	if engine == "postgres" {
		return 2
	}
	return 1
}

func localMode(engine string) string { return ha.Modes(engine)[modesAlone(engine)-1] }

// A cell is a mode, measured and predicted.
type cell struct {
	Engine    string   `json:"engine"`
	Mode      string   `json:"mode"`
	RTT       float64  `json:"rtt_seconds"` // as requested; the measured one is in Sites
	Limit     float64  `json:"link_bytes_per_second,omitempty"`
	Clients   int      `json:"clients"`
	Measured  measured `json:"measured"`
	Predicted measured `json:"predicted"`
	Load      string   `json:"load_average"`
	// The inputs of the prediction.
	Inputs ha.Load  `json:"load"`
	Sites  ha.Sites `json:"sites"`
	pool   pool
}

// errs returns the relative errors of rate, p50 and p99: positive if the prediction is too high.
func (c cell) errs() (rate, p50, p99 float64) {
	return c.Predicted.Rate/c.Measured.Rate - 1, c.Predicted.P50/c.Measured.P50 - 1, c.Predicted.P99/c.Measured.P99 - 1
}

// A study holds everything measured at one round trip, pooled over the rounds.
type study struct {
	bare, pings, writes []float64          // round trips without and with the delay, writes to disk, in seconds
	near                map[string][]*pool // waiting modes, by clients, without the delay
	paused              map[string]*pool   // the local mode and the weakest that waits, with one client that pauses for the length of the later round trip, without the delay
	alone               []*pool            // by localClients
	cells               []cell
	bytes, commits      float64 // of the log, while one client committed
}

// A pool holds commit latencies, and the time in which they were measured.
type pool struct {
	times   []float64
	seconds float64
}

func (p *pool) measured() measured {
	slices.Sort(p.times)
	m := measured{Rate: float64(len(p.times)) / p.seconds, Commits: len(p.times), P50: ofSorted(p.times, 0.5), P99: ofSorted(p.times, 0.99)}
	for _, q := range []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999} {
		m.quantiles = append(m.quantiles, ha.Quantile{P: q, Value: ofSorted(p.times, q)})
	}
	return m
}

// ofSorted returns a quantile of sorted values.
func ofSorted(v []float64, p float64) float64 {
	return v[min(int(p*float64(len(v))), len(v)-1)]
}

// cells measures and predicts one pair, whose disks are that of a folder ("": they do not write).
func (r *replicated) cells(ctx context.Context, t truthSpec, folder string, say func(string, ...any)) (out []cell, err error) {
	for _, rtt := range t.rtts {
		s := &study{near: map[string][]*pool{}, paused: map[string]*pool{localMode(r.primary.engine): {}, t.modes[0]: {}}}
		for range t.localClients {
			s.alone = append(s.alone, &pool{})
		}
		for _, mode := range t.modes {
			for _, n := range t.clients {
				s.near[mode] = append(s.near[mode], &pool{})
				s.cells = append(s.cells, cell{Engine: r.primary.engine, Mode: mode, RTT: rtt.Seconds(), Clients: n})
			}
			if t.limit > 0 && rtt == t.limitedAt {
				s.cells = append(s.cells, cell{Engine: r.primary.engine, Mode: mode, RTT: rtt.Seconds(), Clients: slices.Max(t.clients), Limit: t.limit})
			}
		}
		for range t.rounds {
			if err := r.round(ctx, t, s, rtt, folder); err != nil {
				return nil, err
			}
		}
		load, sites := s.inputs(r.primary.engine, t)
		n := sites.Standbys[0]
		say("%s, round trip %s, hop %s, replay %s, write %s, %.0f bytes a commit, locally %s", r.primary.engine, millis(n.Network.RTT), millis(n.Network.Hop), millis(n.ReplayDelay), millis(n.Disk.Overhead), load.Bytes, localText(load.Local))
		for i := range s.cells {
			if err := s.cells[i].predict(load, sites); err != nil {
				return nil, err
			}
			say("%s", s.cells[i])
		}
		out = append(out, s.cells...)
	}
	return out, nil
}

// round measures everything once.
func (r *replicated) round(ctx context.Context, t truthSpec, s *study, rtt time.Duration, folder string) error {
	local := localMode(r.primary.engine)
	r.become(0, 0)
	if err := r.pingInto(&s.bare, t.pings); err != nil {
		return err
	}
	for _, mode := range t.modes {
		for i, n := range t.clients {
			if err := r.sample(ctx, mode, n, 0, t.warm, t.length/2, s.near[mode][i]); err != nil {
				return err
			}
		}
	}
	for _, mode := range []string{local, t.modes[0]} {
		if err := r.sample(ctx, mode, 1, rtt, 0, max(t.length/2, time.Duration(t.pauses)*rtt), s.paused[mode]); err != nil {
			return err
		}
	}
	if folder != "" {
		if err := writesInto(&s.writes, folder); err != nil {
			return err
		}
	}
	r.become(rtt, 0)
	if err := r.pingInto(&s.pings, t.pings); err != nil {
		return err
	}
	for i, n := range t.localClients {
		before, err := r.place(ctx)
		if err != nil {
			return err
		}
		had := len(s.alone[i].times)
		if err := r.sample(ctx, local, n, 0, 0, t.length, s.alone[i]); err != nil {
			return err
		}
		after, err := r.place(ctx)
		if err != nil {
			return err
		}
		s.bytes, s.commits = s.bytes+after-before, s.commits+float64(len(s.alone[i].times)-had)
	}
	for i := range s.cells {
		c := &s.cells[i]
		r.become(rtt, c.Limit)
		if err := r.sample(ctx, c.Mode, c.Clients, 0, t.warm, t.length, &c.pool); err != nil {
			return err
		}
		c.Load = loadAverage()
	}
	return nil
}

// sample has clients commit in a mode, with a pause before each commit.
func (r *replicated) sample(ctx context.Context, mode string, clients int, pause, warm, length time.Duration, into *pool) error {
	settings, err := r.set(ctx, mode)
	if err != nil {
		return err
	}
	if err := r.measure(ctx, settings, clients, pause, warm, length, into); err != nil {
		return fmt.Errorf("%s, %d clients: %w", mode, clients, err)
	}
	return nil
}

// become changes the link's round trip and limit.
func (r *replicated) become(rtt time.Duration, limit float64) {
	r.line = measure.Line{Delay: rtt, Rate: limit}
	r.link.Set(r.line)
}

// inputs returns what a user would have measured: what a pause costs a commit; the hop, which is
// what the weakest waiting mode adds after such a pause, without delay and with one client, beyond
// a bare round trip; replay, what remote_apply adds to on; and what clients commit in each mode
// without delay.
func (s *study) inputs(engine string, t truthSpec) (ha.Load, ha.Sites) {
	slices.Sort(s.bare)
	slices.Sort(s.pings)
	load := ha.Load{Bytes: s.bytes / s.commits}
	for i, n := range t.localClients {
		m := s.alone[i].measured()
		load.Local = append(load.Local, ha.Local{Clients: n, Rate: m.Rate, Quantiles: m.quantiles})
	}
	local := s.paused[localMode(engine)].measured()
	_ = s.paused[t.modes[0]].measured() // which sorts it
	load.Pauses = []ha.Pause{{Seconds: ofSorted(s.pings, 0.5), Commit: local.P50}}
	hop := func(p float64) float64 {
		return max(1e-6, ofSorted(s.paused[t.modes[0]].times, p)-ofSorted(s.paused[localMode(engine)].times, p)-ofSorted(s.bare, p))
	}
	b := ha.Standby{Name: "standby", Network: ha.Network{Rate: 1e9, Hop: hop(0.5)}}
	for _, p := range []float64{0.25, 0.5, 0.75, 0.9} {
		b.Network.Hops = append(b.Network.Hops, ha.Quantile{P: p, Value: hop(p)})
	}
	sites := ha.Sites{Engine: engine}
	alone := map[string]float64{} // p50 of one client
	for _, mode := range t.modes {
		for i, n := range t.clients {
			m := s.near[mode][i].measured()
			sites.Near = append(sites.Near, ha.Near{Mode: mode, Clients: n, Rate: m.Rate, RTT: ofSorted(s.bare, 0.5)})
			if i == 0 {
				alone[mode] = m.P50
			}
		}
	}
	if engine == "postgres" {
		b.ReplayDelay = max(0, alone["remote_apply"]-alone["on"])
	}
	few := []float64{0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99}
	b.Network.RTT = ofSorted(s.pings, 0.5)
	for _, p := range few {
		b.Network.Quantiles = append(b.Network.Quantiles, ha.Quantile{P: p, Value: ofSorted(s.pings, p)})
	}
	if len(s.writes) > 0 {
		slices.Sort(s.writes)
		b.Disk = ha.Disk{Overhead: ofSorted(s.writes, 0.5), Unit: writeSize}
		for _, p := range few {
			b.Disk.Quantiles = append(b.Disk.Quantiles, ha.Quantile{P: p, Value: ofSorted(s.writes, p)})
		}
	}
	sites.Primary, sites.Standbys = b.Disk, []ha.Standby{b}
	return load, sites
}

func (c *cell) predict(load ha.Load, sites ha.Sites) error {
	load.Clients = c.Clients
	if c.Limit > 0 {
		sites.Standbys = slices.Clone(sites.Standbys)
		sites.Standbys[0].Network.Rate = c.Limit
	}
	c.Inputs, c.Sites = load, sites
	c.Measured = c.pool.measured()
	return c.forecast()
}

// forecast predicts the cell from its inputs.
func (c *cell) forecast() error {
	p, err := ha.PredictMode(c.Inputs, c.Sites, c.Mode)
	if err != nil {
		return err
	}
	c.Predicted = measured{Rate: p.Rate, P50: p.Commit.P50, P99: p.Commit.P99}
	return nil
}

func (c cell) String() string {
	rate, p50, p99 := c.errs()
	return fmt.Sprintf("  %-12s %2d clients: %6.0f/s %s %s, predicted %6.0f/s %s %s (%+.0f%%, %+.0f%%, %+.0f%%), load %s", c.Mode, c.Clients, c.Measured.Rate, millis(c.Measured.P50), millis(c.Measured.P99),
		c.Predicted.Rate, millis(c.Predicted.P50), millis(c.Predicted.P99), rate*100, p50*100, p99*100, c.Load)
}

func millis(s float64) string { return fmt.Sprintf("%.2f ms", s*1000) }

func localText(local []ha.Local) string {
	var out []string
	for _, l := range local {
		out = append(out, fmt.Sprintf("%d: %.0f/s", l.Clients, l.Rate))
	}
	return strings.Join(out, ", ")
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg") // empty if it does not exist
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// truth measures the whole table.
func (o options) truth(ctx context.Context, out io.Writer) error {
	dir, err := workFolder(o.keep)
	if err != nil {
		return err
	}
	if o.keep == "" {
		defer os.RemoveAll(dir)
	}
	b := &bench{options: o, dir: dir, out: out}
	var all []cell
	for _, engine := range []string{"postgres", "mariadb", "mysql"} {
		if !b.wanted(engine) {
			continue
		}
		cells, err := b.truthOf(ctx, engine)
		all = append(all, cells...)
		if err != nil {
			return errors.Join(err, writeCells(o.json, all))
		}
	}
	printTruth(out, all)
	return writeCells(o.json, all)
}

// writeCells writes what was measured to a file; "" is none.
func writeCells(file string, cells any) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(cells, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// truthOf starts the two servers of an engine and measures its cells.
func (b *bench) truthOf(ctx context.Context, engine string) ([]cell, error) {
	primary, standby, err := b.truthPair(ctx, engine)
	for _, s := range []*server{primary, standby} {
		if s != nil {
			defer s.stop(false)
		}
	}
	if err != nil {
		return nil, err
	}
	attach := attachMaria
	if engine == "postgres" {
		attach = attachPostgres
	}
	r, err := attach(ctx, primary.node(), standby.node())
	if err != nil {
		return nil, err
	}
	defer r.link.Close()
	return r.cells(ctx, fullTruth(engine, b.scale), primary.dir, b.say)
}

func (b *bench) truthPair(ctx context.Context, engine string) (primary, standby *server, err error) {
	dirs := []string{filepath.Join(b.dir, engine+"-primary"), filepath.Join(b.dir, engine+"-standby")}
	for _, d := range dirs {
		if err := os.RemoveAll(d); err != nil {
			return nil, nil, err
		}
	}
	if engine == "postgres" {
		// No checkpoint runs meanwhile: its page images would be a different load.
		options := []string{"-c", "shared_buffers=256MB", "-c", "checkpoint_timeout=1h", "-c", "max_wal_size=20GB"}
		if primary, err = serve(ctx, engine, dirs[0], options...); err != nil {
			return nil, nil, err
		}
		standby, err = basebackup(ctx, primary, dirs[1], options...)
		return primary, standby, err
	}
	short := map[string]string{"mariadb": "maria", "mysql": "mysql"}[engine]
	both := []string{"--innodb-buffer-pool-size=256M", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--max-binlog-size=1G"}
	theirs := []string{"--innodb-buffer-pool-size=256M", "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2"} // the replica's applying is not what is waited for
	if engine == "mysql" {
		both, theirs = append(both, "--plugin-load-add=semisync_source.so"), append(theirs, "--plugin-load-add=semisync_replica.so")
	}
	if primary, err = serve(ctx, short, dirs[0], both...); err != nil {
		return nil, nil, err
	}
	standby, err = serve(ctx, short, dirs[1], theirs...)
	return primary, standby, err
}

// writeSize is a page of PostgreSQL's log.
const writeSize = 8 << 10

// writesInto times writes of writeSize bytes to a preallocated file in a folder.
func writesInto(times *[]float64, folder string) error {
	f, err := os.CreateTemp(folder, "write")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, 4<<20)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	page := make([]byte, writeSize)
	for i := range 150 {
		begun := time.Now()
		if _, err := f.WriteAt(page, int64(i)*writeSize); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		*times = append(*times, time.Since(begun).Seconds())
	}
	return nil
}

// printTruth prints the table of errors.
func printTruth(out io.Writer, cells []cell) {
	fmt.Fprintf(out, "%d CPUs%s\n", runtime.NumCPU(), machine())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "engine\tmode\tRTT ms\tclients\tmeasured/s\tp50 ms\tp99 ms\tpredicted/s\tp50 ms\tp99 ms\trate\tp50\tp99\tload")
	for _, c := range cells {
		rate, p50, p99 := c.errs()
		limit := ""
		if c.Limit > 0 {
			limit = fmt.Sprintf(", %.0f kB/s", c.Limit/1000)
		}
		fmt.Fprintf(w, "%s\t%s\t%g%s\t%d\t%.0f\t%.2f\t%.2f\t%.0f\t%.2f\t%.2f\t%+.0f%%\t%+.0f%%\t%+.0f%%\t%s\n", c.Engine, c.Mode, c.RTT*1000, limit, c.Clients,
			c.Measured.Rate, c.Measured.P50*1000, c.Measured.P99*1000, c.Predicted.Rate, c.Predicted.P50*1000, c.Predicted.P99*1000, rate*100, p50*100, p99*100, c.Load)
	}
	_ = w.Flush() // errors of out are reported elsewhere
	for _, engine := range []string{"postgres", "mariadb", "mysql", ""} {
		of := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return engine != "" && c.Engine != engine })
		if len(of) > 0 {
			fmt.Fprintln(out, summary(engine, of))
		}
	}
}

// summary reports how many cells are as close as they should be, and how optimistic the worst one
// is.
func summary(engine string, cells []cell) string {
	var rateN, p50N, p99N int
	var worst50, worst99, worstRate float64
	for _, c := range cells {
		rate, p50, p99 := c.errs()
		rateN, p50N, p99N = rateN+within(rate, 0.15), p50N+within(p50, 0.15), p99N+within(p99, 0.25)
		worst50, worst99, worstRate = min(worst50, p50), min(worst99, p99), max(worstRate, rate)
	}
	if engine == "" {
		engine = "all"
	}
	n := len(cells)
	return fmt.Sprintf("%s: %d cells; commits/s within 15%%: %d, p50 within 15%%: %d (%.0f%%), p99 within 25%%: %d (%.0f%%); most optimistic: commits/s %+.0f%%, p50 %+.0f%%, p99 %+.0f%%",
		engine, n, rateN, p50N, 100*float64(p50N)/float64(n), p99N, 100*float64(p99N)/float64(n), worstRate*100, worst50*100, worst99*100)
}

func within(e, most float64) int {
	if math.Abs(e) <= most {
		return 1
	}
	return 0
}
