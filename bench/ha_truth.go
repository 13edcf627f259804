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
)

// truthName is the command that compares ha.Predict with real pairs of servers. It is no job of
// the list: nothing is to be faster than something else.
const truthName = "ha-truth"

// A truthSpec says which cells are measured.
type truthSpec struct {
	modes        []string // that wait for the standby
	rtts         []time.Duration
	clients      []int
	localClients []int // with which the primary alone is measured, before the cells of each round trip
	limitedAt    time.Duration
	limit        float64 // bytes a second of the link, for some more cells at that round trip; 0: none
	warm, length time.Duration
	pings        int
}

func fullTruth(engine string, scale float64) truthSpec {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return truthSpec{
		modes: ha.Modes(engine)[modesAlone(engine):], rtts: []time.Duration{ms(0.2), ms(1), ms(5), ms(10), ms(50)},
		clients: []int{1, 8, 32}, localClients: []int{1, 2, 4, 8, 16, 32}, limitedAt: ms(5), limit: 200_000,
		warm: ms(700 * scale), length: ms(3500 * scale), pings: 500,
	}
}

// modesAlone is how many modes of an engine wait for no standby.
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
	RTT       float64  `json:"rtt_seconds"` // that was asked for; the measured one is in Sites
	Limit     float64  `json:"link_bytes_per_second,omitempty"`
	Clients   int      `json:"clients"`
	Measured  measured `json:"measured"`
	Predicted measured `json:"predicted"`
	Load      string   `json:"load_average"`
	load      ha.Load
	sites     ha.Sites
}

// errs are the relative errors of rate, p50 and p99: above 0 where too much was predicted.
func (c cell) errs() (rate, p50, p99 float64) {
	return c.Predicted.Rate/c.Measured.Rate - 1, c.Predicted.P50/c.Measured.P50 - 1, c.Predicted.P99/c.Measured.P99 - 1
}

