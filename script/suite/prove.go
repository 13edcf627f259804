//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark/script/long"
)

// provers is how many units run at a time.
const provers = 2

// A proving is a run of make prove.
type proving struct {
	top    string
	out    io.Writer
	record *record
	from   map[string]source // by folder
	rows   [][]unit
	commit string
	seed   uint64
	built  compiled

	mu   sync.Mutex
	left []unit // in order
}

// printProved runs prove in this folder, for the time given, if one is.
func printProved(args []string) error {
	var limit time.Duration
	if len(args) > 0 && args[0] != "" {
		var err error
		if limit, err = time.ParseDuration(args[0]); err != nil || limit <= 0 {
			return fmt.Errorf("FOR=%s is not a time such as 20m or 2h", args[0])
		}
	}
	ctx, interrupts, cancel := whileWanted()
	defer cancel()
	go func() {
		<-interrupts
		cancel()
	}()
	if ok, err := prove(ctx, ".", limit, os.Stdout); err != nil {
		return err
	} else if !ok {
		return errors.New("some of it failed")
	}
	return nil
}

// prove runs what is not proved of this code, the oldest first, until the time is over, and keeps
// the record. It reports whether nothing of this code failed.
func prove(ctx context.Context, top string, limit time.Duration, out io.Writer) (bool, error) {
	p := &proving{top: top, out: out, from: map[string]source{}, seed: rand.Uint64() >> 1}
	if err := p.plan(); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "%d parts of %d are not proved at %s; TIDEMARK_SEED=%d\n", len(p.left), p.total(), p.commit, p.seed)
	more := func() bool { return ctx.Err() == nil }
	if limit > 0 {
		over := time.Now().Add(limit)
		more = func() bool { return ctx.Err() == nil && time.Now().Before(over) } // what runs by then may end
	}
	var wg sync.WaitGroup
	failed := make(chan error, provers)
	for range provers {
		wg.Go(func() { failed <- p.work(ctx, more) })
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return false, err
		}
	}
	return p.summary(), ctx.Err()
}

// plan finds out what there is to prove, and what is proved.
func (p *proving) plan() error {
	dirty, err := git(p.top, "status", "--porcelain", "--", ".", ":!"+recordFile)
	if err != nil {
		return err
	}
	if dirty != "" {
		return errors.New("some changes are not committed: the record names the commit that it proves. Commit them first")
	}
	if p.commit, err = git(p.top, "rev-parse", "--short", "HEAD"); err != nil {
		return err
	}
	from, err := sources(p.top)
	if err != nil {
		return err
	}
	all, err := long.Read(filepath.Join(p.top, "script/long-tests"))
	if err != nil {
		return err
	}
	if p.record, err = readRecord(p.top, from); err != nil {
		return err
	}
	for _, s := range from {
		p.from[s.dir] = s
	}
	for _, u := range units(from, all) {
		if n := len(p.rows); n > 0 && p.rows[n-1][0].row() == u.row() {
			p.rows[n-1] = append(p.rows[n-1], u)
		} else {
			p.rows = append(p.rows, []unit{u})
		}
	}
	p.left = p.todo()
	p.built.expect(p.left)
	return nil
}

// todo returns the units that are not proved at this code: first those that never were, and of
// these races last, since the long forms find more; then those whose proof is of other code, the
// oldest first, then those that failed.
func (p *proving) todo() []unit {
	var due, failed []unit
	for _, units := range p.rows {
		for _, u := range units {
			was, ok := p.record.of(u)
			switch current := ok && p.record.current(was, p.from[u.pkg]); {
			case !current:
				due = append(due, u)
			case len(was.Failed) > 0:
				failed = append(failed, u)
			}
		}
	}
	for _, list := range [][]unit{due, failed} {
		slices.SortStableFunc(list, func(a, b unit) int {
			x, _ := p.record.of(a)
			y, _ := p.record.of(b)
			if x.Time.IsZero() && y.Time.IsZero() && (a.what == raced) != (b.what == raced) {
				return cmp.Compare(a.what, b.what)
			}
			return x.Time.Compare(y.Time)
		})
	}
	return append(due, failed...)
}

func (p *proving) total() (n int) {
	for _, units := range p.rows {
		n += len(units)
	}
	return n
}

// work runs units as long as there are more, and time.
func (p *proving) work(ctx context.Context, more func() bool) error {
	for {
		p.mu.Lock()
		if len(p.left) == 0 || !more() {
			p.mu.Unlock()
			return nil
		}
		u := p.left[0]
		p.left = p.left[1:]
		p.mu.Unlock()
		started := time.Now()
		got, said, err := p.run(ctx, u)
		p.built.ran(u)
		if err != nil || ctx.Err() != nil {
			return err
		}
		got.Time, got.Seconds = time.Now().UTC(), time.Since(started).Seconds()
		if err := p.keep(u, got, said); err != nil {
			return err
		}
	}
}

