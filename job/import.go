package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job/notice"
	"github.com/tidemarkdb/tidemark/load"
)

// Dump is an open dump file.
type Dump interface {
	load.Script
	Server() string               // version of the server that was dumped, as far as the file has told; "" unknown
	Name() string                 // for messages
	Stamp() string                // changes when the file does; "" for a pipe
	Offset() (at, size int64)     // of the file as it lies on disk; size 0 unknown
	For(engine, version string)   // which server it is for
	Compare(dates bool)           // its rows are compared, and its invalid dates kept
	Defined() bool                // no table is defined after what was read, as far as file names tell
	Findings() []tidemark.Finding // oddities in it, once it is read
	Close() error
}

// Import loads a dump file into a database. It is Copy for files, with the same results.
func Import(ctx context.Context, env Env, spec CopySpec, open func(path string) (Dump, error)) (string, *Report, error) {
	im, err := openImport(ctx, env, spec, open)
	if err != nil {
		return "", nil, err
	}
	defer im.close()
	if spec.PlanOnly {
		p, err := im.plan(ctx)
		if p != nil {
			env.Watch.Planned("", p)
		}
		return "", nil, err
	}
	c := im.copying
	if err := overDistance(ctx, c, im.tgt); err != nil {
		return "", nil, err
	}
	defer func() { c.lock.Unlock() }()
	defer c.giveUp(ctx, false)
	if err := im.begin(ctx); err != nil {
		return c.run.ID, nil, err
	}
	run := load.NewImport(im.dump, im.tgt, im, c, c.options(), c.done, c.built)
	rep, err := c.watchOver(ctx, run, importProgress{run.Status, im.dump}, im.promised, func(ctx context.Context) ([]load.Failed, error) {
		failed, err := im.after(ctx)
		im.find(im.dump.Findings())
		im.find(im.listUnrun())
		return failed, err
	})
	return c.run.ID, rep, err
}

// openImport opens the file and the target.
func openImport(ctx context.Context, env Env, spec CopySpec, open func(path string) (Dump, error)) (*importJob, error) {
	path := strings.TrimPrefix(spec.Source, "file:")
	dump, err := open(path)
	if err != nil {
		return nil, err
	}
	tgt, err := env.openTarget(ctx, spec.Target)
	if err != nil {
		dump.Close()
		return nil, err
	}
	return newImport(env, spec, tgt, dump, func() (Dump, error) { return open(path) }), nil
}

func newImport(env Env, spec CopySpec, tgt Destination, dump Dump, again func() (Dump, error)) *importJob {
	if v, ok := tgt.(versioner); ok && engine.Of(tgt.Name()).RunsDumps {
		dump.For(tgt.Name(), v.Version())
	}
	c := &copying{env: env, verb: "copy", spec: spec, tgt: tgt, built: map[string]bool{}, done: map[int]int64{}, p: &load.Plan{}}
	c.position = tidemark.Position{Engine: "file", Text: dump.Name(), Stamp: dump.Stamp()}
	return &importJob{copying: c, dump: dump, again: again, prepared: map[string]bool{},
		foreseen: map[tidemark.TableID]bool{}, known: map[tidemark.TableID]known{}, fresh: map[tidemark.TableID]bool{}, ran: map[*tidemark.Piece]bool{}, triggers: map[tidemark.TableID]bool{}, keys: map[tidemark.TableID][]tidemark.Object{},
		told: map[string]bool{}, places: map[string]string{}, creates: map[string]string{}, made: map[string]bool{}}
}

func (im *importJob) close() {
	im.dump.Close()
	im.tgt.Close()
}

// begin records a new run, or finds what an earlier one has left.
func (im *importJob) begin(ctx context.Context) (err error) {
	c := im.copying
	if c.spec.Resume != "" {
		return im.resume(ctx)
	}
	c.run = c.env.NewRun("import", tidemark.MaskURL(c.spec.Source), tidemark.MaskURL(c.spec.Target))
	c.run.Position, c.run.Options = c.position, c.spec.settings()
	recorded := false
	defer func() {
		if err != nil && !recorded {
			c.giveUp(ctx, true)
			c.run.ID = ""
		}
	}()
	if im.tgt.Default() != "" { // before the catalogue has the run, so that one that is killed at its first table can be resumed
		if _, err := c.claimTables(ctx, nil); err != nil && tidemark.KindOf(err) != tidemark.Forbidden { // if privileges are missing, Begin says more
			return err
		}
	}
	if c.lock, err = c.env.Catalog.Lock(c.run.ID); err != nil {
		return err
	}
	if err := c.env.Catalog.Begin(ctx, c.run); err != nil {
		return err
	}
	recorded = true
	if err := im.record(ctx, recordsTables); err != nil {
		return endEarly(ctx, c, err)
	}
	c.p.Findings = c.spec.Findings
	c.env.Watch.Planned(c.run.ID, c.p)
	if im.tgt.Default() == "" {
		c.unmarked = true // until the first database is there: see ledger
		return nil
	}
	if err := c.tgt.Begin(ctx, c.run.ID); err != nil {
		return endEarly(ctx, c, err)
	}
	return nil
}

