package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/mapping"
)

// A request is a command line that moves or compares, with all files read.
type request struct {
	*settings
	source, target string
	rules          *mapping.Rules
	findings       []tidemark.Finding
	door           *peekDoor // of a process that replicates
	// found says that source and target are the catalogue's, without passwords; only has the
	// tables of the stream that they are of.
	found bool
	only  map[tidemark.TableID]bool
}

// onRequest lets a command carry out what its command line says.
func onRequest(cmd *cobra.Command, do func(*request, *cobra.Command) error) *cobra.Command {
	read := flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		r, err := gather(cmd, given, read)
		if err != nil {
			return err
		}
		return do(r, cmd)
	}
	return cmd
}

// gather reads the files that the flags name and puts everything in order:
// defaults, then DMS task settings, then the task file, then the flags.
func gather(cmd *cobra.Command, given []string, read func(map[string]string) (*settings, error)) (*request, error) {
	first, err := read(nil)
	if err != nil {
		return nil, err
	}
	r := &request{rules: mapping.All()}
	file := map[string]string{}
	if first.config != "" {
		task, err := r.task(first.config)
		if err != nil {
			return nil, err
		}
		near := func(path string) string {
			if path == "" || filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(filepath.Dir(first.config), path)
		}
		if first.mappings == "" {
			first.mappings = near(task.TableMappingsFile)
		}
		if first.taskSettings == "" {
			first.taskSettings = near(task.SettingsFile)
		}
		file = task.Options
	}
	if first.taskSettings != "" {
		fromDMS, err := r.taskSettings(first.taskSettings)
		if err != nil {
			return nil, err
		}
		maps.Copy(fromDMS, file)
		file = fromDMS
	}
	if err := r.tableRules(first); err != nil {
		return nil, err
	}
	if r.settings, err = read(file); err != nil {
		return nil, err
	}
	if last := len(given) - 1; last > 0 {
		if r.source, err = joined(given[:last], cmd.Use); err != nil {
			return nil, err
		}
		r.target = given[last]
	} else if last == 0 {
		r.source = given[0]
	}
	if r.source == "" && r.target == "" && (cmd.Name() == "repair" || r.settings.live) {
		return r, r.ofStream(cmd)
	}
	if r.source == "" || r.target == "" {
		return nil, tidemark.Errorf(tidemark.Invalid, cmd.Name(), "", "no source or no target", "usage: tidemark "+cmd.Use+", or name both in a task file")
	}
	return r, nil
}

// ofStream takes source and target, and which tables, from what the catalogue has of the stream.
func (r *request) ofStream(cmd *cobra.Command) error {
	cat, err := openCatalog(r.settings)
	if err != nil {
		return err
	}
	defer cat.Close()
	s, err := job.StreamHere(cmd.Context(), cat, r.stream.Name)
	if tidemark.KindOf(err) == tidemark.NotFound {
		return tidemark.Errorf(tidemark.Invalid, cmd.Name(), "", "no source and no target, and no stream "+r.stream.Name+" is known here", "usage: tidemark "+cmd.Use+", or --name of a stream that tidemark status lists")
	}
	if err != nil {
		return err
	}
	tables, err := cat.StreamTables(cmd.Context(), s.Name)
	if err != nil {
		return err
	}
	r.source, r.target, r.found = s.Source, s.Target, true
	for _, t := range tables {
		if r.only == nil {
			r.only = map[tidemark.TableID]bool{}
		}
		if r.only[t.Table] = t.State == catalog.TableActive; !r.only[t.Table] {
			fmt.Fprintf(cmd.ErrOrStderr(), "not compared: %s is %s\n", t.Table, t.State)
		}
	}
	return nil
}

func readFile(what, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	switch {
	case os.IsNotExist(err):
		return nil, tidemark.Errorf(tidemark.NotFound, "read "+what, path, "there is no such file", "check the path; a relative one is taken from the current folder")
	case err != nil:
		return nil, tidemark.Errorf(tidemark.BadInput, "read "+what, path, err.Error(), "")
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
	r.source, r.target = task.Source, task.Target
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
func (r *request) tableRules(first *settings) error {
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

// narrowed leaves of rules what --include, --exclude and --table do.
func (s *settings) narrowed(rules *mapping.Rules) (*mapping.Rules, error) {
	rules, err := rules.Narrow(s.include, s.exclude)
	if err != nil {
		return nil, err
	}
	return rules.Named(s.names)
}

// opener connects with the engines' options of this request.
func (r *request) opener() job.Opener {
	return func(ctx context.Context, url string) (job.Database, error) {
		db, err := engines.Open(ctx, withPassword(url), r.engine)
		if err != nil && r.found {
			return nil, withoutPassword(err, "Name source and target")
		}
		return db, err
	}
}

// sayFindings prints what is to be said of the files that the request names, where no plan shows it.
func (r *request) sayFindings(cmd *cobra.Command) {
	for _, f := range r.findings {
		printFinding(cmd.ErrOrStderr(), f)
	}
	r.findings = nil
}

// withoutPassword says, of an error of connecting to a database that the catalogue has named,
// what may have caused it, and what to do in place of setting a variable.
func withoutPassword(err error, instead string) error {
	if tidemark.KindOf(err) != tidemark.Denied {
		return err
	}
	return &tidemark.Error{Op: "connect", Kind: tidemark.Denied, Err: err, Hint: "The catalogue keeps no passwords. " + instead + ", or set PGPASSWORD or MYSQL_PWD."}
}

// withPassword puts MYSQL_PWD, the variable that MySQL's own programs read, into a
// URL that has a user and no password. PostgreSQL's variables are pgx's matter.
func withPassword(raw string) string {
	secret := os.Getenv("MYSQL_PWD")
	u, err := url.Parse(raw)
	if secret == "" || err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" || u.User == nil {
		return raw
	}
	if _, has := u.User.Password(); !has {
		u.User = url.UserPassword(u.User.Username(), secret)
	}
	return u.String()
}

// folder is where files of rejected rows go.
func (r *request) folder() (string, error) {
	if r.rejectDir != "" {
		return r.rejectDir, nil
	}
	path, err := r.statePath()
	return filepath.Join(filepath.Dir(path), "rows"), err
}

// openDump opens a dump file with the engines' options of this request.
func (r *request) openDump(path string) (job.Dump, error) { return engines.OpenDump(path, r.engine) }

// isDump says whether a source is a file and not a server.
func isDump(source string) bool {
	return strings.HasPrefix(source, "file:") || !strings.Contains(source, "://")
}
