package job

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/engines"
)

// Adapt gives the statements that make existing tables of the target as a copy of these moves would
// create them now: columns, keys, checks, indexes, and foreign keys to tables that are filled by
// parents, as these are. Plain indexes that only the target has stay, as do foreign keys of its
// other tables. Without keys, keys and indexes stay as they are. The tables should be empty. Then
// they have want.
func Adapt(ctx context.Context, db *tidemark.Database, moves, parents []tidemark.Move, tgt Database, keys bool) (sql []string, want []tidemark.Object, _ error) {
	there, err := tgt.Describe(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	across := db.Engine != there.Engine
	ours := map[tidemark.TableID]bool{}
	for i := range moves {
		ours[moves[i].To.TableID], ours[ClipID(tgt, moves[i].To.TableID)] = true, true
	}
	for _, all := range [][]*tidemark.Table{there.Tables, partsAs(db.Tables, moves)} {
		for more := true; more; { // partitions, and theirs
			more = false
			for _, t := range all {
				if t.Form == tidemark.Partition && ours[t.PartitionOf] && !ours[t.TableID] {
					ours[t.TableID], more = true, true
				}
			}
		}
	}
	known := *there
	known.Tables = slices.DeleteFunc(slices.Clone(there.Tables), func(t *tidemark.Table) bool { return !ours[t.TableID] })
	onto := identity(tgt, moves, &known, nil, across)
	for _, t := range related(there.Tables, ours, parents, tgt) {
		known.Tables, onto = append(known.Tables, t), append(onto, ontoItself(t, !across))
	}
	isKey := func(o tidemark.Object) bool { return o.Kind == "index" || o.Kind == "constraint" }
	have := rendered(tgt, &known, onto, across)
	want = amongThose(requiredBy(rendered(tgt, db, append(slices.Clone(moves), parents...), across), ours), have, ours)
	if !keys {
		want = slices.DeleteFunc(want, isKey)
	}
	all := slices.Clone(want)
	for _, o := range have { // what depends on the tables is made anew where it hinders
		if (!ours[o.Table] || !keys && isKey(o)) && !slices.ContainsFunc(all, func(x tidemark.Object) bool { return x.ID == o.ID }) {
			all = append(all, o)
		}
	}
	opt := define.Options{InScope: func(o *tidemark.Object) int {
		plain := o.Kind == "index" && (len(o.SQL) == 0 || !strings.Contains(strings.ToUpper(o.SQL[0]), " UNIQUE "))
		if ours[o.Table] && inShape(o.Kind) && !plain {
			return define.Extra
		}
		return define.Ours
	}}
	for _, s := range define.Compare(all, have, engines.Definitions(db, there), opt).SQL {
		sql = append(sql, s.SQL)
	}
	return sql, want, nil
}

// related gives the other tables that foreign keys connect with some: those that have them on the
// target, and those that parents fill.
func related(there []*tidemark.Table, ours map[tidemark.TableID]bool, parents []tidemark.Move, tgt Database) (out []*tidemark.Table) {
	near := map[tidemark.TableID]bool{}
	for i := range parents {
		near[ClipID(tgt, parents[i].To.TableID)] = true
	}
	for _, t := range there {
		for _, f := range t.ForeignKeys {
			near[t.TableID] = near[t.TableID] || ours[f.Ref]
			near[f.Ref] = near[f.Ref] || ours[t.TableID]
		}
	}
	for _, t := range there {
		if near[t.TableID] && !ours[t.TableID] && t.Form == tidemark.Ordinary {
			out = append(out, t)
		}
	}
	return out
}

// amongThose leaves out of what is wanted for some tables the other tables, which stay as they are,
// and foreign keys to those that are not there.
func amongThose(want, have []tidemark.Object, ours map[tidemark.TableID]bool) []tidemark.Object {
	there, other := map[string]bool{}, map[string]bool{}
	for i := range have {
		there[have[i].ID] = true
	}
	for i := range want {
		o := &want[i]
		other[o.ID] = o.Table.Name != "" && !ours[o.Table] && inShape(o.Kind)
	}
	lost := map[string]bool{}
	return slices.DeleteFunc(want, func(o tidemark.Object) bool {
		lost[o.ID] = other[o.ID] && !there[o.ID] && o.Kind == "table" || !other[o.ID] && o.Table.Name != "" && slices.ContainsFunc(o.Depends, func(id string) bool { return lost[id] })
		return other[o.ID] || lost[o.ID]
	})
}

// partsAs gives the partitions of a source under their names on the target.
func partsAs(tables []*tidemark.Table, moves []tidemark.Move) (out []*tidemark.Table) {
	for i := range moves {
		for _, t := range tables {
			if t.Form == tidemark.Partition && t.Schema == moves[i].From.Schema {
				x := tidemark.Table{TableID: t.TableID, Form: t.Form, PartitionOf: t.PartitionOf}
				if x.Schema = moves[i].To.Schema; x.PartitionOf == moves[i].From.TableID {
					x.PartitionOf = moves[i].To.TableID
				} else {
					x.PartitionOf.Schema = x.Schema
				}
				out = append(out, &x)
			}
		}
	}
	return out
}

// requiredBy gives the objects of some tables, and what these depend on.
func requiredBy(objects []tidemark.Object, ours map[tidemark.TableID]bool) []tidemark.Object {
	want := map[string]bool{}
	for more := true; more; {
		more = false
		for i := range objects {
			o := &objects[i]
			if !want[o.ID] && (!ours[o.Table] || !inShape(o.Kind) || o.Kind == "sequence value" || o.Kind == "statistics") {
				continue
			}
			for _, id := range append(slices.Clone(o.Depends), o.ID) {
				more, want[id] = more || !want[id], true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o tidemark.Object) bool { return !want[o.ID] })
}