func (im *importJob) resume(ctx context.Context) error {
	c := im.copying
	if err := c.lockRun(ctx, "import"); err != nil {
		return err
	}
	if c.run.Position.Stamp != c.position.Stamp || c.position.Stamp == "" {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "resume", Object: c.run.ID, Err: errors.New("this is not the dump file that the run started with"), Hint: "Resume with that file, or load this one from its beginning with --prep drop."}
	}
	if err := c.finished(ctx); err != nil {
		if im.tgt.Default() != "" || tidemark.KindOf(err) != tidemark.Invalid {
			return err
		}
		c.unmarked = true // no database has the table of marker rows: no row was loaded
	} else if err := c.renewClaims(ctx, nil); err != nil {
		return err
	}
	im.prepared = maps.Clone(c.built)
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
	again    func() (Dump, error)                   // opens the file once more
	end      fileEnd                                // where its databases go, once known
	known    map[tidemark.TableID]known             // tables that the import came to, by their name on the target, folded
	ahead    bool                                   // tables were cleared ahead, or need not be
	further  further                                // what it has further on
	prepared map[string]bool                        // what is recorded of tables: see prepare
	foreseen map[tidemark.TableID]bool              // tables that are claimed, and that the target lacks
	sets     []string                               // SETs that wait for the next statement: see runStatement
	fresh    map[tidemark.TableID]bool              // tables that the import creates
	places   map[string]string                      // databases of the file with selected tables: where they go
	creates  map[string]string                      // CREATE DATABASE of the file
	made     map[string]bool                        // schemas of the target that exist by now
	tables   []*tidemark.Table                      // all tables that the file defines, for foreign keys
	native   []tidemark.Object                      // their CREATE TABLEs
	later    []*tidemark.Piece                      // statements that wait for the rows
	ran      map[*tidemark.Piece]bool               // those of them that have run
	altering []*tidemark.Piece                      // ALTER TABLEs among those
	triggers map[tidemark.TableID]bool              // tables with triggers that wait in later
	keys     map[tidemark.TableID][]tidemark.Object // of tables that no rows have needed yet
	told     map[string]bool                        // what was reported as not copied
	unrun    unrun
	failed   []load.Failed
}

// Table applies the rules to one table, as if it were a database of its own.
func (im *importJob) Table(ctx context.Context, p *tidemark.Piece) (load.Settled, error) {
	if im.system(p.Table.Schema) {
		return load.Settled{}, nil
	}
	def := p.Def
	if def == nil {
		var err error
		if def, err = im.fromTarget(ctx, p); err != nil {
			return load.Settled{}, err
		}
	}
	table := qualified(def, im.tgt.Default())
	if !im.spec.Rules.Wants(table.TableID) {
		return load.Settled{}, nil
	}
	table, err := defined(ctx, im, p, table)
	if err != nil {
		return load.Settled{}, err
	}
	if p.Kind == tidemark.Define && p.Refuse != "" {
		return load.Settled{}, im.refused(p)
	}
	if err := im.settleDatabases(ctx, p.Table.Schema); err != nil {
		return load.Settled{}, err
	}
	im.tables = append(im.tables, table)
	alone := *table
	alone.ForeignKeys = nil // the tables that they refer to may come later: see End
	objects := adopt(p.Objects, table.TableID)
	im.native = append(im.native, objects...)
	db := im.database([]*tidemark.Table{&alone}, objects)
	moves, _, err := im.spec.Rules.Apply(db, schemaDefaults(im.end, im.tgt, im.spec.TargetSchema)) // what it finds, End finds
	if err != nil {
		return load.Settled{}, err
	}
	m := moves[0]
	if err := im.whole(&m); err != nil {
		return load.Settled{}, err
	}
	if err := distinct(im, table, m.To.TableID); err != nil {
		return load.Settled{}, err
	}
	first := !slices.Contains(slices.Collect(maps.Values(im.places)), m.To.Schema)
	im.places[table.Schema] = m.To.Schema
	if first && !im.foreseen[m.To.TableID] {
		if _, err := im.tgt.Inspect(ctx, []tidemark.TableID{m.To.TableID}); err != nil { // for the names there
			return load.Settled{}, err
		}
	}
	made, more := im.tgt.Render(db, moves)
	im.find(append(more, notice.HiddenLabels(&m)...))
	if err := load.Blocked(more); err != nil {
		return load.Settled{}, err
	}
	if made, err = im.makeSchemas(ctx, made); err != nil {
		return load.Settled{}, err
	}
	keep, fresh, err := im.prepare(ctx, &m)
	if err != nil {
		return load.Settled{}, err
	}
	im.fresh[m.To.TableID] = fresh
	if err := im.ledger(ctx); err != nil {
		return load.Settled{}, err
	}
	s := im.settled(p, &m, made, keep, fresh)
	if slices.ContainsFunc(s.Before, func(o tidemark.Object) bool { return !inASCII(o.SQL...) }) {
		sendSettings(ctx, im)
	}
	return s, nil
}

