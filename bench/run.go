package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A sample is one run of one tool.
type sample struct {
	Wall    time.Duration // from the start of the first command to the end of the last
	Own     time.Duration // CPU time of the tool's processes
	Servers time.Duration // CPU time of all servers of the arena, meanwhile
	Others  time.Duration // CPU time that the machine spent on anything else: the machine was not quiet
	RSS     int64         // bytes; the peak of any process of the tool
	Figures map[string]float64
}

// compare sets up a job and runs its tools in turn, rotating the order by one each round.
func (b *bench) compare(ctx context.Context, j *job) (*result, error) {
	var a arena
	defer a.close()
	if err := j.setUp(ctx, b, &a); err != nil {
		return nil, err
	}
	defer func() { _ = errors.Join(os.RemoveAll(b.hoard()), os.RemoveAll(b.scratch())) }()
	tools := slices.DeleteFunc(j.tools(b, &a), func(t tool) bool { return !b.wanted(t.name) })
	if len(tools) == 0 {
		return nil, fmt.Errorf("no tool of it is called %s", b.only)
	}
	r := newResult(b, j, &a, tools)
	for round := range b.rounds {
		for i := range tools {
			// Rivals first in round 0: if the content of a dump is unknown, tidemark's rows are
			// compared with theirs.
			n := (i + round + 1) % len(tools)
			t, row := tools[n], r.rows[n]
			if row.Failed != "" {
				continue
			}
			s, err := b.once(ctx, j, &a, t, round)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				row.Failed = err.Error()
				b.say("%s, round %d: %s FAILED: %v", j.name, round+1, t.name, err)
				continue
			}
			row.Samples = append(row.Samples, s)
			b.say("%s, round %d: %-20s %6.2f s", j.name, round+1, t.name, s.Wall.Seconds())
		}
	}
	if row := r.rows[0]; j.differs && row.Failed == "" && !row.Rival {
		if err := b.seesDifference(ctx, &a, tools[0]); err != nil {
			row.Failed = err.Error()
		}
	}
	return r, nil
}

// wanted reports whether --only lets a tool run.
func (b *bench) wanted(tool string) bool {
	return b.only == "" || slices.ContainsFunc(strings.Split(b.only, ","), func(prefix string) bool { return strings.HasPrefix(tool, prefix) })
}

// once runs a tool from the same state as all others and verifies the result.
func (b *bench) once(ctx context.Context, j *job, a *arena, t tool, round int) (sample, error) {
	begin := t.before
	if begin == nil && t.into != nil {
		begin = t.into.empty
	}
	if begin != nil {
		if err := begin(ctx); err != nil {
			return sample{}, err
		}
	}
	for _, s := range a.servers() {
		if err := s.settle(ctx); err != nil {
			return sample{}, err
		}
	}
	syscall.Sync()
	log := filepath.Join(b.dir, "logs", fmt.Sprintf("%s-%s-%d.log", j.name, strings.NewReplacer(" ", "", "<", "-").Replace(t.name), round+1))
	s, err := b.measure(ctx, a, t, log, nil)
	if j.hoards {
		err = errors.Join(err, os.MkdirAll(b.hoard(), 0o755), os.Rename(b.scratch(), filepath.Join(b.hoard(), filepath.Base(log))))
	}
	if err == nil && t.figures != nil {
		s.Figures, err = t.figures(log)
	}
	if err != nil || t.into == nil {
		return s, err
	}
	got, err := t.into.facts(ctx, a.tables, round == 0)
	if err != nil {
		return s, fmt.Errorf("verify: %w", err)
	}
	want := maps.Clone(a.Facts)
	for name, more := range t.extra {
		f := want[name]
		f.Indexes, f.ForeignKeys = f.Indexes+more.Indexes, f.ForeignKeys+more.ForeignKeys
		want[name] = f
	}
	if bad := differences(want, got); len(bad) > 0 {
		return s, fmt.Errorf("verify: %s", strings.Join(bad, "; "))
	}
	for name, f := range a.Facts {
		if f.Sum == "" {
			f.Sum = got[name].Sum
			a.Facts[name] = f
		}
	}
	return s, nil
}

// scratch returns the folder for a run's output, hoard the one for the output of earlier runs.
func (b *bench) scratch() string { return filepath.Join(b.dir, "scratch") }
func (b *bench) hoard() string   { return filepath.Join(b.dir, "hoard") }

