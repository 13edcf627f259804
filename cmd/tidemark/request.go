package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
	"github.com/tidemarkdb/tidemark/mapping"
)

// A request is what a command copies or compares, with all files read.
type request struct {
	source, target string
	rules          *mapping.Rules
	findings       []tidemark.Finding
	// found means that source and target are the catalogue's, without passwords; only has the
	// tables of their stream.
	found bool
	only  map[tidemark.TableID]bool
}

// A tasked command has options that may be in a task file.
type tasked interface {
	option.Set
	ruleSet() *ruleOptions
}

// A finder can take source and target from the catalogue's record of a stream.
type finder interface {
	ofStream(*cobra.Command, *request) error
}

// onTask runs a command with its command line and its files.
func onTask[O any, P interface {
	*O
	tasked
}](cmd *cobra.Command, do func(P, *cobra.Command, *request) error) *cobra.Command {
	read := flags[O, P](cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, r, err := gather(cmd, given, read)
		if err != nil {
			return err
		}
		return do(o, cmd, r)
	}
	return cmd
}

// gather reads the files that the flags name and applies everything in order: defaults, then DMS
// task settings, then the task file, then the flags.
func gather[P tasked](cmd *cobra.Command, given []string, read func(map[string]option.Value) (P, error)) (o P, r *request, err error) {
	if o, err = read(nil); err != nil {
		return o, nil, err
	}
	r = &request{rules: mapping.All()}
	file, err := r.files(o.ruleSet())
	if err != nil {
		return o, nil, err
	}
	if o, err = read(file); err != nil {
		return o, nil, err
	}
	if last := len(given) - 1; last > 0 {
		if r.source, err = joined(given[:last], cmd.Use); err != nil {
			return o, nil, err
		}
		r.target = given[last]
	} else if last == 0 {
		r.source = given[0]
	}
	if r.source == "" && r.target == "" {
		if s, can := any(o).(finder); can {
			return o, r, s.ofStream(cmd, r)
		}
	}
	if r.source == "" || r.target == "" {
		return o, nil, noEnds(cmd)
	}
	return o, r, nil
}

func noEnds(cmd *cobra.Command) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: cmd.Name(), Err: errors.New("no source or no target"), Hint: "Usage: tidemark " + cmd.Use + ", or name both in a task file."}
}

// files reads the files that the options name: rules go into the request, options are returned.
func (r *request) files(o *ruleOptions) (map[string]option.Value, error) {
	file := map[string]option.Value{}
	if o.config != "" {
		task, err := r.task(o.config)
		if err != nil {
			return nil, err
		}
		near := func(path string) string {
			if path == "" || filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(filepath.Dir(o.config), path)
		}
		if o.mappings == "" {
			o.mappings = near(task.TableMappingsFile)
		}
		if o.taskSettings == "" {
			o.taskSettings = near(task.SettingsFile)
		}
		for name, text := range task.Options {
			file[name] = option.Value{Text: text, File: o.config, Line: task.OptionLines[name]}
		}
	}
	if o.taskSettings != "" {
		fromDMS, err := r.taskSettings(o.taskSettings)
		if err != nil {
			return nil, err
		}
		for name, text := range fromDMS {
			if _, ours := file[name]; !ours {
				file[name] = option.Value{Text: text, File: o.taskSettings}
			}
		}
	}
	return file, r.tableRules(o)
}

// ofStream takes source and target from the catalogue's record of a stream and, with active, the
// tables whose changes are applied.
func (r *request) ofStream(cmd *cobra.Command, name string, state *stateOptions, active bool) error {
	cat, err := state.readCatalog()
	if err != nil {
		return err
	}
	defer cat.Close()
	s, err := stream.Here(cmd.Context(), cat, name)
	if tidemark.KindOf(err) == tidemark.NotFound {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: cmd.Name(), Err: errors.New("no source and no target, and no stream " + name + " is known here"), Hint: "Usage: tidemark " + cmd.Use + ", or --name with a stream that tidemark status lists."}
	}
	if err != nil {
		return err
	}
	r.source, r.target, r.found = s.Source, s.Target, true
	if !active {
		return nil
	}
	tables, err := cat.StreamTables(cmd.Context(), s.Name)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if r.only == nil {
			r.only = map[tidemark.TableID]bool{}
		}
		if r.only[t.Table] = t.State == catalog.TableActive; !r.only[t.Table] {
			warn(cmd, tidemark.Finding{Severity: tidemark.Warning, Object: t.Table.String(), Text: "not compared, since it is " + t.State})
		}
	}
	return nil
}