// A known table is one that the import came to.
type known struct {
	table *tidemark.Table
	to    tidemark.TableID
}

// distinct refuses a table that would be the same one on the target as another.
func distinct(im *importJob, table *tidemark.Table, to tidemark.TableID) error {
	was, is := im.known[folded(to)]
	im.known[folded(to)] = known{table, to}
	switch {
	case !is, was.to != to && !im.Speaks(): // PostgreSQL tells capitals from small letters
		return nil
	case was.to == to:
		return &tidemark.Error{Kind: tidemark.Collision, Op: "import", Object: to.String(), Err: errors.New("two tables of the file map to it"), Hint: "Rename one of them with a rule."}
	}
	db := im.database([]*tidemark.Table{was.table, table}, nil)
	moves, _, err := im.spec.Rules.Apply(db, schemaDefaults(im.end, im.tgt, im.spec.TargetSchema))
	if err != nil {
		return err
	}
	_, found := im.tgt.Render(db, moves)
	return load.Blocked(found)
}

// settled sorts a table's objects by when they are made.
func (im *importJob) settled(p *tidemark.Piece, m *tidemark.Move, made []tidemark.Object, keep, fresh bool) load.Settled {
	s := load.Settled{Move: m, Format: im.format(m, fresh)}
	for _, o := range made {
		switch {
		case keep && o.Kind != "statistics" && o.Kind != "sequence value":
		case o.Phase == tidemark.BeforeRows:
			s.Before = append(s.Before, o)
		default:
			s.Objects = append(s.Objects, o)
			if o.Kind == "index" {
				im.keys[folded(p.Table)] = append(im.keys[folded(p.Table)], o)
			}
		}
	}
	return s
}

// qualified gives the table with a database for it, and for what it refers to,
// where the file names none.
func qualified(def *tidemark.Table, schema string) *tidemark.Table {
	table := *def
	if table.Schema == "" {
		table.Schema = schema
	}
	table.ForeignKeys = slices.Clone(table.ForeignKeys)
	for i := range table.ForeignKeys {
		if ref := &table.ForeignKeys[i].Ref; ref.Schema == "" {
			ref.Schema = table.Schema
		}
	}
	return &table
}

// folded names a table as the maps of an import do, since the spelling of a name may differ
// from statement to statement.
func folded(id tidemark.TableID) tidemark.TableID {
	return tidemark.TableID{Schema: strings.ToLower(id.Schema), Name: strings.ToLower(id.Name)}
}

// whole refuses rules that cannot be applied to the rows of a file.
func (im *importJob) whole(m *tidemark.Move) error {
	if len(m.Filter) > 0 || m.Lob.Mode == tidemark.LimitedLob || im.spec.Lob.Mode == tidemark.LimitedLob {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "import", Object: m.From.String(), Err: errors.New("a file is read as it is: rows cannot be filtered, and values cannot be truncated"), Hint: "Load all of it, then copy from there with the rule."}
	}
	return nil
}

