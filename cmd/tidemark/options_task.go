package main

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
)

// ruleOptions say which tables are meant and what they become: in files, or by patterns.
type ruleOptions struct {
	config       string   // --config; none: source and target stand on the command line
	mappings     string   // --table-mappings; none: the task file's rules
	taskSettings string   // --task-settings; none: the task file may name one
	include      []string // --include; none: what the rules select, since they may be all that is wanted
	exclude      []string // --exclude; none, as --include
	names        []string // --table; none. Names without patterns, so that what is misspelt is found missing
	targetSchema string   // --target-schema; none: where the rules say, or as on the source
}

func (o *ruleOptions) ruleSet() *ruleOptions { return o }

func (o *ruleOptions) table() option.Table {
	return option.Table{
		option.New("config", "file", "", "Take source, target, rules and options from a task file.", option.Text(&o.config)).For("copy diff repair check replicate capture apply cutover").CommonTo("copy replicate capture apply check diff"),
		option.New("table-mappings", "file", "", "Read selection, transformation and table-settings rules in AWS DMS's JSON.", option.Text(&o.mappings)).For("copy diff repair check replicate capture apply cutover restore"),
		option.New("task-settings", "file", "", "Read AWS DMS's task settings JSON (FullLoadSettings, TargetMetadata, ErrorBehavior).", option.Text(&o.taskSettings)).For("copy diff repair check replicate capture apply cutover"),
		option.New("include", "list", "", "Take only tables that match SCHEMA.TABLE, with * for any characters. May be repeated.", option.List(&o.include)).For("copy diff repair check replicate capture apply cutover restore backup").CommonTo("copy replicate diff repair check backup restore"),
		option.New("exclude", "list", "", "Leave out tables that match SCHEMA.TABLE. May be repeated.", option.List(&o.exclude)).For("copy diff repair check replicate capture apply cutover restore backup").CommonTo("copy replicate diff repair").Also("copy diff repair check replicate capture apply cutover restore backup", "exclude-table", "T"),
		option.New("table", "list", "", "Take only tables of this name, SCHEMA.TABLE, in which no character stands for others; each has to be there. May be repeated.", option.List(&o.names)).For("copy diff repair check replicate capture apply cutover backup restore").Also("copy diff repair check replicate capture apply cutover backup restore", "t"),
		option.New("schema", "list", "", "Take only tables of this schema (PostgreSQL) or database (MySQL). It is short for --include SCHEMA.*; may be repeated.", func(v string) error {
			o.include = append(o.include, v+".*")
			return nil
		}).For("copy diff repair check replicate capture apply cutover restore backup").Also("copy diff repair check replicate capture apply cutover restore backup", "n"),
		option.New("target-schema", "text", "", "Put tables into this schema or MySQL database. Rules of single tables win.", option.Text(&o.targetSchema)).For("copy diff repair check replicate capture apply cutover restore").CommonTo("copy restore"),
	}.In(option.Tables)
}

// narrowed leaves of rules what --include, --exclude and --table do.
func (o *ruleOptions) narrowed(rules *mapping.Rules) (*mapping.Rules, error) {
	rules, err := rules.Narrow(o.include, o.exclude)
	if err != nil {
		return nil, err
	}
	return rules.Named(o.names)
}

// loadOptions say how rows are moved: lanes, ranges, and what is done with tables that are there.
type loadOptions struct {
	plan     load.PlanOptions // --prep empty, since a copy must not destroy rows unasked; --range-size 0, which is chosen by size and lanes
	load     load.Options     // --lanes 0, which tries how many are of use; --finishers 2; --buffer 8MB; --retry-for 5m, longer than a server's restart
	resume   string           // --resume; none: a new run
	planOnly bool             // --plan; off: the copy is what was asked for
}

