package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job/notice"
	"github.com/tidemarkdb/tidemark/load"
)

// A survey is the result of reading a dump from front to back. To MakePlan it is the source; to a
// watcher, the progress.
type survey struct {
	load.Source // MakePlan asks it only for Split
	im          *importJob
	tables      []*tidemark.Table
	at          map[tidemark.TableID]*tidemark.Table
	native      []tidemark.Object
	later       []tidemark.Object // views, triggers, routines
	sets        []tidemark.Object // settings of the session
	rows        []tidemark.Range  // Move is an index into tables
	findings    []tidemark.Finding
	others      map[string]int                       // statements that are not rows, by kind
	views       map[string]bool                      // those that were counted
	settings    map[string]bool                      // the texts of sets
	altered     map[tidemark.TableID]bool            // tables that are as ALTER TABLEs leave them
	carried     map[string]bool                      // these, by name
	triggers    map[tidemark.TableID]*tidemark.Piece // that must not fire while rows are loaded
	start       time.Time
	// see, if not nil, receives the pieces of rows of selected tables, and what computes rows.
	see func(t *tidemark.Table, p *tidemark.Piece) error

	mu  sync.Mutex // guards sum, which a watcher asks for
	sum load.TableStatus
}

// plan reads the whole file and tells what Import would do. It writes nothing.
func (im *importJob) plan(ctx context.Context) (*load.Plan, error) {
	s, err := im.survey(ctx, false, nil)
	if err != nil {
		return nil, err
	}
	return s.plan(ctx)
}

// survey reads the file, or what defines its tables; see, if not nil, receives the pieces of rows.
func (im *importJob) survey(ctx context.Context, tables bool, see func(*tidemark.Table, *tidemark.Piece) error) (*survey, error) {
	s := &survey{im: im, see: see, sum: load.TableStatus{State: load.FullLoad}, at: map[tidemark.TableID]*tidemark.Table{}, others: map[string]int{}, views: map[string]bool{}, settings: map[string]bool{}, altered: map[tidemark.TableID]bool{}, carried: map[string]bool{}, triggers: map[tidemark.TableID]*tidemark.Piece{}, start: time.Now()}
	if im.env.Watch != nil {
		im.env.Watch.Running(s)
	}
	for {
		if tables && im.dump.Defined() {
			return s, nil
		}
		p, err := im.dump.Next(ctx)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err == nil {
			err = s.addPiece(ctx, p)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *survey) addPiece(ctx context.Context, p *tidemark.Piece) error {
	im := s.im
	if p.Kind == tidemark.Rows {
		im.dump.Done(p)
	}
	if p.Kind == tidemark.Beyond {
		im.skip(p)
		if p.Refuse != "" {
			s.block(p, tidemark.Incomplete)
		}
		return nil
	}
	if im.system(p.Table.Schema) {
		return nil
	}
	switch p.Kind {
	case tidemark.Define:
		if t := s.table(p.Def, p.Objects); t != nil && p.Refuse != "" {
			s.block(p, tidemark.Unsupported)
		}
	case tidemark.Rows:
		return s.piece(ctx, p)
	case tidemark.Schema:
		im.creates[p.Table.Schema] = p.SQL
	case tidemark.ExecuteAt:
		return s.computed(ctx, p)
	default:
		s.other(p)
	}
	return nil
}

// table adds a selected table.
func (s *survey) table(def *tidemark.Table, objects []tidemark.Object) *tidemark.Table {
	t := qualified(def, s.im.tgt.Default())
	t.Rows, t.Bytes = 0, 0
	if !s.im.spec.Rules.Wants(t.TableID) || s.at[t.TableID] != nil {
		return s.at[t.TableID]
	}
	s.at[t.TableID] = t
	s.tables = append(s.tables, t)
	s.native = append(s.native, adopt(objects, t.TableID)...)
	return t
}

// find gives the table that rows go into; nil if it is not selected.
func (s *survey) find(ctx context.Context, p *tidemark.Piece) (*tidemark.Table, error) {
	id := tidemark.TableID{Schema: s.im.from(p), Name: p.Table.Name}
	if t := s.at[id]; t != nil || !s.im.spec.Rules.Wants(id) {
		return t, nil
	}
	def, err := s.im.fromTarget(ctx, p)
	if err != nil {
		return nil, err
	}
	return s.table(def, nil), nil
}

// block notes that a copy would stop, or lack something.
func (s *survey) block(p *tidemark.Piece, kind tidemark.Kind) {
	s.findings = append(s.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: kind, Object: p.Table.String(), Text: refusal(p), Hint: s.im.hintRefused(p)})
}

// fire notes that rows come after a trigger of their table.
func (s *survey) fire(p *tidemark.Piece) {
	if trigger := s.triggers[folded(p.Table)]; trigger != nil {
		s.block(trigger, tidemark.Unsupported)
		delete(s.triggers, folded(p.Table))
	}
}

// piece counts a piece of rows.
func (s *survey) piece(ctx context.Context, p *tidemark.Piece) error {
	defer s.fire(p)
	t, err := s.find(ctx, p)
	if t == nil {
		return err
	}
	if s.see != nil {
		if err := s.see(t, p); err != nil {
			return err
		}
	}
	t.Rows += p.Rows
	t.Bytes += p.Bytes
	s.rows = append(s.rows, tidemark.Range{ID: p.ID, Move: slices.Index(s.tables, t), Rows: p.Rows, Bytes: p.Bytes})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Bytes += p.Bytes
	s.sum.Rows += p.Rows
	return nil
}

// computed counts a statement whose rows only a server can compute.
func (s *survey) computed(ctx context.Context, p *tidemark.Piece) error {
	if !s.im.spec.Rules.Wants(tidemark.TableID{Schema: s.im.from(p), Name: p.Table.Name}) {
		return nil
	}
	if s.see != nil {
		return s.see(&tidemark.Table{TableID: p.Table}, p)
	}
	if p.Remedy != "" {
		s.block(p, tidemark.BadInput)
		return nil
	}
	if !s.im.Speaks() {
		err := needsMySQL(p)
		s.findings = append(s.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Unsupported, Object: p.Table.String(),
			Text: fmt.Sprintf("the statement at line %d computes its rows with SQL of MySQL", p.Line), Hint: tidemark.HintOf(err)})
		return nil
	}
	if p.Refuse != "" {
		s.block(p, tidemark.Unsupported)
	}
	if p.ID == 0 {
		s.others["CREATE TABLE that the server evaluates"]++
		s.later = append(s.later, tidemark.Object{ID: p.What, Kind: "table", Phase: tidemark.BeforeRows, Table: p.Table, SQL: []string{p.SQL}})
		return nil
	}
	verb, _, _ := strings.Cut(p.SQL, " ")
	s.others[strings.ToUpper(verb)+" that the server evaluates"]++
	s.fire(p)
	_, err := s.find(ctx, p)
	return err
}

