package job

import (
	"context"
	"reflect"

	"github.com/tidemarkdb/tidemark"
)

// A target of another engine does not run the ALTER TABLEs of a file. phpMyAdmin writes all keys,
// foreign keys and AUTO_INCREMENT as such, after the rows. So where a file has a table without a
// key, it is read ahead, and its tables are created as its ALTER TABLEs leave them. What comes by a
// pipe gets the foreign keys of these, which are created last.

// A further is what a file has further on.
type further struct {
	*survey // nil: it was not read
	err     error
	used    map[tidemark.TableID]bool // tables that are created as the survey has them
}

// defined returns a piece's table as the file leaves it.
func defined(ctx context.Context, im *importJob, p *tidemark.Piece, table *tidemark.Table) (*tidemark.Table, error) {
	if im.Speaks() || p.Kind != tidemark.Define || im.dump.Stamp() == "" || table.Key != nil && im.further.survey == nil {
		return table, nil
	}
	s, err := readFurther(ctx, im, "reading the file ahead, for keys that come after the rows")
	if err != nil {
		return table, ctx.Err() // what is wrong with the file is reported when the import gets there
	}
	if t := s.at[table.TableID]; t != nil && s.altered[table.TableID] {
		im.further.used[table.TableID] = true
		table = qualified(t, "")
		table.Rows, table.Bytes = 0, 0
	}
	return table, nil
}

// readFurther reads the file to where no more tables are defined, once.
func readFurther(ctx context.Context, im *importJob, why string) (*survey, error) {
	if im.further.used != nil {
		return im.further.survey, im.further.err
	}
	dump, err := im.again()
	if err != nil {
		return nil, err
	}
	defer dump.Close()
	im.env.Phase(why)
	env := im.env
	env.Watch = nil // the file is not loaded yet
	look := newImport(env, im.spec, im.tgt, dump, im.again)
	look.spec.Findings = nil
	s, err := look.survey(ctx, true, nil)
	im.further = further{s, err, map[tidemark.TableID]bool{}}
	return s, err
}

// alter carries an ALTER TABLE out on a table of the survey; false if that changes more than the
// target can be given.
func (s *survey) alter(p *tidemark.Piece) bool {
	id := tidemark.TableID{Schema: s.im.from(p), Name: p.Table.Name}
	t := s.at[id]
	if s.im.Speaks() || t == nil || p.Def == nil || !alikeButNumbers(t, p.Def) {
		return false
	}
	after := qualified(p.Def, s.im.tgt.Default())
	after.TableID, after.Rows, after.Bytes = id, t.Rows, t.Bytes
	*t = *after
	s.altered[id], s.carried[p.What] = true, true
	return true
}

// carried reports whether the target has, or gets, what an ALTER TABLE of the file does.
func carried(im *importJob, p *tidemark.Piece) bool {
	id := tidemark.TableID{Schema: im.from(p), Name: p.Table.Name}
	if im.further.used[id] && im.further.carried[p.What] {
		return true
	}
	for _, t := range im.tables {
		if t.TableID != id || p.Def == nil {
			continue
		}
		after := *qualified(p.Def, im.tgt.Default())
		keys := after.ForeignKeys
		after.ForeignKeys = t.ForeignKeys
		if !alikeButNumbers(t, &after) || !reflect.DeepEqual(t.Key, after.Key) || !reflect.DeepEqual(t.Indexes, after.Indexes) || !reflect.DeepEqual(t.Checks, after.Checks) ||
			!reflect.DeepEqual(t.Columns, after.Columns) {
			return false
		}
		t.ForeignKeys = keys
		return true
	}
	return false
}

// alikeButNumbers reports whether tables have the same columns, but for their numbering.
func alikeButNumbers(t, u *tidemark.Table) bool {
	if len(t.Columns) != len(u.Columns) {
		return false
	}
	for i := range t.Columns {
		a, b := t.Columns[i], u.Columns[i]
		a.Identity, b.Identity = nil, nil
		if !reflect.DeepEqual(a, b) {
			return false
		}
	}
	return true
}
