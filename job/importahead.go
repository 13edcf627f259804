package job

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// A dump is read some tables ahead, and these are looked at and created together: see load. What
// the file says between them must not matter to that.

// Ahead reports whether tables may be created before a piece has its turn. Another engine does not
// run what is between them. MySQL reads what follows a SET of the client's character set by that,
// which makes no difference to ASCII.
func (im *importJob) Ahead(p *tidemark.Piece) bool {
	switch p.Kind {
	case tidemark.Define:
		return !im.Speaks() || inASCII(p.SQL)
	case tidemark.Execute, tidemark.OnRows:
		return !im.Speaks() || p.Idle
	}
	return false
}

// Foresee claims tables together, and returns how many of them the target lacks, up to the first
// that it has or that is refused. forget ends the claims to those that the import has not come to.
func (im *importJob) Foresee(ctx context.Context, pieces []*tidemark.Piece) (n int, forget func()) {
	forget = func() {
		left := slices.Collect(maps.Keys(im.foreseen))
		clear(im.foreseen)
		unclaim(ctx, im, slices.DeleteFunc(left, func(id tidemark.TableID) bool { return im.fresh[id] }))
	}
	if !im.prepared[recordsTables] {
		return 0, forget
	}
	to, most := foreseeable(ctx, im, pieces)
	ids := slices.SortedFunc(maps.Values(to), ByTable)
	if len(ids) < 2 {
		return 0, forget
	}
	if _, err := im.claimTables(ctx, ids); err != nil {
		return 0, forget
	}
	states, err := im.tgt.Inspect(ctx, ids)
	lacks := map[tidemark.TableID]bool{}
	for i, id := range ids {
		lacks[id] = err == nil && !im.prepared[kept(id)] && (im.prepared[created(id)] || !states[i].Exists && len(im.claims.others[id]) == 0)
	}
	for ; n < most; n++ {
		id, wanted := to[pieces[n]]
		if wanted && !lacks[id] {
			break
		}
		if wanted {
			im.foreseen[id] = true
		}
	}
	unclaim(ctx, im, slices.DeleteFunc(ids, func(id tidemark.TableID) bool { return im.foreseen[id] }))
	return n, forget
}

// unclaim ends the claims to tables that are not changed. They are taken again in their turn.
func unclaim(ctx context.Context, im *importJob, tables []tidemark.TableID) {
	if len(tables) > 0 && im.spec.Resume == "" {
		_ = im.claims.Release(context.WithoutCancel(ctx), im.run.ID, tables)
	}
}

// foreseeable returns the table of the target for each of the first n pieces that is wanted: those
// before one that is refused.
func foreseeable(ctx context.Context, im *importJob, pieces []*tidemark.Piece) (to map[*tidemark.Piece]tidemark.TableID, n int) {
	var tables []*tidemark.Table
	of := map[tidemark.TableID]*tidemark.Piece{}
	for ; n < len(pieces); n++ {
		p := pieces[n]
		table := qualified(p.Def, im.tgt.Default())
		if im.system(p.Table.Schema) || !im.spec.Rules.Wants(table.TableID) {
			continue
		}
		if of[table.TableID] != nil || p.Refuse != "" || im.settleDatabases(ctx, p.Table.Schema) != nil {
			break
		}
		table.ForeignKeys = nil
		tables, of[table.TableID] = append(tables, table), p
	}
	moves, _, err := im.spec.Rules.Apply(im.database(tables, nil), schemaDefaults(im.end, im.tgt, im.spec.TargetSchema))
	if err != nil {
		return nil, 0
	}
	to = make(map[*tidemark.Piece]tidemark.TableID, len(moves))
	names := map[tidemark.TableID]bool{}
	for i := range moves {
		id := moves[i].To.TableID
		if _, is := im.known[folded(id)]; is || names[folded(id)] {
			return nil, 0 // it may be the same table as another
		}
		names[folded(id)] = true
		to[of[moves[i].From.TableID]] = id
	}
	return to, n
}

// Creating records tables that the run creates now.
func (im *importJob) Creating(ctx context.Context, tables []tidemark.TableID) error {
	var records []string
	for _, id := range tables {
		if im.fresh[id] && !recorded(im, id) {
			records = append(records, created(id))
		}
	}
	if len(records) == 0 {
		return nil
	}
	return im.record(ctx, records...)
}

// inASCII reports whether texts have only characters that all character sets of a client share.
func inASCII(texts ...string) bool {
	for _, text := range texts {
		for i := range len(text) {
			if text[i] >= 0x80 {
				return false
			}
		}
	}
	return true
}

// runStatement runs SQL in the session of the file's own statements, after what it has set.
func runStatement(ctx context.Context, im *importJob, sql []string) error {
	sendSettings(ctx, im)
	return im.tgt.Exec(ctx, im.spec.Load.ScriptLane(), sql)
}

// sendSettings runs the SETs that the file had since its last statement. One that the server
// rejects or does not know is skipped: dumps set what only their own server has.
func sendSettings(ctx context.Context, im *importJob) {
	sets := make([][]string, len(im.sets))
	for i, sql := range im.sets {
		sets[i] = []string{sql}
	}
	im.sets = im.sets[:0]
	lane := im.spec.Load.ScriptLane()
	if p, ok := im.tgt.(load.Pipeliner); ok && len(sets) > 1 {
		p.ExecEach(ctx, lane, sets, func(int, time.Duration) {})
		return
	}
	for _, sql := range sets {
		im.tgt.Exec(ctx, lane, sql)
	}
}
