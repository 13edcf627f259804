package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/internal/filelock"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// A planner takes the steps of a plan. With --out, the result of a step is a file there, and
// steps.json has the input of each: a step with the same input takes its result from there.
type planner struct {
	*planOptions
	url     string
	w       io.Writer // progress
	page    string
	asked   map[string]string // by the file's name
	step    int
	steps   int
	hasDisk bool // the standby's listener has one
	free    int64
	lock    *os.File // of --out
}

const (
	stepsFile = "steps.json"
	underWay  = "under way" // the step that was, in steps.json
)

// say prints a line of progress.
func (p *planner) say(format string, args ...any) {
	if p.progress == "none" {
		return
	}
	text := fmt.Sprintf(format, args...)
	if p.json {
		screen.Event(p.w, map[string]any{"event": "plan", "step": p.step, "of": p.steps, "text": text})
		return
	}
	fmt.Fprintf(p.w, "[%d/%d] %s\n", p.step, p.steps, text)
}

// prepare checks whether all steps can be done, before the first one takes its time.
func (p *planner) prepare(ctx context.Context) error {
	p.asked = map[string]string{}
	if p.out != "" {
		if err := p.openFolder(); err != nil {
			return err
		}
	}
	if p.html != "" {
		if st, err := os.Stat(filepath.Dir(p.html)); err != nil || !st.IsDir() {
			return fileProblem("write the page", p.html, cmp.Or(err, fs.ErrNotExist))
		}
	}
	if p.standby != "" {
		err := p.secret.Read(address.HASecret)
		if err != nil {
			return err
		}
		if p.hasDisk, err = measure.LookAtPeer(ctx, p.standby, p.secret.Text); err != nil {
			return err
		}
	}
	if p.primaryDir != "" {
		var err error
		if p.free, err = measure.DiskRoom(measure.DiskSpec{Dir: p.primaryDir, Force: p.force}); err != nil {
			return err
		}
	}
	if p.asked[underWay] != "" && p.primaryDir != "" { // it was killed
		if err := measure.ClearScratch(p.primaryDir); err != nil {
			return fileProblem("clean up", p.primaryDir, err)
		}
	}
	p.steps = 3
	if p.measuresStandby() {
		p.steps++
	}
	if p.simulate > 0 {
		p.steps++
	}
	return nil
}

// openFolder locks the folder of results, and reads what is there.
func (p *planner) openFolder() error {
	out := p.out
	if err := os.MkdirAll(out, 0o700); err != nil {
		return fileProblem("keep results", out, err)
	}
	lock, err := plainfile.Dir(out).OpenFile("lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fileProblem("keep results", out, err)
	}
	if err := filelock.Lock(lock); err != nil {
		lock.Close()
		return &tidemark.Error{Kind: tidemark.Exists, Op: "keep results", Object: out, Err: errors.New("another plan is using this folder"), Hint: "Name another folder with --out, or wait until that plan ends."}
	}
	p.lock = lock
	steps := filepath.Join(out, stepsFile)
	text, err := os.ReadFile(steps)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p.asked)
	}
	if err != nil {
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "keep results", Object: steps, Err: err, Hint: "Remove that file, or name another folder with --out."}
	}
	return nil
}

func (p *planner) close() {
	if p.lock != nil {
		p.lock.Close()
	}
}

func (p *planner) measuresStandby() bool { return p.hasDisk && p.standbyDisk == nil }

// taken does a step, or takes its earlier result. asked is everything that the result depends on.
func taken[T any](p *planner, name string, asked any, do func() (*T, error)) (*T, error) {
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	mark := fmt.Sprintf("%x", sha256.Sum256(text))[:16]
	if p.out != "" && p.asked[name] == mark {
		v := new(T)
		if text, err := os.ReadFile(p.file(name)); err == nil && json.Unmarshal(text, v) == nil {
			p.say("%s: taken from %s", name, p.file(name))
			return v, nil
		}
	}
	if err := p.mark(underWay, name); err != nil {
		return nil, err
	}
	v, err := do()
	if err != nil {
		return nil, errors.Join(err, p.mark(underWay, ""))
	}
	p.asked[underWay] = ""
	return v, p.keep(name, mark, v)
}

func (p *planner) file(name string) string { return filepath.Join(p.out, name+".json") }