func (o *loadOptions) table() option.Table {
	return option.Table{
		option.New("prep", "empty|keep|drop|truncate", "empty", "What to do with tables that the target has. empty refuses those with rows; drop creates them again.", option.Word(&o.plan.Prep, map[string]load.Prep{"empty": load.MustBeEmpty, "keep": load.KeepTables, "drop": load.DropTables, "truncate": load.Truncate})).For("copy check replicate apply restore").CommonTo("copy replicate"),
		option.New("lanes", "number", "0", "Parallel sessions on each side, 1 to 64; 0 finds out. For copy, 0 starts with 2 and adds while throughput gains a tenth; for diff it means 2.", option.Number(0, 64, &o.load.Lanes)).For("copy diff repair check replicate capture apply cutover restore").CommonTo("copy diff repair replicate").Also("copy diff repair check replicate capture apply cutover", "jobs", "j"),
		option.New("finishers", "number", "2", "Sessions that build keys and indexes while rows still move, 1 to 64.", option.Number(1, 64, &o.load.Finishers)).For("copy replicate apply restore"),
		option.New("range-size", "size", "0", "How much of a table one transaction moves; 0 chooses by size and lanes (64 MB to 1 GB).", option.Size(&o.plan.RangeBytes)).For("copy replicate apply restore"),
		option.New("buffer", "size", "8MB", "Memory between each reader and its writer.", option.Size(&o.load.Buffer)).For("copy replicate cutover capture apply restore"),
		option.New("retry-for", "duration", "5m", "How long a range, an object or a comparison that fails by a cut connection, a server that restarts, a deadlock and the like is tried again before the run stops; 0s: not at all.", func(v string) error {
			err := option.Duration(&o.load.RetryFor)(v)
			if o.load.RetryFor == 0 {
				o.load.RetryFor = -1
			}
			return err
		}).For("copy replicate apply restore diff repair"),
		option.New("resume", "text", "", "Resume a run: its ID, or last. The beginning of an ID will do; last is the last run of this source and target.", option.Text(&o.resume)).For("copy restore").CommonTo("copy restore"),
		option.New("plan", "on/off", "off", "Print what would happen and touch nothing.", option.OnOff(&o.planOnly)).For("copy restore").CommonTo("copy restore").Also("copy restore", "dry-run"),
	}.In(option.Rows)
}

// rejectOptions say what becomes of rows and tables that the target does not take.
type rejectOptions struct {
	lob          tidemark.Lob // --lob-max 0: nothing is cut, since that loses data
	rejectLimit  int64        // --reject-limit 0: the first bad row stops, since each is a loss
	rejectTables bool         // --on-table-error stop, for the same reason
	rejectDir    string       // --reject-dir; none: beside the catalogue, which is of the same user
}

func (o *rejectOptions) table() option.Table {
	return option.Table{
		option.New("lob-max", "size", "0", "Cut text and bytes to this size (DMS's limited LOB mode) and report each cut row; 0 never cuts.", func(v string) error {
			n, err := option.ParseSize(v)
			if err == nil && n > 0 {
				o.lob = tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: n}
			} else {
				o.lob = tidemark.Lob{}
			}
			return err
		}).For("copy replicate apply check"),
		option.New("reject-limit", "number", "0", "Set up to this many bad rows aside in a file instead of stopping at the first.", option.Number64(&o.rejectLimit)).For("copy restore"),
		option.New("on-table-error", "stop|continue", "stop", "Of a table that cannot be made or filled: stop, or reject that table with its reason, copy all else, and end with code 16.", option.Word(&o.rejectTables, map[string]bool{"stop": false, "continue": true})).For("copy restore"),
		option.New("reject-dir", "file", "", "Folder for the files of rejected rows and of cut values; default: beside the catalogue.", option.Text(&o.rejectDir)).For("copy restore"),
	}.In(option.Rejects)
}

// movingOptions are the options of whatever moves rows by a task's rules: copies, and streams with the copy before them.
type movingOptions struct {
	ruleOptions
	loadOptions
	rejectOptions
	engineOptions
	outputOptions
	stateOptions
}

func (o *movingOptions) table() option.Table {
	return option.Join(o.ruleOptions.table(), o.loadOptions.table(), o.rejectOptions.table(), o.engineOptions.table(), o.outputOptions.table(), o.stateOptions.table())
}

func (o *movingOptions) view() screen.View {
	return screen.View{Progress: o.progress, JSON: o.json, PlanOnly: o.planOnly}
}
