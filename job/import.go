package job

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/load"
)

// Dump is a dump file that was opened.
type Dump interface {
	load.Script
	Server() string               // version of the server it was made of, as far as it has said; "" unknown
	Name() string                 // for messages
	Stamp() string                // changes when the file does; "" for a pipe
	Offset() (at, size int64)     // of the file as it lies on disk; size 0 unknown
	For(engine, version string)   // which server it is for
	Findings() []tidemark.Finding // odd things about it, once it is read
	Close() error
}

// Import loads a dump file into a database. It is Copy for files, with the same
// answers.
func Import(ctx context.Context, env Env, spec CopySpec, open func(path string) (Dump, error)) (string, *Report, error) {
	dump, err := open(strings.TrimPrefix(spec.Source, "file:"))
	if err != nil {
		return "", nil, err
	}
	defer dump.Close()
	if spec.PlanOnly {
		return "", nil, tidemark.Errorf(tidemark.Unsupported, "plan", dump.Name(), "what a dump file holds is not known before it is read", "tidemark copy without --plan refuses tables that hold rows, so nothing is overwritten")
	}
	tgt, err := env.Open(ctx, spec.Target)
	if err != nil {
		return "", nil, err
	}
	defer tgt.Close()
	if tgt.Default() == "" {
		return "", nil, tidemark.Errorf(tidemark.Invalid, "import", tidemark.MaskURL(spec.Target), "the target's URL names no database", "write mysql://user@host/DATABASE")
	}
	if v, ok := tgt.(interface{ Version() string }); ok && tidemark.Family(tgt.Name()) == "mysql" {
		dump.For(tgt.Name(), v.Version())
	}
	c := &copying{env: env, spec: spec, tgt: tgt, built: map[string]bool{}, done: map[int]int64{}, p: &load.Plan{}}
	c.position = tidemark.Position{Engine: "file", Text: dump.Name(), Stamp: dump.Stamp()}
	defer func() { c.lock.Unlock() }()
	if err := c.beginImport(ctx); err != nil {
		return c.run.ID, nil, err
	}
	im := &importJob{copying: c, known: map[tidemark.TableID]bool{}, triggers: map[string]bool{}, keys: map[string][]tidemark.Object{}, told: map[string]bool{}, control: c.spec.Load.ScriptLane(), dump: dump}
	run := load.NewImport(dump, tgt, im, c, c.options(), c.done, c.built)
	rep, err := c.watchOver(ctx, run, importProgress{run.Status, dump}, func(ctx context.Context) ([]load.Failed, error) {
		im.find(dump.Findings())
		return im.after(ctx)
	})
	return c.run.ID, rep, err
}

// beginImport records a new run, or finds what of an earlier one is there.
func (c *copying) beginImport(ctx context.Context) error {
	if c.spec.Resume != "" {
		return c.takeUpImport(ctx)
	}
	host, _ := os.Hostname()
	c.run = catalog.Run{ID: catalog.NewRunID(), Verb: "import", Source: tidemark.MaskURL(c.spec.Source), Target: tidemark.MaskURL(c.spec.Target),
		Started: c.env.now(), State: catalog.Running, Position: c.position, PID: os.Getpid(), Host: host}
	var err error
	if c.lock, err = c.env.Catalog.Lock(c.run.ID); err != nil {
		return err
	}
	if err := c.env.Catalog.Begin(ctx, c.run); err != nil {
		return err
	}
	c.p.Findings = c.spec.Findings
	c.env.Watch.Planned(c.run.ID, c.p)
	return c.tgt.Begin(ctx, c.run.ID)
}

func (c *copying) takeUpImport(ctx context.Context) error {
	if err := c.claim(ctx, "import"); err != nil {
		return err
	}
	if c.run.Position.Stamp != c.position.Stamp || c.position.Stamp == "" {
		return tidemark.Errorf(tidemark.Invalid, "resume", c.run.ID, "the dump file is not the one that the run began with", "start anew with --prep drop")
	}
	if err := c.finished(ctx); err != nil {
		return err
	}
	c.run.State, c.run.Error, c.run.Hint, c.run.PID = catalog.Running, "", "", os.Getpid()
	if err := c.env.Catalog.Update(ctx, c.run); err != nil {
		return err
	}
	c.env.Watch.Planned(c.run.ID, c.p)
	return nil
}