// keep writes a result atomically, so that a plan that is killed has all of it or nothing.
func (p *planner) keep(name, mark string, v any) error {
	if p.out == "" {
		return nil
	}
	if err := writeWhole(p.file(name), v); err != nil {
		return err
	}
	if mark == "" {
		return nil
	}
	return p.mark(name, mark)
}

// mark records the input of a step, or that one is under way.
func (p *planner) mark(name, mark string) error {
	p.asked[name] = mark
	if p.out == "" {
		return nil
	}
	return writeWhole(filepath.Join(p.out, stepsFile), p.asked)
}

func writeWhole(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		dir, name := plainfile.Named(path)
		if err = dir.WriteFile(name+".new", append(text, '\n')); err == nil {
			err = dir.Rename(name+".new", name)
		}
	}
	if err != nil {
		return fileProblem("keep results", path, err)
	}
	return nil
}

// gather takes the steps.
func (p *planner) gather(ctx context.Context) (ha.PlanSpec, error) {
	s := ha.PlanSpec{Clients: p.sessions, Modes: p.planModes(), Standby: p.standby}
	for _, step := range []func(context.Context, *ha.PlanSpec) error{p.scanLog, p.measurePrimary, p.measureNetwork, p.measureStandby, p.simulateAll} {
		if err := step(ctx, &s); err != nil {
			return s, err
		}
	}
	if p.planOptions.free > 0 {
		s.Sites.Free = float64(p.planOptions.free)
		s.Basis = append(s.Basis, ha.Basis{What: "room for log", Source: ha.Given, Text: screen.Bytes(p.planOptions.free)})
	} else if p.free > 0 {
		s.Sites.Free = float64(p.free)
		s.Basis = append(s.Basis, ha.Basis{What: "room for log", Source: ha.Measured, Text: screen.Bytes(p.free) + " are free in " + p.primaryDir})
	}
	replay := ha.Basis{What: "replay on the standby", Source: ha.Assumed, Text: "to keep up, and to take no time; give measured figures with --replay"}
	if len(p.replays) > 0 {
		b := s.Sites.Standbys[0]
		replay.Source, replay.Text = ha.Given, fmt.Sprintf("%s MiB/s, and %s ms for a commit", screen.MiB(b.Replay), screen.Millis(b.ReplayDelay))
	}
	s.Basis = append(s.Basis, replay)
	return s, nil
}

// scanLog is the first step: the workload.
func (p *planner) scanLog(ctx context.Context, s *ha.PlanSpec) (err error) {
	p.step++
	for _, file := range p.scans {
		text, err := readAll(nil, file)
		if err != nil {
			return err
		}
		profile, err := ha.ReadProfile(text, file)
		if err != nil {
			return err
		}
		s.Scans = append(s.Scans, ha.Scanned{Name: file, Profile: profile})
	}
	if p.url != "" {
		asked := []any{tidemark.MaskURL(p.url), p.watch}
		profile, err := taken(p, "scan", asked, func() (*ha.Profile, error) { return p.scanServer(ctx) })
		if err != nil {
			return err
		}
		s.Scans = []ha.Scanned{{Name: serverName(p.url), Profile: profile}}
	}
	if err := ha.CheckScans(s.Scans); err != nil {
		return err
	}
	first := s.Scans[0].Profile
	s.Server = engineTitles[first.Engine] + " on " + s.Scans[0].Name
	if p.url == "" {
		s.Server = engineTitles[first.Engine] + " of " + filepath.Base(s.Scans[0].Name)
	}
	for _, mode := range s.Modes {
		if !slices.ContainsFunc(ha.Modes(first.Engine), func(m string) bool { return strings.EqualFold(m, mode) }) {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "plan", Object: mode, Err: errors.New("not a mode of " + first.Engine), Hint: "The modes are " + strings.Join(ha.Modes(first.Engine), ", ") + "."}
		}
	}
	s.Sites = ha.Sites{Engine: first.Engine, Version: first.Version, Outage: p.outage.Seconds(), Timeout: p.timeout.Seconds(), Backlog: float64(p.backlog), Near: p.near}
	s.Local, s.Pauses = p.local, p.paused
	for _, x := range s.Scans {
		busy := x.Profile.Busiest()
		text := fmt.Sprintf("%.0f s of it, %s, %s transactions; at most %.0f a second", x.Profile.Seconds, screen.Bytes(x.Profile.Bytes), screen.Commas(x.Profile.Transactions.Committed), float64(busy.Ended)/busy.Seconds)
		p.say("the log: %s", text)
		basis := ha.Basis{What: "the log", Source: ha.Measured, Text: text}
		if p.url == "" {
			basis.Source, basis.Text = ha.Given, x.Name+": "+text
		}
		s.Basis = append(s.Basis, basis)
	}
	if len(p.local) > 0 {
		s.Basis = append(s.Basis, ha.Basis{What: "commits on the primary alone", Source: ha.Given, Text: fmt.Sprintf("of %s of clients", screen.Count(len(p.local), "number"))})
	}
	return nil
}

