package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
	"github.com/tidemarkdb/tidemark/sample"
)

// A DiffSpec says what to compare.
type DiffSpec struct {
	Source, Target string
	Rules          *mapping.Rules
	TargetSchema   string
	Lanes          int // sessions on each side; 0: as many as the distance needs
	MaxPrinted     int
	ZeroDates      string // "null" or "epoch" if a copy was made with that policy
	ReadRows       bool   // instead of having the servers hash them
	NoNumberIsNull bool   // if a copy turned infinities, NaN and the like into NULL
	// RetryFor is how long broken connections are retried, since both sides last answered; 0 means
	// not at all.
	RetryFor time.Duration
	// Servers, if not nil, is called at the end with what the readers' I/O consisted of.
	Servers func(*sample.Account)
	// Files says which of source and target are dump files; Dump opens them.
	Files [2]bool
	Dump  func(path string) (Dump, error)
	// Only, if not nil, tells which of the source's tables are compared; for partitions, by their
	// root table.
	Only func(tidemark.TableID) bool
}

// Diff compares two databases row by row: the tables that a copy with the same rules would fill. A
// table that the target lacks counts as different. After a lost connection, it continues with the
// tables that were not found equal before.
func Diff(ctx context.Context, env Env, spec DiffSpec) (out diff.Result, findings []tidemark.Finding, err error) {
	equal := map[tidemark.TableID]diff.TableResult{} // by the source's table
	once := diffOnce
	if spec.Files != [2]bool{} {
		once = diffDump
	}
	err = env.persist(ctx, "diff", spec.RetryFor, func(there func()) (err error) {
		out, findings, err = once(ctx, env, spec, equal, there)
		return err
	})
	return out, findings, err
}

func diffOnce(ctx context.Context, env Env, spec DiffSpec, equal map[tidemark.TableID]diff.TableResult, there func()) (diff.Result, []tidemark.Finding, error) {
	src, tgt, done, err := spec.openEnds(ctx, env)
	if err != nil {
		return diff.Result{}, nil, err
	}
	defer done()
	if err := freezeAll(ctx, &spec, src, tgt); err != nil {
		return diff.Result{}, nil, err
	}
	there()
	env.Phase("reading both sides' definitions")
	pairs, findings, err := pair(ctx, src, tgt, spec)
	if err != nil {
		return diff.Result{}, findings, err
	}
	for i := range pairs {
		withComputed(tgt, &pairs[i])
	}
	opt := diffOptions(spec, src.Name(), tgt.Name())
	var servers *serverWatch
	if spec.Servers != nil {
		servers, opt.Watch = watchSides(ctx, src, tgt)
	}
	result, err := comparePairs(ctx, env, src, tgt, pairs, opt, equal)
	if servers != nil {
		spec.Servers(servers.account(result.Report))
	}
	if err == nil {
		var stray []tidemark.Finding
		stray, err = astray(ctx, src, tgt, pairs)
		findings = append(findings, stray...)
	}
	result.Equal = result.Equal && !missing(findings)
	return result, findings, err
}

// openEnds connects to both ends. If both store dates such as 0000-00-00, these are read as they
// are, except where a copy has replaced them.
func (s *DiffSpec) openEnds(ctx context.Context, env Env) (src, tgt Database, done func(), err error) {
	if src, tgt, done, err = env.OpenEnds(ctx, s.Source, s.Target); err != nil || s.ZeroDates != "" {
		return src, tgt, done, err
	}
	if engine.Of(src.Name()).ZeroDates && engine.Of(tgt.Name()).ZeroDates {
		for _, end := range []Database{src, tgt} {
			if k, ok := end.(dateKeeper); ok {
				k.DatesAsWritten()
			}
		}
	}
	return src, tgt, done, nil
}

// astray finds the rows of the target that break its own foreign keys, since the source knows more
// spellings as equal.
func astray(ctx context.Context, src, tgt End, pairs []diff.Pair) (out []tidemark.Finding, err error) {
	if engine.Family(src.Name()) == engine.Family(tgt.Name()) {
		return nil, nil
	}
	tables := make([]tidemark.TableID, len(pairs))
	for i, p := range pairs {
		tables[i] = p.Target.From.TableID
	}
	doubts, err := engines.Astray(ctx, tgt, tables)
	for _, d := range doubts {
		out = append(out, brokenKey(&d, "the target holds this key for valid, and a dump of it cannot be restored"))
	}
	return out, err
}