// keep adds a unit to the record, and tells of it.
func (p *proving) keep(u unit, got proof, said string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	word := "ok   "
	if len(got.Failed)+len(got.Unstable) > 0 {
		fmt.Fprintln(p.out, said)
	}
	if len(got.Failed) > 0 {
		word = "FAIL "
	}
	fmt.Fprintf(p.out, "%s %s: %d tests, %.0f s; %d left\n", word, u.key(), got.Tests, got.Seconds, len(p.left))
	p.record.add(u, p.from[u.pkg], got)
	return p.record.write(p.rows)
}

// run runs a unit, and returns what it said if something failed.
func (p *proving) run(ctx context.Context, u unit) (proof, string, error) {
	got := proof{Commit: p.commit, Seed: fmt.Sprint(p.seed)}
	if u.what == fuzzed {
		return p.fuzz(ctx, u, got)
	}
	name := strings.NewReplacer("/", "_", " ", "_").Replace(u.key())
	log, err := create(filepath.Join(p.top, "bin/prove", name+".json"))
	if err != nil {
		return got, "", err
	}
	defer log.Close()
	var said strings.Builder
	r := newRecorder(&said, log)
	if file := p.built.of(ctx, p.top, u); file != "" {
		r.follow(u.test(ctx, p.top, file, p.seed), u.args(p.top, p.seed))
	} else {
		goTest(ctx, u.args(p.top, p.seed), r)
	}
	if ctx.Err() == nil {
		_, err = r.judge(ctx, filepath.Join(p.top, "bin/prove", name+".unstable"))
	}
	got.Tests, got.Failed, got.Unstable = r.passed, r.bad, r.unstable
	return got, said.String(), errors.Join(err, r.kept.Flush())
}

func create(file string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	return os.Create(file)
}

// fuzzFor is how long each target is fuzzed.
const fuzzFor = "20s"

var (
	fuzzedWell  = regexp.MustCompile(`(?m)^\S+ Fuzz\w+: `)
	fuzzedFound = regexp.MustCompile(`(?m)^\S+ (Fuzz\w+) fails:`)
)

func (p *proving) fuzz(ctx context.Context, u unit, got proof) (proof, string, error) {
	cmd := exec.CommandContext(ctx, "script/fuzz.sh", fuzzFor, "./"+u.pkg)
	cmd.Dir = p.top
	out, err := cmd.CombinedOutput()
	got.Tests = len(fuzzedWell.FindAll(out, -1))
	for _, m := range fuzzedFound.FindAllSubmatch(out, -1) {
		got.Failed = append(got.Failed, string(m[1]))
	}
	if err != nil && len(got.Failed) == 0 {
		got.Failed = []string{"fuzz.sh"}
	}
	return got, string(out), nil
}

// mostListed is how many rows summary prints of a kind, except of those that failed.
const mostListed = 12

// summary says what of the record is older than the code, and what failed.
func (p *proving) summary() bool {
	var old, missing, failed, unstable []string
	var took float64
	for _, units := range p.rows {
		row := units[0].row()
		got, ok := p.record.row(units)
		took += got.Seconds
		switch {
		case !ok:
			missing = append(missing, row)
		case !p.record.current(got, p.from[units[0].pkg]):
			old = append(old, fmt.Sprintf("%s (%s, %s)", row, got.Commit, got.Time.Format(time.DateOnly)))
		}
		for _, name := range got.Failed {
			failed = append(failed, row+" "+name)
		}
		for _, name := range got.Unstable {
			unstable = append(unstable, row+" "+name)
		}
	}
	for _, list := range []struct {
		what  string
		names []string
	}{{"not proved yet", missing}, {"older than the code", old}, {"unstable", unstable}, {"failed", failed}} {
		if n := len(list.names); n > mostListed && list.what != "failed" {
			list.names = append(list.names[:mostListed-1], fmt.Sprintf("and %d more", n-mostListed+1))
		}
		if len(list.names) > 0 {
			fmt.Fprintf(p.out, "\n%s:\n  %s\n", list.what, strings.Join(list.names, "\n  "))
		}
	}
	fmt.Fprintf(p.out, "\n%d packages' rows, %d proved at this code, in %.0f minutes of two at a time; %s\n",
		len(p.rows), len(p.rows)-len(missing)-len(old), took/60/provers, recordFile)
	return len(failed) == 0
}

func git(top string, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", top}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