// serverName is a server for the report: without user, password and options.
func serverName(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return tidemark.MaskURL(raw)
	}
	name := u.Host
	if db := strings.Trim(u.Path, "/"); db != "" {
		name += ", database " + db
	}
	return name
}

// scanServer reads what a server writes.
func (p *planner) scanServer(ctx context.Context) (*ha.Profile, error) {
	watch := p.watch
	p.say("the log: reading what %s writes, for %s", serverName(p.url), watch)
	url, err := p.login(p.url)
	if err != nil {
		return nil, err
	}
	log, err := engines.OpenLog(ctx, []string{url}, engines.LogOptions{For: watch, Engine: p.engineOptions.engine})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	interval := min(max(watch/20, time.Second), time.Minute)
	return ha.Scan(ctx, &watched{log: log, list: &listing{}, progress: p.scanProgress(p.w)}, ha.Options{Interval: interval, Grouped: log.Grouped, Counted: log.Live})
}

// measurePrimary measures the primary's disk, or takes the given figures.
func (p *planner) measurePrimary(ctx context.Context, s *ha.PlanSpec) error {
	p.step++
	if p.primaryDir == "" {
		s.Sites.Primary = *p.primaryDisk
		s.Basis = append(s.Basis, ha.Basis{What: "the primary's disk", Source: ha.Given, Text: screen.Disk(*p.primaryDisk)})
		p.say("the primary's disk: %s, as given", screen.Disk(*p.primaryDisk))
		return nil
	}
	spec := measure.DiskSpec{Dir: p.primaryDir, Engine: s.Sites.Engine, Time: p.each, Force: p.force}
	r, err := taken(p, "disk", spec, func() (*measure.DiskReport, error) {
		p.say("the primary's disk: writing in %s, for %s", p.primaryDir, p.each)
		return measure.MeasureDisk(ctx, spec)
	})
	if err != nil {
		return err
	}
	s.Sites.Primary = r.Disk
	s.Doubts = append(s.Doubts, r.Findings...)
	s.Basis = append(s.Basis, ha.Basis{What: "the primary's disk", Source: ha.Measured, Text: fmt.Sprintf("%s (%s; %s, %s)", screen.Disk(r.Disk), r.Way, p.primaryDir, r.FileSystem)})
	p.say("the primary's disk: %s", screen.Disk(r.Disk))
	return nil
}

// measureNetwork measures the network to the standby, or takes the given figures.
func (p *planner) measureNetwork(ctx context.Context, s *ha.PlanSpec) error {
	p.step++
	b := ha.Standby{Name: standbyName(p.standby), SyncRelay: p.syncRelay}
	for _, r := range p.replays {
		b.Replay, b.ReplayDelay = r.Rate, r.Delay
	}
	if len(p.networks) > 0 {
		b.Network = p.networks[0].Network
		b.Name = cmp.Or(p.networks[0].Name, b.Name)
		s.Basis = append(s.Basis, ha.Basis{What: "the network", Source: ha.Given, Text: screen.Network(b.Network)})
		p.say("the network: %s, as given", screen.Network(b.Network))
		s.Sites.Standbys = []ha.Standby{b}
		return nil
	}
	spec := measure.LinkSpec{Peer: p.standby, Time: p.each, Line: p.line(), Secret: p.secret.Text}
	r, err := taken(p, "network", spec, func() (*measure.LinkReport, error) {
		p.say("the network: to %s, for %s", cmp.Or(p.standby, "a standby in this process"), p.each)
		return measure.MeasureLink(ctx, spec)
	})
	if err != nil {
		return err
	}
	b.Network = r.Network
	s.Sites.Standbys = []ha.Standby{b}
	s.Doubts = append(s.Doubts, r.Findings...)
	source := ha.Measured
	if p.standby == "" {
		source = ha.Given
	}
	s.Basis = append(s.Basis, ha.Basis{What: "the network", Source: source, Text: fmt.Sprintf("%s (%s%s)", screen.Network(r.Network), r.Peer, screen.Added(r.Added))})
	p.say("the network: %s", screen.Network(r.Network))
	return nil
}