// comparePairs compares the pairs that an earlier attempt has not found equal, and adds to equal.
func comparePairs(ctx context.Context, env Env, src, tgt diff.Side, pairs []diff.Pair, opt diff.Options, equal map[tidemark.TableID]diff.TableResult) (diff.Result, error) {
	w := newDiffProgress(pairs)
	env.Watch.Running(w)
	var open []diff.Pair
	var at []int // in pairs
	for i, p := range pairs {
		if r, ok := equal[p.Source.From.TableID]; ok {
			w.event(diff.Event{Pair: i, Rows: r.SourceRows + r.TargetRows, Done: &r})
			continue
		}
		open, at = append(open, p), append(at, i)
	}
	var mu sync.Mutex
	opt.Progress = func(e diff.Event) {
		if e.Pair = at[e.Pair]; e.Done != nil && e.Done.Equal {
			mu.Lock()
			equal[pairs[e.Pair].Source.From.TableID] = *e.Done
			mu.Unlock()
		}
		w.event(e)
	}
	result, err := diff.Compare(ctx, src, tgt, open, opt)
	if err == nil {
		result.Tables = inOrder(pairs, at, result.Tables, equal)
	}
	return result, err
}

// inOrder gives the results of all pairs: those compared now are at the places at, the others were
// equal before.
func inOrder(pairs []diff.Pair, at []int, now []diff.TableResult, equal map[tidemark.TableID]diff.TableResult) []diff.TableResult {
	out := make([]diff.TableResult, len(pairs))
	for i, p := range pairs {
		out[i] = equal[p.Source.From.TableID]
	}
	for i, r := range now {
		out[at[i]] = r
	}
	return out
}

// The default of --lanes. Far away most of the time of a small table is its round trip.
const (
	diffLanes    = 2
	diffLanesFar = 8
)

// freezeAll opens the lanes of all sides that are servers, and decides how many these are.
func freezeAll(ctx context.Context, spec *DiffSpec, ends ...Database) error {
	if spec.Lanes == 0 {
		var asked []any
		for _, end := range ends {
			asked = append(asked, end)
		}
		d, err := Distance(ctx, asked...)
		if err != nil {
			return err
		}
		if spec.Lanes = diffLanes; d > 0 {
			spec.Lanes = diffLanesFar
		}
	}
	for _, end := range ends {
		if _, err := end.Freeze(ctx, spec.Lanes); err != nil {
			return err
		}
	}
	return nil
}

func diffOptions(spec DiffSpec, source, target string) diff.Options {
	return diff.Options{SourceEngine: source, TargetEngine: target, Lanes: spec.Lanes, MaxPrinted: spec.MaxPrinted,
		ZeroDates: spec.ZeroDates, NoNumberIsNull: spec.NoNumberIsNull, ReadRows: spec.ReadRows}
}

// missing reports whether a finding is about a table that does not exist on the target.
func missing(findings []tidemark.Finding) bool {
	for _, f := range findings {
		if f.Severity == tidemark.Blocker {
			return true
		}
	}
	return false
}

// pair finds for each table of the source the one that a copy would have created.
func pair(ctx context.Context, src, tgt Database, spec DiffSpec) ([]diff.Pair, []tidemark.Finding, error) {
	db, moves, findings, err := spec.moves(ctx, src, tgt)
	if err != nil {
		return nil, nil, err
	}
	if err := Distinct(ctx, "compare", src, tgt, moves, false); err != nil {
		return nil, nil, err
	}
	if len(moves) == 0 {
		return nil, findings, nothing("compare", db)
	}
	var notes []tidemark.Finding
	for _, f := range findings {
		if f.Severity >= tidemark.Warning {
			notes = append(notes, f)
		}
	}
	pairs, lacking, err := pairMoves(ctx, tgt, "target", moves)
	notes = append(notes, lacking...)
	if err == nil && len(pairs) == 0 && len(notes) == 0 {
		err = &tidemark.Error{Kind: tidemark.NotFound, Op: "diff", Err: fmt.Errorf("none of %d tables exists on the target", len(moves))}
	}
	return pairs, notes, err
}

// pairMoves finds the tables that moves have filled on an end, which is the source or the target,
// and lists what is missing there.
func pairMoves(ctx context.Context, tgt Database, role string, moves []tidemark.Move) (pairs []diff.Pair, notes []tidemark.Finding, err error) {
	wanted := map[tidemark.TableID]bool{}
	for _, m := range moves {
		wanted[ClipID(tgt, m.To.TableID)] = true
	}
	there, err := tgt.Describe(ctx, func(id tidemark.TableID) bool { return wanted[id] })
	if err != nil {
		return nil, nil, err
	}
	found := map[tidemark.TableID]*tidemark.Table{}
	for _, t := range there.Tables {
		found[t.TableID] = t
	}
	for i := range moves {
		t := found[ClipID(tgt, moves[i].To.TableID)]
		if t == nil {
			notes = append(notes, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.NotFound, Object: "table " + moves[i].To.String(), Text: "does not exist on the " + role})
			continue
		}
		p, lacks := match(tgt, &moves[i], t)
		if len(lacks) > 0 {
			notes = append(notes, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.NotFound, Object: "table " + t.String(), Text: "lacks the columns " + strings.Join(lacks, ", ")})
			continue
		}
		pairs = append(pairs, p)
	}
	return pairs, notes, nil
}