// measure runs the commands of a tool. What they leave in the scratch folder stays.
func (b *bench) measure(ctx context.Context, a *arena, t tool, log string, env []string) (s sample, err error) {
	scratch := b.scratch()
	if err := errors.Join(os.RemoveAll(scratch), os.MkdirAll(scratch, 0o755), os.MkdirAll(filepath.Dir(log), 0o755)); err != nil {
		return s, err
	}
	steps, err := t.steps(scratch)
	if err != nil {
		return s, err
	}
	out, err := os.Create(log)
	if err != nil {
		return s, err
	}
	defer out.Close()
	before, err := readMeters(a)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.timeout, fmt.Errorf("no end after %v", b.timeout))
	defer cancel()
	start := time.Now()
	for _, group := range steps {
		if err := runGroup(ctx, group, env, out, &s); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return s, fmt.Errorf("%w: %s", err, lastLines(log))
		}
	}
	s.Wall = time.Since(start)
	after, err := readMeters(a)
	if err != nil {
		return s, err
	}
	s.Servers = after.servers - before.servers
	s.Others = max(0, after.machine-before.machine-s.Servers-s.Own)
	return s, nil
}

// meters are CPU times that only grow.
type meters struct{ servers, machine time.Duration }

func readMeters(a *arena) (m meters, err error) {
	for _, s := range a.servers() {
		cpu, err := treeCPU(s.cmd.Process.Pid)
		if err != nil {
			return m, err
		}
		m.servers += cpu
	}
	m.machine, err = machineCPU()
	return m, err
}

// runGroup runs commands concurrently and adds their usage to s.
func runGroup(ctx context.Context, group []step, env []string, out *os.File, s *sample) error {
	var (
		all  sync.WaitGroup
		lock sync.Mutex
		errs []error
	)
	for _, st := range group {
		all.Go(func() {
			usage, err := runStep(ctx, st, env, out)
			lock.Lock()
			defer lock.Unlock()
			errs = append(errs, err)
			if usage != nil {
				s.Own += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
				s.RSS = max(s.RSS, peakRSS(usage))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// runStep runs one command to its end, with all the processes that it starts.
func runStep(ctx context.Context, st step, env []string, out *os.File) (*syscall.Rusage, error) {
	runtime.LockOSThread() // for the parent death signal, see spawn
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, st.args[0], st.args[1:]...)
	cmd.Env = append(append(os.Environ(), st.env...), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = procAttr(nil, syscall.SIGKILL)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if st.stdin != "" {
		in, err := os.Open(st.stdin)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		cmd.Stdin = in
	}
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Base(st.args[0]), err)
	}
	if cmd.ProcessState == nil {
		return nil, err
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage), err
}

// lastLines returns the last three lines of a log, joined into one.
func lastLines(file string) string {
	lines := strings.Split(tail(file), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}

// seesDifference changes one value on the second side, and then reverts it: a comparison that finds
// nothing meanwhile does not work.
func (b *bench) seesDifference(ctx context.Context, a *arena, t tool) error {
	change := func(by string) error {
		return a.target.exec(ctx, database, "UPDATE order_line SET amount = amount + "+by+" WHERE (o_id, n) = (SELECT max(o_id), 0 FROM order_line)")
	}
	if err := change("1"); err != nil {
		return err
	}
	_, err := b.measure(ctx, a, t, filepath.Join(b.dir, "logs", "diff-changed.log"), nil)
	if undo := change("-1"); undo != nil {
		return undo
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}
	return fmt.Errorf("a changed row: exit code 1 was expected, for databases that differ, and came: %v", err)
}

// profile runs tidemark once with a CPU profile.
func (b *bench) profile(ctx context.Context, j *job) error {
	var a arena
	defer a.close()
	if err := j.setUp(ctx, b, &a); err != nil {
		return err
	}
	t := j.tools(b, &a)[0]
	file, err := filepath.Abs(filepath.Join("bin", j.name+".pprof"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if t.before != nil {
		if err := t.before(ctx); err != nil {
			return err
		}
	}
	for _, s := range a.servers() {
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	log := filepath.Join(b.dir, "logs", j.name+"-profile.log")
	defer os.RemoveAll(b.scratch())
	s, err := b.measure(ctx, &a, t, log, []string{"TIDEMARK_CPUPROFILE=" + file})
	if err != nil {
		return err
	}
	b.say("%s\n\n%.2f s, CPU %.2f s own and %.2f s servers, peak RSS %d MB", tail(log), s.Wall.Seconds(), s.Own.Seconds(), s.Servers.Seconds(), s.RSS>>20)
	top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=30", file).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	b.say("%s\nmore: go tool pprof -http=: %s", top, file)
	return nil
}
