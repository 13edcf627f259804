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
// create them now: columns, keys, checks and indexes. Plain indexes that only the target has stay.
// Without keys, keys and indexes stay as they are. The tables should be empty. Then they have want.
func Adapt(ctx context.Context, db *tidemark.Database, moves []tidemark.Move, tgt Database, keys bool) (sql []string, want []tidemark.Object, _ error) {
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
	isKey := func(o tidemark.Object) bool { return o.Kind == "index" || o.Kind == "constraint" }
	want, have := requiredBy(rendered(tgt, db, moves, across), ours), rendered(tgt, &known, identity(tgt, moves, &known, nil, across), across)
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
			if !want[o.ID] && (!ours[o.Table] || !inShape(o.Kind) || o.Kind == "sequence value" || o.Kind == "statistics" || o.Kind == "foreign key") {
				continue
			}
			for _, id := range append(slices.Clone(o.Depends), o.ID) {
				more, want[id] = more || !want[id], true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o tidemark.Object) bool { return !want[o.ID] })
}