// importJob is the load.Settler of an import.
type importJob struct {
	*copying
	dump     Dump
	control  int // the lane for statements of the file
	known    map[tidemark.TableID]bool
	schema   string                       // the one database of the file that is wanted
	tables   []*tidemark.Table            // all that the file defines, for foreign keys
	native   []tidemark.Object            // their CREATE TABLEs
	later    []*tidemark.Piece            // statements that wait for the rows
	triggers map[string]bool              // tables with triggers that wait in later
	keys     map[string][]tidemark.Object // of tables, by name, that no rows have needed yet
	told     map[string]bool              // what was said not to be carried over
	failed   []load.Failed
	rawMu    sync.Mutex // of the lane after control, which runs rows as SQL
}

// Table applies the rules to one table, as if it were a database of its own.
func (im *importJob) Table(ctx context.Context, p *tidemark.Piece) (load.Settled, error) {
	def := p.Def
	if def == nil {
		var err error
		if def, err = im.fromTarget(ctx, p); err != nil {
			return load.Settled{}, err
		}
	}
	table := *def
	if table.Schema == "" {
		table.Schema = im.tgt.Default()
	}
	table.ForeignKeys = slices.Clone(table.ForeignKeys)
	for i := range table.ForeignKeys {
		if ref := &table.ForeignKeys[i].Ref; ref.Schema == "" {
			ref.Schema = table.Schema
		}
	}
	if !im.spec.Rules.Wants(table.TableID) {
		return load.Settled{}, nil
	}
	if im.schema == "" {
		im.schema = table.Schema
	} else if im.schema != table.Schema {
		return load.Settled{}, tidemark.Errorf(tidemark.Collision, "import", table.String(), "the file holds more than one database, and all would go to one",
			"copy them one by one, with --include '"+table.Schema+".*'")
	}
	im.tables = append(im.tables, &table)
	alone := table
	alone.ForeignKeys = nil // the tables that they refer to may come later: see End
	objects := adopt(p.Objects, table.TableID)
	im.native = append(im.native, objects...)
	db := im.database([]*tidemark.Table{&alone}, objects)
	moves, findings, err := im.spec.Rules.Apply(db, schemaDefaults(fileEnd{}, im.tgt, im.spec.TargetSchema))
	if err != nil {
		return load.Settled{}, err
	}
	m := moves[0]
	if len(m.Filter) > 0 || m.Lob.Mode == tidemark.LimitedLob || im.spec.Lob.Mode == tidemark.LimitedLob {
		return load.Settled{}, tidemark.Errorf(tidemark.Unsupported, "import", m.From.String(), "a file is read as it is: rows cannot be filtered, nor values cut", "load it whole, and copy from there with the rule")
	}
	if im.known[m.To.TableID] {
		return load.Settled{}, tidemark.Errorf(tidemark.Collision, "import", m.To.String(), "two tables of the file go to it", "rename one of them with a rule")
	}
	im.known[m.To.TableID] = true
	made, more := im.tgt.Render(db, moves)
	im.find(append(findings, more...))
	if err := load.Blocked(more); err != nil {
		return load.Settled{}, err
	}
	keep, fresh, err := im.prepare(ctx, &m)
	if err != nil {
		return load.Settled{}, err
	}
	s := load.Settled{Move: &m, Format: im.format(&m, fresh)}
	for _, o := range made {
		switch {
		case keep && o.Kind != "statistics":
		case o.Phase == tidemark.BeforeRows:
			s.Before = append(s.Before, o)
		default:
			s.Objects = append(s.Objects, o)
			if o.Kind == "index" {
				im.keys[strings.ToLower(p.Table.Name)] = append(im.keys[strings.ToLower(p.Table.Name)], o)
			}
		}
	}
	return s, nil
}

// database is a part of the file as if it were a database.
func (im *importJob) database(tables []*tidemark.Table, objects []tidemark.Object) *tidemark.Database {
	db := &tidemark.Database{Engine: im.tgt.Name(), Version: im.dump.Server(), Tables: tables, Objects: objects}
	switch {
	case strings.Contains(strings.ToLower(db.Version), "maria"):
		db.Engine = "mariadb"
	case db.Version != "" || tidemark.Family(db.Engine) != "mysql":
		db.Engine = "mysql"
	}
	return db
}

// adopt names the table that objects belong to, where the file names no database.
func adopt(objects []tidemark.Object, id tidemark.TableID) []tidemark.Object {
	for i := range objects {
		if objects[i].Table.Name == id.Name {
			objects[i].Table = id
		}
	}
	return objects
}