// other counts a statement that is not about rows.
func (s *survey) other(p *tidemark.Piece) {
	if p.What == "" { // a setting of the session
		if s.im.Speaks() && !s.settings[p.SQL] {
			s.settings[p.SQL] = true
			s.sets = append(s.sets, tidemark.Object{ID: "setting", Kind: "setting", Phase: tidemark.BeforeRows, SQL: []string{p.SQL}})
		}
		return
	}
	if (alters(p) || p.Kind == tidemark.OnRows) && !s.im.carries(p) {
		return
	}
	kind, _, _ := strings.Cut(p.What, " ")
	switch {
	case alters(p):
		if s.alter(p) {
			return
		}
		kind = "ALTER TABLE"
	case !creates(p) && kind != "statement":
		if kind = "DROP"; !s.im.Speaks() {
			return // of a view, trigger or routine that is created next
		}
	}
	id, _, _ := strings.Cut(p.What, " (line ")
	if kind != "view" || !s.views[id] { // a dump creates each view twice, first in the shape of a table
		s.others[kind]++
	}
	s.views[id] = s.views[id] || kind == "view"
	if s.im.Speaks() && p.Kind == tidemark.OnRows && p.Refuse != "" && s.im.carries(p) {
		s.triggers[folded(p.Table)] = p
	}
	if s.im.Speaks() {
		s.later = append(s.later, tidemark.Object{ID: id, Kind: kind, Phase: tidemark.AfterRows, Table: p.Table, SQL: []string{p.SQL}})
	}
	if !s.im.Speaks() {
		s.findings = append(s.findings, s.im.leftBehind(p)...)
	}
}

// Split gives no ranges: those of a file are its pieces.
func (s *survey) Split(context.Context, *tidemark.Move) ([]tidemark.Range, error) { return nil, nil }

// plan makes a plan from what was found.
func (s *survey) plan(ctx context.Context) (*load.Plan, error) {
	im := s.im
	if err := s.placeDatabases(); err != nil {
		return nil, err
	}
	if len(s.tables) == 0 {
		s.findings = append(s.findings, noTables)
	}
	db := im.database(s.tables, s.native)
	db.Findings = im.dump.Findings()
	moves, found, err := ApplyRules(im.spec.Rules, db, im.end, im.tgt, im.spec.TargetSchema)
	if err != nil {
		return nil, err
	}
	for i := range moves {
		if err := im.whole(&moves[i]); err != nil {
			return nil, err
		}
		found = append(found, notice.HiddenLabels(&moves[i])...)
	}
	s.clashes(moves)
	s.inWords()
	found = slices.Concat(im.spec.Findings, im.p.Findings, found, s.summary(), im.listUnrun(), s.findings)
	p, err := makePlan(ctx, s, im.tgt, db, moves, im.spec, found, im.position)
	if p == nil {
		return nil, err
	}
	p.Source = strings.TrimSpace("dump of " + db.Engine + " " + db.Version)
	s.cut(p)
	p.Objects = slices.Concat(s.sets, p.Objects, s.later)
	if err == nil {
		err = load.Blocked(s.findings)
	}
	if err == nil && idle(p) {
		err = emptyFile(im.spec.Source)
	}
	return p, err
}

