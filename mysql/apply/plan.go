package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A planner knows how a session writes changes of each table.
type planner struct {
	outgoing
	links    links
	plans    map[*tidemark.Table][]*plan
	latest   map[tidemark.TableID]*plan // the last one used for a table
	prepared int                        // number of the session's prepared statements
	bulkFrom int                        // rows of a kind to a table before a statement is prepared
}

// A plan is how changes of a relation are written to a table.
type plan struct {
	b      *change.Bound
	object string // the table, for messages
	name   string // for SQL
	cols   []setCol
	stored []int // columns of the relation that an insert writes

	// id are the relation's columns that identify a row; if there are none, whole rows are
	// compared. primary: they are the target's primary key.
	id      []int
	primary bool
	list    bool // values of the key can be in an IN list
	// free: whatever the order in which rows of the table change, other tables notice only through
	// an error, and rows are distinguishable. Then changes of different rows are batched.
	free    bool
	hangs   link
	depth   int
	cascade bool // rows may be deleted together with those of other tables
	renames bool // keys may change with those of other tables
	uniques bool // there are unique keys besides the primary one
	selfRef bool // it references itself

	insert string // INSERT ... VALUES
	// overwrite follows the rows of inserts that may exist already; "": none
	overwrite string
	upsert    [2]string // SQL before and after the rows of updates written as inserts; "" if impossible

	bulkInsert, bulkUpsert, bulkUpdate prepared

	pending
}

// pending are the rows of a plan that wait to be sent.
type pending struct {
	deletes, updates, inserts batch
	keys                      map[uint64]struct{} // hashes of the keys of their rows
	waits                     bool                // listed in the batcher's waiting
}

// A batch is rows of one statement.
type batch struct {
	buf   []byte
	n     int
	first change.Change // the first change of updates
	bulk  *prepared     // rows are parameters of this statement
}

func (b *batch) drop() { b.buf, b.n, b.first, b.bulk = b.buf[:0], 0, change.Change{}, nil }

func (p *pending) drop() {
	p.deletes.drop()
	p.updates.drop()
	p.inserts.drop()
	clear(p.keys)
	p.waits = false
}

// plan finds or makes the plan of a bound. A stream sends the same relation repeatedly. Switching
// to another plan for the same table, after its definition changed, first writes the former's
// waiting rows.
func (a *batcher) plan(b *change.Bound) (*plan, error) {
	p, err := a.planOf(b)
	if err != nil {
		return nil, err
	}
	if was := a.latest[b.Table.TableID]; was != p {
		if was != nil {
			if _, err := a.flush(); err != nil {
				return nil, err
			}
			if was.b.Table != b.Table {
				a.forget(was.b.Table)
			}
		}
		a.latest[b.Table.TableID] = p
	}
	return p, nil
}

// forget releases the plans of a table's earlier description.
func (pl *planner) forget(t *tidemark.Table) {
	for _, p := range pl.plans[t] {
		for _, s := range []*prepared{&p.bulkInsert, &p.bulkUpsert, &p.bulkUpdate} {
			if s.ready {
				pl.out = server.AppendCommand(pl.out, gomysql.COM_STMT_CLOSE, string(s.head[:4])) // the server does not answer it
				pl.prepared--
			}
		}
	}
	delete(pl.plans, t)
}

func (pl *planner) planOf(b *change.Bound) (*plan, error) {
	made := pl.plans[b.Table]
	for _, p := range made {
		if p.b == b || slices.Equal(p.b.Relation.Columns, b.Relation.Columns) && p.b.Relation.Identity == b.Relation.Identity && p.b.Loading == b.Loading && p.b.Orphans == b.Orphans && slices.Equal(p.b.Columns, b.Columns) {
			p.b = b
			return p, nil
		}
	}
	if !schema.Transactional(b.Table.Storage) {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "apply", Object: b.Table.String(), Err: errors.New("a stream cannot fill non-transactional tables"), Hint: "ALTER TABLE " + server.QuoteTable(b.Table.TableID) + " ENGINE=InnoDB."}
	}
	p := pl.newPlan(b)
	pl.plans[b.Table] = append(made, p)
	return p, nil
}

func (pl *planner) newPlan(b *change.Bound) *plan {
	t := b.Table
	p := &plan{b: b, object: t.String(), name: server.QuoteTable(t.TableID), cols: make([]setCol, len(b.Columns)), pending: pending{keys: map[uint64]struct{}{}}}
	var names []string
	for i, at := range b.Columns {
		if at < 0 || t.Columns[at].Generated != "" {
			continue
		}
		p.cols[i] = newSetCol(b.Relation.Columns[i], &t.Columns[at])
		p.stored = append(p.stored, i)
		names = append(names, server.Quote(t.Columns[at].Name))
	}
	p.insert = "INSERT INTO " + p.name + " (" + strings.Join(names, ",") + ") VALUES "
	for _, f := range t.ForeignKeys {
		p.cascade = p.cascade || strings.EqualFold(f.OnDelete, "CASCADE") && !pl.keyless
		p.renames = p.renames || strings.EqualFold(f.OnUpdate, "CASCADE") && !pl.keyless
		p.selfRef = p.selfRef || f.Ref == t.TableID
	}
	for i := range t.Indexes {
		p.uniques = p.uniques || t.Indexes[i].Unique
	}
	p.identify()
	p.hangs, p.depth = pl.links.of[t.TableID], pl.links.depth[t.TableID]
	p.free = p.hangs&^keyed == 0 && p.id != nil
	if len(p.id) == 1 {
		switch p.cols[p.id[0]].to.Kind {
		case tidemark.Year, tidemark.Bit, tidemark.Float:
		default:
			p.list = true
		}
	}
	if p.primary && (p.hangs&triggered == 0 || b.Loading) {
		p.planUpsert(pl.e)
	}
	if b.Loading && p.primary {
		key := p.cols[p.id[0]].name
		p.overwrite, p.upsert = cmp.Or(p.upsert[1], " ON DUPLICATE KEY UPDATE "+key+"="+key), [2]string{}
	}
	if pl.s.Bulk && (!b.Orphans || pl.keyless) {
		p.planBulk()
	}
	return p
}