// fromTarget takes the definition of a table that the file only fills.
func (im *importJob) fromTarget(ctx context.Context, p *tidemark.Piece) (*tidemark.Table, error) {
	if tidemark.Family(im.tgt.Name()) == "mysql" {
		id := p.Table
		if id.Schema == "" {
			id.Schema = im.tgt.Default()
		}
		db, err := im.tgt.Describe(ctx, func(t tidemark.TableID) bool { return t == id })
		if err != nil {
			return nil, err
		}
		if len(db.Tables) == 1 {
			return db.Tables[0], nil
		}
	}
	return nil, tidemark.Errorf(tidemark.NotFound, "import", p.Table.String(), fmt.Sprintf("the file has rows of it (line %d) but no CREATE TABLE", p.Line),
		"use a dump with the table's definition, or create the table on a MySQL target first and use --prep keep")
}

// prepare looks what the target has under the move's name. keep means that the
// table stays as it is; fresh that it is made by us.
func (im *importJob) prepare(ctx context.Context, m *tidemark.Move) (keep, fresh bool, err error) {
	states, err := im.tgt.Inspect(ctx, []tidemark.TableID{m.To.TableID})
	if err != nil {
		return false, false, err
	}
	if !states[0].Exists {
		return false, true, nil
	}
	if im.spec.Resume != "" {
		return false, true, nil // ours, from before; what exists of it is passed over
	}
	switch im.spec.Plan.Prep {
	case load.DropTables:
		return false, true, im.tgt.Clear(ctx, []tidemark.TableID{m.To.TableID}, true)
	case load.Truncate:
		return true, false, im.tgt.Clear(ctx, []tidemark.TableID{m.To.TableID}, false)
	case load.MustBeEmpty:
		if states[0].Rows {
			return false, false, tidemark.Errorf(tidemark.NotEmpty, "import", m.To.String(), "holds rows already",
				"this table was not touched; choose --prep drop, truncate or keep, or an empty target")
		}
	}
	return true, false, nil
}

// format chooses what the rows are converted to: what LOAD DATA takes as it is,
// where the table is what the file says. A column whose character set the file
// leaves to the database is not: its bytes must pass through one that is known.
func (im *importJob) format(m *tidemark.Move, fresh bool) tidemark.Format {
	if tidemark.Family(im.tgt.Name()) != "mysql" || !m.Direct || !fresh {
		return tidemark.CopyText
	}
	for _, c := range m.Columns() {
		switch c.Type.Kind {
		case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Enum, tidemark.Set:
			if c.Type.Charset == "" {
				return tidemark.CopyText
			}
		}
	}
	return tidemark.LoadData
}

func (im *importJob) find(findings []tidemark.Finding) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.p.Findings = append(im.p.Findings, findings...)
}

// Execute runs what cannot wait, and keeps the rest for after the rows.
func (im *importJob) Execute(ctx context.Context, p *tidemark.Piece) error {
	if tidemark.Family(im.tgt.Name()) != "mysql" {
		if p.Kind == tidemark.ExecuteAt {
			return tidemark.Errorf(tidemark.Unsupported, "import", p.Table.String(), fmt.Sprintf("the statement at line %d computes its rows with SQL of MySQL", p.Line), "load the dump into MySQL first, and copy from there")
		}
		what := strings.TrimSuffix(p.What, fmt.Sprintf(" (line %d)", p.Line))
		if create := strings.HasPrefix(strings.ToUpper(strings.TrimLeft(p.SQL, "/*!0123456789 ")), "CREATE"); p.What != "" && create && !im.told[what] {
			im.told[what] = true
			im.find([]tidemark.Finding{{Severity: tidemark.Warning, Object: what, Text: "is written in MySQL's SQL and was not carried over", Hint: "write it anew for " + im.tgt.Name()}})
		}
		return nil
	}
	if p.Kind == tidemark.ExecuteAt {
		return im.tgt.Exec(ctx, im.control, []string{p.SQL})
	}
	if p.What == "" {
		im.set(ctx, p.SQL)
	}
	if p.Kind == tidemark.OnRows {
		im.triggers[strings.ToLower(p.Table.Name)] = true
	}
	im.later = append(im.later, p)
	return nil
}

