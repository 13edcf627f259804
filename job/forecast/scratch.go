package forecast

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job"
)

// Scratch tables are ours by their comment: a table of that name without it is somebody else's, and
// is never touched.
const (
	scratchName    = "tidemark_probe_"
	scratchComment = "scratch table of a forecast of tidemark: it may be dropped"
	mostScratch    = 96 // of one probe
)

// scratch are the scratch tables on a target, and the claim to them.
type scratch struct {
	tgt    job.Database
	schema string
	claim  tidemark.Claim
	made   []tidemark.TableID
}

func (s *scratch) names() (out []tidemark.TableID) {
	for i := range mostScratch {
		out = append(out, tidemark.TableID{Schema: s.schema, Name: fmt.Sprint(scratchName, i+1)})
	}
	return out
}

// openScratch claims the names of scratch tables, and removes what a killed probe has left.
func openScratch(ctx context.Context, tgt job.Database, run string) (_ *scratch, err error) {
	s := &scratch{tgt: tgt, schema: tgt.Default()}
	if s.schema == "" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "probe", Object: "target", Err: errors.New("its URL names no database, and scratch tables need one"), Hint: "Name a database in the target's URL, or leave out --probe."}
	}
	denied, err := tgt.Access(ctx, nil, s.names()[:1], nil)
	if err != nil {
		return nil, err
	}
	for _, f := range denied {
		return nil, noRights(errors.New(f.Object+" "+f.Text), f.Hint)
	}
	if s.claim, err = tgt.Claim(ctx, run); err != nil {
		return nil, rights(err)
	}
	defer func() {
		if err != nil {
			s.release(context.WithoutCancel(ctx))
		}
	}()
	others, _, err := s.claim.Take(ctx, s.names())
	if err != nil {
		return nil, rights(err)
	}
	for _, o := range others {
		if o.Live {
			return nil, &tidemark.Error{Kind: tidemark.Exists, Op: "probe", Object: "table " + o.Table.String(), Err: errors.New("another forecast is using the scratch tables of this target"), Hint: "Wait until it has ended, or leave out --probe."}
		}
		if err := s.claim.Release(ctx, o.Run, []tidemark.TableID{o.Table}); err != nil {
			return nil, err
		}
	}
	if err := s.free(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// rights explains an error of missing privileges.
func rights(err error) error {
	if tidemark.KindOf(err) != tidemark.Forbidden {
		return err
	}
	return noRights(err, tidemark.HintOf(err))
}

func noRights(why error, hint string) error {
	if hint == "" {
		hint = "Grant that privilege"
	}
	return &tidemark.Error{Kind: tidemark.Forbidden, Op: "probe", Object: "target", Err: fmt.Errorf("the user may not create scratch tables: %w", why), Hint: trimmed(hint) + "; or leave out --probe: the forecast is then less certain."}
}

func trimmed(hint string) string {
	for len(hint) > 0 && (hint[len(hint)-1] == '.' || hint[len(hint)-1] == ' ') {
		hint = hint[:len(hint)-1]
	}
	return hint
}

// free makes sure that the names are free: our own tables are dropped.
func (s *scratch) free(ctx context.Context) error {
	there, err := s.tgt.Tables(ctx, s.names())
	if err != nil {
		return err
	}
	var ours []tidemark.TableID
	for _, t := range there {
		if t.Comment != scratchComment {
			return &tidemark.Error{Kind: tidemark.Exists, Op: "probe", Object: "table " + t.String(), Err: errors.New("it exists, and is no scratch table of a forecast"), Hint: "Nothing was changed. Rename that table, or leave out --probe."}
		}
		ours = append(ours, t.TableID)
	}
	if len(ours) == 0 {
		return nil
	}
	return s.tgt.Clear(ctx, ours, true)
}

// create creates a scratch table for a move, and gives the move into it with the objects that are
// built after its rows. Its number must be new.
func (s *scratch) create(ctx context.Context, db *tidemark.Database, m *tidemark.Move, number int) (*tidemark.Move, []tidemark.Object, error) {
	into, table, after := s.rendered(db, m, number)
	return into, after, s.tgt.Exec(ctx, 0, table)
}

// define gives the statements that create a scratch table.
func (s *scratch) define(db *tidemark.Database, m *tidemark.Move, number int) ([]string, error) {
	if number >= mostScratch {
		return nil, errors.New("too many scratch tables")
	}
	_, table, _ := s.rendered(db, m, number)
	return table, nil
}

// rendered gives a move into a scratch table, the statements that create it, and what is built
// after its rows.
func (s *scratch) rendered(db *tidemark.Database, m *tidemark.Move, number int) (_ *tidemark.Move, table []string, after []tidemark.Object) {
	to := shape(m, tidemark.TableID{Schema: s.schema, Name: fmt.Sprint(scratchName, number+1)})
	into := *m
	into.To, into.Direct = to, false
	bare := *db
	bare.Tables, bare.Objects = []*tidemark.Table{m.From}, nil
	all, _ := s.tgt.Render(&bare, []tidemark.Move{into})
	for _, o := range all {
		switch {
		case o.Kind == "schema": // it is there
		case o.Phase == tidemark.BeforeRows:
			table = append(table, o.SQL...)
		case isIndex(&o):
			after = append(after, o)
		}
	}
	s.made = append(s.made, to.TableID)
	return &into, table, after
}

// shape is a move's table as a scratch table: its columns, keys and indexes, without what belongs
// to other tables, and under names that nobody else has.
func shape(m *tidemark.Move, id tidemark.TableID) *tidemark.Table {
	to := *m.To
	to.TableID, to.Comment, to.Form = id, scratchComment, tidemark.Ordinary
	to.ForeignKeys, to.Checks, to.Partitions, to.PartitionOf, to.Native = nil, nil, nil, tidemark.TableID{}, ""
	to.Columns = nil
	has := map[string]bool{}
	for _, c := range m.To.Stored() {
		c.Default, c.Identity, c.Comment, c.OnUpdate = nil, nil, "", false
		to.Columns = append(to.Columns, c)
		has[c.Name] = true
	}
	fits := func(x *tidemark.Index) bool {
		cols := x.Columns()
		return cols != nil && x.Where == "" && !slices.ContainsFunc(append(cols, x.Include...), func(name string) bool { return !has[name] })
	}
	if to.Key != nil {
		key := *to.Key
		key.Name, key.Comment = id.Name+"_key", ""
		if to.Key = &key; !fits(&key) {
			to.Key = nil
		}
	}
	to.Indexes = nil
	for i, x := range m.To.Indexes {
		if !fits(&x) {
			continue
		}
		x.Name, x.Comment = fmt.Sprintf("%s_i%d", id.Name, i+1), ""
		to.Indexes = append(to.Indexes, x)
	}
	return &to
}

// remove drops what was created, and releases the claim.
func (s *scratch) remove(ctx context.Context) error {
	defer s.release(ctx)
	if len(s.made) == 0 {
		return nil
	}
	return s.free(ctx)
}

func (s *scratch) release(ctx context.Context) {
	_ = s.claim.Drop(ctx) // one that stays is of a run that does not live
	s.claim.Close()
}
