package main

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
)

// ruleOptions select and map tables: by files, or by patterns.
type ruleOptions struct {
	config       string   // --config; none: source and target are on the command line
	mappings     string   // --table-mappings; none: the task file's rules
	taskSettings string   // --task-settings; none: the task file may name one
	include      []string // --include; none: the rules alone select
	exclude      []string // --exclude; none, as --include
	names        []string // --table; none. Names without patterns, so that a misspelt one is an error
	targetSchema string   // --target-schema; none: from the rules, or as on the source
}

func (o *ruleOptions) ruleSet() *ruleOptions { return o }

func (o *ruleOptions) table() option.Table {
	return option.Table{
		option.New("config", "file", "", "Read source, target, rules and options from a task file.", option.Text(&o.config)).For("copy forecast diff repair check replicate capture apply cutover").CommonTo("copy forecast replicate capture apply check diff"),
		option.New("table-mappings", "file", "", "Read selection, transformation and table-settings rules in AWS DMS's JSON.", option.Text(&o.mappings)).For("copy forecast diff repair check replicate capture apply cutover restore"),
		option.New("task-settings", "file", "", "Read AWS DMS's task settings JSON (FullLoadSettings, TargetMetadata, ErrorBehavior).", option.Text(&o.taskSettings)).For("copy forecast diff repair check replicate capture apply cutover"),
		option.New("include", "list", "", "Only tables that match SCHEMA.TABLE, with * for any characters. May be repeated.", option.List(&o.include)).For("copy forecast diff repair check replicate capture apply cutover restore backup").CommonTo("copy forecast replicate diff repair check backup restore"),
		option.New("exclude", "list", "", "Leave out tables that match SCHEMA.TABLE. May be repeated.", option.List(&o.exclude)).For("copy forecast diff repair check replicate capture apply cutover restore backup").CommonTo("copy replicate diff repair").Also("copy forecast diff repair check replicate capture apply cutover restore backup", "exclude-table", "T"),
		option.New("table", "list", "", "Only tables with exactly this name, SCHEMA.TABLE, without wildcards; each must exist. May be repeated.", option.List(&o.names)).For("copy forecast diff repair check replicate capture apply cutover backup restore").Also("copy forecast diff repair check replicate capture apply cutover backup restore", "t"),
		option.New("schema", "list", "", "Only tables of this schema (PostgreSQL) or database (MySQL). It is short for --include SCHEMA.*; may be repeated.", func(v string) error {
			o.include = append(o.include, v+".*")
			return nil
		}).For("copy forecast diff repair check replicate capture apply cutover restore backup").Also("copy forecast diff repair check replicate capture apply cutover restore backup", "n"),
		option.New("target-schema", "text", "", "Create tables in this schema or MySQL database. Rules of single tables take precedence.", option.Text(&o.targetSchema)).For("copy forecast diff repair check replicate capture apply cutover restore").CommonTo("copy restore"),
	}.In(option.Tables)
}

// narrowed applies --include, --exclude and --table to rules.
func (o *ruleOptions) narrowed(rules *mapping.Rules) (*mapping.Rules, error) {
	rules, err := rules.Narrow(o.include, o.exclude)
	if err != nil {
		return nil, err
	}
	return rules.Named(o.names)
}

// loadOptions tell how rows are copied: lanes, ranges, and the handling of existing tables.
type loadOptions struct {
	plan     load.PlanOptions // --prep empty, since a copy must not destroy rows unasked; --range-size 0, chosen by size and lanes
	load     load.Options     // --lanes 0, which tries how many are useful; --finishers 2; --buffer 8MB; --retry-for 5m, longer than a server's restart
	resume   string           // --resume; none: a new run
	volumes  []advisor.Volume // --volumes; none: the table has those that are documented
	planOnly bool             // --plan off: the user asked for the copy
	runAll   bool             // --run-all-statements off: a file may come from anyone
}

// readVolumes reads the file of --volumes.
func readVolumes(file string) ([]advisor.Volume, error) {
	text, err := plainfile.Read(file, plainfile.Large)
	if err != nil {
		return nil, err
	}
	return advisor.ParseVolumes(string(text))
}

