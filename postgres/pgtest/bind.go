package pgtest

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/schema"
)

// A BindAll binds every relation in a transaction to the table with its name.
type BindAll struct {
	Tables map[tidemark.TableID]*tidemark.Table
	Bounds map[uint32]*change.Bound
}

// NewBindAll creates a BindAll from a database's current tables.
func NewBindAll(t *testing.T, s *schema.Schema) *BindAll {
	t.Helper()
	db, err := s.Describe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &BindAll{Tables: map[tidemark.TableID]*tidemark.Table{}, Bounds: map[uint32]*change.Bound{}}
	for _, table := range db.Tables {
		b.Tables[table.TableID] = table
	}
	return b
}

// Take binds the relations in a transaction, and returns all bounds so far.
func (b *BindAll) Take(t *testing.T, tx *change.Tx) map[uint32]*change.Bound {
	t.Helper()
	for rest := tx.Changes; len(rest) > 0; {
		var c change.Change
		var err error
		if c, rest, err = change.Next(rest); err != nil {
			t.Fatal(err)
		}
		if c.Kind != tidemark.RelationChange {
			continue
		}
		r, err := change.ParseRelation(c.Body)
		if err != nil {
			t.Fatal(err)
		}
		bound := &change.Bound{Relation: r, Table: b.Tables[r.Table]}
		for _, col := range r.Columns {
			at := -1
			for i, c := range bound.Table.Columns {
				if c.Name == col.Name {
					at = i
				}
			}
			bound.Columns = append(bound.Columns, at)
		}
		b.Bounds[r.ID] = bound
	}
	return b.Bounds
}
