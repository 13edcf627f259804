package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A pair is two servers: tidemark replicates from one to the other while the first is being written
// to.
type pair struct{ name, source, target string }

var pairs = []pair{
	{"pg-pg", "postgres", "postgres"},
	{"pg-mysql", "postgres", "mysql"},
	{"mysql-pg", "mysql", "postgres"},
	{"maria-maria", "maria", "maria"},
}

// soakOptions are the flags of soak.
type soakOptions struct {
	minutes      float64
	pairs        string
	kills        int
	rate         int
	foreignKeys  bool
	keep         string
	json         string
	tidemarkArgs string
}

// soakAll replicates for minutes between the servers of each pair, one pair after the other.
func soakAll(ctx context.Context, args []string, out io.Writer) error {
	var o soakOptions
	set := flag.NewFlagSet("soak", flag.ContinueOnError)
	set.SetOutput(out)
	set.Float64Var(&o.minutes, "minutes", 10, "how long each source is written to")
	set.StringVar(&o.pairs, "pairs", "pg-pg,pg-mysql,mysql-pg,maria-maria", "source and target")
	set.IntVar(&o.kills, "kills", 2, "how often tidemark is killed (kill -9) meanwhile")
	set.IntVar(&o.rate, "rate", 100, "transactions of pgbench a second")
	set.BoolVar(&o.foreignKeys, "foreign-keys", true, "TPC-C's tables have foreign keys")
	set.StringVar(&o.keep, "keep", "", "keep servers' data and logs in this `folder`; default: a temporary one")
	set.StringVar(&o.json, "json", "", "write the results to this `file` too")
	set.StringVar(&o.tidemarkArgs, "tidemark-args", "", "further options for tidemark replicate, for experiments")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	chosen, err := choosePairs(o.pairs)
	if err != nil {
		return err
	}
	if set.NArg() > 0 || o.minutes < 0.1 || o.minutes > 10_000 || o.kills < 0 || o.rate < 1 {
		return errors.New(usage)
	}
	b, err := soakBench(ctx, o, chosen, out)
	if err != nil {
		return err
	}
	if o.keep == "" {
		defer os.RemoveAll(b.dir)
	}
	var all []*soaked
	for _, p := range chosen {
		r := b.soak(ctx, o, p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		all = append(all, r)
		r.print(out)
		if o.json != "" {
			if err := writeSoaked(o.json, all); err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc(all, func(r *soaked) bool { return len(r.Errors) > 0 }) {
		return errors.New("not every pair is clean")
	}
	return nil
}

func choosePairs(names string) ([]pair, error) {
	var out []pair
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(pairs, func(p pair) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no pair %q", name)
		}
		out = append(out, pairs[i])
	}
	return out, nil
}

// soakBench creates the folder and everything needed in it.
func soakBench(ctx context.Context, o soakOptions, chosen []pair, out io.Writer) (*bench, error) {
	if err := installRivals(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(chosen, func(p pair) bool { return p.source == "mysql" || p.target == "mysql" }) {
		if err := installMySQL(ctx); err != nil {
			return nil, err
		}
	}
	dir, err := workFolder(o.keep)
	if err != nil {
		return nil, err
	}
	b := &bench{options: options{scale: 1, keep: o.keep, tidemarkArgs: o.tidemarkArgs}, dir: dir, out: out, tidemark: filepath.Join(dir, "tidemark")}
	if err := command(ctx, "go", "build", "-o", b.tidemark, "./cmd/tidemark"); err != nil {
		return nil, err
	}
	return b, b.buildGoTPC(ctx)
}

// soaked is the outcome of a pair.
type soaked struct {
	Pair         string
	Minutes      float64
	Load         *load
	Transactions int64     // applied by tidemark, as its processes report; a killed one does not report its last second
	Rows         int64     // the same
	NotApplied   int64     // rows
	Early        int64     // transactions that arrived before one they depend on, and were retried
	Retried      int64     // after a deadlock or the like
	EndToEnd     latency   // of the last process
	LastProcess  float64   // seconds that it ran
	Behind       float64   // maximum in seconds, sampled every second
	Kills        []float64 // seconds that the next process needed until it followed
	RSS          int64     // bytes, the peak of any process
	Cutover      float64   // seconds
	Events       []string  // unusual events in tidemark
	Errors       []string  // none: the pair is clean
}

func (r *soaked) fail(err error) { r.Errors = append(r.Errors, err.Error()) }

// soak replicates between the servers of a pair, and compares them.
func (b *bench) soak(ctx context.Context, o soakOptions, p pair) *soaked {
	r := &soaked{Pair: p.name, Minutes: o.minutes, Load: &load{}}
	dir := filepath.Join(b.dir, "soak-"+p.name)
	err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
	var a arena
	defer a.close()
	if err == nil {
		err = b.soakServers(ctx, &a, o, p)
	}
	if err == nil {
		err = b.soakStream(ctx, &a, o, r, dir)
	}
	if err == nil {
		err = b.soakEnd(ctx, &a, r, dir)
	}
	if err != nil {
		r.fail(err)
	}
	return r
}

func (b *bench) soakServers(ctx context.Context, a *arena, o soakOptions, p pair) (err error) {
	for i, engine := range []string{p.source, p.target} {
		var options []string
		if engine == "postgres" && i == 0 {
			options = []string{"-c", "wal_level=logical"}
		}
		if _, err := b.scratchServer(ctx, a, engine, options...); err != nil {
			return err
		}
	}
	a.source, a.target, a.tables = a.scratch[0], a.scratch[1], soakTables
	b.say("%s: filling the source", p.name)
	return b.fillSoak(ctx, a.source, o.foreignKeys)
}

// soakStream writes to the source for the requested time. tidemark starts a second later, so that
// its copy too runs under writes, and is killed and restarted at random moments.
func (b *bench) soakStream(ctx context.Context, a *arena, o soakOptions, r *soaked, dir string) error {
	ctx, cancel := context.WithCancel(ctx) // any failure ends the load
	defer cancel()
	log, err := os.Create(filepath.Join(dir, "replicate.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	began, lasting := time.Now(), time.Duration(o.minutes*float64(time.Minute))
	if r.Load, err = b.startLoad(ctx, a.source, o.rate, lasting, dir); err != nil {
		return err
	}
	defer func() { cancel(); <-r.Load.done }()
	s := &soaking{b: b, a: a, r: r, dir: dir, log: log, began: began, end: began.Add(lasting)}
	time.Sleep(time.Second)
	if err := s.start(); err != nil {
		return err
	}
	err = s.run(ctx, o.kills)
	if err == nil {
		err = s.f.interrupt(ctx)
	}
	s.f.kill()
	s.account()
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLines(log.Name()))
	}
	return r.Load.err
}

// A soaking is a stream and its processes, one after the other.
type soaking struct {
	b          *bench
	a          *arena
	r          *soaked
	dir        string
	log        io.Writer
	began, end time.Time // of the load
	f          *follower // the current process, or the last one
	started    time.Time // start of that process
}

func (s *soaking) start() error {
	s.started = time.Now()
	f, err := s.b.follow(s.a.source, s.a.target, s.dir, s.log)
	if err == nil {
		s.f = f
	}
	return err
}

// account adds the work of an ended process.
func (s *soaking) account() {
	last := s.f.now()
	if s.f.report != nil {
		last = *s.f.report
		s.r.EndToEnd, s.r.LastProcess = last.EndToEnd, time.Since(s.started).Seconds()
	}
	s.r.Transactions += last.Transactions
	s.r.Rows += last.Rows
	s.r.NotApplied += last.NotApplied
	s.r.Early += last.Early
	s.r.Retried += last.Retried
	s.r.Behind = max(s.r.Behind, s.f.worst.Seconds())
	s.r.RSS = max(s.r.RSS, s.f.peak())
	s.r.Events = append(s.r.Events, s.f.events...)
}

// run continues until the load has ended, all kills are done, and the process has caught up.
func (s *soaking) run(ctx context.Context, kills int) error {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	tooLate := time.NewTimer(15 * time.Minute) // a copy of this size takes less, even on a busy machine
	defer tooLate.Stop()
	var (
		kill         <-chan time.Time
		loaded, left = s.r.Load.done, kills
		begun        = s.f.begun
	)
	for {
		if loaded == nil && left == 0 && begun == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.f.done:
			return fmt.Errorf("tidemark ended by itself, with exit code %d", s.f.cmd.ProcessState.ExitCode())
		case <-tooLate.C:
			return errors.New("tidemark does not follow within 15 minutes")
		case <-tick.C:
			s.progress()
		case <-loaded:
			if s.r.Load.err != nil {
				return s.r.Load.err
			}
			loaded = nil
		case <-begun:
			begun = nil
			tooLate.Stop()
			if left < kills {
				s.r.Kills = append(s.r.Kills, time.Since(s.started).Seconds())
			}
			if left > 0 {
				// A moment in the first half of its share of the time remaining.
				share := max(time.Second, time.Until(s.end)) / time.Duration(left+1)
				kill = time.After(share/2 + rand.N(share/2))
			}
		case <-kill:
			s.say("kill -9")
			s.f.kill()
			s.account()
			if err := s.start(); err != nil {
				return err
			}
			begun, left = s.f.begun, left-1
			tooLate.Reset(15 * time.Minute)
		}
	}
}

func (s *soaking) say(format string, args ...any) {
	at := time.Since(s.began)
	s.b.say("%s %3d:%02d  "+format, append([]any{s.r.Pair, int(at.Minutes()), int(at.Seconds()) % 60}, args...)...)
}

func (s *soaking) progress() {
	now := s.f.now()
	if now.Event == "" {
		s.say("not yet following")
		return
	}
	s.say("%d rows applied, %.0f a second, end to end p50 %.1f ms, p99 %.1f ms, %.1f s behind", s.r.Rows+now.Rows, now.RowsSecond, now.EndToEnd.P50, now.EndToEnd.P99, now.behind().Seconds())
}

// soakEnd cuts over, and compares both sides with tidemark's diff and independently of it.
func (b *bench) soakEnd(ctx context.Context, a *arena, r *soaked, dir string) error {
	began := time.Now()
	text, err := b.soakVerb(ctx, a, dir, "cutover")
	r.Cutover = time.Since(began).Seconds()
	if err != nil {
		return err
	}
	transactions, rows, err := cutoverCounts(text)
	if err != nil {
		return err
	}
	r.Transactions, r.Rows = r.Transactions+transactions, r.Rows+rows
	if _, err := b.soakVerb(ctx, a, dir, "diff"); err != nil {
		return err
	}
	if r.NotApplied > 0 {
		return fmt.Errorf("%d rows were not applied", r.NotApplied)
	}
	return soakEqual(ctx, a)
}

// soakVerb runs tidemark to its end, which must be a success.
func (b *bench) soakVerb(ctx context.Context, a *arena, dir, verb string) (string, error) {
	log := filepath.Join(dir, verb+".log")
	out, err := os.Create(log)
	if err != nil {
		return "", err
	}
	defer out.Close()
	args := []string{b.tidemark, verb, a.source.url(database), a.target.url(database), "--progress", "none"}
	if _, err := runStep(ctx, step{args: args, env: stateOf(dir)}, nil, out); err != nil {
		return "", fmt.Errorf("%s: %w:\n%s", verb, err, tail(log))
	}
	text, err := os.ReadFile(log)
	return string(text), err
}

var appliedLine = regexp.MustCompile(`(?m)^applied: .*\(([\d,]+) transactions?, ([\d,]+) rows?\)`)

// cutoverCounts parses what a cutover has applied.
func cutoverCounts(text string) (transactions, rows int64, err error) {
	m := appliedLine.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, fmt.Errorf("cutover does not say what it has applied: %.200s", text)
	}
	for i, at := range []*int64{&transactions, &rows} {
		if *at, err = strconv.ParseInt(strings.ReplaceAll(m[i+1], ",", ""), 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return transactions, rows, nil
}

// soakEqual compares rows, their sums and foreign keys by SQL.
func soakEqual(ctx context.Context, a *arena) error {
	want, err := a.source.facts(ctx, a.tables, true)
	if err != nil {
		return err
	}
	got, err := a.target.facts(ctx, a.tables, true)
	if err != nil {
		return err
	}
	for name, f := range got {
		f.Indexes = want[name].Indexes // InnoDB creates some automatically
		got[name] = f
	}
	if bad := differences(want, got); len(bad) > 0 {
		return fmt.Errorf("diff found nothing, but %s", strings.Join(bad, "; "))
	}
	return nil
}

// print prints the outcome of a pair.
func (r *soaked) print(out io.Writer) {
	verdict := "clean"
	if len(r.Errors) > 0 {
		verdict = "NOT clean: " + strings.Join(r.Errors, "; ")
	}
	seconds := r.Minutes * 60
	fmt.Fprintf(out, "\n%s, %g minutes: %s\n", r.Pair, r.Minutes, verdict)
	fmt.Fprintf(out, "  load        %d transactions of pgbench (%.0f/s; %d failed), %d of TPC-C (%.0f/s; %d failed)\n",
		r.Load.TPCB, float64(r.Load.TPCB)/seconds, r.Load.TPCBFailed, r.Load.TPCC, float64(r.Load.TPCC)/seconds, r.Load.TPCCFailed)
	fmt.Fprintf(out, "  replicated  %d transactions, %d rows; %d came too early, %d were tried again after a deadlock, %d rows were not applied\n", r.Transactions, r.Rows, r.Early, r.Retried, r.NotApplied)
	fmt.Fprintf(out, "  latency     p50 %.1f ms, p99 %.1f ms, at most %.1f s in the last %.0f s; at most %.1f s behind\n", r.EndToEnd.P50, r.EndToEnd.P99, r.EndToEnd.Max/1000, r.LastProcess, r.Behind)
	var again []string
	for _, d := range r.Kills {
		again = append(again, fmt.Sprintf("%.1f s", d))
	}
	fmt.Fprintf(out, "  kill -9     %d; followed again after %s\n", len(r.Kills), strings.Join(again, ", "))
	fmt.Fprintf(out, "  tidemark    peak RSS %d MB; cutover %.1f s\n", r.RSS>>20, r.Cutover)
	for i, e := range r.Events {
		if i == 10 {
			fmt.Fprintf(out, "  ... and %d more\n", len(r.Events)-i)
			break
		}
		fmt.Fprintf(out, "  %s\n", e)
	}
	fmt.Fprintln(out)
}

func writeSoaked(file string, all []*soaked) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
