package ddl

import (
	"errors"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// Acting returns the tables whose changes may change rows of one of moves without a record in the
// source's log, which is MySQL's and MariaDB's: those that it references with CASCADE or SET NULL,
// and those that these reference in the same way. Kind Unsupported: a load could not make up for
// the missing records.
func Acting(source string, id tidemark.TableID, moves map[tidemark.TableID]*tidemark.Move) (all []tidemark.TableID, _ error) {
	if !engine.Of(source).HidesCascades {
		return nil, nil
	}
	refused := func(text string) error {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: id.String(), Err: errors.New(text + ", whose effect on rows is not in the source's log"), Hint: LoadByHand(id)}
	}
	for other, m := range moves {
		if slices.ContainsFunc(m.From.ForeignKeys, func(f tidemark.ForeignKey) bool { return f.Acts() && f.Ref == id }) {
			// A delete of a row that is not loaded yet finds no row on the target to start from.
			return nil, refused("is referenced by " + other.String() + " with CASCADE or SET NULL")
		}
	}
	for _, f := range moves[id].From.ForeignKeys {
		follows := tidemark.ForeignKey{OnUpdate: f.OnUpdate}.Acts()
		if k := moves[id].From.Key; follows && k != nil && slices.ContainsFunc(f.Columns, func(c string) bool { return slices.Contains(k.Columns(), c) }) {
			// A row may move to keys that were already read, and none of its chunks has it.
			return nil, refused("has a foreign key that changes its primary key")
		}
	}
	seen := map[tidemark.TableID]bool{id: true}
	for next := []tidemark.TableID{id}; len(next) > 0; next = next[1:] {
		m := moves[next[0]]
		if m == nil {
			return nil, refused("references " + next[0].String() + " with CASCADE or SET NULL, which is not in the stream")
		}
		for _, f := range m.From.ForeignKeys {
			if f.Acts() && !seen[f.Ref] {
				seen[f.Ref] = true
				all, next = append(all, f.Ref), append(next, f.Ref)
			}
		}
	}
	return all, nil
}

// LoadByHand says what helps for a table that Acting refuses.
func LoadByHand(id tidemark.TableID) string {
	return "Load it yourself, while nothing writes to it: tidemark sub start " + id.String() + " --no-load"
}

// Helps completes the hint of a table that stops with what lets it continue, if another load of it
// would be refused.
func Helps(source string, id tidemark.TableID, moves map[tidemark.TableID]*tidemark.Move, hint string) string {
	if strings.Contains(hint, "tidemark sub ") || moves[id] == nil {
		return hint
	}
	if _, err := Acting(source, id, moves); err == nil {
		return hint
	}
	return strings.TrimLeft(strings.TrimRight(hint, ". ")+". "+LoadByHand(id), ". ")
}

// Unloadable is the error that stops a table which was to be loaded again for a reason (nil: it has
// been said), where Acting refuses that. Kind Unsupported.
func Unloadable(why, refused error) error {
	var e, because *tidemark.Error
	if !errors.As(refused, &e) || why == nil {
		return refused
	}
	x, text := *e, why.Error()
	if errors.As(why, &because) {
		text = because.Err.Error()
	}
	x.Err = errors.New(text + "; its rows are not loaded again, since it " + e.Err.Error())
	if hint := strings.TrimRight(tidemark.HintOf(why), ". "); hint != "" && !strings.Contains(hint, "tidemark sub ") {
		x.Hint = hint + ". " + e.Hint
	}
	return &x
}

// ByTable gives moves by the source's table.
func ByTable(moves []tidemark.Move) map[tidemark.TableID]*tidemark.Move {
	out := map[tidemark.TableID]*tidemark.Move{}
	for i := range moves {
		out[moves[i].From.TableID] = &moves[i]
	}
	return out
}