// Raw runs rows that could not be converted as the statement that they are in
// the file. It is not in one transaction with its marker row: a run that is
// killed between the two finds the rows there when it is resumed, and stops at
// the first duplicate key.
func (im *importJob) Raw(ctx context.Context, sql string) (bool, error) {
	if tidemark.Family(im.tgt.Name()) != "mysql" {
		return false, nil
	}
	im.rawMu.Lock()
	defer im.rawMu.Unlock()
	return true, im.tgt.Exec(ctx, im.control+1, []string{sql})
}

// set applies a SET of the file to the sessions that run its statements. One that
// the server does not take, or does not know, is passed over: dumps set what only
// their own server has.
func (im *importJob) set(ctx context.Context, sql string) {
	im.tgt.Exec(ctx, im.control, []string{sql})
	im.rawMu.Lock()
	defer im.rawMu.Unlock()
	im.tgt.Exec(ctx, im.control+1, []string{sql})
}

// Rows makes what waits up to the triggers of a table whose rows come after them:
// the file means these rows to fire them.
//
// The keys of a table whose rows come by INSERT IGNORE or REPLACE are made now as
// well, because these rows mean them to decide.
func (im *importJob) Rows(ctx context.Context, p *tidemark.Piece) error {
	name := strings.ToLower(p.Table.Name)
	if keys := im.keys[name]; p.AsSQL && len(keys) > 0 && tidemark.Family(im.tgt.Name()) == "mysql" {
		delete(im.keys, name)
		for _, o := range keys {
			if err := im.tgt.Exec(ctx, im.control, o.SQL); err != nil && tidemark.KindOf(err) != tidemark.Exists {
				return err
			}
		}
	}
	if !im.triggers[name] {
		return nil
	}
	delete(im.triggers, name)
	last := 0
	for i, held := range im.later {
		if held.Kind == tidemark.OnRows && strings.ToLower(held.Table.Name) == name {
			last = i + 1
		}
	}
	held := im.later[:last]
	im.later = im.later[last:]
	return im.runAll(ctx, held)
}

// End renders the foreign keys, now that all tables are known.
func (im *importJob) End(ctx context.Context) ([]tidemark.Object, error) {
	var with []*tidemark.Table
	for _, t := range im.tables {
		if len(t.ForeignKeys) > 0 {
			with = append(with, t)
		}
	}
	if len(with) == 0 {
		return nil, nil
	}
	db := im.database(im.tables, im.native)
	moves, _, err := im.spec.Rules.Apply(db, schemaDefaults(fileEnd{}, im.tgt, im.spec.TargetSchema))
	if err != nil {
		return nil, err
	}
	objects, findings := im.tgt.Render(db, moves)
	var out []tidemark.Object
	for _, o := range objects {
		if strings.HasPrefix(o.Kind, "foreign key") {
			out = append(out, o)
		}
	}
	for _, f := range findings {
		if strings.Contains(f.Object, "foreign key") {
			im.find([]tidemark.Finding{f})
		}
	}
	return out, nil
}

// after runs the file's other statements in their order.
func (im *importJob) after(ctx context.Context) ([]load.Failed, error) {
	if err := im.runAll(ctx, im.later); err != nil {
		return im.failed, err
	}
	if n := len(im.failed); n > 0 {
		return im.failed, tidemark.Errorf(tidemark.Incomplete, "import", "", fmt.Sprintf("all rows are there, but %d statements of the file failed", n), "see the list with their SQL in the report")
	}
	return nil, nil
}

// runAll runs statements in their order; those that fail are listed, and the
// next ones are tried all the same.
func (im *importJob) runAll(ctx context.Context, list []*tidemark.Piece) error {
	for _, p := range list {
		id := fmt.Sprintf("statement at line %d", p.Line)
		if p.What != "" {
			id = p.What
		}
		if im.built[id] {
			continue
		}
		err := im.tgt.Exec(ctx, im.control, []string{p.SQL})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && tidemark.KindOf(err) != tidemark.Exists && p.What != "" {
			im.failed = append(im.failed, load.Failed{Object: tidemark.Object{ID: id, SQL: []string{p.SQL}}, Error: err.Error()})
		}
	}
	return nil
}

// fileEnd stands for the file where the two ends' schemas are matched.
type fileEnd struct{}

func (fileEnd) Name() string    { return "mysql" }
func (fileEnd) Default() string { return "file" }

type importProgress struct {
	*load.Status
	dump Dump
}

// Position is where in the file the scanner is.
func (p importProgress) Position() (done, total int64) { return p.dump.Offset() }
