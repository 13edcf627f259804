// Package making makes tables of the target while a stream runs: those that it lacks, and those
// whose source another table has replaced.
package making

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/job"
)

// lane is the session of the target in which tables are made: those that apply changes begin later.
const lane = 0

// Tables makes the tables of moves of db, which the target lacks, with their keys and indexes, as a
// copy does. made learns of each, with the reason if it could not be made; an error of made ends
// it.
func Tables(ctx context.Context, db *tidemark.Database, moves []tidemark.Move, tgt job.Database, made func(*tidemark.Move, error) error) error {
	if _, err := tgt.Inspect(ctx, job.Targets(moves)); err != nil { // their keys get names that are free
		return err
	}
	objects, findings := tgt.Render(db, moves)
	of := map[string]*tidemark.Object{}
	for i := range objects {
		of[objects[i].ID] = &objects[i]
	}
	done := map[string]bool{}
	var need func(o *tidemark.Object) error
	need = func(o *tidemark.Object) error {
		if done[o.ID] {
			return nil
		}
		done[o.ID] = true
		for _, id := range append(slices.Clone(o.Depends), o.After...) {
			if d := of[id]; d != nil && (slices.Contains(o.Depends, id) || done[id]) {
				if err := need(d); err != nil {
					return err
				}
			}
		}
		err := tgt.Exec(ctx, lane, o.SQL)
		if tidemark.KindOf(err) == tidemark.Exists {
			return nil
		}
		return err
	}
	parts := map[tidemark.TableID][]*tidemark.Object{} // by the table's name, on whichever side an object has it
	for i := range objects {
		if o := &objects[i]; o.Kind != "sequence value" && o.Kind != "statistics" {
			parts[o.Table] = append(parts[o.Table], o)
		}
	}
	for i := range moves {
		m := &moves[i]
		own := parts[m.To.TableID]
		if m.From.TableID != m.To.TableID {
			own = append(own, parts[m.From.TableID]...)
		}
		slices.SortStableFunc(own, func(a, b *tidemark.Object) int { return cmp.Compare(a.Phase, b.Phase) })
		err := collision(m, findings)
		for j := 0; j < len(own) && err == nil; j++ {
			err = need(own[j])
		}
		if err = made(m, err); err != nil {
			return err
		}
	}
	return nil
}

// collision is the error of a table one of whose names something else on the target has, before
// anything of it is created: with that name free, the same is tried again.
func collision(m *tidemark.Move, findings []tidemark.Finding) error {
	var taken []string
	for _, f := range findings {
		if f.Severity == tidemark.Blocker && f.Kind == tidemark.Collision && strings.Contains(f.Text, " "+m.To.String()+" ") {
			taken = append(taken, f.Object)
		}
	}
	if taken == nil {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: m.From.String(), Err: errors.New("is not created on the target, where something else has the names of its keys: " + strings.Join(taken, ", ")), Hint: "Rename what has them"}
}

// Adapt gives a table of the target, as it is there, the definition of the source's, and returns
// the statements.
func Adapt(ctx context.Context, db *tidemark.Database, m *tidemark.Move, there *tidemark.Table, tgt job.Database) (all []string, _ error) {
	run := func(m tidemark.Move, keys bool) error {
		sql, err := job.Adapt(ctx, db, []tidemark.Move{m}, tgt, keys)
		if err == nil && len(sql) > 0 {
			err = tgt.Exec(ctx, lane, sql)
		}
		if err == nil {
			all = append(all, sql...)
		}
		return err
	}
	if db.Engine != tgt.Name() { // expressions of two engines cannot be compared
		same := func(planned, is string) bool { return job.Clip(tgt, planned) == is }
		if without, ok := ddl.Uncomputed(m, there, same); ok {
			if err := run(without, false); err != nil {
				return all, err
			}
		}
	}
	err := run(*m, true)
	if tidemark.KindOf(err) == tidemark.Exists { // of tables that exchange their names, each has the names of the other's keys
		err = run(*m, false)
	}
	return all, err
}