// identify finds the columns that identify a row.
func (p *plan) identify() {
	var primary []int
	if p.b.Table.Key != nil {
		for _, name := range p.b.Table.Key.Columns() {
			i := slices.IndexFunc(p.cols, func(c setCol) bool { return c.stored && c.column == name })
			if i < 0 {
				primary = nil
				break
			}
			primary = append(primary, i)
		}
	}
	if p.b.Relation.Identity == 'f' {
		p.id = primary
	} else {
		for i, c := range p.b.Relation.Columns {
			if c.Key && p.cols[i].stored {
				p.id = append(p.id, i)
			}
		}
	}
	p.primary = len(primary) > 0 && len(p.id) == len(primary)
	for _, i := range primary {
		p.primary = p.primary && slices.Contains(p.id, i)
	}
}

// planUpsert writes the statement that updates many rows at once, each as an insert that finds its
// row existing. Only an update of all columns can be one. InnoDB checks the primary key first, so
// it finds that row, if there is one; the statement verifies that the match was not by another
// unique key.
func (p *plan) planUpsert(e *bulk.Bulk) {
	t := p.b.Table
	for _, c := range t.Columns {
		told := slices.ContainsFunc(p.cols, func(s setCol) bool { return s.stored && s.column == c.Name })
		if !told && c.Generated == "" && c.NotNull && c.Default == nil {
			return
		}
	}
	alias, value := " AS tidemark_new", func(name string) string { return "tidemark_new." + name }
	if e.MariaDB || !e.AtLeast(8, 0, 20) {
		alias, value = "", func(name string) string { return "VALUES(" + name + ")" }
	}
	var sets []string
	if p.uniques {
		name := p.cols[p.id[0]].name
		var same []string
		for _, i := range p.id {
			same = append(same, p.name+"."+p.cols[i].name+"="+value(p.cols[i].name))
		}
		sets = append(sets, name+"=IF("+strings.Join(same, " AND ")+","+p.name+"."+name+",NULL)")
	}
	others := 0
	for _, i := range p.stored {
		if !slices.Contains(p.id, i) {
			sets = append(sets, p.cols[i].name+"="+value(p.cols[i].name))
			others++
		}
	}
	if others > 0 {
		p.upsert = [2]string{p.insert, alias + " ON DUPLICATE KEY UPDATE " + strings.Join(sets, ",")}
	}
}

// moved reports whether an update has changed the columns that identify the row.
func (p *plan) moved(vals, olds []change.Value) bool {
	for _, i := range p.id {
		if vals[i].Kind != change.UnchangedValue && (vals[i].Kind != olds[i].Kind || string(vals[i].Data) != string(olds[i].Data)) {
			return true
		}
	}
	return false
}

// A link tells what a change of a table may trigger beyond its own rows.
type link uint8

const (
	triggered link = 1 << iota // it has triggers
	keyed                      // it is at one end of a foreign key
	acting                     // the foreign key changes rows itself
)

// links holds the links of all tables.
type links struct {
	of    map[tidemark.TableID]link
	depth map[tidemark.TableID]int // longest chain of references from a table
}

// readLinks reads which tables have triggers and, if wanted, foreign keys. The server hides
// triggers of tables on which the user has no TRIGGER privilege.
func readLinks(ctx context.Context, s *server.Session, keys bool) (out links, err error) {
	out = links{of: map[tidemark.TableID]link{}, depth: map[tidemark.TableID]int{}}
	r, err := s.Query(ctx, "SELECT DISTINCT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS")
	if err != nil {
		return out, err
	}
	for i := range r.RowNumber() {
		out.of[tidemark.TableID{Schema: server.Cell(r, i, 0), Name: server.Cell(r, i, 1)}] |= triggered
	}
	if !keys {
		return out, nil
	}
	if r, err = s.Query(ctx, "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, UPDATE_RULE, DELETE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS"); err != nil {
		return out, err
	}
	passive := []string{"RESTRICT", "NO ACTION"}
	for round := range min(r.RowNumber(), 50) { // a cycle has no depth
		for i := range r.RowNumber() {
			child, parent := tidemark.TableID{Schema: server.Cell(r, i, 0), Name: server.Cell(r, i, 1)}, tidemark.TableID{Schema: server.Cell(r, i, 2), Name: server.Cell(r, i, 3)}
			if child != parent {
				out.depth[child] = max(out.depth[child], min(out.depth[parent]+1, round+1))
			}
			kind := keyed
			if !slices.Contains(passive, server.Cell(r, i, 4)) || !slices.Contains(passive, server.Cell(r, i, 5)) || child == parent {
				kind |= acting
			}
			out.of[child] |= kind
			out.of[parent] |= kind
		}
	}
	return out, nil
}
