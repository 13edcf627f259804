package job

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/mapping"
)

// Definitions compares what a copy with the same rules would create on the target now with what
// exists. Open the target so that it renders owners and privileges; these are compared if opt says
// so.
func Definitions(ctx context.Context, env Env, spec DiffSpec, opt define.Options) (*define.Result, error) {
	if spec.Files != [2]bool{} {
		return definitionsOfDump(ctx, env, spec, opt)
	}
	src, tgt, done, err := env.OpenEnds(ctx, spec.Source, spec.Target)
	if err != nil {
		return nil, err
	}
	defer done()
	db, moves, _, err := spec.moves(ctx, src, tgt)
	if err != nil {
		return nil, err
	}
	return compareDefinitions(ctx, tgt, db, moves, spec.Rules, opt)
}

// compareDefinitions compares what moves would create on the target with what it has.
func compareDefinitions(ctx context.Context, tgt Database, db *tidemark.Database, moves []tidemark.Move, rules *mapping.Rules, opt define.Options) (*define.Result, error) {
	if of := tgt.Name(); !engines.Compares(of) {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "diff", Object: "--definitions", Err: errors.New("definitions on " + engine.Of(of).Title + " are not compared"), Hint: "Leave out --definitions: rows are."}
	}
	there, err := tgt.Describe(ctx, nil)
	if err != nil {
		return nil, err
	}
	if n, ok := tgt.(namer); ok {
		if err := n.Names(ctx, Targets(moves)); err != nil {
			return nil, err
		}
	}
	across, wrote := db.Engine != there.Engine, *db
	if db.Piecewise { // a file's text is no server's: what it creates is compared by its shape
		across, wrote.Engine = true, ""
	}
	want, have := rendered(tgt, db, moves, across), rendered(tgt, there, identity(tgt, moves, there, rules, across), across)
	want = slices.DeleteFunc(want, func(o tidemark.Object) bool { // a schema of the target may have none of the tables
		same := func(x tidemark.Object) bool { return x.ID == o.ID }
		return o.Kind == "schema" && slices.ContainsFunc(there.Objects, same) && !slices.ContainsFunc(have, same)
	})
	s := scope{schemas: map[string]bool{}, across: across, file: db.Piecewise}
	for i := range moves {
		s.schemas[moves[i].To.Schema] = true
	}
	for i := range want {
		s.schemas[schemaOf(&want[i])] = true
	}
	opt.InScope = s.of
	result := define.Compare(want, have, byRules(engines.Definitions(&wrote, there), tgt, moves, there), opt)
	return &result, nil
}

// byRules compares the tables that rules change, which are built from their shape, as if the source
// were of another engine: no server has written their text.
func byRules(d define.Dialect, tgt Database, moves []tidemark.Move, there *tidemark.Database) define.Dialect {
	return define.ByTable(d, engines.Definitions(&tidemark.Database{}, there), builtOf(tgt, moves))
}

// A namer is a Target that gives objects names which no other object of it has, once it has read
// those in the schemas of tables.
type namer interface {
	Names(ctx context.Context, tables []tidemark.TableID) error
}

// rendered gives the objects that moves would create on the target. Between engines, and of those
// that rules change, tables are created from their logical shape on both sides, and all else on the
// target is taken from its own definition.
func rendered(tgt Database, db *tidemark.Database, moves []tidemark.Move, across bool) []tidemark.Object {
	built := builtOf(tgt, moves)
	if engine.Family(db.Engine) != engine.Family(tgt.Name()) || !across && len(built) == 0 {
		objects, _ := tgt.Render(db, moves)
		return objects
	}
	native, logical := slices.Clone(moves), slices.Clone(moves)
	for i := range moves {
		native[i].Direct, logical[i] = native[i].Direct || across, logical[i].Logical()
	}
	objects, _ := tgt.Render(db, native)
	bare := *db
	bare.Objects = nil
	shapes, _ := tgt.Render(&bare, logical)
	ofShape := func(o tidemark.Object) bool {
		return (across || built[o.Table]) && inShape(o.Kind) && !(o.Kind == "sequence value" && engine.Of(tgt.Name()).SequencesApart)
	}
	objects = slices.DeleteFunc(objects, ofShape)
	return append(slices.DeleteFunc(shapes, func(o tidemark.Object) bool { return !across && !ofShape(o) }), objects...)
}

