package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// An Origin is the database that a plan was made of, without what it has.
type Origin struct {
	Engine  string `json:"engine"`
	Version string `json:"version,omitempty"`
	Major   int    `json:"major,omitempty"`
	Name    string `json:"name,omitempty"`
	Charset string `json:"charset,omitempty"`
	Collate string `json:"collate,omitempty"`
}

// Database returns the origin as a database without tables.
func (o *Origin) Database() tidemark.Database {
	return tidemark.Database{Engine: o.Engine, Version: o.Version, Major: o.Major, Name: o.Name, Charset: o.Charset, Collate: o.Collate}
}

// A Plan is everything that a copy will do. It holds no connection and no secret, so it can be
// printed, stored, and resumed by another process.
type Plan struct {
	Source   string             `json:"source"` // engine names
	From     Origin             `json:"from"`
	Target   string             `json:"target"`
	Position tidemark.Position  `json:"position"`
	Moves    []tidemark.Move    `json:"moves"`
	Formats  []tidemark.Format  `json:"formats"` // per move
	Fresh    []bool             `json:"fresh"`   // per move: this run creates its table
	Ranges   []tidemark.Range   `json:"ranges"`
	Objects  []tidemark.Object  `json:"objects"`
	Findings []tidemark.Finding `json:"findings"`
	Owner    map[string]int     `json:"owner"` // table on the target ("schema.name"): the move that fills it
	Clear    []tidemark.TableID `json:"clear,omitempty"`
	Prep     Prep               `json:"prep"`
	Rejected []Failed           `json:"rejected,omitempty"` // tables that the target would refuse, if they are left out
	Held     []string           `json:"held,omitempty"`     // IDs of the objects that Hold took out

	total  int64 // bytes of all moves, if
	summed bool  // they are computed
}

// Hold takes those objects out that would act on what a stream writes, and says so.
func (p *Plan) Hold(would func(o *tidemark.Object) bool) {
	p.Objects = slices.DeleteFunc(p.Objects, func(o tidemark.Object) bool {
		held := would(&o)
		if held {
			p.Held = append(p.Held, o.ID)
		}
		return held
	})
	if len(p.Held) > 0 {
		p.Findings = append(p.Findings, tidemark.Finding{Severity: tidemark.Warning, Object: "triggers and events", Hint: "Without a cutover, diff --definitions prints their SQL.",
			Text: "are left for the cutover, which makes them: here they would act on the stream's changes, which have what they did on the source: " + tidemark.Some(p.Held, 10)})
	}
}

// PlanOptions control a Plan. The zero value is good.
type PlanOptions struct {
	Lanes      int   // number of readers; 0 means 2
	RangeBytes int64 // target size of a range in bytes; 0 chooses by size and lanes
	Prep       Prep
}

// Default sizes of a range. Each range costs a scan and a commit; a large one is lost completely if
// the run is killed during it.
const (
	minRange = 64 << 20
	maxRange = 1 << 30   // PostgreSQL
	midRange = 128 << 20 // other engines: a transaction's undo and binlog cache stay small
)

// rangeTarget returns the target size of a move's ranges in bytes.
//
// Tables move in parallel, so one needs splitting only if it is more than a lane's share of the
// total. PostgreSQL gains from a table in one piece, because rows can be written frozen into a
// table that the same transaction has emptied (COPY FREEZE); the others gain nothing from long
// transactions.
func rangeTarget(bytes, total int64, lanes int, cheap bool) int64 {
	if lanes == 0 {
		lanes = 2 // as many as a run begins with
	}
	share := total / int64(lanes)
	if !cheap {
		return min(max(share/4, minRange), midRange)
	}
	if bytes <= min(share+share/4, maxRange) {
		return maxRange
	}
	return min(max(bytes/int64(2*lanes), minRange), maxRange/2)
}