func (o *loadOptions) table() option.Table {
	return option.Table{
		option.New("prep", "empty|keep|drop|truncate", "empty", "What to do with tables that exist on the target. empty refuses tables that have rows; drop creates them again.", option.Word(&o.plan.Prep, map[string]load.Prep{"empty": load.MustBeEmpty, "keep": load.KeepTables, "drop": load.DropTables, "truncate": load.Truncate})).For("copy forecast check replicate apply restore").CommonTo("copy forecast replicate"),
		option.New("lanes", "number", "0", "Parallel sessions on each side, 1 to 64; 0 is automatic. For copy, 0 starts with 2 and adds more while throughput gains a tenth; for diff it means 2, and 8 from a round trip of 2 ms on.", option.Number(0, 64, &o.load.Lanes)).For("copy forecast diff repair check replicate capture apply cutover restore").CommonTo("copy forecast diff repair replicate").Also("copy forecast diff repair check replicate capture apply cutover", "jobs", "j"),
		option.New("finishers", "number", "2", "Sessions that build keys and indexes while rows are still being copied, 1 to 64.", option.Number(1, 64, &o.load.Finishers)).For("copy forecast replicate apply restore"),
		option.New("range-size", "size", "0", "How much of a table one transaction moves; 0 chooses by size and lanes (64 MB to 1 GB).", option.Size(&o.plan.RangeBytes)).For("copy forecast replicate apply restore"),
		option.New("sample", "on/off", "on", "Ask both servers ten times a second what our sessions wait for, in one more session on each. tidemark explain shows the result, diff --verbose its own.", option.OnOff(&o.load.Sample)).For("copy diff replicate capture apply restore"),
		option.New("volumes", "file", "", "Ceilings of your volumes, which the advice names where a disk is at one: lines of name, requests a second, MB/s and source, with tabs between.", option.Parsed(&o.volumes, readVolumes)).For("copy replicate apply restore"),
		option.New("auto", "on/off", "off", "Try one lane more and one fewer every ten seconds, keep what helps, and turn back what does not. Without it the search ends at the first lane that gains less than a tenth. Not with --lanes, --finish-by or --source-p99. A stream also doubles or halves its agents, up to four times --agents, when its account of where time goes says so; the rate before and after decides whether that stays.", option.OnOff(&o.load.Auto)).For("copy replicate apply").CommonTo("copy replicate"),
		option.New("experiment", "on/off", "off", "Measure, while rows move, what a faster target, a faster source and one lane fewer would change, by holding the others back for two seconds at a time. It takes 15 to 50 s, and costs at most 3. Not with --finish-by or --source-p99.", option.OnOff(&o.load.Experiment)).For("copy").CommonTo("copy"),
		option.New("buffer", "size", "8MB", "Memory between each reader and its writer.", option.Size(&o.load.Buffer)).For("copy forecast replicate cutover capture apply restore"),
		option.New("retry-for", "duration", "5m", "How long to retry a range, an object or a comparison after a lost connection, a server restart, a deadlock or the like before the run stops; 0s: do not retry.", func(v string) error {
			err := option.Duration(&o.load.RetryFor)(v)
			if o.load.RetryFor == 0 {
				o.load.RetryFor = -1
			}
			return err
		}).For("copy replicate apply restore diff repair"),
		option.New("resume", "text", "", "Resume a run: its ID, or last. The beginning of an ID is enough; last is the last run of this source and target.", option.Text(&o.resume)).For("copy restore").CommonTo("copy restore"),
		option.New("plan", "on/off", "off", "Print what would happen and change nothing.", option.OnOff(&o.planOnly)).For("copy restore").CommonTo("copy restore").Also("copy restore", "dry-run"),
		option.New("run-all-statements", "on/off", "off", "Dump files: also run statements that are not about tables, rows, views, routines, triggers, events or the session, such as CREATE USER, GRANT and SET GLOBAL. Without it they are listed and skipped.", option.OnOff(&o.runAll)).For("copy check"),
	}.In(option.Rows)
}

// rejectOptions tell how to handle rows and tables that the target rejects.
type rejectOptions struct {
	lob          tidemark.Lob // --lob-max 0: nothing is truncated, since that loses data
	rejectLimit  int64        // --reject-limit 0: the first rejected row stops the run, since each is a loss
	rejectTables bool         // --on-table-error stop, for the same reason
	rejectDir    string       // --reject-dir; none: beside the catalogue, which is of the same user
}

func (o *rejectOptions) table() option.Table {
	return option.Table{
		option.New("lob-max", "size", "0", "Truncate text and bytes to this size (DMS's limited LOB mode) and report each truncated row; 0 never truncates.", func(v string) error {
			n, err := option.ParseSize(v)
			if err == nil && n > 0 {
				o.lob = tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: n}
			} else {
				o.lob = tidemark.Lob{}
			}
			return err
		}).For("copy forecast replicate apply check"),
		option.New("reject-limit", "number", "0", "Write up to this many rejected rows to a file instead of stopping at the first.", option.Number64(&o.rejectLimit)).For("copy restore check"),
		option.New("on-table-error", "stop|continue", "stop", "If a table cannot be created or filled: stop, or reject that table with the reason, copy all others, and exit with code 16.", option.Word(&o.rejectTables, map[string]bool{"stop": false, "continue": true})).For("copy forecast restore"),
		option.New("reject-dir", "file", "", "Folder for the files of rejected and truncated rows; default: beside the catalogue.", option.Text(&o.rejectDir)).For("copy restore"),
	}.In(option.Rejects)
}

// movingOptions are the options of everything that copies rows by a task's rules: copies, and
// streams with the copy before them.
type movingOptions struct {
	ruleOptions
	loadOptions
	rejectOptions
	engineOptions
	outputOptions
	stateOptions
}

// openDump opens a dump file with these options.
func (o *movingOptions) openDump(path string) (job.Dump, error) {
	return engines.OpenDump(path, o.engine, o.runAll)
}

func (o *movingOptions) table() option.Table {
	return option.Join(o.ruleOptions.table(), o.loadOptions.table(), o.rejectOptions.table(), o.engineOptions.table(), o.outputOptions.table(), o.stateOptions.table())
}

func (o *movingOptions) view() screen.View {
	return screen.View{Progress: o.progress, JSON: o.json, PlanOnly: o.planOnly, Whole: o.verbose}
}
