package job

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mapping"
)

// beside gives the objects of db (by ID) that belong to tables that do not move, or need some: who
// has chosen tables does not ask for these, and no finding is about them. It is empty unless the
// rules choose.
func beside(rules *mapping.Rules, db *tidemark.Database, moves []tidemark.Move) map[string]bool {
	out := map[string]bool{}
	if !rules.Chosen() {
		return out
	}
	moved := map[tidemark.TableID]bool{}
	for i := range moves {
		moved[moves[i].From.TableID] = true
		for _, p := range moves[i].From.Partitions {
			moved[p.Table] = true
		}
	}
	for _, t := range db.Tables {
		moved[t.TableID] = moved[t.TableID] || t.Form == tidemark.Partition && moved[t.PartitionOf]
	}
	made := map[string]bool{} // IDs of tables that move
	for i := range db.Objects {
		if o := &db.Objects[i]; o.Kind == "table" {
			made[o.ID] = moved[o.Table]
		}
	}
	for i := range db.Objects { // in an order that satisfies Depends
		o := &db.Objects[i]
		switch o.Kind {
		case "table":
			continue
		case "trigger", "rule", "policy", "row security", "publication table":
			out[o.ID] = !moved[o.Table]
		}
		out[o.ID] = out[o.ID] || slices.ContainsFunc(o.Depends, func(id string) bool {
			return out[id] || strings.HasPrefix(id, "table ") && !made[id]
		})
	}
	return out
}