// MakePlan inspects both sides and decides what is created, split and copied. It changes nothing.
// Errors: NotEmpty, Unmapped and those of any other blocking finding.
func MakePlan(ctx context.Context, src Source, tgt Target, db *tidemark.Database, moves []tidemark.Move, target string, opt PlanOptions) (*Plan, error) {
	p := &Plan{Source: db.Engine, Target: target, Moves: moves, Prep: opt.Prep, Findings: slices.Clone(db.Findings)}
	if engine.Family(db.Engine) != engine.Family(target) { // what would fail is not made there
		p.Findings = slices.DeleteFunc(p.Findings, func(f tidemark.Finding) bool { return f.Fails() })
	}
	states, err := p.inspect(ctx, tgt) // first: names of its objects are not given again
	if err != nil {
		return p, err
	}
	p.From = Origin{db.Engine, db.Version, db.Major, db.Name, db.Charset, db.Collate}
	exists, refused := p.existing(states, opt.Prep)
	if err := DescribeParents(ctx, tgt, moves, exists); err != nil {
		return p, err
	}
	db.Handed = true
	objects, findings := tgt.Render(db, moves)
	p.Findings = append(p.Findings, findings...)
	if err := cmp.Or(Blocked(p.Findings), refused); err != nil {
		return p, err
	}
	p.Objects = p.keep(objects, exists)
	counters, findings, err := KeptCounters(ctx, tgt, moves, exists, opt.Prep)
	if err != nil {
		return p, err
	}
	p.Objects, p.Findings = append(p.Objects, counters...), append(p.Findings, findings...)
	if j, ok := tgt.(Joiner); ok {
		p.Objects = j.Join(p.Objects)
	}
	p.Own(db)
	p.Fresh, p.Formats = make([]bool, 0, len(moves)), make([]tidemark.Format, 0, len(moves))
	for i := range moves {
		p.Fresh = append(p.Fresh, !exists[moves[i].To.TableID])
		f := pickFormat(&moves[i], db.Engine, target, p.Fresh[i])
		if k, ok := src.(FormatHolder); ok && k.Kept() != f {
			f = tidemark.CopyText
		}
		p.Formats = append(p.Formats, f)
	}
	return p, p.split(ctx, src, opt)
}

// DescribeParents sets There in the moves of tables that the target keeps and to which created ones
// refer.
func DescribeParents(ctx context.Context, tgt Target, moves []tidemark.Move, kept map[tidemark.TableID]bool) error {
	d, ok := tgt.(Describer)
	if !ok || len(kept) == 0 {
		return nil
	}
	parents := map[tidemark.TableID]bool{}
	for i := range moves {
		for _, f := range moves[i].To.ForeignKeys {
			if !kept[moves[i].To.TableID] && kept[f.Ref] {
				parents[f.Ref] = true
			}
		}
	}
	if len(parents) == 0 {
		return nil
	}
	tables, err := d.Tables(ctx, slices.Collect(maps.Keys(parents)))
	there := map[tidemark.TableID]*tidemark.Table{}
	for _, t := range tables {
		there[t.TableID] = t
	}
	for i := range moves {
		moves[i].There = there[moves[i].To.TableID]
	}
	return err
}

// PlanReading decides in which ranges moves are read whose rows go to objects, not to a database.
func PlanReading(ctx context.Context, src Source, db *tidemark.Database, moves []tidemark.Move, format tidemark.Format, opt PlanOptions) (*Plan, error) {
	p := &Plan{Source: db.Engine, Moves: moves, Fresh: make([]bool, len(moves)), Owner: map[string]int{}}
	for range moves {
		p.Formats = append(p.Formats, format)
	}
	return p, p.split(ctx, src, opt)
}

// Blocked returns the first blocking finding as an error.
func Blocked(findings []tidemark.Finding) error {
	for _, f := range findings {
		if f.Severity == tidemark.Blocker {
			kind := f.Kind
			if kind == tidemark.Bug {
				kind = tidemark.Unsupported
			}
			return &tidemark.Error{Kind: kind, Op: "plan", Object: f.Object, Err: errors.New(f.Text), Hint: f.Hint}
		}
	}
	return nil
}

// inspect finds what the target has under the names of the wanted tables.
func (p *Plan) inspect(ctx context.Context, tgt Target) ([]tidemark.TableState, error) {
	ids := make([]tidemark.TableID, 0, len(p.Moves))
	for _, m := range p.Moves {
		if m.From.Form != tidemark.LargeObjects {
			ids = append(ids, m.To.TableID)
		}
	}
	return tgt.Inspect(ctx, ids)
}