func readFile(what, path string) ([]byte, error) {
	text, err := plainfile.Read(path, plainfile.Large)
	switch {
	case os.IsNotExist(err):
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "read " + what, Object: path, Err: errors.New("file not found"), Hint: "Check the path; a relative path starts at the current folder."}
	case err != nil:
		return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "read " + what, Object: path, Err: tidemark.Pathless(err)}
	}
	return text, nil
}

func (r *request) task(path string) (*mapping.Task, error) {
	text, err := readFile("task file", path)
	if err != nil {
		return nil, err
	}
	task, findings, err := mapping.ParseYAML(text, os.LookupEnv)
	if err != nil {
		return nil, inFile(err, path)
	}
	r.findings = append(r.findings, findings...)
	if r.source, err = address.URL(task.Source); err == nil {
		r.target, err = address.URL(task.Target)
	}
	if err != nil {
		return nil, inFile(err, path)
	}
	if task.Rules != nil {
		r.rules = task.Rules
	}
	return task, nil
}

// inFile names the file in an error about its content.
func inFile(err error, path string) error {
	return &tidemark.Error{Op: "read", Object: path, Kind: tidemark.KindOf(err), Err: err}
}

// taskSettings reads DMS task settings as values of our options.
func (r *request) taskSettings(path string) (map[string]string, error) {
	text, err := readFile("task settings", path)
	if err != nil {
		return nil, err
	}
	set, findings, err := mapping.ParseSettings(text)
	if err != nil {
		return nil, inFile(err, path)
	}
	r.findings = append(r.findings, findings...)
	out := map[string]string{}
	if set.Lanes > 0 {
		out["lanes"] = strconv.Itoa(set.Lanes)
	}
	prep := map[string]string{"keep": "keep", "drop": "drop", "truncate": "truncate"}
	if p := prep[set.Prep]; p != "" {
		out["prep"] = p
	}
	if set.Lob.Mode == tidemark.LimitedLob {
		out["lob-max"] = strconv.FormatInt(set.Lob.MaxBytes, 10)
	}
	if set.ConsistencyTimeout > 0 {
		out["lock-wait"] = set.ConsistencyTimeout.String()
	}
	if set.StopAfter != "" {
		out["stop-after"] = set.StopAfter
	}
	if set.BatchApply {
		out["apply-mode"] = "batch"
	}
	if set.MemoryTotal > 0 {
		out["apply-memory"] = strconv.FormatInt(set.MemoryTotal, 10)
	}
	if set.Conflict != "" {
		out["conflict"] = set.Conflict
	}
	if set.Loopback {
		out["bidirectional"] = "on"
	}
	if set.TargetSchema != "" {
		out["target-schema"] = set.TargetSchema
	}
	if set.RejectLimit > 0 {
		out["reject-limit"] = strconv.FormatInt(set.RejectLimit, 10)
	}
	return out, nil
}

// tableRules takes the rules from a DMS file or from the flags.
func (r *request) tableRules(first *ruleOptions) error {
	if first.mappings != "" {
		text, err := readFile("table mappings", first.mappings)
		if err != nil {
			return err
		}
		rules, findings, err := mapping.ParseDMS(text)
		if err != nil {
			return inFile(err, first.mappings)
		}
		r.rules, r.findings = rules, append(r.findings, findings...)
	}
	rules, err := first.narrowed(r.rules)
	if err == nil {
		r.rules = rules
	}
	return err
}

// opener connects with a command's options.
func (r *request) opener(o *engineOptions) job.Opener {
	open := o.opener()
	return func(ctx context.Context, url string) (job.Database, error) {
		db, err := open(ctx, url)
		if err != nil && r.found {
			return nil, withoutPassword(err, "Name source and target")
		}
		return db, err
	}
}

// sayFindings prints the findings about the files that the request names, if no plan shows them.
func (r *request) sayFindings(cmd *cobra.Command) {
	for _, f := range r.findings {
		warn(cmd, f)
	}
	r.findings = nil
}

// withoutPassword explains an error of connecting to a database from the catalogue, and tells what
// to do instead of setting a variable.
func withoutPassword(err error, instead string) error {
	if tidemark.KindOf(err) != tidemark.Denied {
		return err
	}
	return &tidemark.Error{Op: "connect", Kind: tidemark.Denied, Err: err, Hint: "The catalogue stores no passwords. " + instead + ", or set PGPASSWORD or MYSQL_PWD."}
}

// folder is where files of rejected rows go.
func (o *movingOptions) folder() (string, error) {
	if o.rejectDir != "" {
		return o.rejectDir, nil
	}
	path, err := o.statePath()
	return filepath.Join(filepath.Dir(path), "rows"), err
}