// measureStandby has the standby's disk measured there, takes the given figures, or the primary's.
func (p *planner) measureStandby(ctx context.Context, s *ha.PlanSpec) error {
	b := &s.Sites.Standbys[0]
	basis := ha.Basis{What: "the standby's disk"}
	switch {
	case p.standbyDisk != nil:
		b.Disk = *p.standbyDisk
		basis.Source, basis.Text = ha.Given, screen.Disk(b.Disk)
	case p.measuresStandby():
		p.step++
		r, err := taken(p, "standby-disk", []any{p.standby, s.Sites.Engine, p.each}, func() (*measure.DiskReport, error) {
			p.say("the standby's disk: on %s, for %s", p.standby, p.each)
			return measure.MeasurePeerDisk(ctx, p.standby, p.secret.Text, s.Sites.Engine, p.each)
		})
		if err != nil {
			return err
		}
		b.Disk = r.Disk
		s.Doubts = append(s.Doubts, r.Findings...)
		basis.Source, basis.Text = ha.Measured, fmt.Sprintf("%s (%s; %s on %s, %s)", screen.Disk(r.Disk), r.Way, r.Dir, p.standby, r.FileSystem)
		p.say("the standby's disk: %s", screen.Disk(r.Disk))
	default:
		b.Disk = s.Sites.Primary
		basis.Source, basis.Text = ha.Assumed, "as the primary's: "+screen.Disk(b.Disk)+"; set it with --standby-disk, or have it measured by a listener with --dir"
	}
	s.Basis = append(s.Basis, basis)
	return nil
}

// simulateAll simulates the hop, and then each mode that waits with each number of sessions.
func (p *planner) simulateAll(ctx context.Context, s *ha.PlanSpec) error {
	if p.simulate == 0 {
		s.Basis = append(s.Basis, ha.Basis{What: "waking up on both sides", Source: ha.Assumed, Text: "none: nothing was simulated"})
		return nil
	}
	p.step++
	sim := measure.SimSpec{Peer: p.standby, Line: p.line(), Secret: p.secret.Text, Dir: p.primaryDir, Disk: p.primaryDisk, Force: p.force, Time: p.simulate, Standby: measure.StandbySpec{Disk: &s.Sites.Standbys[0].Disk}}
	if len(p.networks) > 0 && p.standby == "" {
		n := p.networks[0]
		sim.Line = measure.Line{Delay: time.Duration(n.RTT * float64(time.Second)), Rate: n.Rate}
	}
	hop, err := p.simulated(ctx, "simulate-hop", measure.HopTrial(*s, sim))
	if err != nil {
		return err
	}
	var added float64
	*s, added = s.WithHop(hop.Commit.P50)
	s.Basis = append(s.Basis, ha.Basis{What: "waking up on both sides", Source: ha.Measured, Text: fmt.Sprintf("%s ms: what a simulated commit without disks takes (%s), less the round trip", screen.Millis(added), screen.Millis(hop.Commit.P50))})
	for _, mode := range s.Waiting() {
		for _, n := range p.sessions {
			r, err := p.simulated(ctx, fmt.Sprintf("simulate-%s-%d", mode, n), measure.TrialOf(*s, mode, n, sim))
			if err != nil {
				return err
			}
			s.Trials = append(s.Trials, r.Trial(n))
		}
	}
	return nil
}

func (p *planner) simulated(ctx context.Context, name string, spec measure.SimSpec) (*measure.SimReport, error) {
	return taken(p, name, spec, func() (*measure.SimReport, error) {
		p.say("simulating %s, %s, for %s", spec.Mode, screen.Count(spec.Committers, "session"), spec.Time)
		r, err := measure.Simulate(ctx, spec)
		if err == nil && r.Stopped { // a partial result is not a result
			err = &tidemark.Error{Kind: tidemark.Cancelled, Op: "simulate", Object: spec.Mode, Err: errors.New("stopped"), Hint: "Use --out: a plan then resumes where it was."}
		}
		return r, err
	})
}