// clashes finds tables that the import will refuse when it gets there. Where tables, indexes, types
// and sequences share their names, as on PostgreSQL, what comes earlier in the file may have the
// name, since the import reads the file once: the target is asked as it will be then.
func (s *survey) clashes(moves []tidemark.Move) {
	if s.im.Speaks() {
		return
	}
	of := make(map[tidemark.TableID]int, len(moves))
	for i := range moves {
		of[moves[i].From.TableID] = i
	}
	for _, t := range s.tables {
		i, is := of[t.TableID]
		if !is {
			continue
		}
		_, found := s.im.tgt.Render(s.im.database([]*tidemark.Table{t}, nil), moves[i:i+1:i+1])
		for _, f := range found {
			if f.Severity == tidemark.Blocker && f.Kind == tidemark.Collision {
				s.findings = append(s.findings, f)
			}
		}
	}
}

// placeDatabases decides where the databases of the file go; see settleDatabases.
func (s *survey) placeDatabases() error {
	im := s.im
	schemas := map[string]bool{}
	for _, t := range s.tables {
		schemas[t.Schema] = true
	}
	if schemas[""] {
		return im.settleDatabases(context.Background(), "")
	}
	unnamed := len(im.creates) == 0 && len(schemas) == 1 && schemas[im.tgt.Default()]
	im.end.known = true
	im.end.several = im.spec.TargetSchema == "" && (len(schemas) > 1 || im.tgt.Default() == "" || im.dump.Stamp() == "" && !unnamed)
	return nil
}

// cut gives the plan the file's pieces as ranges, in the file's order, and the formats of a file.
func (s *survey) cut(p *load.Plan) {
	move := map[*tidemark.Table]int{}
	for i := range p.Moves {
		for _, t := range s.tables {
			if p.Moves[i].From.TableID == t.TableID {
				move[t] = i
			}
		}
		if i < len(p.Fresh) {
			p.Formats[i] = s.im.format(&p.Moves[i], p.Fresh[i])
		}
	}
	p.Ranges = s.rows
	for i := range p.Ranges {
		p.Ranges[i].Move = move[s.tables[p.Ranges[i].Move]]
	}
}

// summary counts the statements that are not about rows.
func (s *survey) summary() []tidemark.Finding {
	var kinds []string
	for kind := range s.others {
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		return nil
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		n := s.others[kind]
		if kinds[i] = fmt.Sprintf("%d %s", n, kind); n > 1 && strings.ToLower(kind) == kind {
			kinds[i] += "s"
		}
	}
	text := "run after the rows, in the file's order"
	if !s.im.Speaks() {
		text = "are in the file besides tables and rows, and are not copied"
	}
	return []tidemark.Finding{{Severity: tidemark.Note, Object: "other statements", Text: text + ": " + strings.Join(kinds, ", ")}}
}

// Totals and the rest make a survey the Progress of a plan.

// Totals counts the file as one table.
func (s *survey) Totals() load.Totals { return load.Sum(s.Moving()) }

// Moving gives one line, for the file.
func (s *survey) Moving() []load.TableStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []load.TableStatus{s.sum}
}

// Objects gives nothing: a plan creates none.
func (s *survey) Objects() load.Build { return load.Build{} }

// Elapsed is the time since the file was opened.
func (s *survey) Elapsed() time.Duration { return time.Since(s.start) }

// Position is where in the file the scanner is.
func (s *survey) Position() (done, total int64) { return s.im.dump.Offset() }

// CheckDump is Check for a dump file.
func CheckDump(ctx context.Context, env Env, spec CopySpec, open func(path string) (Dump, error)) (*Checked, error) {
	im, err := openImport(ctx, env, spec, open)
	if err != nil {
		return nil, err
	}
	defer im.close()
	s, err := im.survey(ctx, false, nil)
	if err != nil {
		return nil, err
	}
	p, err := s.plan(ctx)
	db := im.database(s.tables, s.native)
	out := &Checked{Source: strings.TrimSpace("dump of " + db.Engine + " " + db.Version), Target: im.tgt.Name()}
	for _, t := range s.tables {
		out.Tables, out.Rows, out.Bytes = out.Tables+1, out.Rows+t.Rows, out.Bytes+t.Bytes
	}
	found, perr := im.tgt.Preflight(ctx, "target", db)
	if perr != nil {
		return nil, perr
	}
	out.Findings = found
	if p != nil {
		out.Findings = append(out.Findings, p.Findings...)
	}
	if err != nil {
		out.Block(err)
	}
	out.tidy()
	return out, nil
}