// builtOf are the target's tables that rules change, which are built from their shape.
func builtOf(tgt Database, moves []tidemark.Move) map[tidemark.TableID]bool {
	built := map[tidemark.TableID]bool{}
	for i := range moves {
		if !moves[i].Direct {
			built[ClipID(tgt, moves[i].To.TableID)] = true
		}
	}
	return built
}

// inShape reports whether the logical shape of a table covers objects of a kind.
func inShape(kind string) bool {
	switch kind {
	case "schema", "table", "partition", "index", "constraint", "foreign key", "foreign key validation", "check", "default", "statistics", "sequence value", "index mark":
		return true
	}
	return false
}

// identity gives moves of the target's tables onto themselves: of those that the moves fill, in the
// form in which these create them, and of those that the rules would have selected if the source
// had them.
func identity(tgt Database, moves []tidemark.Move, there *tidemark.Database, rules *mapping.Rules, across bool) []tidemark.Move {
	direct, from := map[tidemark.TableID]bool{}, map[string]string{}
	filled := map[tidemark.TableID]bool{}
	for i := range moves {
		m := &moves[i]
		id := ClipID(tgt, m.To.TableID)
		filled[id], direct[id], from[id.Schema] = true, m.Direct, m.From.Schema
	}
	var out []tidemark.Move
	for _, t := range there.Tables {
		schema, known := from[t.Schema]
		if t.Form == tidemark.Partition || t.Form == tidemark.View || t.Form == tidemark.Foreign || t.Form == tidemark.LargeObjects || t.Ours() || !known {
			continue
		}
		if !filled[t.TableID] && !rules.Wants(tidemark.TableID{Schema: schema, Name: t.Name}) {
			continue
		}
		out = append(out, ontoItself(t, !across && (direct[t.TableID] || !filled[t.TableID])))
	}
	return out
}

// ontoItself gives the move of a table of the target onto itself: rendered, it is what there is.
func ontoItself(t *tidemark.Table, direct bool) tidemark.Move {
	m := tidemark.Move{From: t, To: t, Direct: direct}
	for _, c := range t.Stored() {
		m.Source = append(m.Source, c.Name)
	}
	if !direct {
		return m.Logical()
	}
	return m
}

// A scope says what of the target is compared.
type scope struct {
	schemas map[string]bool // that the copy fills
	across  bool
	file    bool // which may not say what schema it is of
}

// of decides about an object that only the target has.
func (s *scope) of(o *tidemark.Object) int {
	schema := schemaOf(o)
	switch {
	case schema == "":
		return define.Beside
	case !s.schemas[schema]:
		return define.Ours
	case s.file && o.Kind == "schema":
		return define.Ours
	case s.across && !inShape(o.Kind):
		return define.Beside
	}
	return define.Extra
}

// schemaOf gives the schema of an object by its table or its name; "" for what is in none.
func schemaOf(o *tidemark.Object) string {
	if o.Table.Schema != "" {
		return o.Table.Schema
	}
	switch o.Kind {
	case "schema", "extension", "language", "publication", "publication table", "publication schema", "event trigger", "cast", "transform", "access method",
		"foreign data wrapper", "server", "user mapping", "owner", "grant", "default privileges", "security label":
		return ""
	}
	name := strings.TrimPrefix(o.ID, o.Kind+" ")
	if strings.HasPrefix(name, `"`) {
		var b strings.Builder
		for i := 1; i < len(name); i++ {
			if name[i] == '"' {
				if i+1 >= len(name) || name[i+1] != '"' {
					break
				}
				i++
			}
			b.WriteByte(name[i])
		}
		return b.String()
	}
	schema, _, ok := strings.Cut(name, ".")
	if !ok || strings.ContainsAny(schema, " (") {
		return ""
	}
	return schema
}
