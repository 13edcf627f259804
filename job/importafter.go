package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// after runs the file's other statements in their order.
func (im *importJob) after(ctx context.Context) ([]load.Failed, error) {
	if err := im.runAll(ctx, im.later); err != nil {
		return im.failed, err
	}
	if len(im.tables) == 0 && !slices.ContainsFunc(im.later, func(p *tidemark.Piece) bool { return p.What != "" }) {
		return im.failed, emptyFile(im.spec.Source)
	}
	if n := len(im.failed); n > 0 {
		return im.failed, &tidemark.Error{Kind: tidemark.Incomplete, Op: "import", Err: errors.New("all rows were loaded, but " + plural(n, "statement") + " of the file failed"), Hint: "The report lists them with their SQL."}
	}
	return nil, nil
}

// alters reports whether a statement of the file alters a table.
func alters(p *tidemark.Piece) bool { return strings.HasPrefix(p.What, "alter table ") }

// altered returns the tables of the file as its ALTER TABLEs have left them on the target, without
// those of which that is not known.
func altered(im *importJob) []*tidemark.Table {
	now := map[tidemark.TableID]*tidemark.Table{}
	for _, p := range im.altering {
		if id := folded(tidemark.TableID{Schema: im.from(p), Name: p.Table.Name}); im.ran[p] {
			now[id] = p.Def
		}
	}
	out := make([]*tidemark.Table, 0, len(im.tables))
	for _, t := range im.tables {
		def, is := now[folded(t.TableID)]
		switch {
		case !is:
			out = append(out, t)
		case def != nil:
			out = append(out, qualified(def, im.tgt.Default()))
		}
	}
	return out
}

// runAll runs statements in their order. It retries those that fail as long as that makes one more
// of them succeed, since the files of a folder are in the order of their names, and a view may need
// a later one; then it lists the failures.
func (im *importJob) runAll(ctx context.Context, list []*tidemark.Piece) error {
	list, found := inWords(im, list)
	im.find(found)
	for {
		refused, made, err := im.runOnce(ctx, list)
		if err != nil {
			return err
		}
		if len(refused) == 0 || made == 0 {
			im.failed = append(im.failed, refused...)
			return nil
		}
	}
}

// runOnce runs the statements that have not run yet, and the settings between them.
func (im *importJob) runOnce(ctx context.Context, list []*tidemark.Piece) (refused []load.Failed, made int, err error) {
	for _, p := range list {
		id := fmt.Sprintf("statement at line %d", p.Line)
		if p.What != "" {
			id = p.What
		}
		if im.built[id] || im.ran[p] || p.What != "" && !im.carries(p) {
			continue
		}
		if p.What != "" && strange(im, p) {
			im.ran[p] = true
			elsewhere(im, p)
			continue
		}
		if p.What == "" {
			im.sets = append(im.sets, p.SQL)
			continue
		}
		err := runStatement(ctx, im, im.inPlace(p))
		switch {
		case ctx.Err() != nil:
			return nil, 0, ctx.Err()
		case err != nil && tidemark.KindOf(err) != tidemark.Exists:
			refused = append(refused, load.Failed{Object: tidemark.Object{ID: id, SQL: []string{p.SQL}}, Error: err.Error()})
		default:
			im.ran[p] = true
			made++
		}
	}
	return refused, made, nil
}
