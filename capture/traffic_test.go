package capture

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// rowChange is an update or insert of a row with a key and a value.
func rowChange(kind tidemark.ChangeKind, relation uint32, key string) []byte {
	m := []byte{byte(kind), 0, 0, 0, byte(relation)}
	tuple := change.AppendTuple(nil, []change.Value{{Kind: change.TextValue, Data: []byte("v")}, {Kind: change.TextValue, Data: []byte(key)}})
	if kind == tidemark.DeleteChange {
		return append(append(m, 'K'), tuple...)
	}
	return append(append(m, 'N'), tuple...)
}

func relationOf(id uint32, name string) []byte {
	r := change.Relation{ID: id, Table: tidemark.TableID{Schema: "public", Name: name}, Identity: 'd', Columns: []change.RelationColumn{{Name: "v"}, {Name: "id", Key: true}}}
	return r.Append(nil)
}

// Changes are counted by table and kind, and the row that changes most is found among many others.
func TestTraffic(t *testing.T) {
	var m Meter
	random := rand.New(rand.NewPCG(1, 2))
	tx := &change.Tx{Place: 1, End: 2}
	tx.Changes = change.Append(change.Append(nil, relationOf(1, "a")), relationOf(2, "b"))
	for i := range 16000 {
		key := fmt.Sprint(random.IntN(1_000_000))
		if random.IntN(4) == 0 {
			key = "7"
		}
		tx.Changes = change.Append(tx.Changes, rowChange(tidemark.UpdateChange, 1, key))
		switch {
		case i%4 == 0:
			tx.Changes = change.Append(tx.Changes, rowChange(tidemark.InsertChange, 2, "7"))
		case i%16 == 1:
			tx.Changes = change.Append(tx.Changes, rowChange(tidemark.DeleteChange, 2, fmt.Sprint(i)))
		}
	}
	m.count(tx)
	s := m.Stats()
	if len(s.Tables) != 2 || s.Tables[0] != (TableChanges{tidemark.TableID{Schema: "public", Name: "a"}, 0, 16000, 0}) || s.Tables[1].Inserts != 4000 || s.Tables[1].Deletes != 1000 {
		t.Errorf("%+v", s.Tables)
	}
	if s.Hot.Key != "id=7" || s.Hot.Table.Name != "a" || s.Hot.Share < 0.15 || s.Hot.Share > 0.3 {
		t.Errorf("%+v", s.Hot)
	}
	if s = m.Stats(); len(s.Tables) > 0 || s.Hot != (HotRow{}) {
		t.Errorf("a second reading: %+v", s)
	}
	m.count(&change.Tx{Place: 2, End: 3, Changes: change.Append(change.Append(nil, relationOf(3, "a")), rowChange(tidemark.InsertChange, 3, "1"))}) // with other columns
	if all := m.Tables(); len(all) != 2 || all[0].Updates != 16000 || all[0].Inserts != 1 {
		t.Errorf("%+v", all)
	}
}

// No row of many different ones is hot, and what cannot be read is left alone.
func TestTrafficOfManyRows(t *testing.T) {
	var m Meter
	tx := &change.Tx{Changes: change.Append(nil, relationOf(1, "a"))}
	for i := range 20000 {
		tx.Changes = change.Append(tx.Changes, rowChange(tidemark.UpdateChange, 1, fmt.Sprint(i)))
	}
	tx.Changes = append(tx.Changes, 0, 0, 0, 99, 'U')
	m.count(tx)
	if s := m.Stats(); s.Hot.Share > 0.01 || s.Tables[0].Updates != 20000 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkTraffic(b *testing.B) {
	changes := change.Append(nil, relationOf(1, "a"))
	for i := range 10000 {
		changes = change.Append(changes, rowChange(tidemark.UpdateChange, 1, fmt.Sprint(i)))
	}
	for b.Loop() {
		var x traffic
		x.count(changes)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/row")
}