// existing returns which wanted tables the target has and keeps, and rejects what Prep does not
// allow.
func (p *Plan) existing(states []tidemark.TableState, prep Prep) (map[tidemark.TableID]bool, error) {
	exists := map[tidemark.TableID]bool{}
	var full []string
	for _, s := range states {
		if !s.Exists {
			continue
		}
		switch {
		case prep == DropTables:
			p.Clear = append(p.Clear, s.Table)
			continue
		case prep == Truncate:
			p.Clear = append(p.Clear, s.Table)
		case prep == MustBeEmpty && s.Rows:
			full = append(full, s.Table.String())
		}
		p.Findings = append(p.Findings, Acting(s)...)
		exists[s.Table] = true
	}
	if err := p.referred(states); err != nil {
		return nil, err
	}
	if len(full) > 0 {
		return nil, &tidemark.Error{Kind: tidemark.NotEmpty, Op: "plan", Object: "target", Err: fmt.Errorf("%s: %s", plural(len(full), "table holds rows already", "tables hold rows already"), tidemark.Some(full, 5)), Hint: "Choose --prep drop, truncate or keep, or an empty target. Nothing was changed."}
	}
	return exists, nil
}

// Acting warns of triggers that act on the rows of a table which stays as it is.
func Acting(s tidemark.TableState) []tidemark.Finding {
	if len(s.Triggers) == 0 {
		return nil
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: "table " + s.Table.String(), Text: "its triggers on the target act on the rows of the copy, which may become others: " + tidemark.Some(s.Triggers, 5),
		Hint: "Drop them for the time of the copy, or choose --prep drop, which makes what the source has."}}
}

// referred refuses to empty or drop tables to which others refer that stay as they are.
func (p *Plan) referred(states []tidemark.TableState) error {
	clear := make(map[tidemark.TableID]bool, len(p.Clear))
	for _, id := range p.Clear {
		clear[id] = true
	}
	for _, s := range states {
		for _, by := range s.Referrers {
			if !clear[s.Table] || clear[by] {
				continue
			}
			what := "emptied"
			if p.Prep == DropTables {
				what = "dropped"
			}
			return &tidemark.Error{Kind: tidemark.NotEmpty, Op: "plan", Object: "table " + s.Table.String(), Err: fmt.Errorf("cannot be %s: table %s, which is not part of the copy, refers to it with a foreign key", what, by),
				Hint: "Drop that foreign key first, or copy that table too."}
		}
	}
	return nil
}

// Views lists the views that the copy creates on a PostgreSQL server, in an order in which they can
// be created: those of an earlier copy prevent dropping its tables.
func (p *Plan) Views() (out []tidemark.TableID) {
	for i := range p.Objects {
		if o := &p.Objects[i]; p.Source == p.Target && engine.Of(p.Target).ViewsHoldTables && (o.Kind == "view" || o.Kind == "materialized view") {
			out = append(out, o.Table)
		}
	}
	return out
}

// keep leaves out objects of tables that stay unchanged, but for types that others need.
func (p *Plan) keep(objects []tidemark.Object, exists map[tidemark.TableID]bool) []tidemark.Object {
	if len(exists) == 0 {
		return objects
	}
	needed := map[string]bool{}
	for i := range objects {
		if o := &objects[i]; !exists[o.Table] {
			for _, id := range o.Depends {
				needed[id] = true
			}
		}
	}
	out := objects[:0]
	noted := map[tidemark.TableID]bool{}
	for _, o := range objects {
		if exists[o.Table] && o.Kind != "statistics" && o.Kind != "sequence value" && !(o.Kind == "type" && needed[o.ID]) {
			if !noted[o.Table] {
				noted[o.Table] = true
				p.Findings = append(p.Findings, tidemark.Finding{Severity: tidemark.Note, Object: "table " + o.Table.String(),
					Text: "is already on the target: its definition, keys and indexes are kept", Hint: "Use --prep drop to recreate it."})
			}
			continue
		}
		out = append(out, o)
	}
	if slices.ContainsFunc(out, func(o tidemark.Object) bool { return o.Kind != "schema" && !exists[o.Table] }) {
		return out
	}
	return slices.DeleteFunc(out, func(o tidemark.Object) bool { return o.Kind == "schema" }) // nothing is made there
}

// Own records which move fills which table on the target, including leaves of partitioned tables.
func (p *Plan) Own(db *tidemark.Database) {
	p.Owner = make(map[string]int, len(p.Moves))
	roots := map[tidemark.TableID]int{}
	for i, m := range p.Moves {
		p.Owner[m.To.String()] = i
		if m.Direct {
			roots[m.From.TableID] = i
			for _, part := range m.From.Partitions {
				if part.Table.Name != "" {
					p.Owner[part.Table.String()] = i
				}
			}
		}
	}
	for _, t := range db.Tables {
		if i, ok := roots[t.PartitionOf]; ok && t.Form == tidemark.Partition {
			p.Owner[t.String()] = i
		}
	}
}