// database gives a part of the file in the form of a database.
func (im *importJob) database(tables []*tidemark.Table, objects []tidemark.Object) *tidemark.Database {
	db := &tidemark.Database{Engine: im.tgt.Name(), Version: im.dump.Server(), Tables: tables, Objects: slices.Concat(im.schemasOf(tables), objects), Piecewise: true}
	if db.Version != "" || !im.Speaks() {
		db.Engine = engines.DumpedBy(db.Version)
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
	if im.Speaks() {
		id := p.Table
		if id.Schema == "" {
			id.Schema = im.tgt.Default()
		}
		there, err := im.tgt.Tables(ctx, []tidemark.TableID{id})
		if err != nil {
			return nil, err
		}
		if len(there) == 1 {
			return there[0], nil
		}
	}
	return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "import", Object: p.Table.String(), Err: fmt.Errorf("the file has its rows (line %d) but no CREATE TABLE", p.Line), Hint: "Use a dump with the table's definition, or create the table on a MySQL target first and use --prep keep."}
}

// format chooses the form of the rows: the text of LOAD DATA without conversion, if the table is as
// the file defines it. A column whose character set the file leaves to the database needs
// conversion: its bytes must pass through a known one.
func (im *importJob) format(m *tidemark.Move, fresh bool) tidemark.Format {
	if !im.Speaks() || !m.Direct || !fresh {
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

// Execute runs what cannot wait, and keeps the rest until after the rows.
func (im *importJob) Execute(ctx context.Context, p *tidemark.Piece) error {
	switch p.Kind {
	case tidemark.Beyond:
		im.skip(p)
		return nil
	case tidemark.Schema:
		im.creates[p.Table.Schema] = p.SQL
		im.system(p.Table.Schema)
		return nil
	}
	if im.system(p.Table.Schema) && (p.What != "" || p.Kind == tidemark.ExecuteAt) {
		return nil
	}
	if p.Kind == tidemark.ExecuteAt && !im.spec.Rules.Wants(tidemark.TableID{Schema: im.from(p), Name: p.Table.Name}) {
		return nil
	}
	if !im.Speaks() {
		if p.Kind == tidemark.ExecuteAt {
			return needsMySQL(p)
		}
		if !alters(p) || !carried(im, p) {
			im.find(im.leftBehind(p))
		}
		return nil
	}
	if p.Kind == tidemark.ExecuteAt {
		if p.Refuse != "" {
			return im.refused(p)
		}
		err := runStatement(ctx, im, im.inPlace(p))
		if tidemark.KindOf(err) == tidemark.Exists && im.spec.Resume != "" {
			return nil
		}
		return err
	}
	if p.What == "" {
		im.sets = append(im.sets, p.SQL)
		if !p.Idle || len(im.sets) >= 1000 {
			sendSettings(ctx, im)
		}
	}
	if p.Kind == tidemark.OnRows {
		im.triggers[folded(p.Table)] = true
	}
	if alters(p) {
		im.altering = append(im.altering, p)
	}
	im.later = append(im.later, p)
	return nil
}

// needsMySQL is the error for rows that only MySQL can compute.
func needsMySQL(p *tidemark.Piece) error {
	if err := p.Damage("import", p.Table.String()); err != nil {
		return err
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "import", Object: p.Table.String(), Err: fmt.Errorf("the statement at line %d computes its rows with SQL of MySQL", p.Line), Hint: "Load the dump into MySQL first, then copy from there."}
}

// leftBehind says, once, that a view, trigger or routine is not copied to another engine.
func (im *importJob) leftBehind(p *tidemark.Piece) []tidemark.Finding {
	what, _, _ := strings.Cut(p.What, " (line ")
	if alters(p) {
		if name := "table " + p.Table.String(); im.carries(p) && !im.told[name] {
			im.told[name] = true
			hint := "Add them after the copy, or load the dump into MySQL or MariaDB and copy from there."
			if im.dump.Stamp() == "" {
				hint = "Give the dump as a file, which can be read ahead, or add them after the copy."
			}
			return []tidemark.Finding{{Severity: tidemark.Warning, Object: name, Hint: hint,
				Text: fmt.Sprintf("its ALTER TABLE (line %d) is not carried out: keys, foreign keys, AUTO_INCREMENT and whatever else it adds are missing", p.Line)}}
		}
		return nil
	}
	if kind, _, _ := strings.Cut(what, " "); kind == "trigger" || kind == "routine" {
		if kind == "trigger" && p.Table.Name != "" && !im.spec.Rules.Wants(tidemark.TableID{Schema: im.from(p), Name: p.Table.Name}) {
			return nil
		}
		what = programName(p.SQL, what)
	}
	if p.What == "" || !creates(p) || im.told[what] {
		return nil
	}
	im.told[what] = true
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: what, Text: "is not copied: it is written in MySQL's SQL", Hint: "Rewrite it for " + im.tgt.Name() + "."}}
}