// cells measures and predicts one pair. disk is of both.
func (r *replicated) cells(ctx context.Context, t truthSpec, disk ha.Disk, say func(string, ...any)) (out []cell, err error) {
	for _, rtt := range t.rtts {
		r.line(0, 0)
		hops, err := r.hops(ctx, t)
		if err != nil {
			return nil, err
		}
		r.line(rtt, 0)
		p50, pings, err := r.ping(t.pings)
		if err != nil {
			return nil, err
		}
		load, err := r.alone(ctx, t)
		if err != nil {
			return nil, err
		}
		sites := ha.Sites{Engine: r.primary.engine, Primary: disk, Standbys: []ha.Standby{{Name: "standby", HopWrites: true, Hops: hops,
			Disk: disk, Network: ha.Network{Rate: 1e9, RTT: p50, Quantiles: pings}}}}
		say("%s, round trip %v: %s, hops %s, %.0f bytes a commit, locally %s", r.primary.engine, rtt, millis(p50), hopText(hops), load.Bytes, localText(load.Local))
		for _, mode := range t.modes {
			for _, n := range t.clients {
				c := cell{Mode: mode, RTT: rtt.Seconds(), Clients: n, load: load, sites: sites}
				if err := r.fill(ctx, t, &c, say); err != nil {
					return nil, err
				}
				out = append(out, c)
			}
		}
		if t.limit == 0 || rtt != t.limitedAt {
			continue
		}
		sites.Standbys = slices.Clone(sites.Standbys)
		sites.Standbys[0].Network.Rate = t.limit
		r.line(rtt, t.limit)
		for _, mode := range t.modes {
			c := cell{Mode: mode, RTT: rtt.Seconds(), Limit: t.limit, Clients: slices.Max(t.clients), load: load, sites: sites}
			if err := r.fill(ctx, t, &c, say); err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// line makes the link to be like this.
func (r *replicated) line(rtt time.Duration, limit float64) {
	r.link.there.Store(int64(rtt / 2))
	r.link.back.Store(int64(rtt / 2))
	r.link.backRate.Store(int64(limit))
}

// fill measures a cell and predicts it.
func (r *replicated) fill(ctx context.Context, t truthSpec, c *cell, say func(string, ...any)) error {
	settings, err := r.set(ctx, c.Mode)
	if err != nil {
		return err
	}
	c.Engine, c.Load = r.primary.engine, loadAverage()
	if c.Measured, err = r.measure(ctx, settings, c.Clients, t.warm, t.length); err != nil {
		return fmt.Errorf("%s, %d clients: %w", c.Mode, c.Clients, err)
	}
	if err := c.predict(); err != nil {
		return err
	}
	rate, p50, p99 := c.errs()
	say("  %-12s %2d clients: %6.0f/s %s %s, predicted %6.0f/s %s %s (%+.0f%%, %+.0f%%, %+.0f%%), load %s", c.Mode, c.Clients, c.Measured.Rate, millis(c.Measured.P50), millis(c.Measured.P99),
		c.Predicted.Rate, millis(c.Predicted.P50), millis(c.Predicted.P99), rate*100, p50*100, p99*100, c.Load)
	return nil
}

func (c *cell) predict() error {
	load := c.load
	load.Clients = c.Clients
	p, err := ha.PredictMode(load, c.sites, c.Mode)
	if err != nil {
		return err
	}
	c.Predicted = measured{Rate: p.Rate, P50: p.Commit.P50, P99: p.Commit.P99}
	return nil
}

// hops measures, at no round trip and with one client, what each mode adds to a local commit
// besides the round trip.
func (r *replicated) hops(ctx context.Context, t truthSpec) (map[string]float64, error) {
	bare, _, err := r.ping(t.pings)
	if err != nil {
		return nil, err
	}
	hops := map[string]float64{}
	var local measured
	for _, mode := range append([]string{localMode(r.primary.engine)}, t.modes...) {
		settings, err := r.set(ctx, mode)
		if err != nil {
			return nil, err
		}
		m, err := r.measure(ctx, settings, 1, t.warm/2, t.length/2)
		if err != nil {
			return nil, err
		}
		if mode == localMode(r.primary.engine) {
			local = m
			continue
		}
		hops[mode] = max(0, m.P50-local.P50-bare)
	}
	return hops, nil
}

// alone measures commits that wait for no standby.
func (r *replicated) alone(ctx context.Context, t truthSpec) (load ha.Load, err error) {
	for _, n := range t.localClients {
		settings, err := r.set(ctx, localMode(r.primary.engine))
		if err != nil {
			return load, err
		}
		before, err := r.place(ctx)
		if err != nil {
			return load, err
		}
		m, err := r.measure(ctx, settings, n, t.warm, t.length)
		if err != nil {
			return load, err
		}
		after, err := r.place(ctx)
		if err != nil {
			return load, err
		}
		if n == t.localClients[0] { // the warm-up's commits are in it too
			load.Bytes = max(1, (after-before)/(m.Rate*(t.warm+t.length).Seconds()))
		}
		load.Local = append(load.Local, ha.Local{Clients: n, Rate: m.Rate, Quantiles: m.quantiles})
	}
	return load, nil
}

func millis(s float64) string { return fmt.Sprintf("%.2f ms", s*1000) }

func hopText(hops map[string]float64) string {
	var out []string
	for mode, h := range hops {
		out = append(out, mode+" "+millis(h))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func localText(local []ha.Local) string {
	var out []string
	for _, l := range local {
		out = append(out, fmt.Sprintf("%d: %.0f/s", l.Clients, l.Rate))
	}
	return strings.Join(out, ", ")
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg") // where there is none, none is told
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// truth runs the whole table.
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

func writeCells(file string, cells []cell) error {
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
	disk, err := diskOf(primary.dir)
	if err != nil {
		return nil, err
	}
	b.say("%s: a write of 8 kB takes %s, of 256 kB %s", engine, millis(disk.Write(8<<10)), millis(disk.Write(256<<10)))
	return r.cells(ctx, fullTruth(engine, b.scale), disk, b.say)
}

func (b *bench) truthPair(ctx context.Context, engine string) (primary, standby *server, err error) {
	dirs := []string{filepath.Join(b.dir, engine+"-primary"), filepath.Join(b.dir, engine+"-standby")}
	for _, d := range dirs {
		if err := os.RemoveAll(d); err != nil {
			return nil, nil, err
		}
	}
	if engine == "postgres" {
		// No checkpoint comes in between: its page images are another load.
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

// diskOf is how long writes of two sizes take there, at the median.
func diskOf(dir string) (ha.Disk, error) {
	f, err := os.CreateTemp(dir, "write")
	if err != nil {
		return ha.Disk{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, 16<<20)); err != nil {
		return ha.Disk{}, err
	}
	median := func(size int) (float64, error) {
		var times []float64
		buf := make([]byte, size)
		for i := range 100 {
			begun := time.Now()
			if _, err := f.WriteAt(buf, int64(i%32)*256<<10); err != nil {
				return 0, err
			}
			if err := f.Sync(); err != nil {
				return 0, err
			}
			times = append(times, time.Since(begun).Seconds())
		}
		slices.Sort(times)
		return times[len(times)/2], nil
	}
	const small, large = 8 << 10, 256 << 10
	s, err := median(small)
	if err != nil {
		return ha.Disk{}, err
	}
	l, err := median(large)
	if err != nil {
		return ha.Disk{}, err
	}
	rate := float64(large-small) / max(l-s, 1e-6)
	return ha.Disk{Rate: rate, Overhead: max(s-small/rate, 1e-6)}, nil
}

// printTruth is the table of errors.
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
	_ = w.Flush() // what writes to out says so
	for _, engine := range []string{"postgres", "mariadb", "mysql", ""} {
		of := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return engine != "" && c.Engine != engine })
		if len(of) > 0 {
			fmt.Fprintln(out, summary(engine, of))
		}
	}
}

// summary says how many cells are as near as they should be, and how optimistic the worst is.
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