// split splits the moves into ranges and numbers these, largest tables first.
func (p *Plan) split(ctx context.Context, src Source, opt PlanOptions) error {
	p.Ranges = make([]tidemark.Range, 0, len(p.Moves))
	for i := range p.Moves {
		m := &p.Moves[i]
		p.Retarget(i, opt)
		ranges, err := src.Split(ctx, m)
		if err != nil {
			return err
		}
		for _, r := range ranges {
			r.Move, r.ID = i, len(p.Ranges)+1
			p.Ranges = append(p.Ranges, r)
		}
	}
	p.order()
	return nil
}

// Retarget sets the target size of a move's ranges, before it is split.
func (p *Plan) Retarget(move int, opt PlanOptions) {
	if !p.summed {
		p.total, p.summed = 0, true
		for i := range p.Moves {
			p.total += p.Moves[i].From.Bytes
		}
	}
	m := &p.Moves[move]
	if m.Split.Target = opt.RangeBytes; m.Split.Target == 0 {
		m.Split.Target = rangeTarget(m.From.Bytes, p.total, opt.Lanes, engine.Of(p.Target).CheapRanges)
	}
	m.Split.Max = 10000
}

// order sorts the ranges in the order of reading: by the user's load-order, then the table with the
// most bytes first; ranges of a table keep their order.
func (p *Plan) order() {
	bytes := make([]int64, len(p.Moves))
	for _, r := range p.Ranges {
		bytes[r.Move] += r.Bytes
	}
	sort.SliceStable(p.Ranges, func(a, b int) bool {
		x, y := p.Ranges[a].Move, p.Ranges[b].Move
		if x == y {
			return false
		}
		if p.Moves[x].Order != p.Moves[y].Order {
			return p.Moves[x].Order > p.Moves[y].Order
		}
		if bytes[x] != bytes[y] {
			return bytes[x] > bytes[y]
		}
		return x < y
	})
}

// after returns the objects that are created after the rows, without those that exist.
func (p *Plan) after(built map[string]bool) []*tidemark.Object {
	out := make([]*tidemark.Object, 0, len(p.Objects))
	for i := range p.Objects {
		if o := &p.Objects[i]; o.Phase != tidemark.BeforeRows && !built[o.ID] {
			out = append(out, o)
		}
	}
	return out
}

// fresh reports for each range (by ID) whether it is a whole table that this run creates.
func (p *Plan) fresh() map[int]bool {
	count := map[tidemark.TableID]int{}
	for i := range p.Ranges {
		count[p.into(&p.Ranges[i])]++
	}
	out := map[int]bool{}
	for i := range p.Ranges {
		r := &p.Ranges[i]
		out[r.ID] = p.Fresh[r.Move] && count[p.into(r)] == 1
	}
	return out
}

// into returns the table that a range is written to.
func (p *Plan) into(r *tidemark.Range) tidemark.TableID {
	if m := &p.Moves[r.Move]; m.Direct && r.Part != nil && r.Part.Table.Name != "" {
		return r.Part.Table
	}
	return p.Moves[r.Move].To.TableID
}

// pickFormat chooses the fastest format that both ends of a move support. A table that existed on
// the target may have other types, so only text is safe there.
func pickFormat(m *tidemark.Move, from, to string, fresh bool) tidemark.Format {
	if !fresh || engine.Family(from) != engine.Family(to) {
		return tidemark.CopyText
	}
	of := engine.Of(from)
	if m.Lob.Mode == tidemark.LimitedLob && of.Binary {
		return tidemark.CopyText // values are truncated as text
	}
	src, dst := m.Columns(), m.To.Stored()
	if len(src) != len(dst) {
		return tidemark.CopyText
	}
	portable := true
	for i := range src {
		a, b := &src[i].Type, &dst[i].Type
		if a.Native != b.Native || a.Charset != b.Charset {
			return tidemark.CopyText
		}
		portable = portable && a.Portable
	}
	if of.Binary && portable && len(src) > 0 {
		return tidemark.CopyBinary
	}
	return of.Text
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
