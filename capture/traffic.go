package capture

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// TableChanges are the changes of a table.
type TableChanges struct {
	Table   tidemark.TableID `json:"table"`
	Inserts int64            `json:"inserts"`
	Updates int64            `json:"updates"`
	Deletes int64            `json:"deletes"`
}

// All returns their sum.
func (c TableChanges) All() int64 { return c.Inserts + c.Updates + c.Deletes }

func (c TableChanges) minus(o TableChanges) TableChanges {
	c.Inserts, c.Updates, c.Deletes = c.Inserts-o.Inserts, c.Updates-o.Updates, c.Deletes-o.Deletes
	return c
}

// A HotRow is the row that was updated or deleted most often.
type HotRow struct {
	Table tidemark.TableID `json:"table"`
	Key   string           `json:"key"`   // "id=1"
	Share float64          `json:"share"` // of all updates and deletes, 0 to 1: at least
}

// traffic counts the changes of a stream by table, and finds rows that change again and again. It
// reads the head of each change, and of one in lookEvery the key.
type traffic struct {
	tables map[uint32]*tableTraffic // by relation
	last   *tableTraffic            // of the last change: most follow one of the same table
	nth    uint
	rows   []seenRow
	at     map[string]int // of rows, by key
	looked int64          // updates and deletes that were looked at, since the last reading
	values []change.Value
	key    []byte
}

type tableTraffic struct {
	relation uint32
	now      TableChanges
	told     TableChanges // at the last reading
	columns  []string     // by position; "" is not part of the key
}

// seenRow counts a row: at least n - over times.
type seenRow struct {
	key     string
	of      *tableTraffic
	n, over int64
}

const (
	lookEvery = 64
	// mostRows is how many rows are counted at a time. A row that is changed by more than one in
	// mostRows of the changes is among them: Metwally et al., Efficient Computation of Frequent and
	// Top-k Elements in Data Streams, 2005.
	mostRows = 64
)

// count reads the changes of a transaction. What cannot be read is left out: whoever applies it
// reports it.
func (t *traffic) count(changes []byte) {
	for len(changes) >= 9 { // length, kind, relation
		message, rest, err := change.NextMessage(changes)
		if err != nil {
			return
		}
		changes = rest
		kind := tidemark.ChangeKind(message[0])
		switch {
		case kind == tidemark.RelationChange:
			t.know(message[1:])
			continue
		case len(message) < 5 || kind != tidemark.InsertChange && kind != tidemark.UpdateChange && kind != tidemark.DeleteChange:
			continue
		}
		if id := binary.BigEndian.Uint32(message[1:]); t.last == nil || t.last.relation != id {
			if t.last = t.tables[id]; t.last == nil {
				continue
			}
		}
		switch kind {
		case tidemark.InsertChange:
			t.last.now.Inserts++
			continue
		case tidemark.UpdateChange:
			t.last.now.Updates++
		case tidemark.DeleteChange:
			t.last.now.Deletes++
		}
		if t.nth++; t.nth%lookEvery == 0 {
			t.countRow(message)
		}
	}
}

// know remembers a relation.
func (t *traffic) know(body []byte) {
	r, err := change.ParseRelation(body)
	if err != nil {
		return
	}
	if t.tables == nil {
		t.tables, t.at = map[uint32]*tableTraffic{}, map[string]int{}
	}
	x := t.tables[r.ID]
	if x == nil {
		x = &tableTraffic{relation: r.ID}
		t.tables[r.ID] = x
	}
	x.now.Table, x.columns = r.Table, make([]string, len(r.Columns))
	for i, c := range r.Columns {
		if c.Key && r.Identity != 'f' {
			x.columns[i] = c.Name
		}
	}
}

// countRow counts the row of an update or delete.
func (t *traffic) countRow(message []byte) {
	c, err := change.Parse(message)
	if err != nil {
		return
	}
	row := c.Old
	if row == nil {
		row = c.New
	}
	t.values, t.key = row.Values(t.values[:0]), t.key[:0]
	for i, v := range t.values {
		if i < len(t.last.columns) && t.last.columns[i] != "" {
			t.key = append(append(append(t.key, ", "...), t.last.columns[i]...), '=')
			t.key = append(t.key, v.Data[:min(len(v.Data), 60)]...)
		}
	}
	if len(t.key) == 0 {
		return
	}
	t.looked++
	t.key = binary.BigEndian.AppendUint32(t.key, t.last.relation)
	i, known := t.at[string(t.key)]
	switch {
	case known:
		t.rows[i].n++
		return
	case len(t.rows) < mostRows:
		i = len(t.rows)
		t.rows = append(t.rows, seenRow{})
	default: // the rarest one makes room
		for k := range t.rows {
			if t.rows[k].n < t.rows[i].n {
				i = k
			}
		}
		delete(t.at, t.rows[i].key)
	}
	n := t.rows[i].n
	t.rows[i] = seenRow{string(t.key), t.last, n + 1, n}
	t.at[t.rows[i].key] = i
}

// fewLooked is how many changes must have been looked at before a row counts as hot.
const fewLooked = 20

// read returns the changes by table since the last reading, the most first, and the hottest row; it
// begins anew.
func (t *traffic) read() (tables []TableChanges, hot HotRow) {
	for _, x := range t.tables {
		if n := x.now.minus(x.told); n.All() > 0 {
			tables = append(tables, n)
			x.told = x.now
		}
	}
	tables = perTable(tables)
	for _, r := range t.rows {
		if share := float64(r.n-r.over) / float64(t.looked); t.looked >= fewLooked && share > hot.Share {
			hot = HotRow{r.of.now.Table, strings.ToValidUTF8(r.key[2:len(r.key)-4], "?"), share}
		}
	}
	t.rows = t.rows[:0]
	clear(t.at)
	t.looked = 0
	return tables, hot
}

// perTable adds up the changes of each table, whose columns may have changed, and sorts them.
func perTable(all []TableChanges) (out []TableChanges) {
	at := map[tidemark.TableID]int{}
	for _, c := range all {
		i, ok := at[c.Table]
		if !ok {
			at[c.Table] = len(out)
			out = append(out, c)
			continue
		}
		sum := &out[i]
		sum.Inserts, sum.Updates, sum.Deletes = sum.Inserts+c.Inserts, sum.Updates+c.Updates, sum.Deletes+c.Deletes
	}
	slices.SortFunc(out, func(a, b TableChanges) int {
		return cmp.Or(cmp.Compare(b.All(), a.All()), strings.Compare(a.Table.String(), b.Table.String()))
	})
	return out
}

// Tables returns the changes by table that were handed on so far, the most first.
func (m *Meter) Tables() (out []TableChanges) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.traffic.tables {
		if x.now.All() > 0 {
			out = append(out, x.now)
		}
	}
	return perTable(out)
}
