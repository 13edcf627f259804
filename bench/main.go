// Command bench compares Tidemark with other tools, one command for each job:
//
//	go -C bench run . list
//	go -C bench run . pg-shop
//	go -C bench run . all --json result.json
//	go -C bench run . profile pg-shop
//	go -C bench run . soak --minutes 1
//
// It installs the other tools if it may, starts database servers of its own with production
// settings, fills the source, and runs all tools in turn from the same state. README.md says what
// is measured and has the results.
//
// Its nouns: a job is a line of the table of goals (jobs.go); a tool is one way of doing it,
// Tidemark's or a rival's (tools.go); an arena is what a job runs in, servers and files (arena.go,
// server.go); a sample is one run of one tool, measured (run.go, proc_linux.go) and verified
// (verify.go); a result is the samples of a job, compared with its goal (report.go). A soak
// (soak.go) is no comparison: only tidemark runs, replicates for minutes, and must end with equal
// sides.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	rounds       int
	scale        float64
	keep         string
	json         string
	replay       string
	only         string
	tidemarkArgs string
	timeout      time.Duration
}

func main() {
	if err := enterRoot(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// enterRoot changes from this module's folder, where go -C bench starts, to the project's folder:
// programs are built there, and file names in flags are relative to it.
func enterRoot() error {
	if _, err := os.Stat("bench/go.mod"); err == nil {
		return nil
	}
	if _, err := os.Stat("../bench/go.mod"); err != nil {
		return errors.New("it is not the project's folder: run go -C bench run . in that")
	}
	return os.Chdir("..")
}

const usage = `usage: go -C bench run . NAME [flags]        a job of the list, or all
       go -C bench run . profile NAME        one run of tidemark with a CPU profile
       go -C bench run . ha-truth            what ha predicts, against real pairs of servers (--only, --scale, --json, --replay)
       go -C bench run . forecast            what forecast says, against the copies that follow (--only, --scale, --json)
       go -C bench run . soak [flags]        streams under load, for minutes; --help says its flags
       go -C bench run . list`

func run(ctx context.Context, args []string, out io.Writer) error {
	var words []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		words, args = append(words, args[0]), args[1:]
	}
	if len(words) == 1 && words[0] == "soak" {
		return soakAll(ctx, args, out)
	}
	var o options
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(out)
	set.Usage = func() { fmt.Fprintln(out, usage); set.PrintDefaults() }
	set.IntVar(&o.rounds, "rounds", 5, "how often each tool runs")
	set.Float64Var(&o.scale, "scale", 1, "size of the data; the goals are for 1")
	set.StringVar(&o.keep, "keep", "", "keep servers' data, logs and files in this `folder`, and fill no source that it has; default: a temporary one")
	set.StringVar(&o.json, "json", "", "write the results to this `file` too")
	set.StringVar(&o.replay, "replay", "", "ha-truth: measure nothing, and predict once more what is in this `file` of --json")
	set.StringVar(&o.only, "only", "", "run only tools whose names begin with one of these, separated by commas")
	set.StringVar(&o.tidemarkArgs, "tidemark-args", "", "further options for tidemark, for experiments")
	set.DurationVar(&o.timeout, "timeout", time.Hour, "of one run of one tool")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if set.NArg() > 0 || o.rounds < 1 || o.scale <= 0 || o.scale > 100 {
		return errors.New(usage)
	}
	if len(words) == 0 || words[0] == "list" {
		for _, j := range jobs {
			fmt.Fprintf(out, "%-12s %s\n", j.name, j.title)
		}
		return nil
	}
	if len(words) == 1 && words[0] == truthName {
		if o.replay != "" {
			return replayTruth(o.replay, out)
		}
		return o.truth(ctx, out)
	}
	if len(words) == 1 && words[0] == forecastName {
		return o.forecasts(ctx, out)
	}
	profile := words[0] == "profile"
	if profile {
		words = words[1:]
	}
	chosen, err := choose(words, profile)
	if err != nil {
		return err
	}
	return work(ctx, o, chosen, profile, out)
}

func choose(words []string, profile bool) ([]*job, error) {
	if len(words) != 1 {
		return nil, errors.New(usage)
	}
	if words[0] == "all" && !profile {
		return jobs, nil
	}
	i := slices.IndexFunc(jobs, func(j *job) bool { return j.name == words[0] })
	if i < 0 {
		return nil, fmt.Errorf("there is no job %s: go -C bench run . list", words[0])
	}
	return jobs[i : i+1], nil
}

// work runs the jobs one after the other, in a shared folder.
func work(ctx context.Context, o options, chosen []*job, profile bool, out io.Writer) error {
	if err := installRivals(ctx); err != nil {
		return err
	}
	dir, err := workFolder(o.keep)
	if err != nil {
		return err
	}
	if o.keep == "" {
		defer os.RemoveAll(dir)
	}
	b := &bench{options: o, dir: dir, out: out, tidemark: filepath.Join(dir, "tidemark")}
	if profile || b.wanted("tidemark") {
		if err := command(ctx, "go", "build", "-o", b.tidemark, "./cmd/tidemark"); err != nil {
			return err
		}
	}
	if profile {
		return b.profile(ctx, chosen[0])
	}
	var results []*result
	for _, j := range chosen {
		r, err := b.compare(ctx, j)
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		results = append(results, r)
		r.print(out)
		if o.json != "" { // after each job, so that an interrupted run of all keeps something
			if err := writeJSON(o, results); err != nil {
				return err
			}
		}
	}
	return nil
}

// installRivals runs the script that installs the other tools, from the module's root.
func installRivals(ctx context.Context) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	if err := os.Chdir(filepath.Dir(strings.TrimSpace(string(mod)))); err != nil {
		return err
	}
	return command(ctx, "script/install-bench-deps.sh")
}

// command runs a program whose output matters only when it fails.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(string(out)))
	}
	return nil
}

const folderPattern = "tidemark-bench-"

// workFolder creates the folder for everything. The servers' users must be able to enter it. A
// temporary one is locked while we live: an unlocked one was left behind by a killed bench, and is
// removed.
func workFolder(keep string) (string, error) {
	if keep != "" {
		dir, err := filepath.Abs(keep)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		if !locked(dir) {
			return "", fmt.Errorf("another bench works in %s", dir)
		}
		return dir, nil
	}
	old, err := filepath.Glob(filepath.Join(os.TempDir(), folderPattern+"*", "lock"))
	if err != nil {
		return "", err
	}
	for _, file := range old {
		if locked(filepath.Dir(file)) {
			_ = os.RemoveAll(filepath.Dir(file)) // what cannot be removed belongs to another user
		}
	}
	dir, err := os.MkdirTemp("", folderPattern)
	if err != nil {
		return "", err
	}
	if !locked(dir) {
		return "", fmt.Errorf("cannot lock %s", dir)
	}
	return dir, os.Chmod(dir, 0o755)
}

// locked locks a folder; the kernel releases the lock when we end.
func locked(dir string) bool {
	fd, err := syscall.Open(filepath.Join(dir, "lock"), syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return false
	}
	if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		syscall.Close(fd)
		return false
	}
	return true // the descriptor stays open
}