// moves describes the source, and tells which of its tables are compared with which.
func (s *DiffSpec) moves(ctx context.Context, src, tgt Database) (*tidemark.Database, []tidemark.Move, []tidemark.Finding, error) {
	db, err := src.Describe(ctx, s.Rules.Wants)
	if err != nil {
		return nil, nil, nil, err
	}
	moves, findings, err := ApplyRules(s.Rules, db, src, tgt, s.TargetSchema)
	if err == nil && s.Only != nil {
		roots := rootsOf(db)
		moves = slices.DeleteFunc(moves, func(m tidemark.Move) bool { return !s.Only(roots(m.From.TableID)) })
	}
	return db, moves, findings, err
}

// rootsOf gives a function that finds the root of a partition through all levels; for other tables,
// the table itself.
func rootsOf(db *tidemark.Database) func(tidemark.TableID) tidemark.TableID {
	parents := map[tidemark.TableID]tidemark.TableID{}
	for _, t := range db.Tables {
		if t.PartitionOf != (tidemark.TableID{}) {
			parents[t.TableID] = t.PartitionOf
		}
	}
	return func(id tidemark.TableID) tidemark.TableID {
		for range len(parents) {
			parent, ok := parents[id]
			if !ok {
				break
			}
			id = parent
		}
		return id
	}
}

// match makes the move that reads the target's table in the order of the source's columns.
func match(tgt Database, m *tidemark.Move, t *tidemark.Table) (diff.Pair, []string) {
	back := &tidemark.Move{From: t, To: m.To, Direct: m.Direct} // as the source is read
	var lacks []string
	for _, c := range m.To.Stored() {
		name := Clip(tgt, c.Name)
		if t.Column(name) == nil {
			lacks = append(lacks, name)
		}
		back.Source = append(back.Source, name)
	}
	return diff.Pair{Source: m, Target: back, Key: keyOf(m)}, lacks
}

// withComputed adds the columns that are generated on both sides: each has computed them by its own
// rules, which may know other letters or compare otherwise.
func withComputed(tgt Database, p *diff.Pair) {
	from, to := generated(p.Source.From), generated(p.Source.To)
	table := *p.Source.To
	table.Columns = p.Source.To.Stored()
	source, target := *p.Source, *p.Target
	source.Source, target.Source = slices.Clone(source.Source), slices.Clone(target.Source)
	for i, c := range to {
		name := c.Name
		if len(from) == len(to) {
			name = from[i].Name // which a rule may have changed
		}
		there, here := p.Source.From.Column(name), p.Target.From.Column(Clip(tgt, c.Name))
		if there == nil || there.Generated == "" || here == nil || here.Generated == "" {
			continue
		}
		c.Generated = ""
		table.Columns = append(table.Columns, c)
		source.Source, target.Source = append(source.Source, name), append(target.Source, here.Name)
	}
	source.To, target.To = &table, &table
	p.Source, p.Target = &source, &target
}

// generated lists the columns of a table that its server computes from others.
func generated(t *tidemark.Table) (out []tidemark.Column) {
	for _, c := range t.Current().Columns {
		if c.Generated != "" {
			out = append(out, c)
		}
	}
	return out
}

// keyOf gives the positions of the key of the table that m reads; none if m does not read all of
// it.
func keyOf(m *tidemark.Move) (key []int) {
	of := m.From.Current()
	if of.Key == nil {
		return nil
	}
	for _, name := range of.Key.Columns() {
		at := slices.Index(m.Source, name)
		if at < 0 {
			return nil
		}
		key = append(key, at)
	}
	return key
}

// Clip gives a name as the target keeps it: PostgreSQL cuts names to 63 bytes, at
// a character (NAMEDATALEN, "Identifiers and Key Words").
func Clip(tgt Destination, name string) string {
	n := engine.Of(tgt.Name()).NameBytes
	if n == 0 || len(name) <= n {
		return name
	}
	for !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}

func ClipID(tgt Destination, id tidemark.TableID) tidemark.TableID {
	return tidemark.TableID{Schema: Clip(tgt, id.Schema), Name: Clip(tgt, id.Name)}
}

// diffProgress is the Progress of a comparison: both sides' rows and bytes.
type diffProgress struct {
	*load.Tally
	start time.Time
}

func newDiffProgress(pairs []diff.Pair) *diffProgress {
	tables := make([]load.TableStatus, len(pairs))
	for i, p := range pairs {
		tables[i] = load.TableStatus{Move: i, State: load.BeforeLoad, Expected: p.Source.From.Bytes + p.Target.From.Bytes}
	}
	return &diffProgress{load.NewTally(tables), time.Now()}
}

func (w *diffProgress) event(e diff.Event) {
	w.Change(e.Pair, func(t *load.TableStatus) {
		t.Rows += e.Rows
		t.Bytes += e.Bytes
		t.Expected += e.More
		t.State = load.FullLoad
		if e.Done != nil {
			t.State = load.TableCompleted
		}
	})
}

func (w *diffProgress) Objects() load.Build { return load.Build{} }

func (w *diffProgress) Elapsed() time.Duration { return time.Since(w.start) }

func (w *diffProgress) Position() (done, total int64) {
	t := w.Totals()
	return t.Bytes, t.Expected
}