// program finds what a CREATE of a dump makes, without the comments in which mysqldump writes it.
var program = regexp.MustCompile("(?is)\\b(trigger|procedure|function|event)\\s+(?:if\\s+not\\s+exists\\s+)?((?:`(?:[^`]|``)+`|[\\w$]+)(?:\\.(?:`(?:[^`]|``)+`|[\\w$]+))?)")

// programName names a trigger or routine by the SQL that creates it.
func programName(sql, otherwise string) string {
	m := program.FindStringSubmatch(strings.ReplaceAll(sql, "*/", " "))
	if m == nil {
		return otherwise
	}
	return strings.ToLower(m[1]) + " " + strings.ReplaceAll(m[2], "`", "")
}

// Speaks reports whether the target runs the SQL of a dump.
func (im *importJob) Speaks() bool { return engine.Of(im.tgt.Name()).RunsDumps }

// Rows runs what is waiting, up to the triggers of a table whose rows come after them: the file
// means these rows to fire them.
//
// The keys of a table whose rows come by INSERT IGNORE, REPLACE or ON DUPLICATE KEY UPDATE are
// created now as well, because they decide what these statements do.
func (im *importJob) Rows(ctx context.Context, p *tidemark.Piece) error {
	name := folded(p.Table)
	if keys := im.keys[name]; (p.AsSQL || p.Kind == tidemark.ExecuteAt) && len(keys) > 0 && im.Speaks() {
		delete(im.keys, name)
		for _, o := range keys {
			if err := runStatement(ctx, im, o.SQL); err != nil && tidemark.KindOf(err) != tidemark.Exists {
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
		if held.Kind == tidemark.OnRows && folded(held.Table) == name {
			last = i + 1
		}
	}
	held := im.later[:last]
	im.later = im.later[last:]
	for _, trigger := range held {
		if trigger.Kind == tidemark.OnRows && trigger.Refuse != "" && im.carries(trigger) {
			return im.refused(trigger)
		}
	}
	return im.runAll(ctx, held)
}

// noTables reports that a file was read to its end without a result.
var noTables = tidemark.Finding{Severity: tidemark.Warning, Object: "file", Text: "the file has no tables and no rows that the rules select", Hint: "Check what is in it, and which databases and tables the rules select."}

// End renders the foreign keys and what sets the counters of tables that are kept, now that all
// tables are known, and reports rules without effect.
func (im *importJob) End(ctx context.Context) ([]tidemark.Object, error) {
	if len(im.tables) == 0 {
		im.find([]tidemark.Finding{noTables})
		return nil, nil
	}
	db := im.database(im.tables, im.native)
	moves, found, err := im.spec.Rules.Apply(db, schemaDefaults(im.end, im.tgt, im.spec.TargetSchema))
	if err != nil {
		return nil, err
	}
	im.find(found)
	im.find(notice.Applications(db.Engine, moves, im.tgt.Name(), im.spec.Bools))
	kept := map[tidemark.TableID]bool{}
	for _, m := range moves {
		if !im.fresh[m.To.TableID] {
			kept[m.To.TableID] = true
		}
	}
	out, found, err := load.KeptCounters(ctx, im.tgt, moves, kept, im.spec.Plan.Prep)
	if im.find(found); err != nil || !slices.ContainsFunc(im.tables, func(t *tidemark.Table) bool { return len(t.ForeignKeys) > 0 }) {
		return out, err
	}
	if err := load.DescribeParents(ctx, im.tgt, moves, kept); err != nil {
		return nil, err
	}
	objects, findings, err := render(im.tgt, db, moves)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if strings.HasPrefix(o.Kind, "foreign key") && !kept[o.Table] { // as with its keys
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

type importProgress struct {
	*load.Status
	dump Dump
}

// Position is the scanner's position in the file.
func (p importProgress) Position() (done, total int64) { return p.dump.Offset() }
